"""The flat JSON form of an event: ``{"id": …, "type": …, "source": …, "time": …, <attributes>}``.

Every member that is not of the envelope is an attribute; ``recado.model.flat`` says what nested members mean.

- ``id`` is a string, or an integer that is read as its decimal text. It is required; a reader of numbered lines may
  pass a ``default_id`` for events without one.
- ``type`` and ``source`` are strings, and may be missing. ``time`` is RFC 3339 text.
- ``$extensions`` lists the attributes that CloudEvents writes beside the envelope, so that an event that came as a
  CloudEvent and was kept in the flat form can become the same CloudEvent again. It is written only where needed.
- ``specversion`` is refused as an attribute: it is what a CloudEvent is recognised by.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from recado.errors import EventError, RecadoError
from recado.model.event import ENVELOPE, Event, check_event
from recado.model.limits import LIMITS, Limits
from recado.model.values import INT_MAX, INT_MIN, Value, format_own_time, own_offset, read_time

# --- Refuse JSON objects that repeat a key ---------------------------------------------------------------------------
#
# JSON decoders take the last of two members with one name and say nothing, so that an object could lose a part of
# itself unnoticed. To look at every key again would cost more than decoding, so they are counted. A key is followed by
# its quote and a colon: without its white space, a text has at least as many ``":`` as keys. Where it has just as many
# as the decoded value has keys, none was lost. In a string the quote has a backslash before it, and such ``\":`` are
# left out. Only what does not add up is read again with care.


def refuse_repeats(raw: bytes, decoded: Any, error: type[RecadoError]) -> None:
    """Raise an ``error`` that names the place and the key, if an object of the text has a key twice.

    ``raw`` is valid JSON in UTF-8, and ``decoded`` what a decoder made of it: dicts, lists and scalars.
    """
    if type(decoded) is not dict:
        refuse_repeats_among(raw, (decoded,), 0, error)
    elif raw.count(b":") != len(decoded):
        refuse_repeats_among(raw, decoded.values(), len(decoded), error)


def refuse_repeats_among(raw: bytes, values: Iterable[Any], keys: int, error: type[RecadoError]) -> None:
    """The same for a text that was decoded into several values; it has ``keys`` keys besides those inside of them."""
    dense = raw.translate(None, b" \t\n\r")
    counted = dense.count(b'":')
    if counted == keys:
        return
    keys += _keys(values)
    if counted != keys and b'\\\\":' not in dense:  # a key may end with an escaped backslash
        counted -= dense.count(b'\\":')
    if counted != keys:
        _look(raw, error)


def _keys(values: Iterable[Any]) -> int:
    count = 0
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += len(value)
            waiting += [member for member in value.values() if type(member) is dict or type(member) is list]
        elif type(value) is list:
            waiting += [element for element in value if type(element) is dict or type(element) is list]
    return count


class _Pairs(list[tuple[str, Any]]):
    """The members of one object, repeated ones too."""


def _look(raw: bytes, error: type[RecadoError]) -> None:
    try:
        value = json.loads(raw, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    except RecursionError:
        raise error("$: the JSON is nested far too deep") from None
    waiting: list[tuple[str, Any]] = [("$", value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, _ in value:
                if key in seen:
                    raise error(f"{shorten(place)}: the key {shorten(key)!r} is given twice")
                seen.add(key)
            waiting += [(f"{place}.{key}", member) for key, member in reversed(value)]
        elif isinstance(value, list):
            waiting += [(f"{place}[{position}]", element) for position, element in reversed(list(enumerate(value)))]


def shorten(text: str, longest: int = 200) -> str:
    """A text for a message: its end is what tells places apart, so the middle is left out."""
    return text if len(text) <= longest else f"{text[: longest // 4]}...{text[-(longest - longest // 4) :]}"


# --- From nested JSON to flat attributes, and the way back for single values -----------------------------------------
#
# - A nested object gives dotted names: ``{"a": {"b": 1}}`` is ``a.b = 1``.
# - An array gives a tuple; arrays in arrays are joined into one. The members of objects in an array are collected by
#   name: ``{"items": [{"price": 1}, {"price": 2}]}`` is ``items.price = (1, 2)``.
# - ``null`` and an empty array mean that the attribute is absent.
# - JSON has no instants, so an object with the single member ``$time`` is one: ``{"$time": "2026-11-15T10:00:00Z"}``.
#   In the same way ``{"$number": "NaN"}`` (or ``Infinity``, ``-Infinity``) is a float that JSON cannot spell.
# - A name may be given once: ``{"a.b": 1, "a": {"b": 2}}`` is an error.
#
# Errors name the place as a JSON path, ``$.items[3].name``. Recursion ends at ``Limits.nesting``.


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


def check_flat(event: Event, limits: Limits) -> Event:
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


# --- The flat JSON form of an event: ``{"id": …, "type": …, "source": …, "time": …, <attributes>}`` ------------------

EXTENSIONS = "$extensions"
RESERVED = ("specversion", EXTENSIONS)


def from_flat(members: Mapping[str, Any], *, default_id: str | None = None, limits: Limits = LIMITS) -> Event:
    """The event that the members of a JSON object describe; an EventError that names the place."""
    rest = dict(members)
    id = _id(rest.pop("id", None), default_id)
    type_ = text_member(rest, "type")
    source = text_member(rest, "source")
    time: Any = rest.pop("time", None)
    walker: Flattener | None = None
    if time is not None:
        walker = Flattener(limits)
        time = walker.instant(time, ".time")
    extensions = _extensions(rest.pop(EXTENSIONS, None))
    attributes: dict[str, Attribute] = rest
    for value in rest.values():
        if type(value) not in SCALARS:
            attributes = _flatten(rest, walker or Flattener(limits))
            break
    if "specversion" in attributes:
        raise EventError("$.specversion: a flat event cannot have this attribute; it marks a CloudEvent")
    for name in extensions:
        if name not in attributes:
            raise EventError(f"$.{EXTENSIONS}: the event has no attribute {name!r}")
    return check_flat(Event(id, type_, source, time, attributes, extensions), limits)


def to_flat(event: Event) -> dict[str, Any]:
    """The members of the flat form; absent things are left out."""
    members: dict[str, Any] = {"id": event.id}
    if event.type:
        members["type"] = event.type
    if event.source:
        members["source"] = event.source
    if event.time is not None:
        members["time"] = jsonable(event.time)["$time"]
    for name, value in event.attributes.items():
        if name in RESERVED:
            raise EventError(f"attribute {name!r} has a name that the flat form keeps for itself")
        if value != ():
            members[name] = jsonable(value)
    extensions = [name for name in event.extensions if name in members]
    if extensions:
        members[EXTENSIONS] = extensions
    return members


def _flatten(members: Mapping[str, Any], walker: Flattener) -> dict[str, Attribute]:
    for name, value in members.items():
        walker.add(name, value, f".{name}")
    return walker.attributes


def _id(value: Any, default: str | None) -> str:
    if type(value) is str and value:
        return value
    if type(value) is int:
        return str(value)
    if value is None or value == "":
        if default is not None:
            return default
        raise EventError('$.id: the event has no id; give it one such as {"id": "e-1"}')
    raise EventError(f"$.id: must be a string or an integer, not {_json_type(value)}")


def text_member(members: dict[str, Any], name: str) -> str:
    """Take a member that must be a string, if there is one; else the empty string."""
    value = members.pop(name, None)
    if value is None:
        return ""
    if type(value) is not str:
        raise EventError(f"$.{name}: must be a string, not {_json_type(value)}")
    return value


def _extensions(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(name) is str for name in value):
        raise EventError(f"$.{EXTENSIONS}: must be a list of attribute names")
    return tuple(value)


def _json_type(value: Any) -> str:
    """What JSON calls the type of a value."""
    names: dict[type, str] = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        tuple: "an array",
        dict: "an object",
        datetime: "a timestamp",
    }
    return names.get(type(value), type(value).__name__)
