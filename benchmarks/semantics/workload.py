"""What is matched: readings of stations whose publishers say ``temperature``, for subscribers who say it otherwise.

Names are those of the probe set in 13.6 of the semantics document. A subscription asks for one station and a range of
one or two readings. It exists twice, in its subscriber's words (semantic) and in the publisher's (exact), so both sides
match the same events and, where all names find their counterpart, give the same notifications. ``shaped`` events have
names of many publishers, which no exact subscription can reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from recado.model.event import Event
from recado.model.filter import And, Compare, CompareOp, Filter
from recado.model.subscription import Subscription
from recado.sim.kernel import stream

SEED = 6
STATIONS = 2_000
STATION = "measuring station"
SAID: dict[str, tuple[str, ...]] = {
    STATION: ("station", "measurement station", "measuring site"),
    "solar radiation": ("solar irradiance", "sun radiation", "solarRadiation"),
    "wind speed": ("wind velocity", "speed of the wind", "wind_speed"),
    "temperature": ("average temperature", "mean temperature", "air temperature"),
    "relative humidity": ("humidity", "moisture", "air humidity"),
    "atmospheric pressure": ("air pressure", "barometric pressure", "pressure"),
    "rainfall": ("precipitation", "rain", "amount of rainfall"),
}
READINGS = tuple(name for name in SAID if name != STATION)
PLACES = ("", "roof", "garden", "harbour", "tower", "bridge", "field", "valley", "airport", "school", "street", "lake")
"""Publishers that say of each reading where it was taken, as in ``roof temperature``."""


def subscriptions(count: int, *, semantic: bool) -> Iterator[Subscription]:
    """The same interests in either kind of words."""
    rng = stream(SEED, "subscriptions")
    for number in range(count):
        filter = _interest(rng, semantic)
        yield Subscription(f"s-{number}", filter, semantic={} if semantic else None)


def _interest(rng: Random, semantic: bool) -> Filter:
    station = f"station {rng.randrange(STATIONS)}"
    parts: list[Filter] = [Compare(_name(STATION, rng, semantic), "==", station)]
    for reading in rng.sample(READINGS, rng.choice((1, 2))):
        op: CompareOp = rng.choice((">", "<"))
        parts.append(Compare(_name(reading, rng, semantic), op, rng.randrange(1_000) / 10))
    return And(tuple(parts))


def _name(name: str, rng: Random, semantic: bool) -> str:
    said = rng.choice(SAID[name])  # drawn in either case, so that both kinds are of one stream
    return said if semantic else name


def events(count: int) -> list[Event]:
    """Readings in the plain words: one shape."""
    rng = stream(SEED, "events")
    return [_event(number, rng, "") for number in range(count)]


def shaped_events(count: int) -> list[Event]:
    """The same from publishers with names of their own, their attributes in any order."""
    rng = stream(SEED, "shapes")
    return [_event(number, rng, PLACES[number % len(PLACES)], shuffled=True) for number in range(count)]


def new_shape(number: int) -> Event:
    """An event whose names nobody has used."""
    return _event(number, stream(SEED, "new", number), f"sector {number}")


def _event(number: int, rng: Random, place: str, shuffled: bool = False) -> Event:
    readings = [f"{place} {name}".strip() for name in READINGS]
    values: dict[str, str | float] = {STATION: f"station {rng.randrange(STATIONS)}"}
    values |= {name: rng.randrange(1_000) / 10 for name in readings}
    names = list(values)
    if shuffled:
        rng.shuffle(names)
    return Event(f"e-{number}", "Reading", attributes={name: values[name] for name in names})
