"""The printer of the expression syntax: the text that ``parse`` reads back as the very same tree.

A join of two or more parts is written with its word, and a join inside a join always stands in parentheses. Joins of
one part or none, which no sequence of words can show, are written ``all(x)``, ``any(x)``, ``all()`` and ``any()``.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from recado.filters.expression.lexer import PLAIN_NAME, RESERVED
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
from recado.model.values import Value, format_time

_PLAIN = re.compile(PLAIN_NAME)
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\\": "\\\\"}
_TEXT_WORDS = {"prefix": "startswith", "suffix": "endswith", "contains": "contains", "like": "like"}
_DEFAULT_THRESHOLD = Similar("", "").threshold


def format(filter: Filter) -> str:
    """The filter as an expression."""
    pieces: list[str] = []
    # An explicit stack of strings and nodes still to write, last first: depth costs no recursion.
    todo: list[str | Filter] = [filter]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif isinstance(item, Not):
            todo += [*reversed(_operand(item.part)), "not "]
        elif isinstance(item, (And, Or)):
            todo += reversed(_joined(item))
        else:
            pieces.append(_predicate(item))
    return "".join(pieces)


def _joined(join: And | Or) -> list[str | Filter]:
    conjunction = isinstance(join, And)
    if len(join.parts) < 2:
        return ["all(" if conjunction else "any(", *join.parts, ")"]
    items: list[str | Filter] = []
    for part in join.parts:
        if items:
            items.append(" and " if conjunction else " or ")
        items += _operand(part)
    return items


def _operand(part: Filter) -> list[str | Filter]:
    if isinstance(part, (And, Or)) and len(part.parts) > 1:
        return ["(", part, ")"]
    return [part]


def _predicate(node: Filter) -> str:
    match node:
        case Constant(value):
            return "true" if value else "false"
        case Compare(name, op, value):
            return f"{format_name(name)} {op} {format_value(value)}"
        case Between(name, low, high):
            return f"{format_name(name)} between {format_value(low)} and {format_value(high)}"
        case In(name, values):
            return f"{format_name(name)} in {{{', '.join(map(format_value, values))}}}"
        case Text(name, op, pattern, fold):
            return f"{format_name(name)} {_TEXT_WORDS[op]} {'i' if fold else ''}{_quoted(pattern)}"
        case Regex(name, pattern):
            return f"{format_name(name)} matches {_quoted(pattern)}"
        case Exists(name):
            return f"exists {format_name(name)}"
        case Similar(name, text, threshold):
            at = "" if threshold == _DEFAULT_THRESHOLD else f" at {threshold!r}"
            return f"{format_name(name)} similar to {_quoted(text)}{at}"
        case Sql(text):
            return f"sql {_quoted(text)}"
    raise TypeError(f"{type(node).__name__} is not a filter")


def format_name(name: str) -> str:
    """An attribute name, between back quotes where it could be misread."""
    if _PLAIN.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return _quoted(name, "`")


def format_value(value: Value) -> str:
    """A literal that reads back as the same value of the same type."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f't"{format_time(value)}"'
    if isinstance(value, float) and math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return repr(value)


def _quoted(text: str, quote: str = '"') -> str:
    if text.isprintable() and quote not in text and "\\" not in text:
        return f"{quote}{text}{quote}"
    return quote + "".join("\\" + char if char == quote else _escaped(char) for char in text) + quote


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
