"""The streaming query: versions at micro-batch boundaries, replays, rejected rows, and what a checkpoint belongs to."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline import stream
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.jobs import run_match
from recado.pipeline.match import match
from recado.pipeline.readers import follow_events, read_events
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.stream import BatchFolder, Identity, _claim, start_stream
from recado.pipeline.worker import read_choice, record_choice
from samples import pairs

HOURLY = ({"kind": "frequency", "amount": 1, "unit": "hours"},)


class Place:
    """The folders of one stream, and how to feed and run it."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.incoming = folder / "incoming"
        self.incoming.mkdir()
        self.set = SubscriptionSet(folder / "set")
        self.out, self.state = folder / "out", folder / "state"
        self.summaries = []
        self.fed = 0

    def feed(self, name, *rows):
        text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
        draft = self.incoming / f".{name}"
        draft.write_text(text + "\n")
        self.fed += 1
        os.utime(draft, (1_790_000_000 + self.fed,) * 2)  # Spark takes files by age
        draft.rename(self.incoming / name)

    def run(self, **options):
        lines = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.incoming))
        query = start_stream(
            lines, self.set, self.out, self.state, json="value", trigger={"availableNow": True},
            on_batch=self.summaries.append, **options,
        )  # fmt: skip
        query.awaitTermination()

    def found(self):
        return pairs(self.spark.read.parquet(str(self.out)))


@pytest.fixture
def place(spark, tmp_path):
    made = Place(spark, tmp_path)
    made.set.publish([Subscription("low", parse("x < 5"), owner="ana")])
    return made


def test_a_change_of_the_set_takes_effect_at_the_next_batch_and_is_recorded(place, spark):
    place.feed("1.ndjson", {"id": "a", "x": 1}, {"id": "b", "x": 9})
    place.run(constraints=False)
    assert place.found() == [("a", "low")]
    place.set.change(add=[Subscription("high", parse("x > 5"))])
    place.feed("2.ndjson", {"id": "c", "x": 1}, {"id": "d", "x": 9})
    place.run(constraints=False)
    assert place.found() == [("a", "low"), ("c", "low"), ("d", "high")]
    choices = place.state / "recado" / "versions"
    assert [read_choice(choices, batch).version for batch in (0, 1)] == [1, 2]
    assert [(s.batch, s.notifications, s.version) for s in place.summaries] == [(0, 1, 1), (1, 2, 2)]

    # Forget that batch 1 was done, as a crash just before its commit would; a newer version must not change it.
    (place.state / "commits" / "1").unlink()
    (place.state / "commits" / ".1.crc").unlink(missing_ok=True)
    shutil.rmtree(place.out / "batch=1")
    place.set.publish([])
    place.run(constraints=False)
    assert place.found() == [("a", "low"), ("c", "low"), ("d", "high")]
    assert place.summaries[-1].version == 2

    # And once more with the output there already: it is not written again.
    (place.state / "commits" / "1").unlink()
    (place.state / "commits" / ".1.crc").unlink(missing_ok=True)
    place.run(constraints=False)
    assert place.summaries[-1].replayed
    assert place.found() == [("a", "low"), ("c", "low"), ("d", "high")]


def test_poison_rows_go_to_the_rejected_ones_and_the_stream_goes_on(place, spark):
    place.feed("1.ndjson", {"id": "a", "x": 1}, "{poison", {"id": "b", "x": 2})
    place.feed("2.ndjson", {"id": "c", "x": 3}, {"x": 3})
    place.run(constraints=False)
    assert place.found() == [("a", "low"), ("b", "low"), ("c", "low")]
    bad = spark.read.parquet(f"{place.out}-rejected").collect()
    assert {(row.row, row.batch) for row in bad} == {("{poison", 0), ('{"x": 3}', 1)}
    assert all(row.reason for row in bad)
    assert [s.rejected for s in place.summaries] == [1, 1]


@pytest.mark.long  # test_kill.py has the same with a kill, test_constraints_spark.py without a sink
def test_constraints_are_kept_across_batches_and_restarts(place):
    place.set.publish([Subscription("hourly", parse("x > 0"), constraints=HOURLY), Subscription("all", parse("x > 0"))])
    place.feed("1.ndjson", {"id": "a", "x": 1, "time": "2026-11-15T10:00:00Z"}, "{poison")
    place.feed("2.ndjson", {"id": "b", "x": 1, "time": "2026-11-15T10:59:59Z"})
    place.run()
    place.feed("3.ndjson", {"id": "c", "x": 1, "time": "2026-11-15T11:00:00Z"})
    place.run()
    found = place.found()
    assert [event for event, subscription in found if subscription == "hourly"] == ["a", "c"]
    assert [event for event, subscription in found if subscription == "all"] == ["a", "b", "c"]
    assert [s.rejected for s in place.summaries] == [1, 0, 0]


def test_events_may_change_their_shape_between_batches(place):
    place.feed("1.ndjson", {"id": "a", "x": 1})
    place.feed("2.ndjson", {"id": "b", "x": "one", "y": [1, 2]})
    place.feed("3.ndjson", {"id": "c", "z": {"deep": True}, "x": 2.5})
    place.run(constraints=False)
    assert place.found() == [("a", "low"), ("c", "low")]


