"""Delivery constraints as values: how often, in which span of time, at which hours of the day.

The three kinds of mobility.md 9.3 and 9.4. A frequency keeps notifications apart; intervals say when an event may have
occurred. Intervals contain their beginning and not their end. Each constraint holds always, or only while the
subscription's owner is disconnected (9.5).

A daily interval is read off **the clock on the wall** of its time zone. So in the hour that daylight saving repeats, an
event is judged by the time that the clock shows, both times alike; times that the clock skips never occur; and an
interval that begins in a skipped hour begins when the clock jumps. The interval of a day runs from ``start`` on that
day to ``end`` on the same day or, where ``end`` is not later than ``start``, on the next one; ``weekdays`` are the days
on which it starts.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Literal, TypeAlias

import msgspec

from recado.delivery.zones import wall_clock
from recado.model.values import format_time

Unit: TypeAlias = Literal["seconds", "minutes", "hours", "days"]
When: TypeAlias = Literal["always", "disconnected"]

UNITS: dict[Unit, timedelta] = {
    "seconds": timedelta(seconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Frequency(msgspec.Struct, frozen=True):
    """At least ``amount`` units between two notifications. A day has 24 hours, whatever the clocks do."""

    amount: int
    unit: Unit
    when: When = "always"

    @property
    def period(self) -> timedelta:
        return self.amount * UNITS[self.unit]

    def __str__(self) -> str:
        return f"at most one every {self.amount} {self.unit}"


class Absolute(msgspec.Struct, frozen=True):
    """From one instant to another, both in UTC."""

    start: datetime
    end: datetime
    when: When = "always"

    def contains(self, instant: datetime) -> bool:
        return self.start <= instant < self.end

    def __str__(self) -> str:
        return f"{format_time(self.start)} to {format_time(self.end)}"


class Daily(msgspec.Struct, frozen=True):
    """Hours of the day in a time zone; ``weekdays`` from 0 (Monday) to 6, in order, none of them meaning every day."""

    start: time
    end: time
    tz: str = "UTC"
    weekdays: tuple[int, ...] = ()
    when: When = "always"

    def contains(self, instant: datetime) -> bool:
        weekday, clock = wall_clock(instant, self.tz)
        if self.start < self.end:
            inside = self.start <= clock < self.end
        else:
            inside = clock >= self.start or clock < self.end
            if clock < self.end:  # what began yesterday
                weekday = (weekday - 1) % 7
        return inside and (not self.weekdays or weekday in self.weekdays)

    def __str__(self) -> str:
        days = "daily" if not self.weekdays else " ".join(WEEKDAYS[day] for day in self.weekdays)
        return f"{days} {format_clock(self.start)} to {format_clock(self.end)} {self.tz}"


Interval: TypeAlias = Absolute | Daily
Constraint: TypeAlias = Frequency | Absolute | Daily
Constraints: TypeAlias = tuple[Constraint, ...]


def format_clock(clock: time) -> str:
    """A time of day, with seconds only where there are any."""
    return clock.isoformat("minutes" if clock == clock.replace(second=0, microsecond=0) else "auto")


def frequency_of(constraints: Constraints) -> Frequency | None:
    """The one frequency among the constraints; a subscription without it needs no memory of its notifications."""
    return next((one for one in constraints if isinstance(one, Frequency)), None)
