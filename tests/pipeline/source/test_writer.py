"""Appending from Spark: staging, one commit, and what happens when either fails."""

import os
import time

import pyarrow as pa
import pytest
from pyspark.sql.functions import col, expr

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.source import source as writing
from recado.pipeline.source.columns import LOG_COLUMNS
from recado.pipeline.source.source import RecadoSource
from recado.store.log import BusyError, LogReader


def writer_of(path, streaming=False, **options):
    source = RecadoSource({"path": str(path), **{name: str(value) for name, value in options.items()}})
    return (source.streamWriter if streaming else source.writer)(LOG_COLUMNS, False)


def batches(*ids):
    yield pa.table({"event": [f'{{"id": "{id}", "n": 1}}' for id in ids]}).to_batches()[0]


def ids(logs, path):
    return [row["id"] for row in logs.rows(path)]


def staged_files(path):
    return list((path / "staging").glob("*"))


def test_a_job_appends_in_the_order_of_its_partitions_and_leaves_no_files(logs):
    path = logs.folder / "new"
    writer = writer_of(path)
    late, early = writer.write(batches("3", "4")), writer.write(batches("1", "2"))
    assert len(staged_files(path)) == 2
    writer.commit([early, late])
    assert ids(logs, path) == ["1", "2", "3", "4"]
    assert staged_files(path) == []


def test_an_aborted_job_appends_nothing_and_leaves_no_files(logs):
    path = logs.make(logs.sales(1))
    writer, other = writer_of(path), writer_of(path)
    kept = other.write(batches("2"))
    done, _killed = writer.write(batches("1")), writer.write(batches("3"))
    writer.abort([done, None])
    assert ids(logs, path) == ["e-0"]
    assert [str(file) for file in staged_files(path)] == [kept.path]
    stream = writer_of(path, streaming=True)
    stream.abort([stream.write(batches("4"))], 1)
    assert [str(file) for file in staged_files(path)] == [kept.path]


def test_a_task_that_fails_removes_its_file(logs):
    path = logs.make()
    with pytest.raises(Exception, match="row 2 of a partition"):
        writer_of(path).write(iter(pa.table({"event": ['{"id": "1"}', "{}"]}).to_batches()))
    assert staged_files(path) == []


def test_a_staged_file_that_is_not_whole_stops_the_commit_before_any_append(logs):
    path = logs.make()
    writer = writer_of(path)
    good, bad = writer.write(batches("1")), writer.write(batches("2"))
    os.truncate(bad.path, 3)
    with pytest.raises(PipelineError, match="must share the log's folder"):
        writer.commit([good, bad])
    assert ids(logs, path) == []


def test_a_repeated_micro_batch_appends_the_same_ids_again(logs):
    path = logs.make()
    writer = writer_of(path, streaming=True)
    for _ in range(2):
        writer.commit([writer.write(batches("1", "2"))], 7)
    assert ids(logs, path) == ["1", "2", "1", "2"]


def test_an_empty_micro_batch_does_not_even_open_the_log(logs):
    path = logs.make()
    writer = writer_of(path, streaming=True, lockSeconds=0)
    with logs.writer(path):
        writer.commit([writer.write(iter([]))], 0)
    assert staged_files(path) == []


def test_another_writer_is_waited_for_and_then_named(logs, monkeypatch):
    path = logs.make()
    message = writer_of(path).write(batches("1"))
    with logs.writer(path) as log:
        with pytest.raises(BusyError, match="has a writer already"):
            writer_of(path, lockSeconds=0).commit([message])
        monkeypatch.setattr(writing.time, "sleep", lambda _: log.close())
        writer_of(path, lockSeconds=60).commit([message])
    assert ids(logs, path) == ["1"]


def test_what_killed_tasks_left_is_swept_a_day_later(logs):
    path = logs.make()
    writer = writer_of(path)
    old, young = writer.write(batches("old")), writer.write(batches("young"))
    os.utime(old.path, (time.time() - 2 * 86400,) * 2)
    writer.commit([writer.write(batches("1"))])
    assert [str(file) for file in staged_files(path)] == [young.path]


def test_large_jobs_are_appended_in_pieces(logs, monkeypatch):
    monkeypatch.setattr(writing, "APPEND_ROWS", 2)
    path = logs.make()
    writer = writer_of(path)
    writer.commit([writer.write(batches("1", "2", "3")), writer.write(batches("4", "5"))])
    assert ids(logs, path) == ["1", "2", "3", "4", "5"]


def test_a_table_is_written_and_read_back(spark, logs):
    path = logs.folder / "log"
    table = spark.range(6).select(
        expr("concat('e-', id)").alias("id"),
        expr("if(id % 2 = 0, 'even', null)").alias("type"),
        expr("timestamp'2026-01-01 12:00:00'").alias("time"),
        expr("if(id = 3, null, id * 0.5D)").alias("price"),
        expr("named_struct('level', id, 'tags', array('x', 'y'))").alias("data"),
    )
    table.coalesce(2).write.format("recado").mode("append").save(str(path))
    rows = {row["id"]: row["event"] for row in logs.rows(path)}
    assert list(rows) == [f"e-{n}" for n in range(6)]
    assert rows["e-2"] == (
        '{"id":"e-2","type":"even","time":"2026-01-01T12:00:00Z","price":1.0,"data.level":2,"data.tags":["x","y"]}'
    )
    assert "price" not in rows["e-3"]
    asked = "id string, price double, `data.level` long, `data.tags` array<string>"
    back = spark.read.format("recado").schema(asked).load(str(path)).where("id = 'e-5'").collect()
    assert [tuple(row) for row in back] == [("e-5", 2.5, 5, ["x", "y"])]

    bad = table.withColumn("id", expr("if(price > 2, null, id)"))
    with pytest.raises(PipelineError) as caught, user_errors():
        bad.write.format("recado").mode("append").save(str(path))
    assert "$.id: the event has no id" in str(caught.value)
    with pytest.raises(PipelineError, match="a log is only ever appended to"), user_errors():
        table.write.format("recado").mode("overwrite").save(str(path))
    assert len(logs.rows(path)) == 6


def test_a_stream_from_log_to_log_repeats_a_micro_batch_with_the_same_ids(spark, logs):
    source, target = logs.make(logs.sales(8), name="source"), logs.folder / "target"
    checkpoint = logs.folder / "checkpoint"

    def run():
        stream = spark.readStream.format("recado").option("maxRowsPerBatch", 5).load(str(source))
        written = stream.where(col("type") == "sale").writeStream.format("recado").trigger(availableNow=True)
        written.option("checkpointLocation", str(checkpoint)).start(str(target)).awaitTermination(280)

    run()
    assert ids(logs, target) == ["e-0", "e-2", "e-4", "e-6"]
    (checkpoint / "commits" / "1").unlink()  # the driver died after the append, before it could note that
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    assert ids(logs, target) == ["e-0", "e-2", "e-4", "e-6", "e-6"]
    assert LogReader(target).extent().end == 5
