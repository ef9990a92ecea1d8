"""Routing keys: what an event must have for a filter to match at all, in a form that can be counted and sorted.

A *key* is one necessary condition on one attribute, joined with the event type where the filter names it exactly. An
*access* is a set of keys of which at least one holds whenever the filter does; ``accesses`` gives every access that can
be read off the filter's shape. So whoever sends an event to where its keys lead reaches every filter that may match.

================  =========================================  =========================================================
form              key                                        comes from
================  =========================================  =========================================================
``=s =n =b =t``   the attribute equals a value of that kind  ``==``, a point, each value of a set
``n12``, ``t20``  it lies in a cell of 2 * 2^12 numbers      ranges with two ends; the level follows from their width
``^3``            it begins with three given characters      prefixes, patterns with a literal beginning, string ranges
``?``             it is there                                every other predicate
````              always true                                whatever is left: negations, CESQL, nothing at all
================  =========================================  =========================================================

Cells and prefixes of one form either coincide or differ in their lower end, so within a *dimension* (type, attribute
and form) keys are sorted by it. Arrays need no thought: some single-valued view of the event matches the filter, and
the key holds in that view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from recado.model.filter import (
    TRUE,
    And,
    Between,
    Compare,
    Constant,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Text,
)
from recado.model.subscription import Subscription
from recado.model.values import EPOCH, Kind, Value, canonical, kind_of, microseconds

MOST_KEYS = 16
"""An access with more keys is not used: each of them may lead events to the filter's partition."""
PREFIX_CHARS = 8
"""Longer prefixes are cut: an index finds beginnings by as many characters."""

_POINT = {Kind.STRING: "=s", Kind.NUMBER: "=n", Kind.BOOL: "=b", Kind.TIME: "=t"}


class Dimension(NamedTuple):
    """Keys that exclude or at least order each other: of one event type (or any), attribute and form."""

    type: str
    name: str
    form: str


class Key(NamedTuple):
    """A condition: the attribute lies between two values of one kind; presence and truth have none."""

    dimension: Dimension
    low: Any = 0
    high: Any = 0


Access = tuple[Key, ...]

ALWAYS = Key(Dimension("", "", ""))


def accesses(subscription: Subscription) -> list[Access]:
    """Every access that the shape of a subscription's filter offers; an empty one if it cannot match at all."""
    return _accesses(subscription.whole_filter())


def _accesses(filter: Filter) -> list[Access]:
    found: list[Access] = []
    ranges: list[Compare | Between] = []
    event_type = ""
    for part in _conjuncts(filter):
        if isinstance(part, Compare):
            if part.op != "==":
                ranges.append(part)
                continue
            found.append((_point(part.name, part.value),))
            if part.name == "type" and isinstance(part.value, str):
                event_type = part.value
        elif isinstance(part, Between):
            ranges.append(part)
        else:
            found += _of_part(part)
    found += _of_ranges(ranges)
    if () in found:
        return [()]
    if event_type:
        found = [tuple(_with_type(key, event_type) for key in access) for access in found]
    return found or [(ALWAYS,)]


def key_filter(key: Key) -> Filter:
    """The key as a filter."""
    event_type, name, form = key.dimension
    condition: Filter
    match form[:1]:
        case "":
            return TRUE
        case "?":
            condition = Exists(name)
        case "^":
            condition = Text(name, "prefix", key.low)
        case _:
            condition = Compare(name, "==", key.low) if key.low == key.high else Between(name, key.low, key.high)
    return And((Compare("type", "==", event_type), condition)) if event_type else condition


def looseness(access: Access) -> tuple[int, int]:
    """How little an access tells, before anything is counted: by its loosest form, then by its number of keys."""
    return max((_LOOSENESS.get(key.dimension.form[:1], 1) for key in access), default=0), len(access)


_LOOSENESS = {"=": 0, "^": 2, "?": 3, "": 4}


# -- what single conjuncts offer ---------------------------------------------------------------------------------------


def _conjuncts(filter: Filter) -> Iterator[Filter]:
    """The parts of a conjunction, nested ones opened; double negations fall away."""
    stack = [filter]
    while stack:
        node = stack.pop()
        if isinstance(node, And):
            stack.extend(reversed(node.parts))
        elif isinstance(node, Not) and isinstance(node.part, Not):
            stack.append(node.part.part)
        else:
            yield node


