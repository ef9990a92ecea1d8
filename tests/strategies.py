"""Shared hypothesis strategies: names, values, filters and events that meet often.

Everything is drawn from small pools, so that a random predicate is often true of a random event, ranges touch at
their bounds, and kinds mix. Text patterns are cut out of the pool's own strings. Shrinking goes towards the front of
a pool, so the plainest members stand first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from recado.model.event import ENVELOPE, Event
from recado.model.filter import (
    And,
    Between,
    Compare,
    CompareOp,
    Constant,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Sql,
    Text,
    TextOp,
)
from recado.model.limits import LIMITS
from recado.model.values import Value

T = TypeVar("T")

COMMON_NAMES = ["a", "b", "c"]
RARE_NAMES = ["price", "data.level", "temperatura média", "and", "`", "ünï-☃", "9 lives", "A"]
ENVELOPE_NAMES = list(ENVELOPE)

STRINGS = [
    "a",
    "b",
    "ab",
    "abc",
    "",
    "abcabc",
    "A",
    "ABC",
    "1",
    "true",
    "ação",
    "AÇÃO",
    "straße",
    "STRASSE",
    "a*b",
    "a?b",
    "\\",
    "a\\b",
    "日本",
    "😀a",
    "line\nbreak",
    "nul\x00",
    "\"quo'te`",
    "a b; c, d=e}",
]
HOT: list[Value] = [1, 2, "a", "ab"]
HOT_RANGES: list[tuple[Value, Value]] = [(0, 2), (1, 1), (2, 5), ("a", "b"), ("ab", "abc"), (1.0, 2**53), (1, 2.5)]
INTEGERS = [0, 1, 2, 3, 4, 5, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
FLOATS = [0.0, 1.0, 1.5, 2.5, -0.0, -1.0, 0.1, 1e300, float(2**53), float(2**63), 5e-324, math.inf, -math.inf]
TIMES = [
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 12, tzinfo=UTC),
    datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=-3))),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
LIKES = [
    "a*",
    "*c",
    "a?",
    "a*",
    "*",
    "*b",
    "?",
    "a?c",
    "*b*",
    "a\\*b",
    "a\\?b",
    "\\\\",
    "??*",
    "*a*b*c*",
    "**",
    "",
    "A*",
    "a\\",
    "日?",
    "?a",
]
REGEXES = ["a.*", "a|b", "[a-c]+", "(?i)ABC", ".", "", "(a|b)*c?", "a\\*b", "\\\\", "日.", "x{2,3}", ".*\\d"]
SQL_TEXTS = ["a = 1", "EXISTS b", "type LIKE 'a%'", "LENGTH(c) > 2", "NOT (a IN (1, 2)) OR b = 'ab'", "a + 1 < c"]
THRESHOLDS = [0.8, 0.5, 1.0, 0.0, 0.7]


def names() -> SearchStrategy[str]:
    """An attribute or envelope name; the three common ones most of the time."""
    return st.sampled_from(COMMON_NAMES * 10 + ENVELOPE_NAMES + RARE_NAMES)


def strings() -> SearchStrategy[str]:
    return st.sampled_from(STRINGS[:4] * 6 + STRINGS)


def numbers() -> SearchStrategy[int | float]:
    """Small integers most of the time; the edges of 64 bits, of exact floats, and of infinity."""
    return st.sampled_from(INTEGERS[:6] * 3 + INTEGERS[6:]) | st.sampled_from(FLOATS)


def times() -> SearchStrategy[datetime]:
    return st.sampled_from(TIMES)


def values(nan: bool = False) -> SearchStrategy[Value]:
    """A value of any kind; NaN, which only events may hold, on request."""
    hot = st.sampled_from(HOT)
    odd: list[SearchStrategy[Value]] = [numbers(), strings(), st.booleans(), times()]
    value: SearchStrategy[Value] = st.one_of(hot, hot, hot, hot, hot, *odd)
    return value | st.just(math.nan) if nan else value


def same_kind() -> SearchStrategy[tuple[Value, Value]]:
    """Two values of one kind, in no order: the bounds of a range, which may be empty or a point."""
    pairs: list[SearchStrategy[tuple[Value, Value]]] = [
        st.tuples(numbers(), numbers()),
        st.tuples(numbers(), numbers()).map(_ordered),
        st.tuples(strings(), strings()),
        st.tuples(times(), times()),
        st.tuples(st.booleans(), st.booleans()),
    ]
    hot = st.sampled_from(HOT_RANGES)
    return st.one_of(hot, hot, hot, *pairs)


def _ordered(pair: tuple[int | float, int | float]) -> tuple[Value, Value]:
    return min(pair), max(pair)


def substrings() -> SearchStrategy[str]:
    """A piece of a pool string, so that prefix, suffix and contains are often true."""
    bounds = st.tuples(strings(), st.integers(0, 6), st.integers(0, 6))
    return bounds.map(lambda cut: cut[0][min(cut[1:]) : max(cut[1:])])


def compares() -> SearchStrategy[Compare]:
    ops: Sequence[CompareOp] = get_args(CompareOp)
    return st.builds(Compare, names(), st.sampled_from(ops), values())


def betweens() -> SearchStrategy[Between]:
    return st.builds(lambda name, pair: Between(name, *pair), names(), same_kind())


def ins() -> SearchStrategy[In]:
    """Sets of none to four values, mixed kinds and repetitions included."""
    return st.builds(In, names(), st.lists(values(), max_size=4).map(tuple))


def texts() -> SearchStrategy[Text]:
    ops: Sequence[TextOp] = [op for op in get_args(TextOp) if op != "like"]
    plain = st.builds(Text, names(), st.sampled_from(ops), substrings(), st.booleans())
    likes = st.builds(Text, names(), st.just("like"), st.sampled_from(LIKES) | substrings(), st.booleans())
    return plain | likes


def similars() -> SearchStrategy[Similar]:
    return st.builds(Similar, names(), strings(), st.sampled_from(THRESHOLDS))


def regexes() -> SearchStrategy[Regex]:
    return st.builds(Regex, names(), st.sampled_from(REGEXES))


def sqls() -> SearchStrategy[Sql]:
    return st.builds(Sql, st.sampled_from(SQL_TEXTS))


def predicates(sql: bool = False) -> SearchStrategy[Filter]:
    """Any single predicate; CESQL nodes only on request."""
    kinds: list[SearchStrategy[Filter]] = [
        compares(),
        betweens(),
        ins(),
        texts(),
        st.builds(Exists, names()),
        regexes(),
        similars(),
    ]
    return st.one_of([*kinds, sqls()] if sql else kinds)


def simple_predicates() -> SearchStrategy[Filter]:
    """The predicates whose sets of values are easy to reason about: comparisons, ranges, sets, prefix, exists."""
    prefixes = st.builds(Text, names(), st.just("prefix"), substrings())
    return st.one_of(compares(), betweens(), ins(), st.builds(Exists, names()), prefixes)


def conjunctions(max_size: int = 5) -> SearchStrategy[And]:
    """``And`` of none to ``max_size`` predicates of any sort, some of them negated."""
    literal = predicates() | predicates().map(Not)
    return st.lists(literal, max_size=max_size).map(lambda parts: And(tuple(parts)))


def simple_conjunctions(max_size: int = 5) -> SearchStrategy[And]:
    """``And`` of one to ``max_size`` simple predicates."""
    return st.lists(simple_predicates(), min_size=1, max_size=max_size).map(lambda parts: And(tuple(parts)))


def filters(max_leaves: int = 8, sql: bool = False) -> SearchStrategy[Filter]:
    """Any tree: empty and single-part joins, double negations and constants included."""
    leaves: SearchStrategy[Filter] = predicates(sql) | st.builds(Constant, st.booleans())
    return st.recursive(leaves, _joined, max_leaves=max_leaves)


def _joined(parts: SearchStrategy[Filter]) -> SearchStrategy[Filter]:
    several = st.lists(parts, max_size=4).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


def attributes(arrays: bool = True, nan: bool = True) -> SearchStrategy[dict[str, Value | tuple[Value, ...]]]:
    """What an event holds beside its envelope; empty arrays too, within the limit on combinations."""
    single: SearchStrategy[Value | tuple[Value, ...]] = values(nan)
    several: SearchStrategy[Value | tuple[Value, ...]] = st.lists(values(nan), max_size=3).map(tuple)
    one = st.one_of(single, single, single, several) if arrays else single
    common = st.fixed_dictionaries({}, optional=dict.fromkeys(COMMON_NAMES, one))
    full = st.fixed_dictionaries(dict.fromkeys(COMMON_NAMES, one))
    rare = st.dictionaries(st.sampled_from(RARE_NAMES), one, max_size=3)
    held = st.builds(lambda plain, odd: {**plain, **odd}, st.one_of(full, full, common), rare)
    return held.filter(_combinations_allowed)


def _combinations_allowed(held: dict[str, Value | tuple[Value, ...]]) -> bool:
    sizes = [len(value) for value in held.values() if isinstance(value, tuple) and value]
    return math.prod(sizes) <= LIMITS.array_combinations


def events(arrays: bool = True, nan: bool = True) -> SearchStrategy[Event]:
    """An event; type, source and time are sometimes absent."""
    return st.builds(
        Event,
        id=st.sampled_from([text for text in STRINGS if text]),
        type=strings(),
        source=strings(),
        time=st.none() | times(),
        attributes=attributes(arrays, nan),
    )
