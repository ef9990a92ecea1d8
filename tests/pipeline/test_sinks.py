"""Streams into other sinks than Parquet: what each gets, and what a micro-batch that runs again does to it."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from pipeline.test_stream import Place
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.match import match
from recado.pipeline.sinks import EachBatch, FormatSink, Sink, StreamSink
from recado.pipeline.source import read_log, register
from recado.pipeline.stream import BatchFolder, start_stream
from samples import pairs

HOURLY = ({"kind": "frequency", "amount": 1, "unit": "hours"},)


@pytest.fixture
def place(spark, tmp_path):
    made = Place(spark, tmp_path)
    made.set.publish([Subscription("low", parse("x < 5"), owner="ana")])
    made.feed("1.ndjson", {"id": "a", "x": 1}, {"id": "b", "x": 9}, "{poison")
    made.feed("2.ndjson", {"id": "c", "x": 2}, {"id": "d", "x": 3})
    return made


RIGHT = [("a", "low"), ("c", "low"), ("d", "low")]


def forget_commit(state, batch):
    """As a crash after the sink's work and before Spark's own mark would leave it."""
    (state / "commits" / str(batch)).unlink()
    (state / "commits" / f".{batch}.crc").unlink(missing_ok=True)


class Table:
    """A table that remembers which micro-batches it has, in one transaction with their rows."""

    def __init__(self, path):
        self.path = path
        with sqlite3.connect(path) as base:
            base.execute("CREATE TABLE found (event TEXT, subscription TEXT)")
            base.execute("CREATE TABLE batches (number INTEGER PRIMARY KEY)")

    def take(self, rows, batch):
        found = [(row.event_id, row.subscription_id) for row in rows.collect()]
        with sqlite3.connect(self.path) as base:
            base.execute("INSERT INTO batches VALUES (?)", (batch,))
            base.executemany("INSERT INTO found VALUES (?, ?)", found)

    def has(self, batch):
        with sqlite3.connect(self.path) as base:
            return base.execute("SELECT 1 FROM batches WHERE number = ?", (batch,)).fetchone() is not None

    def rows(self):
        with sqlite3.connect(self.path) as base:
            return sorted(base.execute("SELECT event, subscription FROM found"))


def test_a_function_that_knows_its_batches_is_exactly_once(place, spark, tmp_path):
    table = Table(tmp_path / "found.sqlite")
    place.out = EachBatch(table.take, name="found.sqlite", has=table.has)
    place.run(constraints=False)
    assert table.rows() == RIGHT
    assert [(s.batch, s.notifications, s.rejected) for s in place.summaries] == [(0, 1, 1), (1, 2, 0)]
    bad = spark.read.parquet(f"{place.state}-rejected").collect()
    assert [row.row for row in bad] == ["{poison"]
    forget_commit(place.state, 1)
    place.run(constraints=False)
    assert place.summaries[-1].replayed
    assert table.rows() == RIGHT


def test_a_plain_function_gets_the_same_rows_again_under_the_same_number(place):
    given = []
    place.out = EachBatch(lambda rows, batch: given.append((batch, sorted(map(tuple, rows.collect())))), name="list")
    place.run(constraints=False)
    place.set.publish([])  # a new version does not change what is repeated
    forget_commit(place.state, 1)
    place.run(constraints=False)
    assert [batch for batch, _ in given] == [0, 1, 1]
    assert given[1] == given[2]  # the time of matching included
    assert len(given[1][1]) == 2


def test_a_function_that_fails_ends_the_stream_and_gets_the_batch_again(place):
    taken = []

    def refuse_once(rows, batch):
        taken.append(batch)
        if taken == [0]:
            raise ValueError("the gateway is closed")

    place.out = EachBatch(refuse_once, name="gateway")
    with pytest.raises(Exception, match="the gateway is closed"):
        place.run(constraints=False)
    place.run(constraints=False)
    assert taken == [0, 0, 1]


def like_delta():
    """A data source that workers get by value, since they do not see the tests."""

    class Kept(WriterCommitMessage):
        def __init__(self, rows):
            self.rows = rows

    class TransactionWriter(DataSourceWriter):
        """Appends to a file, unless it has the transaction already: what Delta does with these options."""

        def __init__(self, options):
            self.file = options["path"]
            self.key = f"{options.get('txnappid', '')}/{options.get('txnversion', '')}"

        def write(self, iterator):
            return Kept([(row.event_id, row.subscription_id) for row in iterator])

        def commit(self, messages):
            file = Path(self.file)
            known = json.loads(file.read_text()) if file.exists() else {}
            known.setdefault(self.key, [pair for message in messages for pair in message.rows])
            file.write_text(json.dumps(known))

    class Delta(DataSource):
        """Under Delta's name, since its jars are not here: what counts is which options it is given."""

        @classmethod
        def name(cls):
            return "delta"

        def writer(self, schema, overwrite):
            assert not overwrite
            return TransactionWriter(self.options)

    return Delta


def test_delta_is_told_application_and_version(place, spark, tmp_path):
    spark.dataSource.register(like_delta())
    place.out = FormatSink("delta", str(tmp_path / "table.json"))
    place.run(constraints=False)
    forget_commit(place.state, 1)
    place.run(constraints=False)
    assert [s.batch for s in place.summaries] == [0, 1, 1]
    held = json.loads((tmp_path / "table.json").read_text())
    query = json.loads((place.state / "metadata").read_text())["id"]  # Spark's own, which the checkpoint keeps
    assert list(held) == [f"{query}/0", f"{query}/1"]
    assert sorted(tuple(pair) for rows in held.values() for pair in rows) == RIGHT


