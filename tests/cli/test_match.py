import json
from contextlib import contextmanager
from importlib.resources import files

import pytest

from recado.cli import engines, inputs
from recado.cli import match as match_module
from recado.model.limits import LIMITS, Limits

SAMPLE = files("recado") / "data" / "sample"
CHEAP = '{"id": "cheap", "filter": "Price < 25"}'
PETR = '{"id": "a-petr", "filter": "Stock == \\"PETR4\\"", "type": "Stock*"}'
TICK = '{"id": "e-1", "type": "StockExchange", "Stock": "PETR4", "Price": 24.9}'


def pairs(run):
    return [(record["event"], record["subscription"]) for record in run.records]


def test_pairs_come_in_event_order_with_sorted_ids(recado, write):
    events = ['{"id": "z", "Price": 1}', TICK, '{"id": "b", "Price": 99}']
    run = recado("match", write("s", CHEAP, PETR), write("e", *events), "--engine", "naive")
    assert run.code == 0
    assert pairs(run) == [("z", "cheap"), ("e-1", "a-petr"), ("e-1", "cheap")]
    assert "2 subscriptions, 3 events, 3 matches, 0 bad lines," in run.err


@pytest.mark.parametrize("engine", ["index", "batch"])
def test_the_engines_agree_on_the_sample(recado, engine):
    arguments = ["match", str(SAMPLE / "subscriptions.ndjson"), str(SAMPLE / "events.ndjson"), "--quiet"]
    expected = recado(*arguments, "--engine", "naive")
    assert expected.code == 0
    assert len(expected.records) > 500
    assert recado(*arguments, "--engine", engine).out == expected.out


def test_events_from_standard_input(recado, write):
    run = recado("match", write("s", CHEAP), "-", "--engine", "naive", stdin=TICK + "\n")
    assert pairs(run) == [("e-1", "cheap")]


def test_subscriptions_from_standard_input(recado, write):
    run = recado("match", "-", write("e", TICK), "--engine", "naive", stdin=CHEAP)
    assert pairs(run) == [("e-1", "cheap")]


def test_only_one_side_can_be_standard_input(recado):
    run = recado("match", "-", "-")
    assert (run.code, run.out) == (2, "")
    assert "only one of the two files can be standard input" in run.err


@pytest.mark.parametrize("name", ["batch.json", "batch.ndjson", "batch"])
def test_a_json_array_of_events(recado, write, name):
    cloud_event = '{"specversion": "1.0", "id": "c", "source": "/s", "type": "t", "data": {"Price": 1}}'
    path = write(name, "", " [", TICK, ",", cloud_event, ', {"Price": 2}, {"id": true}]')
    run = recado("match", write("s", CHEAP), path, "--engine", "naive")
    assert pairs(run) == [("e-1", "cheap"), ("c", "cheap"), ("item-2", "cheap")]
    assert f"{path}[3]: $.id: must be a string or an integer" in run.err


def test_a_json_file_with_one_printed_event(recado, write):
    path = write("one.json", *json.dumps(json.loads(TICK), indent=2).splitlines())
    assert pairs(recado("match", write("s", CHEAP), path, "--engine", "naive")) == [("e-1", "cheap")]


def test_a_json_file_with_lines(recado, write):
    path = write("lines.json", TICK, '{"id": "e-2", "Price": 3}')
    run = recado("match", write("s", CHEAP), path, "--engine", "naive")
    assert pairs(run) == [("e-1", "cheap"), ("e-2", "cheap")]


def test_an_event_without_id_is_called_after_its_line(recado, write):
    run = recado("match", write("s", CHEAP), write("e", "", '{"Price": 1}'), "--engine", "naive")
    assert pairs(run) == [("line-2", "cheap")]


def test_a_later_subscription_replaces_an_earlier_one_of_its_id(recado, write):
    subscriptions = write("s", '{"id": "x", "filter": "Price > 99"}', '{"id": "x", "filter": "Price < 99"}')
    assert pairs(recado("match", subscriptions, write("e", TICK), "--engine", "naive")) == [("e-1", "x")]


def test_bad_lines_are_reported_counted_and_skipped(recado, write):
    subscriptions = write("s.ndjson", '{"id": "bad", "filter": "Price <"}', CHEAP, '{"filter": "a == 1"}')
    events = write("e.ndjson", "{", TICK, '{"id": "e-2", "time": "noon"}', "")
    run = recado("match", subscriptions, events, "--engine", "naive")
    assert run.code == 0
    assert pairs(run) == [("e-1", "cheap")]
    assert f"{subscriptions}:1: subscription 'bad': " in run.err
    assert "    hint: " in run.err or "          ^" in run.err
    assert f"{subscriptions}:3: $: lacks the member `id`" in run.err
    assert f"{events}:1: $: the JSON text ends too early" in run.err
    assert f"{events}:3: $.time: 'noon' is not an RFC 3339 timestamp" in run.err
    assert "1 subscription, 1 event, 1 match, 4 bad lines," in run.err


