"""Attribute values: strings, numbers, booleans and timestamps.

Four *kinds* exist, and values of different kinds never compare: such a comparison is false, also for ``!=``.

- NUMBER holds ``int`` (64 bits, signed or unsigned) and ``float``, compared by their exact mathematical value, as
  Python does: ``2**53 + 1`` is greater than ``float(2**53)``. ``-0.0`` equals ``0``. NaN is a value that exists and
  compares false with everything, itself included; a filter may not contain it.
- BOOL is not a number: ``true == 1`` is false. Booleans have no order.
- TIME is an instant: an aware ``datetime``, kept in UTC with microseconds.
- STRING is ordered by code point.

An absent attribute has no value at all; JSON ``null`` is read as absent.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from recado.errors import RecadoError

Value = str | int | float | bool | datetime

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Kind(IntEnum):
    """The kinds of values; the numbers are part of the index's codes and snapshots."""

    STRING = 0
    NUMBER = 1
    BOOL = 2
    TIME = 3


_KINDS: dict[type, Kind] = {
    str: Kind.STRING,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    bool: Kind.BOOL,
    datetime: Kind.TIME,
}


def kind_of(value: Value) -> Kind:
    """The kind of a value; a TypeError for anything that is not a value."""
    kind = _KINDS.get(type(value))
    if kind is None:
        raise TypeError(f"{type(value).__name__} is not a value; use str, int, float, bool or an aware datetime")
    return kind


def is_nan(value: Value) -> bool:
    return type(value) is float and math.isnan(value)


def canonical(value: Value) -> Value:
    """The one spelling of equal values: integral floats become ints, instants are in UTC."""
    if type(value) is float and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    if type(value) is datetime:
        return value.astimezone(UTC)
    return value


def microseconds(instant: datetime) -> int:
    """Microseconds since 1970 in UTC, exact."""
    return (instant - EPOCH) // _MICROSECOND


def check_value(value: Value, what: str, string_chars: int) -> None:
    """Refuse what is not a value or is too large; ``what`` names the place in the message."""
    kind = _KINDS.get(type(value))
    if kind is None:
        raise RecadoError(
            f"{what}: {type(value).__name__} is not a value; use a string, a number, a boolean or a timestamp"
        )
    if kind is Kind.STRING:
        assert isinstance(value, str)
        if len(value) > string_chars:
            raise RecadoError(f"{what}: the string has {len(value):,} characters; the limit is {string_chars:,}")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise RecadoError(f"{what}: the string has a lone surrogate at character {error.start + 1}") from None
    elif type(value) is int and not INT_MIN <= value <= INT_MAX:
        raise RecadoError(f"{what}: the integer does not fit 64 bits (from -2^63 to 2^64-1)")
    elif type(value) is datetime:
        if value.tzinfo is None:
            raise RecadoError(f"{what}: the timestamp has no time zone; add Z or an offset such as +01:00")
        try:
            value.astimezone(UTC)
        except OverflowError:
            raise RecadoError(f"{what}: the timestamp is outside the years 1 to 9999 in UTC") from None
