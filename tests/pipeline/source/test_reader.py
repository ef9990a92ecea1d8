"""Planning and reading ranges, without Spark around it."""

import logging
import pickle
import sqlite3
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark

from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import default_schema
from recado.pipeline.source.reader import LogRange, split
from recado.pipeline.source.source import RecadoSource
from recado.store.log import LogError, LogReader, SqliteEventLog


def reader_of(path, **options):
    source = RecadoSource(
        {"path": str(path), "pushDown": "true", **{name: str(value) for name, value in options.items()}}
    )
    return source.reader(source.schema())


def planned(reader):
    return [part.value for part in reader.partitions()]


def read(reader):
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def positions(reader):
    return [row["position"] for row in read(reader)]


def test_all_rows_as_the_log_reader_has_them(logs):
    path = logs.make(logs.sales(57), sealed=33)
    assert read(reader_of(path)) == logs.rows(path)
    assert read(reader_of(path, rowsPerPartition=7)) == logs.rows(path)


def test_an_empty_log_is_one_empty_partition(logs):
    assert planned(reader_of(logs.make())) == [(0, 0)]
    assert read(reader_of(logs.folder / "log")) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(57)),
        ({"startingPosition": "earliest"}, range(57)),
        ({"startingPosition": "latest"}, range(0)),
        ({"startingPosition": 30, "endingPosition": 40}, range(30, 40)),
        ({"startingPosition": 50, "endingPosition": 1000}, range(50, 57)),
        ({"startingPosition": 1000}, range(0)),
        ({"startingTime": "2026-01-01T00:00:00Z"}, range(57)),
        ({"startingTime": "2026-01-02T00:00:00Z"}, range(0)),
        ({"where": "type == rent"}, range(1, 57, 2)),
        ({"where": "price < 2"}, range(4)),
    ],
)
def test_options_name_the_range_and_the_events(logs, options, expected):
    path = logs.make(logs.sales(57), sealed=33)
    assert positions(reader_of(path, **options)) == list(expected)


def test_a_starting_time_begins_at_the_first_event_accepted_then(logs):
    path = logs.make(logs.sales(57), sealed=33)
    accepted = [row["accepted_at"] for row in logs.rows(path)]
    for n in (0, 20, 33, 56):
        for late in (-1, 0, 1):
            instant = accepted[n] + timedelta(microseconds=late)
            expected = [position for position, when in enumerate(accepted) if when >= instant]
            assert positions(reader_of(path, startingTime=instant.isoformat())) == expected


@pytest.mark.parametrize(
    ("predicates", "bounds"),
    [
        ([spark.GreaterThanOrEqual(("position",), 12), spark.LessThan(("position",), 41)], (12, 41)),
        ([spark.EqualTo(("position",), 3)], (3, 4)),
        ([spark.LessThan(("position",), -5)], (0, 0)),
        ([spark.GreaterThan(("position",), 10**12)], (10**12 + 1, 10**12 + 1)),
    ],
)
def test_predicates_on_the_position_prune(logs, predicates, bounds):
    reader = reader_of(logs.make(logs.sales(57), sealed=33))
    assert reader.pushFilters(predicates) == []
    assert planned(reader) == [bounds]


def test_predicates_on_the_acceptance_prune(logs):
    path = logs.make(logs.sales(57), sealed=33)
    accepted = [row["accepted_at"] for row in logs.rows(path)]
    reader = reader_of(path)
    reader.pushFilters(
        [spark.GreaterThan(("accepted_at",), accepted[9]), spark.LessThanOrEqual(("accepted_at",), accepted[39])]
    )
    assert planned(reader) == [(accepted.index(accepted[9]), 57 - accepted[::-1].index(accepted[39]))]
    assert planned(reader)[0][1] - planned(reader)[0][0] < 40


def test_predicates_on_the_event_time_leave_out_segments(logs):
    path = logs.make(logs.sales(57), sealed=50)
    times = [row["time"] for row in logs.rows(path)]
    reader = reader_of(path)
    assert reader.pushFilters([spark.GreaterThan(("time",), times[14]), spark.LessThan(("time",), times[18])]) == []
    for number in (0, 2, 3, 4):
        LogReader(path).segments()[number].path.unlink()  # whoever looks there fails
    assert positions(reader) == [15, 16, 17]


def test_predicates_are_taken_only_on_request(logs):
    source = RecadoSource({"path": str(logs.make(logs.sales(5)))})
    assert type(source.reader(source.schema())).pushFilters is spark.DataSourceReader.pushFilters


def test_partitions_end_where_segments_end_if_that_is_near(logs):
    path = logs.make(logs.sales(57), sealed=50)  # segments of 10
    segments = LogReader(path).segments()
    assert [part.value for part in split(0, 57, 25, segments)] == [(0, 20), (20, 40), (40, 57)]
    assert [part.value for part in split(3, 31, 12, segments)] == [(3, 10), (10, 20), (20, 31)]
    assert [part.value for part in split(0, 10, 4, segments)] == [(0, 4), (4, 8), (8, 10)]
    assert split(5, 5, 10, segments) == []
    assert [part.value for part in split(0, 5, 2)] == [(0, 2), (2, 4), (4, 5)]


def test_rows_found_in_the_tail_when_planned_may_be_sealed_when_read(logs):
    path = logs.make(logs.sales(30))
    reader = reader_of(path, rowsPerPartition=8)
    parts = reader.partitions()
    with logs.writer(path) as log:
        log.append(logs.sales(5, start=30))
        log.seal(force=True)
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["position"] for row in rows] == list(range(30))


