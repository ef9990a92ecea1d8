"""Translation of predicates against a plain model of what Spark means by them; Spark itself is asked in test_batch."""

import math
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    TimestampType,
)

import strategies
from recado.filters.evaluate import matches
from recado.model.codec import write_flat
from recado.model.event import ENVELOPE, Event
from recado.model.filter import TRUE
from recado.pipeline.source.columns import LOG_COLUMNS, Columns, converter
from recado.pipeline.source.pushdown import Pushed, push, translate

KINDS = [StringType(), LongType(), DoubleType(), BooleanType(), TimestampType()]
T0 = datetime(2026, 1, 1, tzinfo=UTC)


def key(value):
    """Spark's order: NaN is equal to itself and above all numbers."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value) if isinstance(value, int | float) else value


def truth(predicate, value):
    """True, False or None: what Spark makes of a predicate on a column's value."""
    match predicate:
        case spark.Not(inner):
            inside = truth(inner, value)
            return None if inside is None else not inside
        case spark.IsNull():
            return value is None
        case spark.IsNotNull():
            return value is not None
        case spark.EqualNullSafe(_, other):
            return value is other if value is None or other is None else key(value) == key(other)
    if value is None or predicate.value is None:
        return None
    match predicate:
        case spark.EqualTo(_, other):
            return key(value) == key(other)
        case spark.LessThan(_, other):
            return key(value) < key(other)
        case spark.LessThanOrEqual(_, other):
            return key(value) <= key(other)
        case spark.GreaterThan(_, other):
            return key(value) > key(other)
        case spark.GreaterThanOrEqual(_, other):
            return key(value) >= key(other)
        case spark.In(_, others):
            found = any(key(value) == key(other) for other in others if other is not None)
            return True if found else None if None in others else False
        case spark.StringStartsWith(_, text):
            return value.startswith(text)
        case spark.StringEndsWith(_, text):
            return value.endswith(text)
        case spark.StringContains(_, text):
            return text in value
    raise AssertionError(predicate)


def literals(kind):
    return {
        StringType: strategies.strings(),
        LongType: st.sampled_from([n for n in strategies.INTEGERS if -(2**63) <= n < 2**63]),
        DoubleType: st.sampled_from([*strategies.FLOATS, math.nan]),
        BooleanType: st.booleans(),
        TimestampType: strategies.times(),
    }[type(kind)]


@st.composite
def predicates(draw, name, kind):
    path = (name,)
    value = draw(literals(kind))
    compare = [spark.EqualTo, spark.EqualNullSafe, spark.LessThan, spark.LessThanOrEqual]
    compare += [spark.GreaterThan, spark.GreaterThanOrEqual]
    made = [cls(path, value) for cls in compare]
    made += [spark.IsNull(path), spark.IsNotNull(path), spark.EqualNullSafe(path, None)]
    several = draw(st.lists(literals(kind) | st.none(), max_size=3))
    made.append(spark.In(path, tuple(several)))
    if isinstance(kind, StringType):
        made += [cls(path, value) for cls in (spark.StringStartsWith, spark.StringEndsWith, spark.StringContains)]
    plain = draw(st.sampled_from(made))
    return spark.Not(plain) if draw(st.booleans()) else plain


def flat_value(event, name):
    return msgspec.json.decode(write_flat(event)).get(name)


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(KINDS))
    return kind, draw(predicates("a", kind)), draw(strategies.events())


@given(cases())
def test_a_pushed_predicate_loses_no_event_and_is_exact_on_single_values_of_the_kind(case):
    kind, predicate, event = case
    pushed = translate(predicate, kind)
    if pushed is None:
        return
    column = converter(kind)(flat_value(event, "a"))
    wanted, found = truth(predicate, column) is True, matches(pushed, event)
    assert found or not wanted
    assert found is wanted or column is None


@given(st.data())
def test_on_the_envelope_it_is_exact(data):
    """The log keeps an absent type or source as the empty string, as an Event does."""
    name = data.draw(st.sampled_from(ENVELOPE))
    predicate = data.draw(predicates(name, LOG_COLUMNS[name].dataType))
    event = data.draw(strategies.events())
    pushed, rest = push([predicate], Columns(LOG_COLUMNS, False).types)
    if not rest:
        assert matches(pushed.where or TRUE, event) is (truth(predicate, getattr(event, name)) is True)
    else:
        assert pushed == Pushed()