@pytest.mark.parametrize(("subscription", "event"), [("{", TICK), (CHEAP, "{")])
def test_strict_stops_at_the_first_bad_line(recado, write, subscription, event):
    run = recado("match", write("s", subscription), write("e", event, TICK), "--engine", "naive", "--strict")
    assert run.code == 2
    assert ":1: " in run.err
    assert "matches" not in run.err


def test_lines_that_are_too_long_are_skipped_in_bounded_memory(recado, write):
    long = '{"id": "long", "filter": "' + "a" * LIMITS.subscription_bytes + '"}'
    run = recado("match", write("s", long, CHEAP), write("e", TICK), "--engine", "naive")
    assert pairs(run) == [("e-1", "cheap")]
    assert f":1: the line is longer than {LIMITS.subscription_bytes:,} bytes" in run.err


def test_a_byte_order_mark_and_windows_line_ends(recado, tmp_path):
    subscriptions, events = tmp_path / "s", tmp_path / "e"
    subscriptions.write_bytes(b"\xef\xbb\xbf" + CHEAP.encode() + b"\r\n")
    events.write_bytes(b"\xef\xbb\xbf" + TICK.encode() + b"\r\n" + TICK.encode())
    run = recado("match", str(subscriptions), str(events), "--engine", "naive")
    assert pairs(run) == [("e-1", "cheap")] * 2


@pytest.mark.parametrize("missing", ["subscriptions", "events"])
def test_a_file_that_cannot_be_read(recado, write, tmp_path, missing):
    nowhere = str(tmp_path / "nowhere")
    paths = [nowhere, write("e", TICK)] if missing == "subscriptions" else [write("s", CHEAP), nowhere]
    run = recado("match", *paths, "--engine", "naive")
    assert run.code == 2
    assert f"recado: {nowhere}: No such file or directory" in run.err


def test_a_long_line_without_end_is_skipped(recado, tmp_path, write, monkeypatch):
    monkeypatch.setattr(inputs, "LIMITS", Limits(subscription_bytes=100))
    path = tmp_path / "s"
    path.write_bytes(b"x" * 300_000)
    run = recado("match", str(path), write("e", TICK), "--engine", "naive")
    assert (run.code, run.out) == (1, "")
    assert f"{path}:1: the line is longer than 100 bytes" in run.err


def test_empty_files(recado, write):
    run = recado("match", write("s"), write("e"), "--engine", "naive")
    assert (run.code, run.out) == (0, "")
    assert "0 subscriptions, 0 events, 0 matches, 0 bad lines" in run.err


def test_more_events_than_a_chunk(recado, write, monkeypatch):
    monkeypatch.setattr(match_module, "CHUNK", 3)
    events = [f'{{"id": "e-{n}", "Price": {n}}}' for n in range(10)]
    run = recado("match", write("s", CHEAP), write("e", *events), "--engine", "naive")
    assert [event for event, _ in pairs(run)] == [f"e-{n}" for n in range(10)]


def test_files_the_wrong_way_round_are_recognised(recado, write):
    subscriptions, events = write("s", CHEAP, PETR), write("e", TICK)
    run = recado("match", events, subscriptions, "--engine", "naive")
    assert (run.code, run.out) == (2, "")
    assert f"the files are the wrong way round: {events} has events and {subscriptions} has subscriptions" in run.err
    assert f"recado match {subscriptions} {events}" in run.err


@pytest.mark.parametrize(
    ("subscription", "event"),
    [
        ('{"id": "s", "fliter": "x > 1"}', TICK),  # a misspelt subscription is no event file
        ('{"id": "all"}', '{"id": "e", "type": "made", "filter": "x > 1"}'),  # an event about a filter
        ("{", CHEAP),
        ("", CHEAP),
    ],
)
def test_files_the_right_way_round_are_not_complained_about(recado, write, subscription, event):
    assert "wrong way round" not in recado("match", write("s", subscription), write("e", event)).err


