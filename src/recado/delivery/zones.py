"""Time zones by their IANA names, and what a clock on the wall shows there.

``zoneinfo`` reads the system's time zone database, or the package ``tzdata`` where there is none.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_LONGEST_NAME = 100
# Files of the database that are no zones: what this machine is set to, and copies that count leap seconds.
_NO_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")
# The Gregorian calendar repeats after 400 years, weekdays and daylight saving rules included.
_FULL_CYCLE = timedelta(days=146_097)
_MIDDLE_YEAR = 5000


def find_zone(name: str) -> ZoneInfo:
    """The zone of that name; a ValueError that says what would be right."""
    if len(name) <= _LONGEST_NAME and name and not name.startswith(_NO_ZONES):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # unknown, not a relative path, or a folder such as "Europe"
    shown = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."
    raise ValueError(f"{shown!r} is not a time zone; use an IANA name such as 'America/Sao_Paulo' or 'UTC'")


def wall_clock(instant: datetime, tz: str) -> tuple[int, time]:
    """Weekday (Monday is 0) and time of day that a clock in the zone shows at the instant."""
    zone = ZoneInfo(tz)
    try:
        local = instant.astimezone(zone)
    except OverflowError:  # within a day of the year 1 or 10000
        towards_the_middle = _FULL_CYCLE if instant.year < _MIDDLE_YEAR else -_FULL_CYCLE
        local = (instant + towards_the_middle).astimezone(zone)
    return local.weekday(), local.time()
