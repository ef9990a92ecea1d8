"""``recado pipeline`` as a user meets it. The session is the suite's own; the verbs leave it open."""

import os
import signal
import threading

import pytest

from recado.cli import spark_demo
from recado.cli.app import main
from recado.cli.pipeline.spark import Job
from recado.cli.pipeline.stream import _Told, _wait
from recado.cli.service_demo import some_quotes
from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.model.codec import read_event
from recado.model.subscription import Subscription
from recado.pipeline.jobs import read_notifications
from recado.pipeline.match import NOTIFICATION_FIELDS
from recado.pipeline.sets import build
from recado.pipeline.stream import BatchSummary
from recado.store.log import SqliteEventLog
from samples import EVENTS, SUBSCRIPTIONS, expected, pairs


@pytest.fixture
def job(recado, spark):
    """Run a verb of the pipeline and read the last line of its output."""

    def run(*arguments):
        done = recado("pipeline", *map(str, arguments))
        assert done.code == 0, done.err
        return done.records[-1]

    return run


def test_help_teaches_without_spark(recado):
    run = recado("pipeline", "--help")
    assert run.code == 0
    for word in ("publish", "match", "stream", "report", "frequencies", "--master"):
        assert word in run.out


def test_match_writes_parquet_and_a_summary(recado, spark, tmp_path, monkeypatch):
    monkeypatch.setattr("recado.cli.pipeline.spark._LOG_SECONDS", 0.02)
    done = recado("pipeline", "match", SUBSCRIPTIONS, EVENTS, "--out", str(tmp_path / "out"), "--event")
    assert done.code == 0, done.err
    assert done.err.splitlines()  # of progress, since this is no terminal
    assert all(line.startswith("working for ") for line in done.err.splitlines())
    summary = done.records[-1]
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.columns == ["event_id", "event_time", "matched_at", "matches", "event"]
    assert pairs(written) == expected()
    assert summary["notifications"] == len(expected())
    assert (summary["job"], summary["subscriptions"], summary["events"], summary["rejected"]) == ("match", 40, 400, 0)


# Nested matches are in the test above, rows in the one with constraints below; a stream's of either kind are read too.
@pytest.mark.parametrize(
    "given",
    [
        ("--output", "ordinals"),
        pytest.param((), marks=pytest.mark.long),
        pytest.param(("--rows",), marks=pytest.mark.long),
    ],
)
def test_match_writes_every_kind_and_the_report_reads_it(job, spark, tmp_path, given):
    out = tmp_path / "out"
    summary = job("match", SUBSCRIPTIONS, EVENTS, "--out", out, *given)
    assert summary["notifications"] == len(expected())
    written = spark.read.parquet(str(out))
    events = {event for event, _ in expected()}
    assert written.count() == (len(expected()) if "--rows" in given else len(events))
    flat = read_notifications(spark, out)
    assert tuple(flat.columns) == NOTIFICATION_FIELDS
    assert pairs(flat) == expected()
    if "ordinals" in given:  # one report is enough: all kinds are the same rows by now
        report = job("report", SUBSCRIPTIONS, "--events", EVENTS, "--matches", out, "--out", tmp_path / "report")
        assert (report["events"], report["notifications"]) == (400, len(expected()))


def test_a_stream_writes_nested_unless_rows_are_asked_for(job, recado, spark, tmp_path, write):
    subscriptions = write(
        "s.ndjson",
        '{"id": "all", "filter": "x > 0"}',
        '{"id": "more", "filter": "x > 0"}',
        '{"id": "hourly", "filter": "x > 0", "constraints": [{"kind": "frequency", "amount": 1, "unit": "hours"}]}',
    )
    job("publish", subscriptions, "--set", tmp_path / "set")
    (tmp_path / "in").mkdir()
    write("in/1.ndjson", '{"id": "a", "x": 1}', '{"id": "b", "x": 1}', "{bad")
    wanted = [(e, s) for e in "ab" for s in ("all", "hourly", "more") if (e, s) != ("b", "hourly")]
    for given in ((), ("--rows",)):
        out, state = tmp_path / f"out{len(given)}", tmp_path / f"state{len(given)}"
        summary = job(
            "stream", tmp_path / "set", tmp_path / "in", "--out", out, "--checkpoint", state, "--once", *given
        )
        assert (summary["notifications"], summary["rejected"]) == (5, 1)
        written = spark.read.parquet(str(out))
        assert ("matches" in written.columns) is (given == ())
        assert written.count() == (3 if given == () else 5)  # each event, and what has constraints
        assert pairs(written) == pairs(read_notifications(spark, out)) == wanted
    options = ["--out", tmp_path / "out0", "--checkpoint", tmp_path / "state0", "--once", "--rows"]
    done = recado("pipeline", "stream", *map(str, [tmp_path / "set", tmp_path / "in", *options]))
    assert done.code == 2
    assert "whose output is 'nested', not 'rows'" in done.err


