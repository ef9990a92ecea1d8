"""Workers that read Parquet files themselves find what they find through Spark's reader, or leave it to Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreign_filters as foreign
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline import jobs
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.match import match, notifications, rejections
from recado.pipeline.readers import read_events
from recado.pipeline.row_groups import Piece, _tasks, find_files, read_pieces
from recado.pipeline.sets import SubscriptionSet
from samples import SCHEMA, pairs


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """A folder of files with many row groups, a set, and the pairs that are right."""
    events, filters = foreign.make(200, 60, seed=19)
    folder = tmp_path_factory.mktemp("foreign")
    table = spark.createDataFrame(events, SCHEMA).toArrow()
    for number in range(3):
        path = folder / f"with blank {number}.parquet"
        pq.write_table(table.slice(20 * number, 20), path, row_group_size=7)
    one = SubscriptionSet(tmp_path_factory.mktemp("set"))
    one.publish(Subscription(f"s{n}", parse(foreign.text(filter))) for n, filter in enumerate(filters))
    return folder, one, sorted(foreign.oracle(events, filters))


@pytest.mark.parametrize("output", ["rows", "nested"])
def test_the_same_notifications(spark, made, output):
    folder, one, right = made
    events = spark.read.parquet(str(folder))
    files = find_files(events)
    assert files.rows == 60
    assert sum(len(piece.groups) for task in files.tasks for piece in task) == 9
    found = match(events, one, output=output, files=files)
    assert pairs(found) == right
    assert "FileScan" not in found._jdf.queryExecution().toString()
    with_event = {"include_event": True, "output": output}
    whole, through_spark = match(events, one, files=files, **with_event), match(events, one, **with_event)
    assert whole.schema == through_spark.schema
    assert rows_of(whole) == rows_of(through_spark)


def rows_of(found):
    """An event's matches have no order."""
    return sorted(map(str, notifications(found).drop("matched_at").collect()))


def test_a_folder_that_is_read_twice(spark, made):
    folder, one, right = made
    events = spark.read.parquet(str(folder), str(folder))
    assert pairs(match(events, one, files=find_files(events))) == pairs(match(events, one)) == sorted(right * 2)


def test_rows_that_are_no_events_and_columns_that_nobody_looked_at(spark, tmp_path):
    pq.write_table(pa.table({"id": ["a", None], "x": [1, 2]}), tmp_path / "a.parquet")
    one = SubscriptionSet(tmp_path / "set")
    one.publish([Subscription("s", parse("x > 0"))])
    events = spark.read.parquet(str(tmp_path / "a.parquet"))
    found = match(events, one, files=find_files(events, ["id", "x"]), bad_rows="keep")
    assert [row.reason for row in rejections(found).collect()] == ["the event has no id: its column id is null"]
    with pytest.raises(PipelineError, match="find_files did not look at the column 'x'"):
        match(events, one, files=find_files(events, ["id"]))
    files = find_files(events)
    (tmp_path / "a.parquet").unlink()
    lost = r"a\.parquet cannot be read: .*it is not there, or not on this executor"
    with pytest.raises(PipelineError, match=lost), user_errors():
        match(events, one, files=files).collect()


def test_what_is_left_to_spark(spark, tmp_path):
    plain = spark.sql("select 'e' id, 1 x, timestamp'2026-01-01' at, 1 part")
    plain.write.parquet(str(tmp_path / "plain"))
    plain.write.partitionBy("part").parquet(str(tmp_path / "parts"))
    spark.sql("select 'e' id, 1.5 x").write.parquet(str(tmp_path / "decimal"))
    spark.sql("select 'e' id, map('k', 1) x").write.parquet(str(tmp_path / "map"))
    spark.sql("select 'e' id, 1 `a.b`").write.parquet(str(tmp_path / "dot"))
    read = spark.read.parquet
    folder = str(tmp_path / "plain")
    assert find_files(read(folder)) is not None
    assert find_files(read(str(tmp_path / "parts"))) is None
    assert find_files(read(str(tmp_path / "parts")), ["id", "x"]).rows == 1  # the folders' column does not count
    for name in ("decimal", "map", "dot"):
        assert find_files(read(str(tmp_path / name))) is None
    assert find_files(read(folder).where("x > 0")) is None
    assert find_files(read(folder).select("id", "x")) is None
    assert find_files(plain) is None
    assert find_files(spark.read.option("mergeSchema", "true").parquet(folder)) is None
    assert find_files(spark.read.schema("id string, x long").parquet(folder)) is None  # Spark widens
    assert find_files(spark.read.schema("id string, y int").parquet(folder)) is None  # Spark makes it null
    assert find_files(spark.readStream.schema("id string, x int").parquet(folder)) is None
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert find_files(read(folder)) is None
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        plain.write.mode("append").parquet(folder)
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    assert find_files(read(folder)) is None
    assert find_files(read(folder), ["id", "x"]).rows == 2
    (tmp_path / "plain" / "part-x.parquet").write_bytes(b"PAR1 damaged")
    assert find_files(read(folder), ["id", "x"]) is None


def test_a_job_takes_the_way_that_is_better(spark, made, tmp_path, monkeypatch):
    folder, one, right = made
    asked = []

    def found(*arguments):
        asked.append(find_files(*arguments))
        return asked[-1]

    monkeypatch.setattr(jobs, "find_files", found)
    for here, calls in ((False, 0), (True, 1)):  # executors elsewhere may not see the files
        monkeypatch.setattr(jobs, "is_here", lambda _, here=here: here)
        summary = jobs.run_match(
            spark, str(one.folder), read_events(spark, str(folder)), tmp_path / "out", overwrite=True
        )
        assert (summary["events"], summary["notifications"]) == (60, len(right))
        assert pairs(spark.read.parquet(str(tmp_path / "out"))) == right
        assert len(asked) == calls
    assert asked[0] is not None


def test_tasks_are_neighbouring_row_groups_up_to_a_size():
    groups = [("a", 0, 10), ("a", 1, 10), ("b", 0, 10), ("b", 1, 70)]
    assert list(_tasks(groups, 1)) == [
        (Piece("a", (0, 1)),),
        (Piece("b", (0,)),),
        (Piece("b", (1,)),),
    ]
    assert list(_tasks([("a", 0, 0), ("b", 0, 0)], 1)) == [(Piece("a", (0,)),), (Piece("b", (0,)),)]
    assert list(_tasks([], 1)) == []


def test_pieces_come_in_batches_of_the_columns_asked_for(tmp_path):
    pq.write_table(pa.table({"x": range(10), "id": list("abcdefghij")}), tmp_path / "a", row_group_size=3)
    batches = list(read_pieces([Piece(str(tmp_path / "a"), (0, 2, 3))], ["id"], 4))
    assert [batch.column("id").to_pylist() for batch in batches] == [["a", "b", "c", "g"], ["h", "i", "j"]]
    assert batches[0].schema.names == ["id"]
    with pytest.raises(PipelineError, match="a cannot be read: "):
        list(read_pieces([Piece(str(tmp_path / "a"), (9,))], ["id"], 4))
