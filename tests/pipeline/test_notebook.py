"""What a notebook shows of sets, results and reports; and lines about progress where there is no terminal."""

import logging
import time
from types import SimpleNamespace

import pytest

from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline import notebook, progress
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import match
from recado.pipeline.notebook import html_page, html_table, preview
from recado.pipeline.progress import describe, describe_stream, log_progress
from recado.pipeline.report.run import Report
from recado.pipeline.sets import SubscriptionSet


def test_a_set_shows_its_versions(tmp_path):
    one = SubscriptionSet(tmp_path / "<set>")
    assert "nothing was published yet" in one._repr_html_()
    assert repr(one) == f"SubscriptionSet('{tmp_path}/<set>')"
    for n in range(12):
        one.publish(Subscription(f"s{i}", parse("x > 0")) for i in range(1200 if n == 11 else 1))
    shown = one._repr_html_()
    assert "&lt;set&gt;" in shown
    assert "<set>" not in shown
    assert "1,200" in shown
    assert shown.count("<tr>") == 11  # the heading and ten versions
    assert shown.index(">12<") < shown.index(">11<")
    assert "and 2 older ones" in shown


def test_every_text_is_escaped():
    table = html_table("<b>", ["<i>"], [["<script>alert(1)</script>"], [None], ["x" * 500], [1234567]])
    assert "<script>" not in table
    assert "&lt;script&gt;" in table
    assert "1,234,567" in table
    assert "x" * 119 + "…" in table
    page = html_page('<p title="a">"quoted"</p><script>1</script>')
    assert 'sandbox=""' in page
    assert page.count('"') == 6  # those of the attributes alone


@pytest.mark.parametrize("output", ["rows", "nested", "ordinals"])
def test_a_preview_of_what_was_found(spark, tmp_path, output):
    one = SubscriptionSet(tmp_path)
    one.publish(Subscription(f"s{n}", parse(f"x > {n}")) for n in range(8))
    frame = spark.createDataFrame([("e1", 2), ("e2", 20), ("e3", 0)], "id string, x int").coalesce(1)
    shown = preview(match(frame, one, output=output), events=5, subscriptions=3)
    assert [(row["event_id"], row["count"]) for row in shown.rows] == [("e1", 2), ("e2", 8)]
    assert shown.rows[1]["subscriptions"].endswith(" …")
    assert not shown.more
    assert "<td" in shown._repr_html_()
    assert repr(shown).startswith("e1: ")
    assert preview(match(frame, one, output=output), events=1, subscriptions=1).more
    assert repr(preview(match(frame.where("x < 0"), one, output=output))) == "no notifications"


def test_a_stream_has_no_preview(spark):
    with pytest.raises(PipelineError, match="this is a stream"):
        preview(spark.readStream.format("rate").load())


def test_a_report_shows_its_page(tmp_path):
    (tmp_path / "index.html").write_text("<h1>Alerts</h1>")
    summary = Report({"title": "<Alerts>"}, tmp_path)
    assert summary == {"title": "<Alerts>"}
    shown = summary._repr_html_()
    assert shown.startswith("<iframe sandbox")
    assert notebook.escape((tmp_path / "index.html").read_text()) in shown


def test_progress_is_a_line_every_few_seconds(spark, caplog):
    told = []
    with log_progress(spark, seconds=0.05, tell=told.append):
        deadline = time.monotonic() + 90
        while len(told) < 2 and time.monotonic() < deadline:
            spark.range(10).count()
    assert len(told) >= 2
    assert all(line.startswith("working for ") for line in told)
    before = len(told)
    time.sleep(0.2)
    assert len(told) == before  # it ended with the block
    with caplog.at_level(logging.INFO, "recado.pipeline"), log_progress(spark, seconds=0.05):
        while not caplog.messages and time.monotonic() < deadline + 30:
            time.sleep(0.05)
    assert caplog.messages[0].startswith("working for ")


def test_a_job_that_fails_ends_the_lines(spark):
    told = []
    with pytest.raises(ValueError, match="no"), log_progress(spark, seconds=0.05, tell=told.append):
        raise ValueError("no")
    before = len(told)
    time.sleep(0.2)
    assert len(told) == before


PROGRESS = {
    "name": None,
    "id": "238e7d31-2e4b-4975-9595-87526c112deb",
    "batchId": 7,
    "numInputRows": 1200,
    "processedRowsPerSecond": 412.4,
    "sources": [{"endOffset": '{"position": 100}', "latestOffset": '{"position": 1500}'}],
}


def test_what_a_line_says(monkeypatch):
    stage = SimpleNamespace(numTasks=10, numCompletedTasks=4)
    tracker = SimpleNamespace(getActiveStageIds=lambda: [1, 2, 3], getStageInfo=lambda n: None if n == 3 else stage)
    session = SimpleNamespace(
        sparkContext=SimpleNamespace(statusTracker=lambda: tracker),
        streams=SimpleNamespace(active=[SimpleNamespace(lastProgress=last) for last in (None, PROGRESS)]),
    )
    assert describe(session, 12.2) == (
        "working for 12 s; 8 of 20 tasks done; stream 238e7d31: batch 7, 1,200 rows, 412 a second, 1,400 behind"
    )
    monkeypatch.setattr(progress, "is_remote", lambda _: True)
    assert describe(session, 0).startswith("working for 0 s; stream ")
    other = PROGRESS | {"name": "found", "processedRowsPerSecond": None, "sources": []}
    assert describe_stream(other) == "stream found: batch 7, 1,200 rows, 0 a second"
