"""Filters in words, for ``recado filter explain``."""

from __future__ import annotations

from datetime import datetime

from recado.filters.evaluate import View, evaluate, names_of
from recado.model.filter import (
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
    Sql,
    Text,
)
from recado.model.values import Kind, Value, format_time, kind_of

_COMPARE = {
    "==": "equals",
    "!=": "is present and differs from",
    "<": "is less than",
    "<=": "is at most",
    ">": "is greater than",
    ">=": "is at least",
}
_COMPARE_TIME = {"<": "is before", "<=": "is not after", ">": "is after", ">=": "is not before"}
_TEXT = {"prefix": "begins with", "suffix": "ends with", "contains": "contains", "like": "looks like"}
_KINDS = {Kind.STRING: "a string", Kind.NUMBER: "a number", Kind.BOOL: "a boolean", Kind.TIME: "a timestamp"}


def describe(node: Filter) -> str:
    """One node in words; a joining node says how its parts are joined."""
    match node:
        case And(parts):
            return "all of these" if parts else "every event (a conjunction of nothing)"
        case Or(parts):
            return "at least one of these" if parts else "no event (a disjunction of nothing)"
        case Not():
            return "not"
        case Constant(value):
            return "every event" if value else "no event"
        case Sql(text):
            return f"the CESQL expression  {text}"
        case _:
            return f"{node.name} {_predicate(node)}"


def _predicate(node: Filter) -> str:
    match node:
        case Compare(_, op, value):
            verbs = {**_COMPARE, **_COMPARE_TIME} if isinstance(value, datetime) else _COMPARE
            return f"{verbs[op]} {show(value)}"
        case Between(_, low, high):
            return f"is from {show(low)} to {show(high)}, both included"
        case In(_, values):
            return f"is one of {', '.join(show(value) for value in values)}" if values else "is one of nothing"
        case Text(_, op, pattern, fold):
            return f"{_TEXT[op]} {show(pattern)}" + (", ignoring case" if fold else "")
        case Regex(_, pattern):
            return f"is a string that the regular expression {pattern} describes whole"
        case Similar(_, text, threshold):
            return f"is similar to {show(text)} (at least {threshold:g})"
        case Exists():
            return "is present"
    raise TypeError(f"{type(node).__name__} is not a predicate")


def show(value: Value) -> str:
    """A value as a person reads it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return format_time(value)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def verdict(node: Filter, view: View) -> tuple[bool, str]:
    """The truth of a node on a view of an event, and for a predicate what it met there."""
    truth = evaluate(node, view)
    if isinstance(node, And | Or | Not | Constant):
        return truth, ""
    if isinstance(node, Sql):
        met = ", ".join(f"{name} = {show(view[name])}" for name in sorted(names_of(node)) if name in view)
        return truth, met
    value = view.get(node.name)
    if value is None:
        return truth, f"{node.name} is absent"
    return truth, f"{node.name} = {show(value)}" + _mismatch(node, value)


def _mismatch(node: Filter, value: Value) -> str:
    """A word on kinds, where they are why a predicate is false."""
    match node:
        case Compare(_, _, other) | Between(_, other, _):
            wanted = kind_of(other)
        case Text() | Regex() | Similar():
            wanted = Kind.STRING
        case _:
            return ""
    found = kind_of(value)
    return "" if found is wanted else f", {_KINDS[found]} and not {_KINDS[wanted]}"
