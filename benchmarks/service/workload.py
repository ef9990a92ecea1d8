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


# --- how much of everything -------------------------------------------------------------------------------------------

PARTS = ("publishing", "filtered", "away", "handover", "restart", "attack")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Each broker is started afresh for each row; ``patience_seconds`` is how long a row may publish at most."""

    publishers: tuple[int, ...] = (1, 16)
    in_flight: int = 6
    publish_seconds: float
    publish_rounds: int = 1
    """Of which the one with the most acknowledgements counts: the others were disturbed."""
    connections: int = 100
    interests: int = 10_000
    filtered_seconds: float
    away: tuple[int, ...]
    patience_seconds: float
    moves: int
    events_per_second: float = 1_000
    move_seconds: float = 0.2
    stored: int
    """Notifications, and subscriptions, that are there when the service is killed and started again."""
    attack_filters: int = 1_800
    attack_seconds: float


def full_plan() -> Plan:
    return Plan(
        publish_seconds=10,
        publish_rounds=3,
        filtered_seconds=10,
        away=(5_000, 100_000),
        patience_seconds=90,
        moves=1_000,
        stored=100_000,
        attack_seconds=30,
    )


def quick_plan() -> Plan:
    """Shorter runs, one size of absence, fewer moves."""
    return Plan(
        publish_seconds=3,
        filtered_seconds=3,
        away=(5_000,),
        patience_seconds=10,
        moves=50,
        stored=10_000,
        attack_seconds=10,
    )
