r"""Value sets: everything that simple predicates can say about one attribute, exactly.

Comparisons, ranges, sets, ``exists``, prefixes and their negations each admit a set of *states* of an attribute: it is
absent, or it holds a value. A ``ValueSet`` keeps that set in one canonical shape, so that two conditions with the
same meaning are equal tuples, however they were written.

The domain of each ordered kind is *discrete*: numbers are the 64-bit integers and the float64s, instants are
microseconds, and the string after ``s`` is ``s + "\0"``. So "just above v" is "at the next value", every cut between
two values is named by the value above it, and a set is the sorted tuple of the cuts where membership changes::

    5 <= x < 8         numbers = (5, 8)
    x >= 5             numbers = (5,)                          an odd number of cuts runs to the top
    x <= 5 or x > 7    numbers = (-inf, next(5), next(7))      the kind's least value is its bottom

Assumed: filters and events passed their checks (integers of 64 bits, instants of the years 1 to 9999 in UTC, no lone
surrogates). NaN, ``absent`` and the two booleans are points without order, kept as four flags.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from recado.model.values import EPOCH, INT_MAX, INT_MIN, Kind, Value, is_nan, kind_of, microseconds

Cuts = tuple[Any, ...]
"""Sorted boundaries of one kind: outside below the first, and each one toggles."""

ABSENT, NAN, NO, YES = 1, 2, 4, 8
MIN_TIME = microseconds(datetime.min.replace(tzinfo=UTC))
MAX_TIME = microseconds(datetime.max.replace(tzinfo=UTC))
BOTTOM: dict[Kind, Any] = {Kind.STRING: "", Kind.NUMBER: -math.inf, Kind.TIME: MIN_TIME}
_FULL_CUTS: dict[Kind, Cuts] = {kind: (bottom,) for kind, bottom in BOTTOM.items()}


class ValueSet(NamedTuple):
    """A set of states of one attribute: four flags, and the cuts of the three ordered kinds (times in microseconds)."""

    flags: int
    strings: Cuts
    numbers: Cuts
    times: Cuts


EMPTY = ValueSet(0, (), (), ())
FULL = ValueSet(ABSENT | NAN | NO | YES, *_FULL_CUTS.values())
PRESENT = FULL._replace(flags=NAN | NO | YES)
STRINGS = EMPTY._replace(strings=_FULL_CUTS[Kind.STRING])
TRUE_ONLY = EMPTY._replace(flags=YES)
ORDERED = (Kind.STRING, Kind.NUMBER, Kind.TIME)


# -- the next value of each kind ---------------------------------------------------------------------------------------


def next_number(value: float, least: bool = False) -> float | None:
    """The smallest number above ``value`` (with ``least``: at or above); None above infinity."""
    if least and (type(value) is float or INT_MIN <= value <= INT_MAX):
        return value
    if value == math.inf:
        return None
    nearest = _to_float(value)
    if nearest < value or (nearest == value and not least):
        nearest = math.nextafter(nearest, math.inf)
    if value == -math.inf:
        return nearest
    whole = math.floor(value) + 1
    return whole if INT_MIN <= whole <= INT_MAX and whole < nearest else nearest


def previous_number(value: float) -> float:
    """The largest number below ``value``, which is not minus infinity."""
    nearest = _to_float(value)
    if nearest >= value:
        nearest = math.nextafter(nearest, -math.inf)
    if value == math.inf:
        return nearest
    whole = math.ceil(value) - 1
    return whole if INT_MIN <= whole <= INT_MAX and whole > nearest else nearest


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def after_prefix(prefix: str) -> str | None:
    """The first string after all that begin with ``prefix``; None if there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    last = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)  # surrogates are not characters of a value


def next_cut(kind: Kind, cut: Any) -> Any:
    """The cut just above the value at ``cut``; None at the top."""
    if kind is Kind.STRING:
        return cut + "\0"
    if kind is Kind.NUMBER:
        return next_number(cut)
    return cut + 1 if cut < MAX_TIME else None


def _cuts_around(kind: Kind, value: Any) -> tuple[Any, Any]:
    """The cuts just below and just above a constant, which need not belong to the domain."""
    if kind is Kind.STRING:
        return value, value + "\0"
    if kind is Kind.NUMBER:
        return next_number(value, least=True), next_number(value)
    instant = microseconds(value)
    return _clip_time(instant), _clip_time(instant + 1)


def _clip_time(instant: int) -> int | None:
    return max(instant, MIN_TIME) if instant <= MAX_TIME else None


def to_time(cut: int) -> datetime:
    return EPOCH + timedelta(microseconds=cut)


# -- cuts --------------------------------------------------------------------------------------------------------------


def _merge(a: Cuts, b: Cuts, needed: int) -> Cuts:
    """The cuts where at least ``needed`` of the two sets are entered, or left again."""
    of_a, of_b = set(a), set(b)
    out: list[Any] = []
    in_a = in_b = inside = False
    for cut in sorted(of_a | of_b):
        in_a ^= cut in of_a
        in_b ^= cut in of_b
        if (in_a + in_b >= needed) is not inside:
            out.append(cut)
            inside = not inside
    return tuple(out)


