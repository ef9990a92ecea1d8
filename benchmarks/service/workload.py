"""What is published and who wants it.

An event is a reading of exactly so many bytes of JSON, with a place and a level. There are 1,000 classes of events, a
place and a band of levels each, and an interest is in one of them: ``place == "p37" and level >= 20 and level < 30``.
Event ``n`` is of class ``n * 7919 % 1000``, so 1,000 events in a row have each class once, in no simple order.

Interest ``i`` is in class ``i // 10`` and belongs to connection ``i % connections``: with 10,000 interests every event
has ten that want it, each on another connection.
"""

from __future__ import annotations

from typing import Any

import msgspec

PLACES, BANDS, BAND = 100, 10, 10
CLASSES = PLACES * BANDS
SAME = 10
"""How many interests there are in each class."""
EVENT_BYTES = 200
TYPE = "Reading"


class Reading(msgspec.Struct, gc=False):
    """The part of an event that clients look at."""

    number: int
    place: str
    level: int


_decode = msgspec.json.Decoder(Reading).decode
_encode = msgspec.json.Encoder().encode


def members(number: int, size: int = EVENT_BYTES) -> dict[str, Any]:
    """Event ``number``, padded so that it has exactly ``size`` bytes as JSON."""
    kind = class_of(number)
    found = {
        "id": f"e-{number}",
        "type": TYPE,
        "number": number,
        "place": f"p{kind % PLACES}",
        "level": kind // PLACES * BAND + number % BAND,
        "text": "",
    }
    digits = len(str(number)) * 2 + len(found["place"]) + len(str(found["level"]))  # type: ignore[arg-type]  # a text
    found["text"] = "x" * (size - _FRAME_BYTES - digits)
    return found


_FRAME_BYTES = len(b'{"id":"e-","type":"Reading","number":,"place":"","level":,"text":""}')


def event(number: int, size: int = EVENT_BYTES) -> bytes:
    """The same as JSON."""
    return _encode(members(number, size))


def class_of(number: int) -> int:
    return number * 7919 % CLASSES


def read(payload: bytes) -> Reading:
    return _decode(payload)


def number_of(payload: bytes) -> int:
    return _decode(payload).number


def class_read(reading: Reading) -> int:
    """The class of an event that came over the wire: what a client computes to filter for itself."""
    return reading.level // BAND * PLACES + int(reading.place[1:])


def expression(kind: int) -> str:
    """The interest in a class, in the filter language."""
    low = kind // PLACES * BAND
    return f'place == "p{kind % PLACES}" and level >= {low} and level < {low + BAND}'


def interests(connection: int, connections: int, count: int) -> list[int]:
    """The classes that a connection is interested in."""
    return [interest // SAME % CLASSES for interest in range(connection, count, connections)]
