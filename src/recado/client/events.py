"""What an application publishes, as the JSON that is sent.

``("Tick", {"Price": 24.9})``, an ``Event``, or the members of an event in the flat form or as a CloudEvent. An event
without an id gets one that nobody else draws: it makes the event the same one if it has to be sent again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from itertools import count
from math import isfinite
from typing import Any

import msgspec

from recado.errors import EventError
from recado.model.codec import read_event, write_flat
from recado.model.event import Event

_encode = msgspec.json.Encoder().encode
_PLAIN = (str, int, bool)


def ids() -> Iterator[str]:
    """Names for events: a random one for the run, and a number."""
    run = secrets.token_hex(8)
    return (f"{run}-{number}" for number in count(1))


def event_json(
    what: str | Event | Mapping[str, Any] | bytes, attributes: Mapping[str, Any] | None, id: Iterator[str]
) -> bytes:
    """One event as JSON; an EventError if it cannot be one."""
    if isinstance(what, str):
        return _flat({"id": next(id), "type": what, **(attributes or {})})
    if attributes is not None:
        raise EventError("attributes go with a type, as in publish('Tick', {'Price': 24.9})")
    if isinstance(what, Event):
        return write_flat(what if what.id else msgspec.structs.replace(what, id=next(id)))
    if isinstance(what, bytes):
        return write_flat(read_event(what, default_id=next(id)))
    return _flat(dict(what) if what.get("id") else {**what, "id": next(id)})


def _flat(members: dict[str, Any]) -> bytes:
    """Plain members are sent as they are, since the service checks them anyway; others are checked and spelt here."""
    for value in members.values():
        kind = type(value)
        if kind not in _PLAIN and not (kind is float and isfinite(value)):
            if "specversion" in members:
                read_event(members)
                return _encode(members)
            return write_flat(read_event(members))
    return _encode(members)
