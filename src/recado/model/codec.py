"""Bytes to events and back, whichever form they are in.

``read_event`` recognises a CloudEvent by its member ``specversion`` and takes anything else as the flat form. The size
is checked before the text is parsed, and everything else before an event leaves this module, so whoever holds an
``Event`` from here may rely on ``Limits``.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from recado.errors import EventError
from recado.model.decoding import explain
from recado.model.event import ENVELOPE, Event
from recado.model.flat import (
    SCALARS,
    Attribute,
    Flattener,
    check_flat,
    from_flat,
    jsonable,
    refuse_repeats,
    text_member,
    to_flat,
)
from recado.model.limits import LIMITS, Limits

# --- CloudEvents 1.0 in JSON (structured mode), to and from Recado's events ------------------------------------------
#
# - ``specversion`` must be ``"1.0"``; ``id``, ``source`` and ``type`` must be there; ``time`` is RFC 3339.
# - Every other context attribute (``subject``, ``dataschema``, ``datacontenttype`` and extensions) becomes an attribute
#   by its name, and ``Event.extensions`` lists it. Its value is a string, a number or a boolean.
# - The members of a ``data`` object become attributes by their own names. A member whose name is taken, by the envelope
#   or by a context attribute of the same event, becomes ``data.<name>``.
# - Any other ``data`` becomes the attribute ``data`` (an array: a tuple), and ``data_base64`` keeps its name and text.
#
# Writing goes the other way, and ``from_cloudevent(to_cloudevent(event)) == event`` for every event that has a type and
# a source. An attribute listed in ``extensions`` that cannot stand beside the envelope (an array, an instant, a float
# that JSON cannot spell) is written into ``data`` and so loses its mark.


_PAYLOAD = ("data", "data_base64")
_FORMAT = (*ENVELOPE, "specversion")
"""Names that a data member cannot take, whatever the event."""


def from_cloudevent(members: Mapping[str, Any], *, limits: Limits = LIMITS) -> Event:
    """The event that a structured-mode JSON object describes; an EventError that names the place."""
    rest = dict(members)
    _check_version(rest.pop("specversion", None))
    id, source, type_ = (_require(rest, name) for name in ("id", "source", "type"))
    walker = Flattener(limits)
    time = rest.pop("time", None)
    if time is not None:
        time = walker.instant(time, ".time")
    data, data_base64 = rest.pop("data", None), rest.pop("data_base64", None)
    extensions = _context(rest, walker)
    if data_base64 is not None:
        if data is not None:
            raise EventError("$.data_base64: an event has either data or data_base64, not both")
        walker.add("data_base64", _base64(data_base64), ".data_base64")
    elif isinstance(data, Mapping):
        _flatten_data(data, {*_FORMAT, *extensions}, walker)
    else:
        walker.add("data", data, ".data")
    return check_flat(Event(id, type_, source, time, walker.attributes, extensions), limits)


def to_cloudevent(event: Event) -> dict[str, Any]:
    """The members of the structured-mode JSON object."""
    for name, value in (("type", event.type), ("source", event.source)):
        if not value:
            raise EventError(f"event {event.id!r} has no {name}, and a CloudEvent needs one")
    members: dict[str, Any] = {"specversion": "1.0", "id": event.id, "source": event.source, "type": event.type}
    if event.time is not None:
        members["time"] = jsonable(event.time)["$time"]
    context: dict[str, Any] = {}
    for name in event.extensions:
        held = event.attributes.get(name)
        if name not in _FORMAT and name not in _PAYLOAD and _in_context(held):
            context[name] = held
    inner = {name: value for name, value in event.attributes.items() if name not in context and value != ()}
    return {**members, **context, **_payload(inner, context)}


def _in_context(value: Attribute | None) -> bool:
    return type(value) in SCALARS and (type(value) is not float or isfinite(value))


def _payload(inner: dict[str, Attribute], context: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` or ``data_base64``, if the event has attributes beside its context."""
    if not inner:
        return {}
    if len(inner) == 1:
        (name, value), *_ = inner.items()
        if name == "data" and not isinstance(value, datetime) and not isinstance(jsonable(value), dict):
            return {"data": jsonable(value)}
        if name == "data_base64" and _is_base64(value):
            return {"data_base64": value}
    return {"data": {_member_name(name, context): jsonable(value) for name, value in inner.items()}}


def _member_name(name: str, context: Mapping[str, Any]) -> str:
    """The name of an attribute inside ``data``: ``data.<name>`` goes back where it came from."""
    if name == "specversion":
        raise EventError("attribute 'specversion' has a name that CloudEvents keeps for itself; call it otherwise")
    own = name.removeprefix("data.")
    return own if own != name and (own in context or own in _FORMAT) else name


