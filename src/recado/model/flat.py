"""The flat JSON form of an event: ``{"id": …, "type": …, "source": …, "time": …, <attributes>}``.

Every member that is not of the envelope is an attribute; ``recado.model.flatten`` says what nested members mean.

- ``id`` is a string, or an integer that is read as its decimal text. It is required; a reader of numbered lines may
  pass a ``default_id`` for events without one.
- ``type`` and ``source`` are strings, and may be missing. ``time`` is RFC 3339 text.
- ``$extensions`` lists the attributes that CloudEvents writes beside the envelope, so that an event that came as a
  CloudEvent and was kept in the flat form can become the same CloudEvent again. It is written only where needed.
- ``specversion`` is refused as an attribute: it is what a CloudEvent is recognised by.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recado.errors import EventError
from recado.model.event import Event
from recado.model.flatten import SCALARS, Attribute, Flattener, checked, jsonable
from recado.model.limits import LIMITS, Limits

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
    return checked(Event(id, type_, source, time, attributes, extensions), limits)


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
