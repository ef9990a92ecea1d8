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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal, NoReturn, TypeAlias, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from recado.errors import SubscriptionError
from recado.model import decoding
from recado.model.flat import refuse_repeats
from recado.model.limits import LIMITS, Limits
from recado.model.values import EXAMPLE, format_time, parse_time

# --- Time zones by their IANA names, and what a clock on the wall shows there ----------------------------------------
#
# ``zoneinfo`` reads the system's time zone database, or the package ``tzdata`` where there is none.


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


# --- Delivery constraints as values: how often, in which span of time, at which hours of the day ---------------------

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


# --- Does a subscription's owner want to hear of this matching event, now? (mobility.md 9.5) -------------------------
#
# A constraint that holds only while the owner is disconnected is skipped while they are connected. Of the active ones,
# the frequency must be satisfied **and** at least one of the intervals, if there are any: several intervals complement
# each other (15.4-A2). Looking has no side effect; whoever generates the notification remembers its instant as the next
# ``last_notified``, so the order in which constraints are listed changes what a refusal names, never whether it is one.
#
# All instants are in UTC. ``now`` may lie before ``last_notified`` (an event that comes late): then the time since the
# last notification is negative and a frequency refuses.


def satisfied(
    constraints: Constraints, occurred_at: datetime, now: datetime, last_notified: datetime | None, connected: bool
) -> bool:
    """May an event that occurred at ``occurred_at`` be notified at ``now``?"""
    return not refused_by(constraints, occurred_at, now, last_notified, connected)


def refused_by(
    constraints: Constraints, occurred_at: datetime, now: datetime, last_notified: datetime | None, connected: bool
) -> Constraints:
    """The constraints that stand in the way: the frequency, or all active intervals; nothing if satisfied."""
    _need_utc(occurred_at, now, last_notified)
    missed: list[Interval] = []
    inside = False
    for one in constraints:
        if connected and one.when == "disconnected":
            continue
        if isinstance(one, Frequency):
            if last_notified is not None and now - last_notified < one.period:
                return (one,)
        elif not inside:
            inside = one.contains(occurred_at)
            missed.append(one)
    return () if inside else tuple(missed)


def explain(
    constraints: Constraints, occurred_at: datetime, now: datetime, last_notified: datetime | None, connected: bool
) -> str | None:
    """Why the event is not notified, in a sentence; None if it is."""
    refusing = refused_by(constraints, occurred_at, now, last_notified, connected)
    if not refusing:
        return None
    if last_notified is not None and isinstance(refusing[0], Frequency):
        ago = (now - last_notified).total_seconds()
        since = f"{ago:g} s after" if ago >= 0 else f"{-ago:g} s before"
        return f"{refusing[0]}; this is {since} the last one"
    return f"{format_time(occurred_at)} is not in {', nor in '.join(str(one) for one in refusing)}"


def _need_utc(occurred_at: datetime, now: datetime, last_notified: datetime | None) -> None:
    """Differences of local times are wrong where clocks were changed in between, so there are none here."""
    if occurred_at.tzinfo is not UTC or now.tzinfo is not UTC or (last_notified and last_notified.tzinfo is not UTC):
        raise ValueError(f"instants are in UTC; got {occurred_at!r}, {now!r}, {last_notified!r}")


# --- Constraints from and to the JSON objects that a subscription carries --------------------------------------------
#
# ```
# {"kind": "frequency", "amount": 15, "unit": "seconds"}
# {"kind": "absolute", "from": "2026-11-15T10:00:00Z", "to": "2026-12-01T00:00:00Z"}
# {"kind": "daily", "from": "16:00", "to": "17:00", "tz": "America/Sao_Paulo", "weekdays": ["mon", "fri"]}
# ```
#
# each with ``"when": "disconnected"`` where it holds only then. ``tz`` is the zone of every time written without an
# offset; without it, the zone of whoever reads. A member with another name is an error, because a misspelt ``when``
# would go unseen. Errors name the place as in ``$.constraints[1].tz``.