def _flatten_data(data: Mapping[str, Any], taken: set[str], walker: Flattener) -> None:
    for key, value in data.items():
        if type(key) is not str:
            raise EventError(f"$.data: a member name must be a string, not {type(key).__name__}")
        walker.add(f"data.{key}" if key in taken else key, value, ".data", f".{key}")


def _context(rest: Mapping[str, Any], walker: Flattener) -> tuple[str, ...]:
    """Add the remaining context attributes; their names, in order."""
    names = []
    for name, value in rest.items():
        if value is None:
            continue
        if type(value) not in SCALARS:
            raise EventError(f"$.{name}: a context attribute must be a string, a number or a boolean; put it into data")
        walker.add(name, value, f".{name}")
        names.append(name)
    return tuple(names)


def _check_version(version: Any) -> None:
    if version != "1.0":
        raise EventError(f'$.specversion: must be "1.0", not {version!r}; other versions of CloudEvents are not read')


def _require(members: dict[str, Any], name: str) -> str:
    value = text_member(members, name)
    if not value:
        raise EventError(f"$.{name}: a CloudEvent needs a non-empty {name}")
    return value


def _base64(value: Any) -> str:
    if not _is_base64(value):
        raise EventError("$.data_base64: must be a string of base64")
    return str(value)


def _is_base64(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return True


# --- Bytes to events and back, whichever form they are in ------------------------------------------------------------

_decode = msgspec.json.Decoder().decode
_decode_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_event(
    raw: bytes | str | Mapping[str, Any], *, default_id: str | None = None, limits: Limits = LIMITS
) -> Event:
    """One event from JSON text or from a decoded object; an EventError says what is wrong and where.

    With the member ``specversion`` it is a CloudEvent, else in the flat form; ``default_id`` is for a flat event
    without an id.
    """
    members = _name(raw) if isinstance(raw, Mapping) else parse_json(_check(raw, limits.event_bytes, "event"))
    if not isinstance(members, Mapping):
        raise EventError('$: an event is a JSON object such as {"id": "e-1", "type": "reading", "level": 7}')
    if "specversion" in members:
        return from_cloudevent(members, limits=limits)
    return from_flat(members, default_id=default_id, limits=limits)


def read_batch(raw: bytes | str, *, limits: Limits = LIMITS) -> list[Event]:
    """The events of a JSON array (a CloudEvents batch, or flat events); errors name the element."""
    events = []
    for position, element in enumerate(split_batch(raw, limits=limits)):
        try:
            events.append(read_event(element, limits=limits))
        except EventError as error:
            raise EventError(f"event {position} of the batch: {error}") from None
    return events


def split_batch(raw: bytes | str, *, limits: Limits = LIMITS) -> list[bytes]:
    """The elements of a JSON array, each still JSON, so that one bad element need not spoil the others."""
    elements: list[msgspec.Raw] = _parse(_check(raw, limits.batch_bytes, "batch"), _decode_batch)
    return [bytes(element) for element in elements]


def write_flat(event: Event) -> bytes:
    """The flat JSON form, on one line."""
    return _encode(to_flat(event))


def write_cloudevent(event: Event) -> bytes:
    """A CloudEvent in structured JSON, on one line; an EventError if the event has no type or no source."""
    return _encode(to_cloudevent(event))


def write_batch(events: Iterable[Event]) -> bytes:
    """A CloudEvents batch: a JSON array of structured events."""
    return _encode([to_cloudevent(event) for event in events])


def _name(members: Mapping[Any, Any]) -> Mapping[str, Any]:
    for name in members:
        if type(name) is not str:
            raise EventError(f"$: a member name must be a string, not {type(name).__name__}")
    return members


def _check(raw: bytes | str, limit: int, what: str) -> bytes:
    if isinstance(raw, str):
        try:
            raw = raw.encode()
        except UnicodeEncodeError as error:
            raise EventError(f"$: the text has a lone surrogate at character {error.start + 1}") from None
    if len(raw) > limit:
        raise EventError(f"$: the {what} has {len(raw):,} bytes; the limit is {limit:,}")
    return raw


def parse_json(raw: bytes) -> Any:
    """What the JSON of an event, or of a part of one, says; an EventError if it is none or an object repeats a key."""
    decoded = _parse(raw, _decode)
    refuse_repeats(raw, decoded, EventError)
    return decoded


def _parse(raw: bytes, decode: Any) -> Any:
    try:
        return decode(raw)
    except msgspec.DecodeError as error:
        raise EventError(explain(error, None, raw)) from None
    except UnicodeDecodeError as error:
        raise EventError(f"$: the text is not UTF-8, at byte {error.start + 1} of a string") from None
    except RecursionError:
        raise EventError("$: the JSON is nested far too deep") from None
