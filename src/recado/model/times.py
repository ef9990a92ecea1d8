"""Instants as text: RFC 3339, the form that JSON, CloudEvents and people share.

An instant needs a time zone. It is kept in UTC with microseconds; finer digits are cut off, not rounded, so that an
instant never moves into the future. A leap second (``:60``) is refused, since it has no place on that scale.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,64})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_LONGEST = 100
EXAMPLE = "2026-11-15T10:00:00Z"


def parse_time(text: str) -> datetime:
    """The instant that an RFC 3339 text names, in UTC; a ValueError that says what would be right."""
    if len(text) > _LONGEST or not _RFC3339.fullmatch(text):
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
        raise ValueError(f"{shown!r} is not an RFC 3339 timestamp such as {EXAMPLE} (a time zone is needed)")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not an instant: {error}") from None


def format_time(instant: datetime) -> str:
    """RFC 3339 in UTC, with microseconds only where there are any."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
