"""CESQL's types: how values of events become CESQL values, and how those are cast (CESQL 1.0, sections 3.1, 3.2, 3.7).

An attribute is an Integer if it is a number without a fraction inside 32 bits, a Boolean if it is one, and otherwise a
String, as the specification asks for what its types cannot hold:

- a number beyond 32 bits or with a fraction is its shortest decimal text: ``1099511627776``, ``25.5``, ``1e+300``,
  ``Infinity``, ``-Infinity``, ``NaN``;
- an instant is its RFC 3339 text with its own offset: ``2026-11-15T10:00:00Z``, ``2018-04-26T14:48:09+02:00``.

Numbers that are equal in Recado (``5`` and ``5.0``) are thus equal in CESQL too; one instant in two zones is not.

A failed cast, or any other error of an evaluation, is an ``EvaluationError``. It carries the value that the failing
operation yields beside the error; ``owner`` is the node that yields something else than the zero value of its type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from recado.errors import RecadoError
from recado.filters.cesql.nodes import CesqlValue
from recado.model.values import Value, canonical, format_own_time, read_time

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
ErrorKind = Literal["math", "cast", "missingAttribute", "missingFunction", "functionEvaluation"]

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_INT_DIGITS = len(str(INT_MAX))
_SHOWN_CHARS = 40
_NUMBER_CHARS = 40
"""Longer than the text of any number or instant."""


class EvaluationError(RecadoError):
    """One error of an evaluation, on its way out."""

    def __init__(self, kind: ErrorKind, message: str, value: CesqlValue = False) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.value = value
        self.owner: object = None


def represent(value: Value) -> CesqlValue:
    """The CESQL value of an attribute."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, datetime):
        return format_own_time(value)
    number = canonical(value)
    if isinstance(number, int):
        return number if INT_MIN <= number <= INT_MAX else str(number)
    assert isinstance(number, float)
    return _float_text(number)


def _float_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def spellings(text: str) -> list[Value] | None:
    """All values whose text is ``text``; None if no filter can name one of them and no other value.

    These are NaN, which no filter can hold, and instants, which a filter cannot tell from the same ones elsewhere.
    """
    if text == "NaN" or _is_instant(text):
        return None
    if len(text) > _NUMBER_CHARS:
        return [text]
    candidates: list[Value] = [True, False]
    for read in (int, float):
        try:
            candidates.append(read(text))
        except (ValueError, OverflowError):
            continue
    found: list[Value] = [text]
    for candidate in candidates:
        if candidate == candidate and to_string(represent(candidate)) == text and not _holds(found, candidate):
            found.append(canonical(candidate))
    return found


def _is_instant(text: str) -> bool:
    try:
        return len(text) <= _NUMBER_CHARS and format_own_time(read_time(text)) == text
    except ValueError:
        return False


def _holds(values: list[Value], value: Value) -> bool:
    return any(type(canonical(value)) is type(other) and value == other for other in values)


def to_string(value: CesqlValue) -> str:
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


def to_integer(value: CesqlValue) -> int:
    if not isinstance(value, str):
        return int(value)
    found = _INTEGER.fullmatch(value)
    if found is not None and len(found[2]) <= _INT_DIGITS:
        number = int(found[1] + found[2])
        if INT_MIN <= number <= INT_MAX:
            return number
    raise EvaluationError("cast", f"{shown(value)} is not an integer of 32 bits", 0)


def to_boolean(value: CesqlValue) -> bool:
    if not isinstance(value, str):
        return bool(value)
    lowered = value.lower() if len(value) <= 5 else ""
    if lowered in ("true", "false"):
        return lowered == "true"
    raise EvaluationError("cast", f"{shown(value)} is neither true nor false", False)


def cast(value: CesqlValue, target: type) -> CesqlValue:
    """The value as a ``str``, ``int`` or ``bool``; a cast EvaluationError if it cannot be one."""
    if type(value) is target:
        return value
    if target is str:
        return to_string(value)
    return to_integer(value) if target is int else to_boolean(value)


def castable(convert: Callable[[CesqlValue], CesqlValue], value: CesqlValue) -> bool:
    """Would the cast succeed?"""
    try:
        convert(value)
    except EvaluationError:
        return False
    return True


def shown(value: CesqlValue) -> str:
    """The value for a message: short, however long it is."""
    if isinstance(value, str) and len(value) > _SHOWN_CHARS:
        return f"{value[:_SHOWN_CHARS]!r}..."
    return repr(value) if isinstance(value, str) else to_string(value)
