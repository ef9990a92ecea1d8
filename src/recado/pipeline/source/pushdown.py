"""Spark's predicates as Recado filters.

The two languages agree on values and differ around them. In Spark a column that is null makes a predicate neither true
nor false; in Recado a predicate on an absent attribute, or on a value of another kind, is false and ``not`` makes it
true. So a predicate ``p`` becomes a filter that is true of exactly the same *values*, and ``not p`` becomes "the
column is not null, and not p". NaN, which Spark sorts above every number and Recado compares with nothing, gets a
branch of its own. A double beyond 2^53 is not translated: Spark compares rounded numbers and Recado exact ones.

The log keeps an absent ``type`` or ``source`` as the empty string, so a predicate that holds of ``""`` takes events
without one too. What remains is where a column is null and Recado still sees something:

- an array stands for each of its elements in Recado, and is null in a single-valued column;
- a long column is null for a fraction, which no filter can tell from a whole number.

Both make the filter accept *more* than Spark would. So predicates on attributes are pushed for speed and checked by
Spark again; the envelope (id, type, source, time) has neither arrays nor other kinds, and there Spark is spared.

Predicates on ``position`` and ``accepted_at`` become bounds of the range to read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, cast

import msgspec
from pyspark.sql import datasource as spark
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, TimestampType

from recado.filters.evaluate import holds
from recado.model.event import ENVELOPE
from recado.model.filter import FALSE, TRUE, And, Compare, CompareOp, Exists, Filter, In, Not, Or, Text, TextOp

_COMPARE: dict[type[spark.Filter], CompareOp] = {
    spark.EqualTo: "==",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
}
_TEXT: dict[type[spark.Filter], TextOp] = {
    spark.StringStartsWith: "prefix",
    spark.StringEndsWith: "suffix",
    spark.StringContains: "contains",
}
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_EMPTY_IF_ABSENT = ("type", "source")
_EXACT = 2**53
_MICROSECOND = timedelta(microseconds=1)


class Pushed(msgspec.Struct, frozen=True):
    """What a reader does by itself: a range of positions, a range of acceptance, a filter. Nothing, by default."""

    start: int = 0
    end: int | None = None
    since: datetime | None = None
    until: datetime | None = None  # this instant is outside
    where: Filter | None = None


def push(filters: Sequence[spark.Filter], types: Mapping[str, DataType]) -> tuple[Pushed, list[spark.Filter]]:
    """What is pushed of the conjunction, and the predicates that Spark has to check (again)."""
    pushed, rest, parts = Pushed(), [], Parts()
    for filter in filters:
        name = _column(filter)
        if name in ("position", "accepted_at"):
            pushed, exact = _bound(pushed, filter, name)
        else:
            translated = translate(filter, types.get(name or ""))
            exact = translated is not None and name in ENVELOPE
            parts.add(name, translated, isinstance(filter, spark.IsNotNull))
        if not exact:
            rest.append(filter)
    return msgspec.structs.replace(pushed, where=parts.joined()), rest


class Parts:
    """The filters of a conjunction. Spark puts ``is not null`` before most predicates, which adds nothing to them."""

    def __init__(self) -> None:
        self._present: dict[str, Filter] = {}
        self._others: dict[str, list[Filter]] = {}

    def add(self, name: str | None, node: Filter | None, presence: bool) -> None:
        if name is None or node is None or node == TRUE:
            return
        if presence:
            self._present[name] = node
        else:
            self._others.setdefault(name, []).append(node)

    def joined(self) -> Filter | None:
        alone = [filter for name, filter in self._present.items() if name not in self._others]
        return joined(*alone, *chain.from_iterable(self._others.values()))


def joined(*filters: Filter | None) -> Filter | None:
    """One filter for all of them, if there is any."""
    parts = tuple(filter for filter in filters if filter is not None)
    return None if not parts else parts[0] if len(parts) == 1 else And(parts)


def translate(node: spark.Filter, kind: DataType | None) -> Filter | None:
    """A filter that accepts every event whose column satisfies the predicate; None if there is none."""
    name = _column(node)
    if name is None or kind is None:
        return None
    match node:
        case spark.IsNotNull() | spark.Not(spark.IsNull()):
            return _present(name, kind)
        case spark.IsNull() | spark.EqualNullSafe(value=None):
            return _absent(name)
        case spark.EqualNullSafe(path, value):
            return _on_value(spark.EqualTo(path, value), name, kind)
        case spark.Not(spark.EqualNullSafe() | spark.IsNotNull() | spark.Not()):
            return None  # true of nulls, or never made by Spark
        case spark.Not(inner):
            present, positive = _present(name, kind), _on_value(inner, name, kind)
            no_null = not (isinstance(inner, spark.In) and None in inner.value)
            return And((present, Not(positive))) if present and positive and no_null else None
    return _on_value(node, name, kind)


def _on_value(condition: spark.Filter, name: str, kind: DataType) -> Filter | None:
    """A filter with the predicate's truth on every value that the column can hold."""
    plain = _predicate(condition, name, kind)
    if plain is not None and name in _EMPTY_IF_ABSENT and holds(plain, ""):
        return Or((plain, Not(Exists(name))))
    return plain


