"""The rest of the test vectors: queues, constraints, expressions, repeats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from random import Random
from typing import Any

from experiments.mobility.moving import away
from experiments.mobility.town import Numbers, Town
from recado.broker.constraints import Constraint, Daily, Frequency, read_constraints, satisfied
from recado.broker.state import Bounds
from recado.errors import RecadoError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.protocols.machine import Asked, Deliver, Effect, Received, Send, TimerFired
from recado.protocols.rudp import RudpConnection, SendMessage, profile
from recado.protocols.session.commands import Cancelled
from recado.sim.mobility.disk import instant

DAY = datetime(2026, 3, 2, tzinfo=UTC)


def vectors(quick: bool) -> Numbers:
    """All of them; a quick run is the same, since this takes no time."""
    return _queues() | _constraints() | _expressions() | _repeats() | _expired()


def _queues() -> Numbers:
    town = away(Town(bounds=Bounds(length=3)), rate=1.0, seconds=5)
    old = Town(bounds=Bounds(length=3, age=timedelta(minutes=20)))
    old.subscribe()
    old.move(covered=False)
    for _ in range(3):
        old.publish()
        old.run(1.0)
    old.run(25 * 60)
    for _ in range(2):
        old.publish()
        old.run(1.0)
    old.run(60)
    old.move()
    old.run(60)
    return {
        "queue": " ".join(map(str, town.numbers())),
        "queue.dropped": town.broker.user("user").dropped.get("full", 0),
        "queue.aged": " ".join(map(str, old.numbers())),
    }


def _at(clock: str) -> datetime:
    return datetime.combine(DAY.date(), time.fromisoformat(clock), UTC)


def _clocks(constraints: tuple[Constraint, ...], *clocks: str) -> str:
    last: datetime | None = None
    words = []
    for clock in clocks:
        now = _at(clock)
        yes = satisfied(constraints, now, now, last, connected=True)
        last = now if yes else last
        words.append("yes" if yes else "no")
    return " ".join(words)


def _seconds(constraint: Constraint, instants: dict[float, bool]) -> str:
    """At which of the instants there is a notification; the value says whether the owner is connected."""
    last: datetime | None = None
    found = []
    for second, connected in instants.items():
        now = DAY + timedelta(seconds=second)
        if satisfied((constraint,), now, now, last, connected):
            last = now
            found.append(f"{second:g}")
    return " ".join(found)


def _constraints() -> Numbers:
    closing, night = Daily(time(16), time(17)), Daily(time(22), time(2))
    two = (Daily(time(8), time(9)), closing)
    every = dict.fromkeys((0, 10, 14.9, 15, 29, 31), True)
    apart: dict[float, bool] = {0: True, 1: True, 2: True, 10: False, 62: False, 63: False}
    try:
        twice = len(read_constraints([{"frequency": {"amount": 1, "unit": "seconds"}}] * 2))
        second = f"{twice} taken"
    except RecadoError:
        second = "rejected"
    return {
        "frequency": _seconds(Frequency(15, "seconds"), every),
        "daily": _clocks((closing,), "15:59:59", "16:00:00", "16:59:59", "17:00:00"),
        "night": _clocks((night,), "23:30", "01:59", "02:00"),
        "two": _clocks(two, "08:30", "12:00", "16:30"),
        "two and frequency": _clocks((*two, Frequency(5, "minutes")), "16:30", "16:33", "16:35"),
        "while disconnected": _seconds(Frequency(60, "seconds", "disconnected"), apart),
        "second frequency": second,
    }


def _expressions() -> Numbers:
    filter = parse_filter("(Stock == PETR4) and (Price < 25)")
    cases: tuple[dict[str, Any], ...] = (
        {"Stock": "PETR4", "Price": 24.9},
        {"Stock": "PETR4", "Price": 25},
        {"Price": 10},
    )
    words = ["yes" if matches(filter, Event("e", attributes=case)) else "no" for case in cases]
    return {"expression": " ".join(words)}


def _repeats() -> Numbers:
    """17.11: the same DATA twice, the second time from another address: its sender moved, and heard no ACK."""
    key = bytes(16)
    sender = RudpConnection(profile("lab"), 1, 2, "there", local_key=key, remote_key=key)
    receiver = RudpConnection(profile("lab"), 2, 1, "here", local_key=key, remote_key=key)
    chance = Random(0)  # noqa: S311  # a connection draws nothing
    effects: Sequence[Effect] = [
        *sender.handle(Asked(SendMessage(b"x")), 0.0, chance),
        *sender.handle(TimerFired("rudp"), 0.3, chance),
    ]
    first, again = [effect.message for effect in effects if isinstance(effect, Send)]
    acks = delivered = 0
    for source, packet in (("here", first), ("elsewhere", again)):
        effects = receiver.handle(Received(source, packet), 0.0, chance)
        acks += sum(isinstance(effect, Send) for effect in effects)
        delivered += sum(isinstance(effect, Deliver) for effect in effects)
    return {"repeated.acks": acks, "repeated.delivered": delivered}


def _expired() -> Numbers:
    """17.8: a subscription expires while its owner is away."""
    town = Town()
    town.subscribe(expires_at=instant(town.simulation.now + 100.0).isoformat())
    town.move(covered=False)
    town.run(97)
    town.publish()
    town.run(1.8)
    queued = town.waiting()
    town.run(1)
    town.publish()
    town.run(20)
    town.move()
    town.run(30)
    cancelled = [fact for _, node, fact in town.facts if node == "phone" and isinstance(fact, Cancelled)]
    return {
        "expired.queued": queued,
        "expired.delivered": " ".join(map(str, town.numbers())),
        "expired.cancelled": len(cancelled),
    }
