"""From nested JSON to flat attributes, and the way back for single values.

- A nested object gives dotted names: ``{"a": {"b": 1}}`` is ``a.b = 1``.
- An array gives a tuple; arrays in arrays are joined into one. The members of objects in an array are collected by
  name: ``{"items": [{"price": 1}, {"price": 2}]}`` is ``items.price = (1, 2)``.
- ``null`` and an empty array mean that the attribute is absent.
- JSON has no instants, so an object with the single member ``$time`` is one: ``{"$time": "2026-11-15T10:00:00Z"}``.
  In the same way ``{"$number": "NaN"}`` (or ``Infinity``, ``-Infinity``) is a float that JSON cannot spell.
- A name may be given once: ``{"a.b": 1, "a": {"b": 2}}`` is an error.

Errors name the place as a JSON path, ``$.items[3].name``. Recursion ends at ``Limits.nesting``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recado.errors import EventError
from recado.model.event import ENVELOPE, Event, check_event
from recado.model.limits import Limits
from recado.model.repeats import shorten
from recado.model.times import format_own_time, own_offset, read_time
from recado.model.values import INT_MAX, INT_MIN, Value

Attribute = Value | tuple[Value, ...]

SCALARS = frozenset({str, int, float, bool})
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NUMBER_NAMES = {repr(number): name for name, number in _NUMBERS.items()}


class Flattener:
    """Collects the attributes of one event."""

    def __init__(self, limits: Limits) -> None:
        self.attributes: dict[str, Attribute] = {}
        self._limits = limits
        self._path: list[str] = ["$"]
        self._arrays = 0  # outermost arrays seen so far
        self._array: int | None = None  # the number of the outermost array around the place, if any
        self._array_of: dict[str, int] = {}  # which array gave a name

    def add(self, name: str, value: Any, *path: str) -> None:
        """Add a value and all that is in it under ``name``; ``path`` is where it stands in the document."""
        self._path[1:] = path
        self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind in SCALARS:
            self._put(name, value)
        elif value is None:
            return
        elif isinstance(value, Mapping):
            self._add_object(name, value)
        elif kind is list or kind is tuple:
            self._add_array(name, value)
        elif isinstance(value, datetime):
            self._put(name, self._aware(value))
        else:
            raise self._error(f"{kind.__name__} is not a value; use a string, a number, a boolean or a timestamp")

    def _add_object(self, name: str, value: Mapping[Any, Any]) -> None:
        special = self._special(value)
        if special is not None:
            self._put(name, special)
            return
        for key, member in value.items():
            self._check_member(key)
            self._enter(f".{key}")
            self._add(f"{name}.{key}", member)
            self._path.pop()

    def _add_array(self, name: str, value: list[Any] | tuple[Any, ...]) -> None:
        outermost = self._array is None
        if outermost:
            self._array = self._arrays = self._arrays + 1
        for position, element in enumerate(value):
            self._enter(f"[{position}]")
            self._add(name, element)
            self._path.pop()
        if outermost:
            self._array = None

    def _put(self, name: str, value: Value) -> None:
        if self._array is None:
            if name in self.attributes:
                raise self._error(f"attribute {name!r} is given twice")
            self.attributes[name] = value
            return
        before = self.attributes.get(name)
        if before is None:
            self.attributes[name] = (value,)
            self._array_of[name] = self._array
        elif type(before) is not tuple or self._array_of[name] != self._array:
            raise self._error(f"attribute {name!r} is given twice")
        elif len(before) >= self._limits.array_elements:
            raise self._error(f"attribute {name!r} has more than {self._limits.array_elements:,} elements")
        else:
            self.attributes[name] = (*before, value)

    def _special(self, value: Mapping[Any, Any]) -> Value | None:
        """An instant or an odd float, if the object stands for one."""
        if len(value) != 1:
            return None
        if "$time" in value:
            return self.instant(value["$time"], ".$time")
        if "$number" in value:
            number = _NUMBERS.get(value["$number"]) if type(value["$number"]) is str else None
            if number is None:
                raise self._error("$number must be one of " + ", ".join(f'"{name}"' for name in _NUMBERS))
            return number
        return None

    def instant(self, value: Any, *path: str) -> datetime:
        """An instant from RFC 3339 text, from ``{"$time": text}``, or an aware ``datetime`` itself."""
        self._path.extend(path)
        if isinstance(value, Mapping) and len(value) == 1 and "$time" in value:
            value = value["$time"]
        if isinstance(value, datetime):
            return self._aware(value)
        if type(value) is not str:
            raise self._error("a timestamp must be a string such as 2026-11-15T10:00:00Z")
        try:
            instant = read_time(value)
        except ValueError as error:
            raise self._error(str(error)) from None
        del self._path[len(self._path) - len(path) :]
        return instant

    def _aware(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise self._error("the timestamp has no time zone; add Z or an offset such as +01:00")
        try:
            return own_offset(value)
        except OverflowError:
            raise self._error("the timestamp is outside the years 1 to 9999 in UTC") from None

    def _enter(self, step: str) -> None:
        self._path.append(step)
        if len(self._path) > self._limits.nesting + 1:
            raise self._error(f"nested more than {self._limits.nesting} levels deep")

    def _check_member(self, key: Any) -> None:
        if type(key) is not str:
            raise self._error(f"a member name must be a string, not {type(key).__name__}")

    def _error(self, reason: str) -> EventError:
        return EventError(f"{shorten(''.join(self._path))}: {reason}")


def checked(event: Event, limits: Limits) -> Event:
    """``check_event``, with a single quick pass that settles the common case: short plain values, all well inside."""
    return event if _plain(event, limits) else check_event(event, limits)


def _plain(event: Event, limits: Limits) -> bool:
    """Surely within the limits; False means only that a closer look is needed."""
    attributes, string_chars, name_chars = event.attributes, limits.string_chars, limits.name_chars
    if len(attributes) > limits.attributes or not (_plain_text(event.id, string_chars) and event.id):
        return False
    if not (_plain_text(event.type, string_chars) and _plain_text(event.source, string_chars)):
        return False
    for name, value in attributes.items():
        if not name or name in ENVELOPE or len(name) > name_chars or not name.isascii():
            return False
        if isinstance(value, str):
            if len(value) > string_chars or not value.isascii():
                return False
        elif isinstance(value, int):
            if not INT_MIN <= value <= INT_MAX:
                return False
        elif not isinstance(value, float):
            return False
    return True


def _plain_text(text: str, longest: int) -> bool:
    return len(text) <= longest and text.isascii()


def jsonable(value: Attribute) -> Any:
    """A value as JSON can say it; ``Flattener`` reads it back."""
    if type(value) is tuple:
        return [jsonable(element) for element in value]
    if isinstance(value, datetime):
        return {"$time": format_own_time(value)}
    if type(value) is float and not math.isfinite(value):
        return {"$number": _NUMBER_NAMES[repr(value)]}
    return value