def _meet(a: Cuts, b: Cuts) -> Cuts:
    if a == b:
        return a
    return _merge(a, b, 2) if a and b else ()


def _join(a: Cuts, b: Cuts) -> Cuts:
    if a == b or not b:
        return a
    return _merge(a, b, 1) if a else b


def _flip(cuts: Cuts, bottom: Any) -> Cuts:
    return cuts[1:] if cuts and cuts[0] == bottom else (bottom, *cuts)


# -- sets --------------------------------------------------------------------------------------------------------------


def meet(a: ValueSet, b: ValueSet) -> ValueSet:
    """What belongs to both sets."""
    return ValueSet(a[0] & b[0], _meet(a[1], b[1]), _meet(a[2], b[2]), _meet(a[3], b[3]))


def join(a: ValueSet, b: ValueSet) -> ValueSet:
    """What belongs to either set."""
    return ValueSet(a[0] | b[0], _join(a[1], b[1]), _join(a[2], b[2]), _join(a[3], b[3]))


def complement(a: ValueSet) -> ValueSet:
    """What does not belong to the set, absence included."""
    return ValueSet(FULL.flags ^ a[0], _flip(a[1], ""), _flip(a[2], -math.inf), _flip(a[3], MIN_TIME))


def within(a: ValueSet, b: ValueSet) -> bool:
    """Does all of ``a`` belong to ``b``?"""
    return not a[0] & ~b[0] and (a == b or meet(a, b) == a)


def of_kind(kind: Kind, cuts: Cuts) -> ValueSet:
    if kind is Kind.STRING:
        return ValueSet(0, cuts, (), ())
    return ValueSet(0, (), cuts, ()) if kind is Kind.NUMBER else ValueSet(0, (), (), cuts)


def of_compare(op: str, value: Value) -> ValueSet:
    """The states that satisfy ``attribute op value``."""
    kind = kind_of(value)
    if kind is Kind.BOOL:
        same, other = (YES, NO) if value else (NO, YES)
        return EMPTY._replace(flags={"==": same, "!=": other}.get(op, 0))
    if is_nan(value):
        return EMPTY
    low, high = _cuts_around(kind, value)
    cuts = _span(low, high) if op in ("==", "!=") else _span(low if op in (">=", "<") else high, None)
    return of_kind(kind, _flip(cuts, BOTTOM[kind]) if op in ("!=", "<", "<=") else cuts)


def _span(low: Any, high: Any) -> Cuts:
    if low is None or low == high:
        return ()
    return (low,) if high is None else (low, high)


def of_values(values: Iterable[Value]) -> ValueSet:
    """The states that equal one of the values."""
    flags = 0
    spans: dict[Kind, list[Cuts]] = {kind: [] for kind in ORDERED}
    for value in values:
        kind = kind_of(value)
        if kind is Kind.BOOL:
            flags |= YES if value else NO
        elif not is_nan(value):
            spans[kind].append(_span(*_cuts_around(kind, value)))
    return ValueSet(flags, *(_join_points(points) for points in spans.values()))


def _join_points(points: list[Cuts]) -> Cuts:
    out: list[Any] = []
    for point in sorted(set(points) - {()}):
        if out and out[-1] == point[0]:  # two neighbouring values are one range
            out.pop()
            point = point[1:]
        out.extend(point)
    return tuple(out)


def of_prefix(prefix: str) -> ValueSet:
    """The strings that begin with ``prefix``."""
    return of_kind(Kind.STRING, _span(prefix, after_prefix(prefix)))


def contains(a: ValueSet, value: Value | None) -> bool:
    """Does the state (None: absent) belong to the set?"""
    if value is None:
        return bool(a.flags & ABSENT)
    kind = kind_of(value)
    if kind is Kind.BOOL:
        return bool(a.flags & (YES if value else NO))
    if is_nan(value):
        return bool(a.flags & NAN)
    at: Any = microseconds(value) if isinstance(value, datetime) else value
    return bool(bisect_right(cuts_of(a, kind), at) & 1)


def cuts_of(a: ValueSet, kind: Kind) -> Cuts:
    """The cuts of an ordered kind."""
    return a.strings if kind is Kind.STRING else a.numbers if kind is Kind.NUMBER else a.times


def spans(cuts: Cuts) -> list[tuple[Any, Any]]:
    """The separate ranges, each from a first value up to (without) an end; an end of None is the top."""
    return [(cuts[i], cuts[i + 1] if i + 1 < len(cuts) else None) for i in range(0, len(cuts), 2)]


def points(kind: Kind, cuts: Cuts) -> list[Any] | None:
    """The elements, if every range is a single value."""
    pairs = spans(cuts)
    if all(next_cut(kind, low) == high for low, high in pairs):
        return [low for low, _ in pairs]
    return None
