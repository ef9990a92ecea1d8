"""``match`` on a real session: every form of events gives what the oracle gives."""

import gc
import os
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from recado.filters.expression import parse
from recado.model.codec import write_cloudevent
from recado.model.subscription import Subscription
from recado.pipeline import worker
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.match import NOTIFICATION_FIELDS, as_set, match, notifications, rejections
from recado.pipeline.sets import SubscriptionSet
from samples import EVENTS, SUBSCRIPTIONS, events, expected, pairs, subscriptions

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def sample_set(tmp_path_factory):
    subscription_set = SubscriptionSet(tmp_path_factory.mktemp("set"))
    subscription_set.publish(subscriptions())
    return subscription_set


@pytest.fixture(scope="module")
def texts(spark):
    return spark.read.text(EVENTS)


@pytest.fixture
def small_set(tmp_path):
    subscription_set = SubscriptionSet(tmp_path / "set")
    subscription_set.publish([Subscription("positive", parse("x > 0"), owner="ana")])
    return subscription_set


def test_json_rows_and_subscriptions_from_a_dataframe(spark, texts):
    found = match(texts, spark.read.text(SUBSCRIPTIONS), json="value")
    assert tuple(found.columns) == NOTIFICATION_FIELDS
    assert pairs(found) == expected()


def test_variant_rows(texts, sample_set):
    variants = texts.select(F.parse_json("value").alias("event"))
    assert pairs(match(variants, sample_set, variant="event")) == expected()


def test_cloudevents_rows(spark, sample_set):
    whole = [e for e in events() if e.type and e.source]
    frame = spark.createDataFrame([(write_cloudevent(e).decode(),) for e in whole], "value string")
    names = "id string, source string, type string, time string, subject string, datacontenttype string, data string"
    rows = frame.select(F.from_json("value", names).alias("c")).select("c.*")
    extensions = {name for e in whole for name in e.extensions}
    assert not extensions  # or the columns above would have to name them
    assert pairs(match(rows, sample_set, cloudevents=True)) == expected(whole)


def test_typed_columns_with_the_event(spark, tmp_path):
    rows = [("a", "quote", NOON, 20.0, ["x", "y"]), ("b", "quote", None, None, None), ("c", "news", NOON, 30.0, ["y"])]
    frame = spark.createDataFrame(rows, "id string, type string, time timestamp, Price double, tags array<string>")
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([
        Subscription("cheap", parse("Price < 25"), "quote", "ana"),
        Subscription("tagged", parse('tags == "y"'), owner="rui"),
        Subscription("every", parse("true")),
    ])  # fmt: skip
    found = match(frame, subscription_set, include_event=True)
    got = {(r.event_id, r.subscription_id): r for r in found.collect()}
    assert sorted(got) == [
        ("a", "cheap"),
        ("a", "every"),
        ("a", "tagged"),
        ("b", "every"),
        ("c", "every"),
        ("c", "tagged"),
    ]
    assert got["a", "cheap"].owner == "ana"
    assert got["a", "cheap"].event_time == NOON.replace(tzinfo=None)
    assert got["b", "every"].event_time is None
    assert got["c", "tagged"].event.tags == ["y"]
    assert {r.matched_at for r in got.values()} == {got["a", "cheap"].matched_at}


def test_only_what_filters_name_travels(spark, small_set):
    frame = spark.createDataFrame([("a", 1, "long" * 1000)], "id string, x long, payload string")
    plan = match(frame, small_set)._jdf.queryExecution().optimizedPlan().toString()
    assert "payload" not in plan.partition("MapInArrow")[2].partition("\n")[2].splitlines()[0]
    assert pairs(match(frame, small_set)) == [("a", "positive")]