# -- damage ------------------------------------------------------------------------------------------------------------


def test_damage_fails_by_position(logs):
    path = logs.make(logs.sales(57), sealed=50)
    logs.damage(path, 2)
    with pytest.raises(LogError) as caught:
        read(reader_of(path))
    assert "positions 20 to 29 cannot be read" in str(caught.value)
    assert "damage=skip or damage=rows reads the rest" in str(caught.value)


def test_damage_skipped_is_logged_by_position(logs, caplog):
    path = logs.make(logs.sales(57), sealed=50)
    logs.damage(path, 2)
    with caplog.at_level(logging.WARNING):
        assert positions(reader_of(path, damage="skip")) == [*range(20), *range(30, 57)]
    assert "positions 20 to 29 cannot be read" in caplog.text


def test_damage_as_rows_keeps_every_position_once_in_order(logs):
    path = logs.make(logs.sales(57), sealed=50)
    logs.damage(path, 2)
    rows = read(reader_of(path, damage="rows", rowsPerPartition=12))
    assert [row["position"] for row in rows] == list(range(57))
    assert [row["position"] for row in rows if row["damage"] is not None] == list(range(20, 30))
    assert {row["event"] for row in rows[20:30]} == {None}
    assert all(row["damage"] is None and row["event"] for row in rows[:20] + rows[30:])


def test_rows_that_tell_of_damage_are_left_for_spark_to_judge(logs):
    path = logs.make(logs.sales(57), sealed=50)
    logs.damage(path, 2)
    reader = reader_of(path, damage="rows")
    wanted = [spark.EqualTo(("type",), "sale"), spark.GreaterThan(("position",), 15)]
    assert reader.pushFilters(wanted) == wanted[:1]
    assert positions(reader) == [16, 18, *range(20, 30), *range(30, 57, 2)]


def test_damage_in_the_tail_is_one_row(logs):
    path = logs.make(logs.sales(20))
    with sqlite3.connect(path / "tail.sqlite") as tail:
        tail.execute("UPDATE tail SET event = '{}' WHERE position = 7")
    tail.close()
    rows = read(reader_of(path, damage="rows"))
    assert [row["position"] for row in rows if row["damage"]] == [7]
    assert len(rows) == 20


def test_a_starting_time_after_damage_includes_it(logs):
    path = logs.make(logs.sales(57), sealed=50)
    accepted = [row["accepted_at"] for row in logs.rows(path)]
    logs.damage(path, 2)
    with pytest.raises(LogError, match="positions 20 to 29"):
        positions(reader_of(path, startingTime=accepted[25].isoformat()))
    assert positions(reader_of(path, startingTime=accepted[25].isoformat(), damage="rows")) == list(range(20, 57))
    assert positions(reader_of(path, startingTime=accepted[25].isoformat(), damage="skip")) == list(range(30, 57))
    assert positions(reader_of(path, startingTime=accepted[40].isoformat(), damage="skip"))[0] <= 40


def test_a_tail_that_has_lost_its_end_is_read_as_far_as_it_is_known(logs):
    path = logs.make(logs.sales(20))
    with sqlite3.connect(path / "tail.sqlite") as tail:
        tail.execute("UPDATE state SET next = 7")
    tail.close()
    with pytest.raises(LogError, match="damaged"):
        positions(reader_of(path))
    assert positions(reader_of(path, damage="skip")) == list(range(20))


def test_the_schema_of_damage_rows_has_one_column_more(logs):
    source = RecadoSource({"path": str(logs.make()), "damage": "rows"})
    assert source.schema() == default_schema(True)
    assert source.schema().fieldNames()[-1] == "damage"


# -- what has expired --------------------------------------------------------------------------------------------------


def test_a_start_that_has_expired_is_an_error_or_passed_over(logs):
    path = logs.make(logs.sales(57), sealed=50)
    logs.expire(path, keep=2)
    assert positions(reader_of(path)) == list(range(30, 57))
    with pytest.raises(PipelineError) as caught:
        read(reader_of(path, startingPosition=5))
    assert "the positions 5 to 29 of the log" in str(caught.value)
    assert "set failOnDataLoss=false to go on from position 30" in str(caught.value)
    assert positions(reader_of(path, startingPosition=5, failOnDataLoss="false")) == list(range(30, 57))


def test_what_expires_between_planning_and_reading_is_noticed(logs):
    path = logs.make(logs.sales(57), sealed=50)
    strict, lenient = reader_of(path), reader_of(path, failOnDataLoss="false")
    parts = strict.partitions()
    logs.expire(path, keep=2)
    with pytest.raises(PipelineError, match="have expired"):
        list(strict.read(parts[0]))
    found = pa.Table.from_batches(list(lenient.read(parts[0])))
    assert found.column("position").to_pylist() == list(range(30, 57))


def test_a_range_travels_as_it_is():
    part = pickle.loads(pickle.dumps(LogRange(3, 9)))
    assert (part.start, part.end) == (3, 9)


def test_a_missing_log_is_told_at_once(tmp_path):
    with pytest.raises(LogError, match="there is no event log in"):
        RecadoSource({"path": str(tmp_path)}).schema()
    SqliteEventLog.open(tmp_path).close()
    assert RecadoSource({"path": str(tmp_path)}).schema().fieldNames()[0] == "position"