@pytest.mark.parametrize(
    ("subscriptions", "events", "message"),
    [
        (["{", '{"id": "s", "filter": "x >"}'], [TICK], "s: no subscription could be read"),
        ([CHEAP], ["{", "[1]", '{"id": true}'], "e: no event could be read"),
        ([CHEAP], ["[{}", ""], "e: no event could be read"),
    ],
)
def test_nothing_that_could_be_read_is_a_failure(recado, write, subscriptions, events, message):
    run = recado("match", write("s", *subscriptions), write("e", *events), "--engine", "naive")
    assert (run.code, run.out) == (1, "")
    assert message in run.err


def test_one_line_that_could_be_read_is_enough(recado, write):
    run = recado("match", write("s", "{", CHEAP), write("e", TICK, "{"), "--engine", "naive")
    assert run.code == 0
    assert pairs(run) == [("e-1", "cheap")]


@pytest.mark.parametrize("engine", ["naive", "index", "batch"])
def test_verify_compares_every_pair(recado, write, engine):
    events = [f'{{"id": "e-{n}", "Price": {n}, "Stock": "PETR4"}}' for n in range(40)]
    run = recado("match", write("s", CHEAP, PETR), write("e", *events), "--engine", engine, "--verify", "--quiet")
    assert run.code == 0
    assert len(run.records) == 25
    assert run.err == "80 pairs compared: the engine and the plain evaluator agree\n"


@pytest.mark.parametrize("engine", ["index", "batch"])
def test_verify_tells_of_an_index_that_loses_and_adds_matches(recado, write, engine, monkeypatch):
    def spoilt(match):
        def changed(self, *given):
            for event, ids in match(self, *given):
                yield event, [id for id in ids if id != "cheap"] + (["ghost"] if event == "e-2" else [])

        return changed

    monkeypatch.setattr(engines._Index, "match_block", spoilt(engines._Index.match_block))
    events = ['{"id": "e-1", "Price": 1}', '{"id": "e-2", "Price": 99}']
    run = recado("match", write("s", CHEAP), write("e", *events), "--engine", engine, "--verify", "--quiet")
    assert run.code == 1
    assert pairs(run) == [("e-1", "cheap")]
    lost, added, verdict = run.err.splitlines()
    assert lost == (
        "event 'e-1' and subscription 'cheap': the index misses it; filter: Price < 25; "
        'event: {"id":"e-1","Price":1}'
    )
    assert added.startswith("event 'e-2' and subscription 'ghost': the index matches it, the plain evaluator does not")
    assert (
        verdict == "2 pairs compared: the engine and the plain evaluator differ on 2 pairs; the plain answers were used"
    )


def test_quiet_says_nothing(recado, write):
    assert recado("match", write("s", CHEAP), write("e", TICK), "--engine", "naive", "-q").err == ""


def test_on_a_terminal_there_is_a_table(recado, write):
    events = [f'{{"id": "e-{n}", "Price": {n}}}' for n in range(25)]
    run = recado("match", write("s", CHEAP), write("e", *events), "--engine", "naive", terminal=True)
    lines = [line.rstrip() for line in run.out.splitlines()]
    assert lines[0] == "event  subscription"
    assert lines[1] == "e-0    cheap"
    assert lines[-1] == "... and 5 more matches; --json writes all"
    assert len(lines) == 22
    assert "25 matches" in run.err


def test_a_progress_bar_follows_on_a_terminal(recado, write):
    events = [f'{{"id": "e-{n}", "Price": {n}}}' for n in range(25)]
    run = recado("match", write("s", CHEAP), write("e", *events), "--engine", "naive", progress=True)
    assert len(run.records) == 25
    assert "25 events" in run.err
    piped = recado("match", write("s", CHEAP), "-", "--engine", "naive", stdin=TICK, progress=True)
    assert len(piped.records) == 1


def test_the_table_comes_after_the_progress_bar_is_gone(recado, write, monkeypatch):
    steps = []

    @contextmanager
    def bar(path, quiet):
        steps.append("bar")
        yield lambda counts: steps.append("chunk")
        steps.append("gone")

    shown = match_module._show
    monkeypatch.setattr(match_module, "_progress", bar)
    monkeypatch.setattr(match_module, "_show", lambda *given: (steps.append("table"), shown(*given)))
    recado("match", write("s", CHEAP), write("e", TICK), "--engine", "naive", terminal=True, progress=True)
    assert steps == ["bar", "chunk", "gone", "table"]


def test_on_a_terminal_without_matches(recado, write):
    run = recado("match", write("s"), write("e", TICK), "--engine", "naive", terminal=True)
    assert run.out.strip() == "no matches"


def test_json_on_a_terminal(recado, write):
    run = recado("match", write("s", CHEAP), write("e", TICK), "--engine", "naive", "--json", terminal=True)
    assert pairs(run) == [("e-1", "cheap")]
