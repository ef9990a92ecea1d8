"""The gate: what is refused and why, how fast, and what a filter may cost."""

import math
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings

from recado.errors import FilterError
from recado.filters.cost import check_filter, cost_of
from recado.filters.normal import normal_form
from recado.model.filter import TRUE, And, Between, Compare, Exists, In, Not, Or, Regex, Similar, Sql, Text
from recado.model.limits import LIMITS, Limits
from strategies import filters
from work import calls_of

ONE = Compare("x", "==", 1)


@settings(max_examples=150)
@given(filters(sql=True))
def test_ordinary_filters_pass(filter):
    assert check_filter(filter) is filter
    assert 0 < cost_of(filter) <= LIMITS.filter_cost


@settings(max_examples=100)
@given(filters())
def test_what_was_accepted_is_accepted_in_normal_form(filter):
    check_filter(normal_form(filter), Limits(filter_predicates=100_000, filter_cost=10_000_000))


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        (Compare("", "==", 1), "names no attribute"),
        (Compare(None, "==", 1), "names no attribute"),
        (Compare("n" * 257, "==", 1), "an attribute name has 257 characters; the limit is 256"),
        (Compare("\ud800", "==", 1), "an attribute name: the string has a lone surrogate at character 1"),
        (Compare("x", "=~", 1), "the condition on 'x': '=~' is no operator here"),
        (Compare("x", "==", None), "the condition on 'x': NoneType is not a value"),
        (Compare("x", "==", math.nan), "the condition on 'x': NaN equals nothing"),
        (Compare("x", "==", 2**64), "the condition on 'x': the integer does not fit 64 bits"),
        (Compare("x", "==", "a\udfff"), "lone surrogate at character 2"),
        (Compare("x", "==", "a" * 65_537), "the string has 65,537 characters; the limit is 65,536"),
        (Compare("x", "<", datetime(2026, 1, 1)), "the timestamp has no time zone"),
        (Compare("x", "<", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))), "outside the years 1 to 9999"),
        (Between("x", 1, "a"), "the bounds of a range must be of one kind, not number and string"),
        (Between("x", True, 1), "the bounds of a range must be of one kind, not bool and number"),
        (Between("x", 1, math.nan), "NaN"),
        (In("x", (1, math.nan)), "NaN"),
        (In("x", tuple(range(1025))), "the condition on 'x': the set has 1,025 values; the limit is 1,024"),
        (Text("x", "prefix", "a" * 1025), "the pattern has 1,025 characters; the limit is 1,024"),
        (Text("x", "infix", "a"), "'infix' is no operator here"),
        (Text("x", "prefix", 5), "the pattern is int, not text"),
        (Text("x", "prefix", "\ud800"), "lone surrogate"),
        (Regex("x", "a" * 1025), "the regular expression has 1,025 characters"),
        (Regex("x", "(a"), "is refused"),
        (Regex("x", r"(a)\1"), "is refused"),
        (Regex("x", "((a{100}){100}){100}"), "is refused"),
        (Similar("x", "a" * 1025), "the text has 1,025 characters"),
        (Similar("x", "a", 1.5), "the threshold of similarity is 1.5; it must be from 0 to 1"),
        (Similar("x", "a", math.nan), "must be from 0 to 1"),
        (Similar("x", "a", "high"), "must be from 0 to 1"),
        (Sql("a = "), ""),
        (Sql("a" * 16_385), "the CESQL text has 16,385 characters; the limit is 16,384"),
        (And((ONE, "x == 1")), "str is not a node of a filter"),
        (Or((ONE,) * 257), "the filter has more than 256 predicates"),
        (And((Or((ONE,) * 200), Or((ONE,) * 57))), "the filter has more than 256 predicates"),
        (And(tuple(And(()) for _ in range(257))), "the filter has more than 256 predicates"),
        (
            And(tuple(In(f"x{i}", tuple(range(1000))) for i in range(20))),
            "may take 20,021 steps for one event; the limit is 20,000",
        ),
        (Or(tuple(Regex(f"x{i}", "a" * 1000) for i in range(20))), "may take 20,641 steps"),
    ],
)
def test_refused(filter, message):
    with pytest.raises(FilterError) as error:
        check_filter(filter)
    assert message in str(error.value)


def test_depth():
    filter = ONE
    for _ in range(LIMITS.filter_depth - 1):
        filter = Not(filter)
    check_filter(filter)
    with pytest.raises(FilterError, match="nested deeper than 32 levels"):
        check_filter(Not(filter))


def test_the_limits_are_the_callers():
    check_filter(Or((ONE,) * 256))
    check_filter(Or((ONE,) * 1000), Limits(filter_predicates=1000))
    with pytest.raises(FilterError, match="more than 3 predicates"):
        check_filter(Or((ONE,) * 4), Limits(filter_predicates=3))
    with pytest.raises(FilterError, match="may take 3 steps"):
        check_filter(Or((ONE, ONE)), Limits(filter_cost=2))


def _deep():
    filter = ONE
    for i in range(100_000):
        filter = Not(filter) if i % 2 else And((filter,))
    return filter


@pytest.mark.parametrize(
    "make",
    [
        _deep,
        lambda: Or((ONE,) * 1_000_000),
        lambda: And((Or(()),) * 1_000_000),
        lambda: In("x", tuple(range(1_000_000))),
        lambda: Text("x", "contains", "a" * 10_000_000),
        lambda: Regex("x", "(" * 1_000_000),
        lambda: Regex("x", "(a{1000}){1000}"),
        lambda: Compare("x" * 10_000_000, "==", 1),
        lambda: Sql("(" * 1_000_000),
    ],
)
def test_hostile_filters_are_refused_at_once(make):
    filter = make()
    tracemalloc.start()
    try:
        with pytest.raises(FilterError) as error:
            check_filter(filter)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    def refused():
        with pytest.raises(FilterError):
            check_filter(filter)

    assert calls_of(refused) < 2_000
    assert peak < 2_000_000
    assert len(str(error.value)) < 3_000


@pytest.mark.parametrize(
    ("filter", "cost"),
    [
        (ONE, 1),
        (TRUE, 1),
        (Exists("x"), 1),
        (Between("x", 1, 2), 2),
        (In("x", (1, 2, 3)), 4),
        (Text("x", "prefix", "a" * 32), 4),
        (Text("x", "suffix", "a" * 32, True), 8),
        (Text("x", "contains", "abcd"), 17),
        (Text("x", "like", "abcd*fgh", True), 36),
        (Regex("x", "a|b"), 35),
        (Similar("x", "abc"), 35),
        (Sql("a = 1"), 37),
        (And((ONE, Not(ONE))), 4),
    ],
)
def test_cost(filter, cost):
    assert cost_of(filter) == cost


def test_instants_with_an_offset_pass():
    check_filter(Compare("x", "<", datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=3)))))
    check_filter(Compare("x", "<", datetime.max.replace(tzinfo=UTC)))