def _predicate(condition: spark.Filter, name: str, kind: DataType) -> Filter | None:
    if isinstance(condition, spark.In):
        values = [value for value in condition.value if value is not None]
        return In(name, tuple(map(_utc, values))) if all(_comparable(value, kind) for value in values) else None
    value = _utc(getattr(condition, "value", None))
    if type(condition) in _TEXT:
        return Text(name, _TEXT[type(condition)], value) if kind == StringType() and type(value) is str else None
    if type(condition) not in _COMPARE or not _comparable(value, kind):
        return None
    op = _COMPARE[type(condition)]
    if kind == BooleanType() and op != "==":
        return None  # Spark orders booleans
    compare = Compare(name, op, value)
    return Or((compare, _nan(name))) if kind == DoubleType() and op in (">", ">=") else compare


def _comparable(value: Any, kind: DataType) -> bool:
    """Is the literal of the column's kind, and do both languages compare it alike?"""
    match kind:
        case StringType():
            return kind == StringType() and type(value) is str  # not with a collation
        case LongType():
            return type(value) is int
        case DoubleType():
            return type(value) in (int, float) and abs(value) < _EXACT  # false for NaN
        case BooleanType():
            return type(value) is bool
        case TimestampType():
            return isinstance(value, datetime) and value.tzinfo is not None
    return False


def _present(name: str, kind: DataType) -> Filter | None:
    """True of every event whose column is not null, and of no value that is another kind."""
    if name in ENVELOPE:
        return Exists(name) if name == "time" else TRUE
    match kind:
        case StringType():
            return Text(name, "prefix", "")
        case LongType():
            return Compare(name, ">=", -math.inf)
        case DoubleType():
            return Or((Compare(name, ">=", -math.inf), _nan(name)))
        case BooleanType():
            return In(name, (True, False))
        case TimestampType():
            return Compare(name, ">=", _FIRST)
    return Exists(name)


def _absent(name: str) -> Filter | None:
    """True of every event whose column is null; for an attribute that may be an array of anything."""
    if name not in ENVELOPE:
        return None
    return Not(Exists(name)) if name == "time" else FALSE


def _nan(name: str) -> Filter:
    """There is a value, and it is neither a number that compares nor of another kind."""
    others = Text(name, "prefix", ""), In(name, (True, False)), Compare(name, ">=", _FIRST)
    return And((Exists(name), Not(Compare(name, ">=", -math.inf)), *(Not(other) for other in others)))


def _column(condition: spark.Filter) -> str | None:
    if isinstance(condition, spark.Not):
        return _column(condition.child)
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0] if len(path) == 1 else None


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


def _bound(pushed: Pushed, condition: spark.Filter, name: str) -> tuple[Pushed, bool]:
    """The range cut by a predicate on the position or the acceptance; and is the predicate settled by that?"""
    if isinstance(condition, spark.IsNotNull):
        return pushed, name == "position"
    if isinstance(condition, spark.In):
        values = [value for value in condition.value if value is not None]
        if not values:
            return pushed, False
        pushed, _ = _bound(pushed, spark.GreaterThanOrEqual(condition.attribute, min(values)), name)
        pushed, _ = _bound(pushed, spark.LessThanOrEqual(condition.attribute, max(values)), name)
        return pushed, False
    op, value = _COMPARE.get(type(condition)), _utc(getattr(condition, "value", None))
    if op is None or value is None:
        return pushed, False
    if name == "position":
        return _between(pushed, op, cast(int, value)), True
    return _accept(pushed, op, cast(datetime, value)), False


def _between(pushed: Pushed, op: CompareOp, value: int) -> Pushed:
    start, end = pushed.start, pushed.end
    if op in ("==", ">", ">="):
        start = max(start, value + 1 if op == ">" else value)
    if op in ("==", "<", "<="):
        limit = value if op == "<" else value + 1
        end = limit if end is None else min(end, limit)
    return msgspec.structs.replace(pushed, start=start, end=end)


def _accept(pushed: Pushed, op: CompareOp, value: datetime) -> Pushed:
    since, until = pushed.since, pushed.until
    if op in ("==", ">", ">="):
        since = value if since is None else max(since, value)
    if op in ("==", "<", "<=") and value < _LAST:
        limit = value if op == "<" else value + _MICROSECOND
        until = limit if until is None else min(until, limit)
    return msgspec.structs.replace(pushed, since=since, until=until)
