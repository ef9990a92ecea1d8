"""Constraints from and to the JSON objects that a subscription carries.

```
{"kind": "frequency", "amount": 15, "unit": "seconds"}
{"kind": "absolute", "from": "2026-11-15T10:00:00Z", "to": "2026-12-01T00:00:00Z"}
{"kind": "daily", "from": "16:00", "to": "17:00", "tz": "America/Sao_Paulo", "weekdays": ["mon", "fri"]}
```

each with ``"when": "disconnected"`` where it holds only then. ``tz`` is the zone of every time written without an
offset; without it, the zone of whoever reads. A member with another name is an error, because a misspelt ``when`` would
go unseen. Errors name the place as in ``$.constraints[1].tz``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, NoReturn, cast

import msgspec

from recado.delivery.constraints import (
    UNITS,
    WEEKDAYS,
    Absolute,
    Constraint,
    Constraints,
    Daily,
    Frequency,
    Unit,
    When,
    format_clock,
)
from recado.delivery.zones import find_zone
from recado.errors import SubscriptionError
from recado.model.flat import refuse_repeats
from recado.model.limits import LIMITS, Limits
from recado.model.values import EXAMPLE, format_time, parse_time

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
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SubscriptionError(f"$.constraints: is not a JSON list of objects: {error}") from None
    refuse_repeats(text.encode() if isinstance(text, str) else text, items, SubscriptionError)
    return read_constraints(items, tz, limits)


def write_constraints(constraints: Iterable[Constraint]) -> list[dict[str, Any]]:
    """JSON objects that read_constraints reads as the same constraints."""
    return [_WRITERS[type(one)](one) | ({"when": one.when} if one.when != "always" else {}) for one in constraints]


def encode_constraints(constraints: Iterable[Constraint]) -> str:
    """The same as JSON text."""
    return msgspec.json.encode(write_constraints(constraints)).decode()


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
            self.fail(name, f'{_shown(value)} is not a text such as "{example}"')
        return value

    def choice(self, name: str, choices: Iterable[str], default: str | None = None) -> str:
        words = list(choices)
        value = self.members.get(name, default) if default else self.need(name, f'"{words[0]}"')
        if not isinstance(value, str) or value not in words:
            self.fail(name, f"{_shown(value)} is none of {', '.join(words)}")
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
                raise SubscriptionError(f"{self.place}: {_shown(name)}: {reason}")


def _read_one(item: Any, place: str, tz: str) -> Constraint:
    if not isinstance(item, Mapping):
        raise SubscriptionError(f'{place}: {_shown(item)} is not an object such as {{"kind": "frequency", ...}}')
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
        members.fail("amount", f"{_shown(amount)} is not a whole number from 1 to {longest:,} ({unit})")
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
        members.fail(name, f"{_shown(text)} is not a time of day such as 16:00 or 16:00:30")
    return time.fromisoformat(text)


def _weekdays(members: _Members) -> tuple[int, ...]:
    if "weekdays" not in members.members:
        return ()
    days = members.members["weekdays"]
    right = f"a list of different days of {', '.join(WEEKDAYS)}"
    if not isinstance(days, list | tuple) or not days:
        members.fail("weekdays", f"{_shown(days)} is not {right}")
    for number, day in enumerate(days):
        if day not in WEEKDAYS or day in days[:number]:
            members.fail("weekdays", f"{_shown(day)} cannot stand at place {number + 1} of {right}")
    return tuple(sorted(WEEKDAYS.index(day) for day in days))


def _shown(value: Any) -> str:
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