def test_names_with_dots_spaces_and_quotes(spark, tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([Subscription("odd", parse("`temperatura média` > 20 and `a.b` == 1 and `c\\`d` == 2"))])
    frame = spark.createDataFrame([("e", 21.5, 1, 2)], "id string, `temperatura média` double, `a.b` int, `c``d` int")
    assert pairs(match(frame, subscription_set)) == [("e", "odd")]


def test_decimals_compare_as_their_literals_do(spark, tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish(
        [Subscription("exact", parse("Price == 24.9")), Subscription("low", parse("Price < 24.9"))]
    )
    frame = spark.sql("select 'e' as id, cast(24.90 as decimal(24, 2)) as Price")
    assert pairs(match(frame, subscription_set)) == [("e", "exact")]


def test_what_has_expired_is_not_notified(spark, tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    now = datetime.now(UTC)
    subscription_set.publish([
        Subscription("until noon", parse("x > 0"), expires_at=NOON),
        Subscription("over", parse("x > 0"), expires_at=now - timedelta(days=1)),
        Subscription("open", parse("x > 0")),
    ])  # fmt: skip
    rows = [("before", 1, NOON - timedelta(seconds=1)), ("at", 1, NOON), ("timeless", 1, None)]
    found = pairs(match(spark.createDataFrame(rows, "id string, x int, time timestamp"), subscription_set))
    assert ("before", "until noon") in found
    assert ("at", "until noon") not in found
    assert ("timeless", "over") not in found
    assert [p for p in found if p[1] == "open"] == [("at", "open"), ("before", "open"), ("timeless", "open")]


def test_bad_rows_are_kept_with_their_reason_or_end_the_job(spark, texts, sample_set):
    mixed = texts.unionByName(spark.createDataFrame([("{bad",), (None,)], "value string"))
    found = match(mixed, sample_set, json="value", bad_rows="keep")
    assert pairs(notifications(found)) == expected()
    bad = {row.row: row.reason for row in rejections(found).collect()}
    assert "malformed" in bad["{bad"]
    assert "null" in bad[""]
    with pytest.raises(PipelineError, match=r"row \d+ of a batch: "), user_errors():
        match(mixed, sample_set, json="value").collect()


@pytest.mark.long  # that it comes in pieces is in test_output.py, with few
def test_one_event_may_match_very_many(spark, tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    positive = parse("x > 0")
    subscription_set.publish(Subscription(f"s{n}", positive) for n in range(70_000))
    frame = spark.createDataFrame([("e", 1)], "id string, x int")
    found = match(frame, subscription_set)
    assert found.count() == 70_000
    assert found.select("subscription_id").distinct().count() == 70_000


def test_one_enormous_row_is_rejected_and_the_others_matched(spark, small_set):
    rows = [("a", '{"id": "a", "x": 1}'), ("b", '{"id": "b", "x": "' + "y" * 5_000_000 + '"}')]
    frame = spark.createDataFrame(rows, "n string, value string").select("value")
    found = match(frame, small_set, json="value", bad_rows="keep")
    assert pairs(notifications(found)) == [("a", "positive")]
    assert "limit" in rejections(found).collect()[0].reason


def test_empty_input_and_no_subscriptions(spark, tmp_path, small_set):
    empty = spark.createDataFrame([], "id string, x long")
    assert match(empty, small_set).collect() == []
    nobody = SubscriptionSet(tmp_path / "nobody")
    nobody.publish([])
    assert match(spark.createDataFrame([("a", 1)], "id string, x long"), nobody).collect() == []


def test_a_null_is_absent(spark, tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([Subscription("absent", parse("not exists x")), Subscription("there", parse("exists x"))])
    frame = spark.createDataFrame([("a", None), ("b", 1)], "id string, x long")
    assert pairs(match(frame, subscription_set)) == [("a", "absent"), ("b", "there")]


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("x long", {}, "need a column 'id'; there are: x"),
        ("id string", {"json": "value"}, "no column 'value'; the columns are id"),
        ("id long", {"json": "id"}, "column 'id' has the type bigint; a string column with JSON was expected"),
        ("id string", {"variant": "id"}, "has the type string; a VARIANT column was expected"),
        ("id string", {"cloudevents": True}, "CloudEvents need a column 'source'"),
        ("id string", {"json": "id", "cloudevents": True}, "only one of json, variant and cloudevents"),
    ],
)
def test_what_a_user_can_get_wrong_about_rows(spark, small_set, schema, options, message):
    with pytest.raises(PipelineError, match=message):
        match(spark.createDataFrame([], schema), small_set, **options)


def test_what_is_no_set_is_refused_by_its_kind():
    with pytest.raises(PipelineError, match=r"subscriptions are a list; .* match_partitioned takes a PartitionedSet"):
        as_set([], None)


def test_a_column_of_a_wrong_type_is_named(spark, small_set):
    frame = spark.createDataFrame([("a", bytearray(b"b"))], "id string, x binary")
    with pytest.raises(PipelineError, match="column 'x' has the type binary"), user_errors():
        match(frame, small_set).collect()


def test_a_bad_filter_is_named_with_its_row(spark):
    rows = spark.createDataFrame([("a", "x > 1"), ("b", "x >")], "id string, filter string")
    with pytest.raises(PipelineError, match=r"(?s)row 2: subscription 'b': .*at character"):
        match(spark.createDataFrame([], "id string"), rows)


def test_subscription_rows_with_nested_columns(spark):
    rows = spark.createDataFrame(
        [
            ("a", None, [{"prefix": {"type": "quo"}}], None),
            ("b", "x > 1", None, '[{"kind":"frequency","amount":1,"unit":"hours"}]'),
        ],
        "id string, filter string, filters array<map<string, map<string, string>>>, constraints string",
    )
    frame = spark.createDataFrame([("e", "quote", 2)], "id string, type string, x int")
    found = match(frame, rows, include_constraints=True).collect()
    assert {(r.subscription_id, r.constraints is None) for r in found} == {("a", True), ("b", False)}


def test_subscriptions_with_a_column_that_means_nothing(spark):
    rows = spark.createDataFrame([("a", "x > 1", 3)], "id string, filter string, priority int")
    with pytest.raises(PipelineError, match="no column 'priority'; there may be: id, filter"):
        match(spark.createDataFrame([], "id string"), rows)


def test_the_index_is_opened_once_a_process_and_not_once_a_task(spark, sample_set):
    place = worker.Place(str(sample_set.path(1)))

    def load(batches):
        for _ in batches:
            worker.opened(place)
            yield pa.record_batch({"pid": [os.getpid()], "loads": [worker.loads.count], "open": [len(worker._open)]})

    before = {
        r.pid: r.loads for r in spark.range(0, 16, 1, 16).mapInArrow(load, "pid long, loads long, open long").collect()
    }
    rows = spark.range(0, 16, 1, 16).mapInArrow(load, "pid long, loads long, open long").collect()
    assert len(rows) == 16
    for row in rows:
        if row.pid in before:
            assert row.loads == before[row.pid]
        assert row.open <= worker.KEPT


def test_a_shipped_index_gives_the_same(texts, sample_set):
    assert pairs(match(texts, sample_set, json="value", ship=True)) == expected()


def test_workers_have_everything_loaded_before_their_first_task(spark):
    """Else each loads numba and the kernels by itself, and collects them as garbage after each task."""

    def look(batches):
        loaded = [name in sys.modules for name in ("recado.pipeline.match", "numba", "llvmlite.binding")]
        for _ in batches:
            yield pa.record_batch({"loaded": [all(loaded)], "frozen": [gc.get_freeze_count()]})

    rows = spark.range(0, 2, 1, 2).mapInArrow(look, "loaded boolean, frozen long").collect()
    assert all(row.loaded and row.frozen > 50_000 for row in rows)


def test_rows_are_made_of_one_row_an_event(spark, small_set, capsys):
    """What a row has of its event travels once, and the columns are where they were."""
    frame = spark.createDataFrame([("a", 1), (None, 2)], "id string, x int")
    found = match(frame, small_set, include_event=True, include_constraints=True, bad_rows="keep")
    assert found.columns == [*NOTIFICATION_FIELDS, "constraints", "event", "rejected"]
    found.explain()
    assert "Generate inline(matches" in capsys.readouterr().out
    assert sorted((row.event_id or "", row.subscription_id or "") for row in found.collect()) == [
        ("", ""),
        ("a", "positive"),
    ]