def test_the_log_as_a_sink(place, spark, tmp_path):
    """A Python data source: notifications become events of a log, at least once, with ids of their own."""
    register(spark)

    def as_events(rows):
        made = F.concat_ws("/", "event_id", "subscription_id")
        return rows.select(made.alias("id"), F.lit("found").alias("type"), "event_id", "subscription_id")

    place.out = FormatSink("recado", str(tmp_path / "log"), prepare=as_events)
    place.run(constraints=False)
    forget_commit(place.state, 1)
    place.run(constraints=False)
    ids = [row.id for row in read_log(spark, tmp_path / "log").select("id").collect()]
    assert sorted(ids) == ["a/low", "c/low", "c/low", "d/low", "d/low"]
    assert sorted(set(ids)) == ["/".join(pair) for pair in RIGHT]


def test_options_and_a_name_of_its_own(place, spark, tmp_path):
    place.out = FormatSink("csv", str(tmp_path / "csv"), options={"header": "true", "compression": "none"})
    place.run(constraints=False)
    assert pairs(spark.read.option("header", "true").csv(str(tmp_path / "csv"))) == RIGHT
    assert place.out.name == f"csv:{tmp_path / 'csv'}"
    with pytest.raises(PipelineError, match="a path or to a table, not to both"):
        FormatSink("delta", "here", table="there")


def test_a_sink_of_sparks_own(place, spark):
    place.set.publish([Subscription("hourly", parse("x > 0"), constraints=HOURLY)])
    (place.incoming / "1.ndjson").unlink()
    (place.incoming / "2.ndjson").unlink()
    place.feed("3.ndjson", {"id": "a", "x": 1, "time": "2026-11-15T10:00:00Z"})
    place.feed("4.ndjson", {"id": "b", "x": 1, "time": "2026-11-15T10:30:00Z"}, "{poison")
    sink = StreamSink(lambda writer: writer.format("memory").queryName("in_memory"), name="memory")
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(place.incoming))
    once = {"availableNow": True}
    query = start_stream(lines, place.set, sink, place.state, json="value", bad_rows="keep", trigger=once)
    query.awaitTermination()
    rows = spark.table("in_memory").collect()
    assert sorted(row.event_id or row.rejected.text for row in rows) == ["a", "{poison"]
    with pytest.raises(PipelineError, match="tells of no micro-batch"):
        start_stream(lines, place.set, sink, place.state, json="value", on_batch=print)


def test_a_checkpoint_belongs_to_one_sink(place, spark, tmp_path):
    lines = spark.readStream.text(str(place.incoming))
    once = {"availableNow": True}
    one = EachBatch(lambda rows, batch: None, name="one")
    start_stream(lines, place.set, one, place.state, json="value", trigger=once, constraints=False).awaitTermination()
    for other in (EachBatch(lambda rows, batch: None, name="two"), tmp_path / "out"):
        with pytest.raises(PipelineError, match="belongs to a stream whose out is 'one'"):
            start_stream(lines, place.set, other, place.state, json="value", constraints=False)
    with pytest.raises(PipelineError, match="a sink needs a name"):
        EachBatch(print, name="")
    assert isinstance(one, Sink)
    assert isinstance(BatchFolder(tmp_path), Sink)


# --- Late events


def at(minutes):
    return datetime(2026, 11, 15, 10 + minutes // 60, minutes % 60, tzinfo=UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.long  # what a watermark drops is in test_constraints_spark.py
def test_late_events_reach_whoever_has_no_frequency_and_a_watermark_drops_the_others(place, spark):
    for path in place.incoming.iterdir():
        path.unlink()
    place.set.publish([Subscription("hourly", parse("x > 0"), constraints=HOURLY), Subscription("all", parse("x > 0"))])
    place.feed("1.ndjson", {"id": "early", "x": 1, "time": at(0)})
    place.feed("2.ndjson", {"id": "newest", "x": 1, "time": at(180)})
    place.feed("3.ndjson", {"id": "late", "x": 1, "time": at(61)})  # an hour after the first, two before the newest
    place.feed("4.ndjson", {"id": "in time", "x": 1, "time": at(175)}, {"id": "next", "x": 1, "time": at(240)})
    place.run(watermark="10 minutes")
    found = place.found()
    assert [event for event, subscription in found if subscription == "all"] == [
        "early", "in time", "late", "newest", "next",
    ]  # fmt: skip
    assert [event for event, subscription in found if subscription == "hourly"] == ["early", "newest", "next"]


def test_a_watermark_behind_match_is_the_users_own(place, spark, tmp_path):
    """``match`` drops nothing for being late; a window over ``event_time`` does, by its watermark."""
    for path in place.incoming.iterdir():
        path.unlink()
    place.feed("1.ndjson", {"id": "a", "x": 1, "time": at(0)}, {"id": "b", "x": 1, "time": at(5)})
    place.feed("2.ndjson", {"id": "newest", "x": 1, "time": at(120)})
    place.feed("3.ndjson", {"id": "late and counted", "x": 1, "time": at(1)})  # Spark drops one micro-batch later
    place.feed("4.ndjson", {"id": "late", "x": 1, "time": at(2)})
    place.feed("5.ndjson", {"id": "end", "x": 1, "time": at(300)})
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(place.incoming))
    found = match(lines, place.set, json="value").withWatermark("event_time", "10 minutes")
    counts = found.groupBy(F.window("event_time", "1 hour")).count()
    with user_errors():
        query = (
            counts.writeStream.format("memory").queryName("hours").outputMode("append")
            .option("checkpointLocation", str(tmp_path / "hours")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
    assert min((row.window.start, row["count"]) for row in spark.table("hours").collect())[1] == 3
    dropped = [o["numRowsDroppedByWatermark"] for p in query.recentProgress for o in p.stateOperators]
    assert sum(dropped) == 1
