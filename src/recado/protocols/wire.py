"""Messages as bytes: MessagePack frames, four bytes of length before each.

Every message of a protocol is a tagged msgspec struct, so a union of them is all a decoder needs. Events travel whole.
A field that holds one is declared ``WireEvent``: to a type checker that is ``Event``; to msgspec it is a type of its
own, since a union of texts and times cannot be declared to it and events from outside have to be checked anyway.
Filters travel as their expression text; ``read_filter`` remembers what it has parsed. A class of another kind says how
it is written and read: ``to_wire`` gives plain data, and the static method ``from_wire`` takes it and checks it.

``wire_size`` is what the simulator counts. It gives the size of the frame that the live overlay would send.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from recado.errors import RecadoError
from recado.filters.cost import check_filter
from recado.filters.expression import format_expression, read_back
from recado.model.event import Event, check_event
from recado.model.filter import Filter

HEADER_BYTES = 4
"""The length of the frame's body, before the body."""


class WireError(RecadoError):
    """Bytes that are no message of the protocol."""


if TYPE_CHECKING:
    WireEvent = Event
else:

    class WireEvent(ABC):  # noqa: B024  # nothing is abstract; only ABCs can take in other classes
        """What a message declares for a field that holds an event."""

    WireEvent.register(Event)


def _write_special(value: Any) -> Any:
    """Values that protocols share inside a process say themselves how they are written: see ``_read_special``."""
    return value.to_wire()


_encoder = msgspec.msgpack.Encoder(enc_hook=_write_special)


def encode(message: Any) -> bytes:
    """The body of the frame."""
    return _encoder.encode(message)


def decoder(union: Any) -> Callable[[bytes], Any]:
    """A function that reads the messages of the union; a WireError for anything else."""
    inner = msgspec.msgpack.Decoder(union, dec_hook=_read_special)

    def decode(body: bytes) -> Any:
        try:
            return inner.decode(body)
        except (msgspec.DecodeError, RecadoError, TypeError, ValueError) as error:
            raise WireError(f"{len(body):,} bytes are no message of this protocol: {error}") from None

    return decode


def wire_size(message: Any) -> int:
    """The size of the message's frame in bytes, header included."""
    return HEADER_BYTES + len(_encoder.encode(message))


FILTERS = 16_384
"""So many filters are remembered; texts have a limit of their own, so a hostile peer cannot fill the memory."""


@lru_cache(maxsize=FILTERS)
def read_filter(text: str) -> Filter:
    """A filter that one node may have is one that every node takes, however long it is as an expression."""
    return check_filter(read_back(text))


@lru_cache(maxsize=FILTERS)
def write_filter(parsed: Filter) -> str:
    return format_expression(parsed)


def _read_special(kind: type, value: Any) -> Any:
    if kind is not WireEvent:
        read = getattr(kind, "from_wire", None)
        if read is None:
            raise WireError(f"no reader for {kind.__name__}")
        return read(value)
    fields = dict(value)
    fields["attributes"] = {str(name): _tuple(one) for name, one in dict(fields.get("attributes") or {}).items()}
    fields["extensions"] = tuple(map(str, fields.get("extensions") or ()))
    return check_event(Event(**fields))


def _tuple(value: Any) -> Any:
    return tuple(value) if type(value) is list else value
