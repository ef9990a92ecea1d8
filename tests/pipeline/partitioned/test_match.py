"""Partitions on a real session give what one index gives: the same rows, the same columns, the same refusals."""

import json
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.match import NOTIFICATION_FIELDS, match, notifications, rejections
from recado.pipeline.partitioned import PartitionedSet, build_partitions, match_partitioned
from recado.pipeline.sets import SubscriptionSet
from samples import EVENTS, SUBSCRIPTIONS, expected, pairs

PARTITIONS = 5


def random_filter(rng):
    """Skewed: half of the filters ask for one value. Every shape that a routing key can or cannot be read off."""
    k = rng.choice([1, 1, 1, rng.randrange(2, 30)])
    other = rng.randrange(30)
    return rng.choice(
        [
            f"k == {k}",
            f"k == {k} and price between {other} and {other + 4}",
            f'symbol == "S{other}" and price > {other}',
            f"k == {k} or symbol == 'S{other}'".replace("'", '"'),
            f"k in {{{k}, {other}, 31}}",
            f"not k == {k}",
            f"price >= {other} and price < {other + 2} and not k == {k}",
            f'symbol startswith "S{other % 10}"',
            f'tags == "t{other % 7}" and tags != "t1"',
            "exists tags",
            "true",
        ]
    )


def random_lines(seed, count):
    rng = random.Random(seed)
    for number in range(count):
        record = {"id": f"s{number}", "filter": random_filter(rng), "owner": f"user:{number % 3}"}
        if number % 4 == 0:
            record["type"] = rng.choice(["trade", "quote", "tr*"])
        yield json.dumps(record)


def random_rows(seed, count):
    rng = random.Random(seed)
    for number in range(count):
        tags = [f"t{rng.randrange(7)}" for _ in range(rng.randrange(3))]
        kind = rng.choice(["trade", "quote", None])
        yield f"e{number}", kind, rng.choice([1, rng.randrange(32)]), rng.randrange(32), f"S{rng.randrange(30)}", tags


@pytest.fixture(scope="module")
def lines():
    return list(random_lines(1, 400))


@pytest.fixture(scope="module")
def held(spark, lines, tmp_path_factory):
    frame = spark.createDataFrame([(line,) for line in lines], "value string")
    return build_partitions(frame, tmp_path_factory.mktemp("partitioned") / "set", partitions=PARTITIONS)


@pytest.fixture(scope="module")
def whole(lines, tmp_path_factory):
    one = SubscriptionSet(tmp_path_factory.mktemp("one"))
    one.publish(map(read_subscription, lines))
    return one


@pytest.fixture(scope="module")
def rows(spark):
    schema = StructType(
        [
            StructField("id", StringType()),
            StructField("type", StringType()),
            StructField("k", LongType()),
            StructField("price", LongType()),
            StructField("symbol", StringType()),
            StructField("tags", ArrayType(StringType())),
        ]
    )
    return spark.createDataFrame(list(random_rows(2, 120)), schema)


def everything(frame):
    return sorted(map(str, frame.drop("matched_at").collect()))


def test_each_subscription_lives_in_one_partition(held, lines):
    ids = [id for part in held.manifest.parts for id in held.load(part.number).column("id").to_pylist()]
    assert sorted(ids) == sorted(json.loads(line)["id"] for line in lines)
    assert held.subscriptions == len(lines)
    sizes = [part.subscriptions for part in held.manifest.parts]
    assert max(sizes) <= 1.6 * len(lines) / PARTITIONS


def test_typed_columns_with_arrays_give_what_one_index_gives(rows, held, whole):
    options = {"include_event": True, "include_constraints": True}
    found = match_partitioned(rows, held, **options)
    single = match(rows, whole, **options)
    assert found.schema == single.schema
    assert everything(found) == everything(single)
    assert found.count() > 1_000


def test_one_row_an_event_and_partition(rows, held, whole):
    found = match_partitioned(rows, held, output="nested", include_event=True)
    single = match(rows, whole, include_event=True)
    assert found.count() < single.count() / 3
    assert everything(notifications(found)) == everything(single)
    with pytest.raises(PipelineError, match="it has no ordinals"):
        match_partitioned(rows, held, output="ordinals")


def test_several_tasks_may_share_a_partition(rows, held, lines):
    events = [read_event(row[0]) for row in rows.select(F.to_json(F.struct("*"))).collect()]
    found = match_partitioned(rows, str(held.folder), tasks_per_partition=2, keep_open=1)
    assert tuple(found.columns) == NOTIFICATION_FIELDS
    assert pairs(found) == expected(events, [read_subscription(line) for line in lines])


