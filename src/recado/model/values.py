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
import re
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum

from recado.errors import RecadoError

Value = str | int | float | bool | datetime
"""What an attribute of an event may be; a ``datetime`` is aware of its zone."""

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
        return in_utc(value)
    return value


def in_utc(instant: datetime) -> datetime:
    """The instant in UTC, where alone Python compares instants rightly.

    It compares the clocks of two instants that share a zone, even where they have been set back in between, and holds
    none of an hour that comes twice, or never, for equal to any instant of another zone.
    """
    return instant if instant.tzinfo is UTC else instant.astimezone(UTC)


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


# --- Instants as text: RFC 3339, the form that JSON, CloudEvents and people share ------------------------------------
#
# An instant needs a time zone. It is kept with microseconds; finer digits are cut off, not rounded, so that an instant
# never moves into the future. A leap second (``:60``) is refused, since it has no place on that scale.
#
# Instants are equal wherever they are one moment, and most of Recado has them in UTC. Those of events keep the offset
# that they came with: an event is handed on as it was written, and CESQL sees the text of a timestamp.


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,64})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_LONGEST = 100
_MINUTE = timedelta(minutes=1)
EXAMPLE = "2026-11-15T10:00:00Z"


def parse_time(text: str) -> datetime:
    """The instant that an RFC 3339 text names, in UTC; a ValueError that says what would be right."""
    return read_time(text).astimezone(UTC)


def read_time(text: str) -> datetime:
    """The same with the offset that the text has; a zero offset is UTC, however it is written."""
    if len(text) > _LONGEST or not _RFC3339.fullmatch(text):
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
        raise ValueError(f"{shown!r} is not an RFC 3339 timestamp such as {EXAMPLE} (a time zone is needed)")
    try:
        return own_offset(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not an instant: {error}") from None


def own_offset(instant: datetime) -> datetime:
    """The instant with a fixed offset in place of its zone: in UTC where RFC 3339 could not write the offset.

    An OverflowError if it is outside the years 1 to 9999 in UTC.
    """
    if instant.tzinfo is UTC:
        return instant
    moment = instant.astimezone(UTC)
    offset = instant.utcoffset()
    if not offset or offset % _MINUTE:
        return moment
    return instant if type(instant.tzinfo) is timezone else moment.astimezone(timezone(offset))


def format_own_time(instant: datetime) -> str:
    """RFC 3339 with the instant's own offset."""
    offset = instant.utcoffset()
    if instant.tzinfo is UTC or not offset or offset % _MINUTE:
        return format_time(instant)
    return instant.isoformat()


def format_time(instant: datetime) -> str:
    """RFC 3339 in UTC, with microseconds only where there are any."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
