"""The short way to the key of a plain conjunction.

Nearly every subscription is a conjunction of comparisons, ranges and sets on different attributes. For those the
canonical text can be put together directly, without building value sets. Whatever has an edge to it (values that are
another value's neighbour, empty ranges, mixed sets, two predicates on one attribute) is left to the general way, and
tests hold that both ways give the same text.
"""

from __future__ import annotations

from json.encoder import encode_basestring as quote

from recado.model.filter import And, Between, Compare, Constant, Exists, Filter, In, Not, Or, Sql
from recado.model.values import Value

_NAMELESS = (Constant, Sql, Or, Not)
_SAFE_INT = 2**52
"""Smaller integers have only fractions as neighbours, and those have longer texts."""


def quick_key(filter: Filter) -> str | None:
    """The canonical text of a plain conjunction; None for everything else."""
    if type(filter) is not And:
        return _condition(filter)
    held: dict[str, Filter] = {}
    texts: dict[str, str] = {}
    stack = [filter]
    while stack:
        for part in stack.pop().parts:
            if isinstance(part, And):
                stack.append(part)
                continue
            if isinstance(part, _NAMELESS):
                return None
            name = part.name
            if name in texts:  # a second predicate may be the other end of a range; a third one is not plain
                text = _two_bounds(held.pop(name, None), part)
            else:
                held[name] = part
                text = _condition(part)
            if text is None:
                return None
            texts[name] = text
    return "&".join(sorted(texts.values())) or None


def _two_bounds(one: Filter | None, two: Filter) -> str | None:
    """The text of a range that was given by its two ends, as in ``x > 1 and x <= 5``."""
    if type(one) is not Compare or type(two) is not Compare:
        return None
    low, high = (one, two) if one.op[0] == ">" else (two, one)
    if low.op[0] != ">" or high.op[0] != "<" or (type(low.value) is str) is not (type(high.value) is str):
        return None
    left, right = _text(low.value), _text(high.value)
    if left is None or right is None or not low.value < high.value:  # type: ignore[operator]  # of one kind
        return None
    return f"{quote(low.name)}{'[' if low.op == '>=' else '('}{left};{right}{']' if high.op == '<=' else ')'}"


def _condition(predicate: Filter) -> str | None:
    if type(predicate) is Compare:
        return _compare(predicate)
    if type(predicate) is Between:
        return _between(predicate)
    if type(predicate) is In:
        return _in(predicate)
    if type(predicate) is Exists:
        return quote(predicate.name) + "*"
    return None


def _compare(predicate: Compare) -> str | None:
    value, op = predicate.value, predicate.op
    if type(value) is bool:
        return f"{quote(predicate.name)}={'true' if value is (op == '==') else 'false'}" if op in ("==", "!=") else None
    text = _text(value)
    if text is None:
        return None
    name = quote(predicate.name)
    if op == "==":
        return f"{name}={text}"
    if op[0] == "<":
        return f"{name}(;{text}{']' if op == '<=' else ')'}"
    if op[0] == ">":
        return f"{name}{'[' if op == '>=' else '('}{text};)"
    return f"{name}(;{text})({text};)"


def _between(predicate: Between) -> str | None:
    low, high = predicate.low, predicate.high
    left, right = _text(low), _text(high)
    if left is None or right is None or (type(low) is str) is not (type(high) is str):
        return None
    if left == right:
        return f"{quote(predicate.name)}={left}"
    return f"{quote(predicate.name)}[{left};{right}]" if low < high else None  # type: ignore[operator]  # both strings or both numbers


def _in(predicate: In) -> str | None:
    """A set of values of one kind; the texts of mixed sets have an order of their own."""
    values = predicate.values
    if not values:
        return None
    first = type(values[0])
    if any(type(value) is not first for value in values):
        return None
    texts = [_text(value) for value in sorted(set(values))]
    return None if None in texts else f"{quote(predicate.name)}={','.join(texts)}"  # type: ignore[arg-type]


def _text(value: Value) -> str | None:
    """A value's canonical text, if both cuts next to the value are surely told by it."""
    if type(value) is str:
        return quote(value) if value and value[-1] != "\0" else None
    if type(value) is int:
        return repr(value) if -_SAFE_INT < value < _SAFE_INT else None
    if type(value) is not float:
        return None
    if value.is_integer():
        return repr(int(value)) if -_SAFE_INT < value < _SAFE_INT else None
    text = repr(value)
    # two neighbouring floats cannot both have fifteen digits or fewer; next to zero they have few digits anyway
    return text if len(text) <= 15 and 1e-300 < abs(value) < 1e300 else None