def test_the_sample(spark, tmp_path):
    held = build_partitions(spark.read.text(SUBSCRIPTIONS), tmp_path / "set", max_subscriptions=20)
    assert len(held.manifest.parts) > 1
    assert pairs(match_partitioned(spark.read.text(EVENTS), held, json="value")) == expected()


def test_rows_that_are_no_events_are_refused_once_and_alike(spark, held, whole):
    long = list(range(300))
    table = pa.table(
        {
            "id": ["good", None, "long"],
            "k": pa.array([1, 1, 1], pa.int64()),
            "symbol": ["S1", "S1", "S1"],
            "tags": pa.array([["t0"], ["t0"], list(map(str, long))], pa.list_(pa.string())),
        }
    )
    events = spark.createDataFrame(table)
    found = match_partitioned(events, held, bad_rows="keep")
    single = match(events, whole, bad_rows="keep")
    assert everything(notifications(found)) == everything(notifications(single))
    assert everything(rejections(found)) == everything(rejections(single))
    assert rejections(found).count() == 2
    with pytest.raises(PipelineError, match=r"the column id is null|elements; the limit|has no id"), user_errors():
        match_partitioned(events, held).collect()


def test_events_that_nothing_can_match_go_nowhere(spark, tmp_path):
    frame = spark.createDataFrame([(f"s{n}", f"x == {n}") for n in range(40)], "id string, filter string")
    held = build_partitions(frame, tmp_path / "set", partitions=4)
    events = spark.createDataFrame([("a", 7), ("b", 99), ("c", None)], "id string, x long")
    assert pairs(match_partitioned(events, held)) == [("a", "s7")]
    assert pairs(match_partitioned(events.where("id != 'a'"), held)) == []
    assert pairs(match_partitioned(events.limit(0), held)) == []


def test_names_with_dots_and_backticks_travel_too(spark, tmp_path):
    frame = spark.createDataFrame([("deep", "data.level > 1"), ("odd", "x == 1")], "id string, filter string")
    held = build_partitions(frame, tmp_path / "set", partitions=2)
    events = spark.createDataFrame([("a", 1, 0, "o"), ("b", 0, 3, "o"), (None, 1, 3, "o")]).toDF(
        "id", "x", "data.level", "o`dd"
    )
    found = match_partitioned(events, held, include_event=True, bad_rows="keep")
    assert pairs(notifications(found)) == [("a", "odd"), ("b", "deep")]
    assert {tuple(row.event) for row in notifications(found).collect()} == {("a", 1, 0, "o"), ("b", 0, 3, "o")}
    assert notifications(found).schema["event"].dataType.names == ["id", "x", "data.level", "o`dd"]
    assert [json.loads(row.row)["data.level"] for row in rejections(found).collect()] == [3]


def test_what_has_expired_is_left_out(spark, tmp_path):
    records = [("old", "x == 1", datetime(2026, 1, 1, tzinfo=UTC)), ("new", "x == 1", None)]
    frame = spark.createDataFrame(records, "id string, filter string, expires_at timestamp")
    held = build_partitions(frame, tmp_path / "set", partitions=2)
    assert held.manifest.expiring == 1
    times = [datetime(2025, 12, 31, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    events = spark.createDataFrame([("a", 1, times[0]), ("b", 1, times[1])], "id string, x long, time timestamp")
    assert pairs(match_partitioned(events, held)) == [("a", "new"), ("a", "old"), ("b", "new")]


def test_a_stream_takes_the_same_way(spark, rows, held, whole, tmp_path):
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    query = (
        match_partitioned(stream, held)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(280)
    assert pairs(spark.read.parquet(str(tmp_path / "out"))) == pairs(match(rows, whole))


def test_options_that_make_no_sense_are_refused(rows, held):
    with pytest.raises(PipelineError, match="at least 1"):
        match_partitioned(rows, held, keep_open=0)
    with pytest.raises(PipelineError, match="is no partitioned set"):
        match_partitioned(rows, held.folder / "partition-00000")
    with pytest.raises(PipelineError, match="need a column 'id'"):
        match_partitioned(rows.drop("id"), held)


def test_the_router_holds_what_the_partitions_tell(held):
    assert PartitionedSet.is_one(held.folder)
    router = held.load_router()
    assert len(router.index) == sum(part.keys for part in held.manifest.parts) + 1  # and one that knows the names
    assert set(held.manifest.names) == {"k", "price", "symbol", "tags", "type"} == set(router.index.dictionary.names)
