"""Bytes to events and back, whichever form they are in.

``read_event`` recognises a CloudEvent by its member ``specversion`` and takes anything else as the flat form. The size
is checked before the text is parsed, and everything else before an event leaves this module, so whoever holds an
``Event`` from here may rely on ``Limits``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from recado.errors import EventError
from recado.model.cloudevents import from_cloudevent, to_cloudevent
from recado.model.event import Event
from recado.model.flat import from_flat, to_flat
from recado.model.limits import LIMITS, Limits
from recado.model.repeats import refuse_repeats

_decode = msgspec.json.Decoder().decode
_decode_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_event(
    raw: bytes | str | Mapping[str, Any], *, default_id: str | None = None, limits: Limits = LIMITS
) -> Event:
    """One event from JSON text or from a decoded object; an EventError says what is wrong and where."""
    members = _named(raw) if isinstance(raw, Mapping) else parse_json(_checked(raw, limits.event_bytes, "event"))
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
    elements: list[msgspec.Raw] = _parse(_checked(raw, limits.batch_bytes, "batch"), _decode_batch)
    return [bytes(element) for element in elements]


def write_flat(event: Event) -> bytes:
    """The flat JSON form, on one line."""
    return _encode(to_flat(event))


def write_cloudevent(event: Event) -> bytes:
    """A CloudEvent in structured JSON, on one line; the event needs a type and a source."""
    return _encode(to_cloudevent(event))


def write_batch(events: Iterable[Event]) -> bytes:
    """A CloudEvents batch: a JSON array of structured events."""
    return _encode([to_cloudevent(event) for event in events])


def _named(members: Mapping[Any, Any]) -> Mapping[str, Any]:
    for name in members:
        if type(name) is not str:
            raise EventError(f"$: a member name must be a string, not {type(name).__name__}")
    return members


def _checked(raw: bytes | str, limit: int, what: str) -> bytes:
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
        raise EventError(f"$: {_sentence(str(error))}") from None
    except UnicodeDecodeError as error:
        raise EventError(f"$: the text is not UTF-8, at byte {error.start + 1} of a string") from None
    except RecursionError:
        raise EventError("$: the JSON is nested far too deep") from None


def _sentence(reason: str) -> str:
    if "truncated" in reason:
        return "the JSON text ends too early"
    return f"{reason[:1].lower()}{reason[1:]}" if not reason.startswith("JSON") else reason