def test_match_counts_and_keeps_what_is_no_event(recado, spark, tmp_path, write, monkeypatch):
    monkeypatch.setattr("recado.cli.pipeline.spark._LOG_SECONDS", 0.02)
    events = write("events.ndjson", '{"id": "a", "x": 1}', "{bad")
    subscriptions = write("s.ndjson", '{"id": "s", "filter": "x > 0"}')
    done = recado("pipeline", "match", subscriptions, events, "--out", str(tmp_path / "out"), "--quiet")
    assert (done.code, done.err) == (0, "")
    summary = done.records[-1]
    assert (summary["events"], summary["notifications"], summary["rejected"]) == (2, 1, 1)
    assert spark.read.parquet(summary["rejected_rows"]).collect()[0].row == "{bad"


def test_match_with_partitions_and_with_constraints(job, spark, tmp_path, write):
    subscriptions = write(
        "s.ndjson",
        '{"id": "all", "filter": "x > 0"}',
        '{"id": "hourly", "filter": "x > 0", "constraints": [{"kind": "frequency", "amount": 1, "unit": "hours"}]}',
    )
    events = write(
        "e.ndjson",
        '{"id": "a", "x": 1, "time": "2026-11-15T10:00:00Z"}',
        '{"id": "b", "x": 1, "time": "2026-11-15T10:30:00Z"}',
    )
    split = job("match", subscriptions, events, "--out", tmp_path / "split", "--partitions", 2)
    assert split["notifications"] == 4
    rated = job("match", subscriptions, events, "--out", tmp_path / "rated", "--constraints")
    assert rated["notifications"] == 3
    plain = job("match", subscriptions, events, "--out", tmp_path / "plain", "--constraints", "--rows")
    assert plain["notifications"] == 3
    assert spark.read.parquet(str(tmp_path / "plain")).count() == 3
    assert pairs(spark.read.parquet(str(tmp_path / "rated"))) == [("a", "all"), ("a", "hourly"), ("b", "all")]