LONGEST_PERIOD = timedelta(days=3660)

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?", re.ASCII)
_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
_SHOWN_CHARS = 60


def read_constraints(items: Sequence[Any], tz: str = "UTC", limits: Limits = LIMITS) -> Constraints:
    """The constraints that a subscription's objects describe; a SubscriptionError names the first wrong place."""
    if len(items) > limits.constraints:
        raise SubscriptionError(f"$.constraints: has {len(items):,} constraints; the limit is {limits.constraints:,}")
    read = tuple(_read_one(item, f"$.constraints[{number}]", tz) for number, item in enumerate(items))
    frequencies = [number for number, one in enumerate(read) if isinstance(one, Frequency)]
    if len(frequencies) > 1:
        raise SubscriptionError(
            f"$.constraints[{frequencies[1]}]: is a second frequency beside $.constraints[{frequencies[0]}]; "
            "which rate is wanted? Keep one"
        )
    return read


def decode_constraints(text: str | bytes, tz: str = "UTC", limits: Limits = LIMITS) -> Constraints:
    """The same from JSON text."""
    try:
        items = msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError as error:
        reason = decoding.explain(error, list[Any], text).removeprefix("$: ")
        raise SubscriptionError(f"$.constraints: is not a JSON list of objects: {reason}") from None
    except (UnicodeError, RecursionError) as error:
        raise SubscriptionError(f"$.constraints: is not a JSON list of objects: {error}") from None
    refuse_repeats(text.encode() if isinstance(text, str) else text, items, SubscriptionError)
    return read_constraints(items, tz, limits)


def write_constraints(constraints: Iterable[Constraint]) -> list[dict[str, Any]]:
    """JSON objects that read_constraints reads as the same constraints."""
    return [_WRITERS[type(one)](one) | ({"when": one.when} if one.when != "always" else {}) for one in constraints]


# --- reading ---------------------------------------------------------------------------------------------------------


class _Members:
    """The members of one object; it knows where it stands, so that errors can say so."""

    def __init__(self, members: Mapping[str, Any], place: str, tz: str) -> None:
        self.members = members
        self.place = place
        self.tz = tz

    def fail(self, name: str, reason: str) -> NoReturn:
        raise SubscriptionError(f"{self.place}.{name}: {reason}")

    def need(self, name: str, example: str) -> Any:
        if name not in self.members:
            raise SubscriptionError(f'{self.place}: lacks the member "{name}", such as "{name}": {example}')
        return self.members[name]

    def text(self, name: str, example: str) -> str:
        value = self.need(name, f'"{example}"')
        if not isinstance(value, str):
            self.fail(name, f'{_show(value)} is not a text such as "{example}"')
        return value

    def choice(self, name: str, choices: Iterable[str], default: str | None = None) -> str:
        words = list(choices)
        value = self.members.get(name, default) if default else self.need(name, f'"{words[0]}"')
        if not isinstance(value, str) or value not in words:
            self.fail(name, f"{_show(value)} is none of {', '.join(words)}")
        return value

    def zone(self) -> str:
        value = self.text("tz", "America/Sao_Paulo") if "tz" in self.members else self.tz
        try:
            return find_zone(value).key
        except ValueError as error:
            self.fail("tz", str(error))

    def only(self, *names: str) -> None:
        for name in self.members:
            if name not in names:
                reason = f"there is no such member here; there are {', '.join(names)}"
                raise SubscriptionError(f"{self.place}: {_show(name)}: {reason}")


def _read_one(item: Any, place: str, tz: str) -> Constraint:
    if not isinstance(item, Mapping):
        raise SubscriptionError(f'{place}: {_show(item)} is not an object such as {{"kind": "frequency", ...}}')
    members = _Members(item, place, tz)
    kind = members.choice("kind", _READERS)
    when = cast(When, members.choice("when", ("always", "disconnected"), default="always"))
    return _READERS[kind](members, when)