def _of_part(part: Filter) -> list[Access]:
    """What a conjunct offers that is neither a comparison nor a range."""
    match part:
        case Constant(value):
            return [] if value else [()]
        case Or(parts):
            return _of_disjunction(parts)
        case In(name, values):
            return _of_set(name, values)
        case Text(name, "prefix" | "like", pattern, False):
            return [(_prefix(name, pattern if part.op == "prefix" else _literal_beginning(pattern)),)]
        case Text(name) | Regex(name) | Exists(name) | Similar(name):
            return [(_present(name),)]
    return []


def _of_disjunction(parts: Iterable[Filter]) -> list[Access]:
    """The best access of each alternative, together."""
    keys: dict[Key, None] = {}
    for part in parts:
        best: Access = min(_accesses(part), key=looseness)
        keys |= dict.fromkeys(best)
    return [] if ALWAYS in keys or len(keys) > MOST_KEYS else [tuple(keys)]


def _of_set(name: str, values: Iterable[Value]) -> list[Access]:
    points = tuple(dict.fromkeys(_point(name, value) for value in values))
    if len(points) > MOST_KEYS:
        return [(_present(name),)]
    return [points]


def _of_ranges(parts: Iterable[Compare | Between]) -> list[Access]:
    """Cells for attributes with a lower and an upper bound, in one predicate or in two; presence for others."""
    lows: dict[tuple[str, Kind], Any] = {}
    highs: dict[tuple[str, Kind], Any] = {}
    for part in parts:
        if isinstance(part, Between):
            lows[part.name, kind_of(part.low)] = part.low
            highs[part.name, kind_of(part.high)] = part.high
        else:  # any lower and any upper bound will do: all are necessary
            side = highs if part.op[0] == "<" else lows
            side[part.name, kind_of(part.value)] = part.value
    held = {at[0]: _present(at[0]) for at in (*lows, *highs)}
    for at, low in lows.items():
        if at in highs:
            held[at[0]] = _cell(*at, low, highs[at]) or held[at[0]]
    return [(key,) for key in held.values()]


# -- keys --------------------------------------------------------------------------------------------------------------


def _point(name: str, value: Value) -> Key:
    value = canonical(value)
    return Key(Dimension("", name, _POINT[kind_of(value)]), value, value)


def _present(name: str) -> Key:
    return Key(Dimension("", name, "?"))


def _prefix(name: str, prefix: str) -> Key:
    cut = prefix[:PREFIX_CHARS]
    return Key(Dimension("", name, f"^{len(cut)}"), cut, cut) if cut else _present(name)


def _cell(name: str, kind: Kind, low: Any, high: Any) -> Key | None:
    """The two cells, as wide as the range or up to twice, that it lies in; None if there are none of use."""
    if kind is Kind.BOOL or low > high:
        return None
    if low == high:
        return _point(name, low)
    if kind is Kind.STRING:
        common = next((i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
        return _prefix(name, low[:common]) if common else None
    if kind is Kind.TIME:
        cell = _bounds(microseconds(low), microseconds(high))
        return None if cell is None else _time_cell(name, *cell)
    cell = _bounds(low, high)
    return None if cell is None else Key(Dimension("", name, f"n{cell[0]}"), cell[1], cell[2])


def _bounds(low: float, high: float) -> tuple[int, float, float] | None:
    """Level, lower and upper end of two cells of 2^level around a range; None where floats are too coarse for it."""
    width = float(high - low)
    if not math.isfinite(width) or width == 0:
        return None
    level = math.frexp(width)[1]
    size = math.ldexp(1.0, level)
    start = math.floor(low / size) * size
    end = start + 2 * size
    return (level, start, end) if start <= low and high <= end else None


def _time_cell(name: str, level: int, low: float, high: float) -> Key | None:
    try:
        ends = [EPOCH + timedelta(microseconds=end) for end in (low, high)]
    except OverflowError:
        return None
    return Key(Dimension("", name, f"t{level}"), *ends)


def _literal_beginning(pattern: str) -> str:
    """The characters of a ``like`` pattern before its first wildcard or escape."""
    return next((pattern[:i] for i, char in enumerate(pattern) if char in "*?\\"), pattern)


def _with_type(key: Key, event_type: str) -> Key:
    dimension = key.dimension
    if dimension.name in ("", "type") or dimension.type:
        return key
    return key._replace(dimension=dimension._replace(type=event_type))
