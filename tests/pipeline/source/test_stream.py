"""The stream reader by itself, and as a query that is stopped, restarted, outrun and left behind."""

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.source import lag
from recado.pipeline.source.source import RecadoSource


def reader_of(path, **options):
    source = RecadoSource({"path": str(path), **{name: str(value) for name, value in options.items()}})
    return source.streamReader(source.schema())


def at(position):
    return {"position": position}


def test_a_stream_begins_where_the_options_say(logs):
    path = logs.make(logs.sales(57), sealed=33)
    accepted = [row["accepted_at"] for row in logs.rows(path)]
    starts = [{}, {"startingPosition": "latest"}, {"startingPosition": 7}, {"startingTime": accepted[40].isoformat()}]
    assert [reader_of(path, **start).initialOffset() for start in starts] == [at(0), at(57), at(7), at(37)]


def test_a_limit_is_kept_and_everything_is_everything(logs):
    reader = reader_of(logs.make(logs.sales(57), sealed=33), maxRowsPerBatch=20)
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert reader.latestOffset(at(0), ReadMaxRows(20)) == at(20)
    assert reader.latestOffset(at(40), ReadMaxRows(20)) == at(57)
    assert reader.latestOffset(at(0), ReadAllAvailable()) == at(57)
    assert reader.latestOffset(at(50), ReadMinRows(8)) == at(50)
    assert reader.latestOffset(at(50), ReadMinRows(7)) == at(57)
    assert reader.reportLatestOffset() == at(57)
    assert reader_of(logs.folder / "log").getDefaultReadLimit() == ReadAllAvailable()


def test_what_is_available_now_ends_where_the_log_ended(logs):
    path = logs.make(logs.sales(10))
    reader = reader_of(path)
    reader.prepareForTriggerAvailableNow()
    with logs.writer(path) as log:
        log.append(logs.sales(5, start=10))
    assert reader.latestOffset(at(0), ReadAllAvailable()) == at(10)
    assert reader.latestOffset(at(10), ReadAllAvailable()) == at(10)
    assert reader.reportLatestOffset() == at(15)


def test_an_ending_position_ends_the_stream(logs):
    reader = reader_of(logs.make(logs.sales(20)), endingPosition=12)
    assert reader.latestOffset(at(0), ReadAllAvailable()) == at(12)
    assert reader.latestOffset(at(12), ReadAllAvailable()) == at(12)


def test_partitions_of_a_micro_batch(logs):
    reader = reader_of(logs.make(logs.sales(57), sealed=50), rowsPerPartition=20)
    assert [part.value for part in reader.partitions(at(5), at(57))] == [(5, 20), (20, 40), (40, 57)]
    assert reader.partitions(at(5), at(5)) == []


def test_a_checkpoint_ahead_of_the_log_is_an_error(logs):
    reader = reader_of(logs.make(logs.sales(10)))
    with pytest.raises(PipelineError) as caught:
        reader.latestOffset(at(500), ReadAllAvailable())
    assert "the stream has read up to position 500, and the log" in str(caught.value)
    assert "ends at 10: is it another log?" in str(caught.value)


class Run:
    """Queries over one log with one checkpoint; what each micro-batch read is kept."""

    def __init__(self, spark, logs, path, **options):
        self.stream = spark.readStream.format("recado").options(**options).load(str(path))
        self.checkpoint = str(logs.folder / "checkpoint")
        self.batches = []

    def now(self):
        """Read what is there, and return the progress of every micro-batch."""
        writer = self.stream.select("position").writeStream.foreachBatch(self._collect)
        query = writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        try:
            with user_errors():
                query.awaitTermination(280)
        finally:
            query.stop()
        return [json.loads(progress.json) for progress in query.recentProgress]

    def _collect(self, rows, number):
        self.batches.append([row["position"] for row in rows.collect()])


def test_every_position_once_across_restarts_sealing_and_retention(spark, logs):
    path = logs.make(logs.sales(30))
    run = Run(spark, logs, path, maxRowsPerBatch=20)
    progress = run.now()
    assert [len(batch) for batch in run.batches] == [20, 10]
    assert [one["numInputRows"] for one in progress if one["numInputRows"]] == [20, 10]
    assert [lag(one) for one in progress if one["numInputRows"]] == [10, 0]
    assert progress[0]["sources"][0]["latestOffset"] == at(30)

    with logs.writer(path) as log:
        log.append(logs.sales(15, start=30))
        log.seal(force=True)  # 45 rows in segments of 10
    logs.expire(path, keep=2)  # only what was read already is gone
    run.now()
    assert [position for batch in run.batches for position in batch] == list(range(45))

    with logs.writer(path) as log:
        log.append(logs.sales(20, start=45))
        log.seal(force=True)
    logs.expire(path, keep=1)
    with pytest.raises(PipelineError) as caught:
        run.now()
    assert "the positions 45 to 54 of the log" in str(caught.value)
    assert "set failOnDataLoss=false to go on from position 55" in str(caught.value)

    lenient = Run(spark, logs, path, failOnDataLoss="false")
    lenient.now()
    assert lenient.batches == [list(range(55, 65))]


def test_a_stream_follows_a_log_that_grows_and_damage_does_not_stop_it(spark, logs):
    path = logs.make(logs.sales(20), sealed=20)
    logs.damage(path, 0)
    stream = spark.readStream.format("recado").option("damage", "rows").load(str(path))
    query = stream.select("position", "damage").writeStream.format("memory").queryName("growing").start()
    try:
        query.processAllAvailable()
        with logs.writer(path) as log:
            log.append(logs.sales(5, start=20))
        query.processAllAvailable()
        assert lag(query.lastProgress) == 0
        rows = spark.table("growing").collect()
    finally:
        query.stop()
    assert sorted(row["position"] for row in rows) == list(range(25))
    assert sorted(row["position"] for row in rows if row["damage"]) == list(range(10))
