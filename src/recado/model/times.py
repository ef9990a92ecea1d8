"""Instants as text: RFC 3339, the form that JSON, CloudEvents and people share.

An instant needs a time zone. It is kept with microseconds; finer digits are cut off, not rounded, so that an instant
never moves into the future. A leap second (``:60``) is refused, since it has no place on that scale.

Instants are equal wherever they are one moment, and most of Recado has them in UTC. Those of events keep the offset
that they came with: an event is handed on as it was written, and CESQL sees the text of a timestamp.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

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