def test_publish_change_prune_and_stream(job, spark, recado, tmp_path, write):
    first = write("s.ndjson", '{"id": "s", "filter": "x > 0"}')
    more = write("t.ndjson", '{"id": "t", "filter": "x > 1"}')
    alerts = tmp_path / "alerts"
    assert job("publish", first, "--set", alerts)["version"] == 1
    assert job("publish", more, "--set", alerts, "--change")["subscriptions"] == 2
    assert job("publish", "--set", alerts, "--change", "--remove", "s")["subscriptions"] == 1
    assert job("publish", "--set", alerts, "--prune", 1)["pruned"] == 2
    (tmp_path / "in").mkdir()
    write("in/1.ndjson", '{"id": "a", "x": 1}', '{"id": "b", "x": 2}')
    options = ["--out", tmp_path / "out", "--checkpoint", tmp_path / "state", "--once", "--raw"]
    run = recado("pipeline", "stream", *map(str, [alerts, tmp_path / "in", *options]))
    assert run.code == 0, run.err
    told = {"batch": 0, "notifications": 1, "rejected": 0, "version": 3, "replayed": False}
    assert run.records[0] == told | {"compared": run.records[0]["compared"], "disagreements": 0, "warning": ""}
    assert (run.records[-1]["batches"], run.records[-1]["notifications"]) == (1, 1)
    assert pairs(spark.read.parquet(str(tmp_path / "out"))) == [("b", "t")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_stream_between_two_calls_to_the_jvm(number):
    before = signal.getsignal(number)
    calls = []

    class Query:
        def awaitTermination(self, seconds):  # noqa: N802  # Spark's name
            os.kill(os.getpid(), number)
            calls.append("waited")
            return False

        def stop(self):
            calls.append("stopped")

    _wait(Query(), threading.Event())
    assert calls == ["waited", "stopped"]
    assert signal.getsignal(number) is before


def test_a_stream_stops_when_nobody_reads_what_it_tells(monkeypatch):
    def gone(record):
        raise BrokenPipeError

    told = _Told(people=False, quiet=False)
    monkeypatch.setattr("recado.cli.pipeline.stream.write_json", gone)
    told.batch(BatchSummary(0, 1, 0, 3, False))
    assert told.stop.is_set()
    assert told.totals()["notifications"] == 1


# That a stream counts the same way is in tests/pipeline/test_canary.py.
@pytest.mark.parametrize("verb", ["match", pytest.param("stream", marks=pytest.mark.long)])
def test_an_index_that_is_wrong_ends_a_job_with_1(recado, job, spark, tmp_path, write, verb):
    """Each job has a set of its own: a worker that found an index to be wrong goes on with the one that it built."""
    job("publish", write("s.ndjson", '{"id": "s", "filter": "x > 0"}'), "--set", tmp_path / "set")
    index, _ = build([Subscription("s", parse("x > 1000"))])
    index.save(tmp_path / "set" / "000001" / "index.recado")
    (tmp_path / "in").mkdir()
    write("in/1.ndjson", '{"id": "a", "x": 1}')
    share = {"match": "0.81", "stream": "0.82"}[verb]  # of no other test, so that no comparison was paid for yet
    arguments = [verb, tmp_path / "set", tmp_path / "in", "--out", tmp_path / "out", "--verify-share", share]
    if verb == "stream":
        arguments += ["--checkpoint", tmp_path / "state", "--once"]
    run = recado("pipeline", *map(str, arguments))
    assert run.code == 1, run.err
    assert "matching differed from the plain evaluator on 1 of 1 compared pairs" in run.err
    assert "event 'a' and subscription 's': the index misses it; filter: x > 0; event: {" in run.err
    assert (run.records[-1]["compared"], run.records[-1]["disagreements"]) == (1, 1)
    assert pairs(spark.read.parquet(str(tmp_path / "out"))) == [("a", "s")]


def test_report(job, tmp_path):
    job("report", SUBSCRIPTIONS, "--events", EVENTS, "--out", tmp_path / "report")
    assert (tmp_path / "report" / "index.html").read_text().startswith("<!doctype html>")


def test_frequencies(job, tmp_path, write):
    text = write("corpus.txt", "The stations report. A station reports rain.")
    summary = job("frequencies", text, "--out", tmp_path / "frequencies")
    assert summary["tokens"] == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match", SUBSCRIPTIONS, "missing.ndjson", "--out", "OUT"], "missing.ndjson does not exist"),
        (["match", "missing.ndjson", EVENTS, "--out", "OUT"], "missing.ndjson does not exist"),
        (["match", "BAD", EVENTS, "--out", "OUT"], "row 2: subscription 'b'"),
        (["match", SUBSCRIPTIONS, EVENTS, "--out", "."], "is there already; --overwrite replaces it"),
        (["match", SUBSCRIPTIONS, EVENTS, "--out", "OUT", "--json-column", "nothing"], "there is no column 'nothing'"),
        (["match", SUBSCRIPTIONS, EVENTS, "--out", "OUT", "--conf", "x"], "a setting is written spark.some.name=value"),
        (["match", SUBSCRIPTIONS, "BAD", "--out", "OUT", "--format", "parquet"], "bad.ndjson cannot be read"),
        (["match", SUBSCRIPTIONS, EVENTS, "--out", "OUT", "--partitions", "0"], "it must be at least 1"),
        (["stream", "OUT", EVENTS, "--out", "OUT", "--checkpoint", "OUT"], "a stream follows a folder or a log"),
        (["stream", "OUT", ".", "--format", "ndjson", "--out", "OUT", "--checkpoint", "OUT"], "publish one first"),
        (["publish", "--set", "OUT"], "nothing to publish"),
        (["publish", "--set", "OUT", "--remove", "x"], "needs --change"),
        (["publish", "--set", "OUT", "--change", "--remove", "x"], "publish one first"),
        (["frequencies", "missing.txt", "--out", "OUT"], "missing.txt"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_mistakes_are_told_in_one_message(recado, tmp_path, write, arguments, message):
    bad = write("bad.ndjson", '{"id": "a", "filter": "x > 1"}', '{"id": "b", "filter": "x >"}')
    run = recado("pipeline", *[{"OUT": str(tmp_path / "out"), "BAD": bad}.get(a, a) for a in arguments])
    assert run.code == 2
    assert message in run.err
    assert "Traceback" not in run.err
    assert "\tat org.apache" not in run.err


def test_settings_of_spark():
    assert Job(conf=("spark.a=b=c",)).settings() == {"spark.a": "b=c"}
    with pytest.raises(RecadoError, match="--conf a"):
        Job(conf=("a=b",)).settings()


def test_people_see_a_table_and_progress(recado, spark, tmp_path, write):
    subscriptions = write("s.ndjson", '{"id": "s", "filter": "x > 0"}')
    events = write("e.ndjson", '{"id": "a", "x": 1}')
    run = recado(
        "pipeline", "match", subscriptions, events, "--out", str(tmp_path / "out"), terminal=True, progress=True
    )
    assert run.code == 0
    shown = [line.split() for line in run.out.splitlines()]
    assert ["notifications", "1"] in shown
    assert ["subscriptions", "1"] in shown


def test_the_demo_on_spark(spark, tmp_path, capsys):
    with SqliteEventLog.open(tmp_path / "log") as log:
        log.append([read_event(quote) for quote in some_quotes(500)])
    figures = spark_demo.run_on_spark(tmp_path / "demo", tmp_path / "log", subscriptions=300)
    out = capsys.readouterr().out
    assert figures["notifications"] == spark.read.parquet(str(tmp_path / "demo" / "notifications")).count() > 0
    assert figures["events"] == 500
    assert "300 subscriptions, and the log that the service wrote" in out
    assert (tmp_path / "demo" / "report" / "index.html").exists()


def test_what_the_demo_draws_is_always_the_same():
    first = [(s.id, s.filter) for s in spark_demo.some_subscriptions(50)]
    assert first == [(s.id, s.filter) for s in spark_demo.some_subscriptions(50)]
    assert list(some_quotes(20)) == list(some_quotes(20))


def test_main_is_what_runs():
    assert main(["pipeline", "match", "--help"]) == 0
