"""All forms of events agree with each other and with an evaluator that was written from the documentation alone.

The filters and events are those of ``foreign_filters``: every type, nested structs, arrays of structs, decimals, odd
floats, integers beyond 2**53, empty texts.
"""

import json

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import foreign_filters as foreign
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.sql import shape
from samples import SCHEMA, pairs

DECIMALS = (
    SCHEMA.replace("tolls double", "tolls decimal(10,2)")
    .replace("levels array<double>", "levels array<decimal(5,1)>")
    .replace("lat double", "lat decimal(9,4)")
    .replace("price double", "price decimal(5,2)")
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Events, the set of the filters, and the pairs that are right."""
    events, filters = foreign.make(500, 60, seed=18)
    subscription_set = SubscriptionSet(tmp_path_factory.mktemp("foreign"))
    subscription_set.publish(Subscription(f"s{n}", parse(foreign.text(one))) for n, one in enumerate(filters))
    return events, subscription_set, sorted(foreign.oracle(events, filters))


@pytest.fixture(scope="module")
def typed(spark, made):
    return spark.createDataFrame(made[0], SCHEMA)


def test_json(spark, made):
    events, subscription_set, right = made
    texts = spark.createDataFrame([(json.dumps(foreign.as_json(event)),) for event in events], "value string")
    assert len(right) > 2_000
    assert pairs(match(texts, subscription_set, json="value")) == right


def test_typed_columns(made, typed):
    assert pairs(match(typed, made[1])) == made[2]


def test_decimals_wherever_they_are(spark, made, typed):
    wanted = spark.createDataFrame([], DECIMALS).schema
    frame = typed.select(*(F.col(field.name).cast(field.dataType) for field in wanted))
    assert pairs(match(frame, made[1])) == made[2]
    whole = frame.select(F.to_variant_object(F.struct("*")).alias("payload"))
    assert pairs(match(whole, made[1], variant="payload")) == made[2]


def test_variant(made, typed):
    frame = typed.select(F.to_variant_object(F.struct("*")).alias("payload"))
    assert pairs(match(frame, made[1], variant="payload")) == made[2]


def test_variant_and_map_columns_among_typed_ones(made, typed):
    pickup = F.to_variant_object("pickup")
    frame = typed.withColumn("pickup", F.when(F.col("pickup").isNotNull(), pickup))
    assert pairs(match(frame, made[1])) == made[2]
    assert pairs(match(frame, made[1], include_event=True)) == made[2]


@pytest.mark.parametrize("data", ["struct", "variant", "json"])
def test_cloudevents(spark, made, typed, data):
    """A CloudEvent needs type and source, and its own id and time; the rest is data."""
    context = ("id", "type", "source", "time")
    rest = F.struct(*(name for name in typed.columns if name not in context))
    if data == "variant":
        rest = F.to_variant_object(rest)
    frame = typed.select(*context, rest.alias("data")).where("source != ''")
    if data == "json":
        texts = {event["id"]: foreign.as_json(event) for event in made[0]}
        for members in texts.values():
            for name in context:
                members.pop(name)
        rows = [(id, json.dumps(members)) for id, members in texts.items()]
        frame = frame.drop("data").join(spark.createDataFrame(rows, "id string, data string"), "id")
    whole = {event["id"] for event in made[0] if event["source"]}
    assert pairs(match(frame, made[1], cloudevents=True)) == [pair for pair in made[2] if pair[0] in whole]


def test_a_partitioned_set(spark, made, typed, tmp_path):
    _, filters = foreign.make(500, 60, seed=18)
    rows = [(f"s{n}", foreign.text(one)) for n, one in enumerate(filters)]
    parts = build_partitions(spark.createDataFrame(rows, "id string, filter string"), tmp_path / "p", partitions=2)
    assert pairs(match_partitioned(typed, parts)) == made[2]


# -- what was wrong, one by one


def matched(spark, tmp_path, sql, *filters, **form):
    subscription_set = SubscriptionSet(tmp_path / "set")
    subscription_set.publish(Subscription(one, parse(one)) for one in filters)
    return [id for _, id in pairs(match(spark.sql(sql), subscription_set, **form))]


def test_an_array_of_structs_gives_an_array_for_each_member(spark, tmp_path):
    sql = "select 'e' id, array(named_struct('p', 1.5D, 'q', array(1, 2)), null, named_struct('p', null, 'q', null)) a"
    filters = ["a.p == 1.5", "not exists a.p", "a.q == 2", "exists a"]
    assert matched(spark, tmp_path, sql, *filters) == ["a.p == 1.5", "a.q == 2"]


def test_arrays_in_arrays_are_joined(spark, tmp_path):
    sql = "select 'e' id, array(array(1), null, array(2, null, 3)) a"
    assert matched(spark, tmp_path, sql, "a == 3", "a == 4", "exists a") == ["a == 3", "exists a"]


def test_null_and_empty_arrays_of_structs_are_absent(spark, tmp_path):
    sql = "select 'e' id, cast(array() as array<struct<p int>>) a, cast(null as array<struct<p int>>) b"
    assert matched(spark, tmp_path, sql, "not exists a.p and not exists b.p", "exists a.p") == [
        "not exists a.p and not exists b.p"
    ]


def test_an_instant_inside_a_variant_stays_one(spark, tmp_path):
    sql = (
        "select to_variant_object(named_struct('id', 'e', 'time', timestamp'2026-01-02 00:00:00', 'n', double('NaN'), "
        "'a', array(named_struct('at', timestamp'2026-01-01 12:00:00')), 's', '2026-01-01 12:00:00')) v"
    )
    filters = ['a.at == t"2026-01-01T12:00:00Z"', "exists n", 's contains "12"', 'time > t"2026-01-01T12:00:00Z"']
    assert matched(spark, tmp_path, sql, *filters, "n == 1", 'n contains i"nan"', variant="v") == filters


def test_floats_of_32_bits_are_the_same_number_in_every_form(spark, tmp_path):
    """As a column 1.1 is 1.100000023841858, and Spark writes a VARIANT of it as 1.1."""
    filters = ["x == 1.1", "x == 1.100000023841858"]
    inside = "named_struct('id', 'e', 'x', 1.1f)"
    for sql, form in (
        ("select 'e' id, 1.1f x", {}),
        ("select 'e' id, 1.1f x, map('k', 1) m", {}),
        (f"select to_variant_object({inside}) v", {"variant": "v"}),
        (f"select 'e' id, 's' source, 't' type, to_variant_object({inside}) data", {"cloudevents": True}),
    ):
        assert matched(spark, tmp_path, sql, *filters, **form) == filters[1:]


def test_decimals_beyond_64_bits_are_floats_in_every_form(spark, tmp_path):
    digits = "cast('12345678901234567890123456789012345678' as decimal(38,0))"
    filters = ["x > 1e37 and x < 1.3e37"]
    for sql, form in (
        (f"select 'e' id, {digits} x", {}),
        (f"select 'e' id, {digits} x, map('k', 1) m", {}),
        (f"select to_variant_object(named_struct('id', 'e', 'x', {digits})) v", {"variant": "v"}),
    ):
        assert matched(spark, tmp_path, sql, *filters, **form) == filters


def test_maps_are_dotted_names(spark, tmp_path):
    sql = "select 'e' id, map('k', 1, 'j', null) m, map('at', named_struct('p', 1.5)) n"
    assert matched(spark, tmp_path, sql, "m.k == 1", "exists m.j", "n.at.p == 1.5") == ["m.k == 1", "n.at.p == 1.5"]


def test_a_map_with_other_keys_is_refused_if_a_filter_names_it(spark, tmp_path):
    sql = "select 'e' id, 1 x, map(1, 2) m"
    assert matched(spark, tmp_path, sql, "x == 1") == ["x == 1"]
    with pytest.raises(PipelineError, match=r"'m' is a map with keys of the type int; .* must be strings"):
        matched(spark, tmp_path, sql, "m.k == 1")


def test_dates_are_refused_beside_a_map_as_without_one(spark, tmp_path):
    with pytest.raises(PipelineError, match="column 'd' has the type date"), user_errors():
        matched(spark, tmp_path, "select 'e' id, map('k', 1) m, date'2026-01-01' d", "m.k == 1", 'd == "x"')


def test_columns_that_spark_does_not_tell_apart(spark, tmp_path):
    with pytest.raises(PipelineError, match=r"columns 'a' and 'A' have names that Spark does not tell apart; rename"):
        matched(spark, tmp_path, "select 'e' id, 1 a, 2 A", "a == 1")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert matched(spark, tmp_path, "select 'e' id, 1 a, 2 A", "a == 1 and A == 2") == ["a == 1 and A == 2"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_ids_of_other_types_are_text_in_every_form(spark, tmp_path):
    for sql, form in (
        ("select 5L id", {}),
        ("select 5L id, map('k', 1) m", {}),
        ("""select '{"id": 5}' v""", {"json": "v"}),
        ("select to_variant_object(named_struct('id', 5L)) v", {"variant": "v"}),
    ):
        assert matched(spark, tmp_path, sql, 'id == "5"', "id == 5", **form) == ['id == "5"']


def test_a_cloudevent_has_inside_what_a_variant_has(spark, tmp_path):
    """Dates and bytes are text in JSON; a member ``time`` of the data is an instant like any other."""
    data = (
        "named_struct('time', timestamp'2026-01-01 12:00:00', 'd', date'2026-01-02', 'b', X'00ff', 'f', 1.1f, 'n', 1.5,"
        " 'v', parse_json('{\"z\": [1, 2]}'), 'm', map('k', parse_json('3')))"
    )
    filters = [
        'data.time == t"2026-01-01T12:00:00Z"', 'd == "2026-01-02"', 'day == "2026-01-03"', 'b == "AP8="',
        "f == 1.100000023841858", "n == 1.5", "v.z == 2", "m.k == 3",
    ]  # fmt: skip
    head = "select 'e' id, 's' source, 't' type, date'2026-01-03' day"
    for sql in (f"{head}, {data} data", f"{head}, to_variant_object({data}) data"):
        assert matched(spark, tmp_path, sql, *filters, cloudevents=True) == sorted(filters)
    with pytest.raises(PipelineError, match=r"'data\.m' is a map with keys of the type int"):
        matched(spark, tmp_path, f"{head}, named_struct('m', map(1, parse_json('3'))) data", "x == 1", cloudevents=True)


def test_a_decimal_beside_a_variant(spark, tmp_path):
    sql = "select 'e' id, named_struct('n', 1.5, 'v', parse_json('{\"z\": 1}')) s"
    assert matched(spark, tmp_path, sql, "s.n == 1.5", "s.v.z == 1") == ["s.n == 1.5", "s.v.z == 1"]


def test_a_time_that_is_a_number_is_refused(spark, tmp_path):
    """Of seconds, or of anything else: it was taken for microseconds."""
    with pytest.raises(PipelineError, match=r"column 'time' has the type bigint; .* timestamp_seconds\(time\)"):
        matched(spark, tmp_path, "select 'e' id, 1790000000L time, 1 x", "x == 1")
    with pytest.raises(PipelineError, match="column 'time' has the type int64"):
        shape(pa.record_batch({"id": ["e"], "time": [1790000000]}), {"x"})
    for time in ("timestamp'2026-01-01 00:00:00'", "'2026-01-01T00:00:00Z'", "null", "parse_json('null')"):
        assert matched(spark, tmp_path, f"select 'e' id, {time} time, 1 x", "x == 1") == ["x == 1"]