@pytest.mark.parametrize(
    "predicate",
    [
        spark.EqualTo(("type",), "a"),
        spark.EqualTo(("type",), ""),
        spark.Not(spark.EqualTo(("source",), "a")),
        spark.In(("id",), ("a", "b")),
        spark.IsNotNull(("id",)),
        spark.IsNull(("time",)),
        spark.GreaterThan(("time",), T0),
        spark.StringStartsWith(("source",), "a"),
        spark.IsNotNull(("position",)),
        spark.GreaterThan(("position",), 5),
    ],
)
def test_spark_need_not_look_again_at_these(predicate):
    assert push([predicate], Columns(LOG_COLUMNS, False).types)[1] == []


@pytest.mark.parametrize(
    ("predicate", "kind"),
    [
        (spark.EqualTo(("a",), math.nan), DoubleType()),
        (spark.GreaterThan(("a",), float(2**53)), DoubleType()),
        (spark.LessThan(("a",), -math.inf), DoubleType()),
        (spark.GreaterThan(("a",), False), BooleanType()),
        (spark.IsNull(("a",)), LongType()),
        (spark.Not(spark.EqualNullSafe(("a",), 5)), LongType()),
        (spark.Not(spark.In(("a",), (1, None))), LongType()),
        (spark.EqualTo(("a",), [1]), ArrayType(LongType())),
        (spark.EqualTo(("a",), "x"), StringType("UTF8_LCASE")),
        (spark.EqualTo(("a", "b"), 1), LongType()),
        (spark.EqualTo(("a",), datetime(2026, 1, 1)), TimestampType()),
        (spark.EqualTo(("unknown",), 1), None),
    ],
)
def test_where_meanings_differ_nothing_is_pushed(predicate, kind):
    assert translate(predicate, kind) is None


def test_several_predicates_are_joined_and_the_unknown_ones_come_back():
    types = {"position": LongType(), "type": StringType(), "price": DoubleType(), "tags": ArrayType(StringType())}
    known = [spark.EqualTo(("type",), "sale"), spark.LessThan(("price",), 25.0), spark.GreaterThan(("position",), 9)]
    unknown = spark.EqualTo(("tags",), ["x"])
    pushed, rest = push([*known, unknown], types)
    assert rest == [known[1], unknown]
    assert pushed.start == 10
    assert matches(pushed.where, Event("1", "sale", attributes={"price": 24}))
    assert not matches(pushed.where, Event("1", "sale", attributes={"price": 26}))
    assert not matches(pushed.where, Event("1", "rent", attributes={"price": 24}))


@pytest.mark.parametrize(
    ("predicates", "bounds"),
    [
        ([spark.EqualTo(("position",), 5)], (5, 6)),
        ([spark.GreaterThan(("position",), 5), spark.LessThan(("position",), 9)], (6, 9)),
        ([spark.GreaterThanOrEqual(("position",), 5), spark.LessThanOrEqual(("position",), 9)], (5, 10)),
        ([spark.LessThan(("position",), 9), spark.LessThan(("position",), 7)], (0, 7)),
        ([spark.In(("position",), (8, 3, None))], (3, 9)),
        ([spark.In(("position",), (None,))], (0, None)),
        ([spark.Not(spark.EqualTo(("position",), 5))], (0, None)),
    ],
)
def test_predicates_on_the_position_bound_the_range(predicates, bounds):
    pushed, _ = push(predicates, Columns(LOG_COLUMNS, False).types)
    assert (pushed.start, pushed.end) == bounds


def test_predicates_on_the_acceptance_bound_the_range_and_are_checked_again():
    path, later = ("accepted_at",), T0 + timedelta(hours=1)
    east = T0.astimezone(timezone(timedelta(hours=5)))
    given_ = [spark.GreaterThan(path, east), spark.LessThanOrEqual(path, later)]
    pushed, rest = push(given_, Columns(LOG_COLUMNS, False).types)
    assert rest == given_
    assert (pushed.since, pushed.until) == (T0, later + timedelta(microseconds=1))
    assert push([spark.EqualTo(path, T0)], {})[0] == Pushed(since=T0, until=T0 + timedelta(microseconds=1))
    assert push([spark.IsNotNull(path), spark.IsNull(path)], {})[0] == Pushed()
