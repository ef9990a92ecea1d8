"""The same on a real session: a batch, and streams that are stopped and resumed."""

import os
from collections import defaultdict
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import lit

from pipeline.constraint_rows import SCHEMA, plain, random_batches
from recado.pipeline.constraints import constrain
from recado.pipeline.errors import PipelineError, user_errors

BATCHES = random_batches(7, batches=3, rows=300)


def frame(spark, rows):
    return spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))


def test_a_batch_is_one_big_micro_batch(spark):
    rows = [row for batch in BATCHES for row in batch]
    notifications = frame(spark, rows)
    found = constrain(notifications, buckets=8, watermark="5 seconds")
    assert found.schema == notifications.schema
    kept = found.toArrow().to_pylist()
    assert sorted(row["event_id"] for row in kept) == plain([rows])[0]
    originals = {row["event_id"]: row for row in rows}
    assert all(row == originals[row["event_id"]] for row in kept)


@pytest.mark.parametrize(
    ("before", "after"), [(str(2**31 - 1), str(16 * 2**20)), ("64m", str(16 * 2**20)), ("1MB", "1MB"), ("4096", "4096")]
)
def test_the_size_of_arrow_batches_is_limited(spark, before, after):
    """Chunks have megabytes; many of them made one batch that the JVM had no memory for."""
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    known = spark.conf.get(name)
    try:
        spark.conf.set(name, before)
        constrain(frame(spark, BATCHES[0][:1]), buckets=8)
        assert spark.conf.get(name) == after
    finally:
        spark.conf.set(name, known)


class Stream:
    """Files that arrive one by one; each is a micro-batch."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.given = spark, folder, defaultdict(list)
        (folder / "in").mkdir()

    def arrive(self, number, rows):
        path = self.folder / "in" / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes the oldest first

    def run(self, **options):
        source = self.spark.readStream.schema(frame(self.spark, BATCHES[0][:1]).schema)
        rows = source.option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        writer = constrain(rows, buckets=8, **options).writeStream.foreachBatch(self._sink)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def _sink(self, found, number):
        ids = [row.event_id for row in found.select("event_id").collect()]
        if ids:  # with a watermark, Spark adds batches without data
            self.given[number] = sorted(ids)


def test_a_stream_remembers_across_a_restart(spark, tmp_path):
    stream = Stream(spark, tmp_path)
    for number in (0, 1):
        stream.arrive(number, BATCHES[number])
    stream.run()
    stream.arrive(2, BATCHES[2])
    stream.run()
    assert list(stream.given.values()) == plain(BATCHES)


def test_a_stream_with_a_watermark(spark, tmp_path):
    stream, newest, watermarks = Stream(spark, tmp_path), None, []
    for number, rows in enumerate(BATCHES[:2]):
        stream.arrive(number, rows)
        watermarks.append(newest and newest - timedelta(seconds=20))
        latest = max(row["event_time"] for row in rows if row["event_time"])
        newest = max(newest or latest, latest)
        newest = newest.replace(microsecond=newest.microsecond // 1000 * 1000)  # Spark's watermark has milliseconds
    stream.run(watermark="20 seconds")
    given = list(stream.given.values())
    assert given == plain(BATCHES[:2], watermarks)
    assert given != plain(BATCHES[:2])


def test_what_cannot_be_constrained_is_told_before_anything_runs(spark):
    rows = frame(spark, BATCHES[0][:1])
    cases = [
        (rows.drop("constraints"), {}, "no column 'constraints'; match() gives it with include_constraints=True"),
        (rows.drop("matched_at"), {}, "no column 'matched_at'"),
        (rows.withColumn("event_time", lit("now")), {}, "'event_time' has the type string; timestamp was expected"),
        (rows.withColumn("connected", lit(1)), {}, "'connected' has the type int; boolean was expected"),
        (rows.withColumn("_bucket", lit(1)), {}, "'_bucket' is needed"),
        (rows, {"buckets": 0}, "0 is no number of buckets"),
        (rows, {"tz": "Mars"}, "'Mars' is not a time zone"),
    ]
    for notifications, options, message in cases:
        with pytest.raises(PipelineError) as caught:
            constrain(notifications, **options)
        assert message in str(caught.value)


def test_a_watermark_that_is_no_length_of_time(spark, tmp_path):
    stream = Stream(spark, tmp_path)
    with pytest.raises(PipelineError, match="'soon' is not a length of time such as '10 minutes'"):
        stream.run(watermark="soon")


def test_constraints_that_cannot_be_read_are_our_error(spark):
    rows = frame(spark, [BATCHES[0][0] | {"constraints": "[7]"}])
    with pytest.raises(PipelineError, match=r"\$.constraints\[0\]: 7 is not an object"), user_errors():
        constrain(rows).collect()


def test_other_state_stores_are_refused(spark):
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    try:
        spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
        with pytest.raises(PipelineError, match="constraints keep their state in RocksDB"):
            constrain(frame(spark, BATCHES[0][:1]))
    finally:
        spark.conf.set(name, before)