def _frequency(members: _Members, when: When) -> Frequency:
    members.only("kind", "amount", "unit", "when")
    amount = members.need("amount", "15")
    unit = cast(Unit, members.choice("unit", UNITS))
    longest = LONGEST_PERIOD // UNITS[unit]
    if type(amount) is not int or not 1 <= amount <= longest:
        members.fail("amount", f"{_show(amount)} is not a whole number from 1 to {longest:,} ({unit})")
    return Frequency(amount, unit, when)


def _absolute(members: _Members, when: When) -> Absolute:
    members.only("kind", "from", "to", "tz", "when")
    start, end = _instant(members, "from"), _instant(members, "to")
    if start >= end:
        members.fail(
            "to", f"{format_time(end)} is not later than from, {format_time(start)}: no event could occur then"
        )
    return Absolute(start, end, when)


def _daily(members: _Members, when: When) -> Daily:
    members.only("kind", "from", "to", "tz", "weekdays", "when")
    return Daily(_clock(members, "from"), _clock(members, "to"), members.zone(), _weekdays(members), when)


_READERS: dict[str, Callable[[_Members, When], Constraint]] = {
    "frequency": _frequency,
    "absolute": _absolute,
    "daily": _daily,
}


def _instant(members: _Members, name: str) -> datetime:
    """An RFC 3339 instant, or a local time that the constraint's zone makes one.

    A local time that the clocks repeat means its first occurrence; one that they skip counts on with the offset before
    the jump, so that 02:30 in a skipped hour is half an hour after the jump.
    """
    text = members.text(name, EXAMPLE)
    try:
        if not _LOCAL.fullmatch(text):
            return parse_time(text)
        return datetime.fromisoformat(text).replace(tzinfo=find_zone(members.zone())).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        members.fail(name, str(error))


def _clock(members: _Members, name: str) -> time:
    text = members.text(name, "16:00")
    if text in ("24:00", "24:00:00"):
        return time()
    if not _CLOCK.fullmatch(text):
        members.fail(name, f"{_show(text)} is not a time of day such as 16:00 or 16:00:30")
    return time.fromisoformat(text)


def _weekdays(members: _Members) -> tuple[int, ...]:
    if "weekdays" not in members.members:
        return ()
    days = members.members["weekdays"]
    right = f"a list of different days of {', '.join(WEEKDAYS)}"
    if not isinstance(days, list | tuple) or not days:
        members.fail("weekdays", f"{_show(days)} is not {right}")
    for number, day in enumerate(days):
        if day not in WEEKDAYS or day in days[:number]:
            members.fail("weekdays", f"{_show(day)} cannot stand at place {number + 1} of {right}")
    return tuple(sorted(WEEKDAYS.index(day) for day in days))


def _show(value: Any) -> str:
    """The value as JSON, cut to what a message can bear."""
    text = msgspec.json.encode(value, enc_hook=repr).decode()
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


# --- writing ---------------------------------------------------------------------------------------------------------


def _write_frequency(one: Frequency) -> dict[str, Any]:
    return {"kind": "frequency", "amount": one.amount, "unit": one.unit}


def _write_absolute(one: Absolute) -> dict[str, Any]:
    return {"kind": "absolute", "from": format_time(one.start), "to": format_time(one.end)}


def _write_daily(one: Daily) -> dict[str, Any]:
    written: dict[str, Any] = {
        "kind": "daily",
        "from": format_clock(one.start),
        "to": format_clock(one.end),
        "tz": one.tz,
    }
    if one.weekdays:
        written["weekdays"] = [WEEKDAYS[day] for day in one.weekdays]
    return written


_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    Frequency: _write_frequency,
    Absolute: _write_absolute,
    Daily: _write_daily,
}