def test_parquet_files_may_lack_columns_and_have_more_but_not_other_types(place, spark, tmp_path):
    def run():
        source = follow_events(spark, str(tmp_path / "columns"), most=1)
        query = start_stream(
            source.events, place.set, place.out, place.state, place=source.place, constraints=False,
            trigger={"availableNow": True},
        )  # fmt: skip
        with user_errors():
            query.awaitTermination()

    (tmp_path / "columns").mkdir()
    pq.write_table(pa.table({"id": ["a", "n"], "x": [1, None]}), tmp_path / "columns" / "1.parquet")
    os.utime(tmp_path / "columns" / "1.parquet", (1_790_000_000,) * 2)  # Spark takes files by age
    pq.write_table(pa.table({"id": ["b"], "y": ["one"]}), tmp_path / "columns" / "2.parquet")
    run()
    assert place.found() == [("a", "low")]
    pq.write_table(pa.table({"id": ["c"], "x": ["one"]}), tmp_path / "columns" / "3.parquet")
    with pytest.raises(PipelineError, match=r"columns/3\.parquet cannot be read: Data type mismatches .*x"):
        run()


def test_a_checkpoint_belongs_to_one_stream(place, tmp_path):
    place.feed("1.ndjson", {"id": "a", "x": 1})
    place.run(constraints=False)
    with pytest.raises(PipelineError, match="belongs to a stream whose constraints is False, not True"):
        place.run()
    place.out = tmp_path / "elsewhere"
    with pytest.raises(PipelineError, match="belongs to a stream whose out is"):
        place.run(constraints=False)


def test_a_checkpoint_belongs_to_one_place_of_events_if_that_has_a_name(tmp_path):
    def identity(events=""):
        return Identity("set", "out", "bad", False, events)

    _claim(tmp_path, identity("/a"))
    _claim(tmp_path, identity("/a"))
    _claim(tmp_path, identity())
    with pytest.raises(PipelineError, match="belongs to a stream whose events is '/a', not '/b'"):
        _claim(tmp_path, identity("/b"))
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot be used: Not a directory"):
        _claim(tmp_path / "file", identity())


def test_a_batch_of_events_is_no_stream(spark, place, tmp_path):
    frame = spark.createDataFrame([], "id string")
    with pytest.raises(PipelineError, match="not a stream"):
        start_stream(frame, place.set, tmp_path / "o", tmp_path / "c")


def test_a_stream_needs_a_driver_of_its_own(spark, place, monkeypatch, tmp_path):
    monkeypatch.setattr(stream, "is_remote", lambda _: True)
    frame = spark.readStream.format("rate").load().selectExpr("string(value) as id")
    with pytest.raises(PipelineError, match="on a master, not over Spark Connect"):
        start_stream(frame, place.set, tmp_path / "o", tmp_path / "c")


def test_choices_without_a_driver_that_chooses(spark, place, tmp_path):
    frame = spark.createDataFrame([("a", 1)], "id string, x int")
    with (
        pytest.raises(PipelineError, match=r"nobody chose a version of .*: choices are for start_stream"),
        user_errors(),
    ):
        match(frame, place.set, choices=tmp_path / "v").collect()


def test_a_set_must_have_been_published(spark, tmp_path):
    frame = spark.readStream.format("rate").load().selectExpr("string(value) as id")
    with pytest.raises(PipelineError, match="publish one first"):
        start_stream(frame, tmp_path / "none", tmp_path / "o", tmp_path / "c")


def test_the_first_choice_of_a_batch_stays(tmp_path):
    assert record_choice(tmp_path / "v", 3, 7).version == 7
    assert record_choice(tmp_path / "v", 3, 8).version == 7
    assert read_choice(tmp_path / "v", 4) is None
    assert [path.name for path in (tmp_path / "v").iterdir()] == ["000000003.json"]


def test_what_an_interrupted_write_left_is_replaced(spark, tmp_path):
    folder = BatchFolder(tmp_path / "out")
    half = tmp_path / "out" / "_staging" / "batch=0"
    half.mkdir(parents=True)
    (half / "part-0.parquet").write_bytes(b"half a file")
    assert not folder.has(0)
    assert folder.write(spark.range(5), 0) == 5
    assert folder.has(0)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 5


def test_a_folder_that_cannot_be_written(spark, tmp_path):
    Path(tmp_path / "file").write_text("x")
    with pytest.raises(PipelineError, match="cannot be written"):
        BatchFolder(tmp_path / "file").write(spark.range(1), 0)


def test_rows_that_went_to_disks_of_other_hosts_are_missed(spark, tmp_path, monkeypatch):
    """Spark's driver finds nothing of them, and takes that for success."""
    monkeypatch.setattr("recado.pipeline.match.is_here", lambda _: False)
    folder = BatchFolder(tmp_path / "out")
    assert folder.write(spark.range(3), 0) == 3
    monkeypatch.setattr(stream, "for_spark", lambda _: f"file://{tmp_path}/elsewhere")
    with pytest.raises(
        PipelineError, match=r"3 of 3 rows are not there: .* give a path that all hosts mount, or a URL"
    ):
        folder.write(spark.range(3), 1)
    assert (folder.has(0), folder.has(1)) == (True, False)
    monkeypatch.setattr("recado.pipeline.jobs.for_spark", lambda _: f"file://{tmp_path}/there")
    (tmp_path / "events.ndjson").write_text('{"id": "e", "x": 1}\n')
    (tmp_path / "subscriptions.ndjson").write_text('{"id": "s", "filter": "x > 0"}\n')
    events = read_events(spark, str(tmp_path / "events.ndjson"))
    with pytest.raises(PipelineError, match="1 of 1 rows are not there"):
        run_match(spark, str(tmp_path / "subscriptions.ndjson"), events, tmp_path / "found")
