"""E6 to E9: constraints, several devices, expiry, and what a restarted agent finds."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from experiments.mobility.town import Numbers, Town
from recado.broker.constraints import Absolute, Constraint, Daily, Frequency, When, satisfied
from recado.protocols.rudp import profile
from recado.protocols.session.commands import Existing, ListSubscriptions, MakeSubscription
from recado.sim.mobility.disk import instant

START = datetime(2026, 3, 2, tzinfo=UTC)


def constraints(quick: bool) -> Numbers:
    """E6: an event a minute for a day, by constraint, by when it holds, and by whether the owner is connected."""
    answers: Numbers = {}
    for when in ("always", "disconnected"):
        for kind in ("frequency", "daily", "absolute"):
            for state in ("connected", "disconnected"):
                found = _notified(_constraint(kind, when), state == "connected")
                answers[f"{when}.{kind}.{state}"] = found
    return answers


def _constraint(kind: str, when: When) -> Constraint:
    if kind == "frequency":
        return Frequency(5, "minutes", when)
    if kind == "daily":
        return Daily(time(16), time(17), when=when)
    return Absolute(START + timedelta(hours=6), START + timedelta(hours=9), when)


def _notified(constraint: Constraint, connected: bool) -> int:
    last: datetime | None = None
    count = 0
    for minute in range(24 * 60):
        now = START + timedelta(minutes=minute)
        if satisfied((constraint,), now, now, last, connected):
            last, count = now, count + 1
    return count


def devices(quick: bool) -> Numbers:
    """E7 and the vector 17.10: 1, 2 and 4 devices of a user, one of them dead."""
    answers: Numbers = {}
    for count in (1, 2, 4):
        names = [f"phone{number}" for number in range(count)]
        town = Town(names)
        town.subscribe(names[0])
        town.move(names[-1], covered=False)
        town.run(0.5)
        for _ in range(10):
            town.publish()
            town.run(0.5)
        town.run(30)
        answers |= {
            f"{count}.least": min([len(town.numbers(name)) for name in names[:-1]], default=0),
            f"{count}.dead": len(town.numbers(names[-1])),
            f"{count}.connected": float(town.connected()),
            f"{count}.waiting": town.waiting(),
        }
    return answers


def expiry(quick: bool) -> Numbers:
    """E8 and the vector 17.8: half of the subscriptions expire."""
    count = 100 if quick else 1_000
    town = Town(rudp=profile("fast"))
    for number in range(count):
        ends = instant(town.simulation.now + (10.0 if number % 2 else 1_000.0))
        record = {"id": f"s{number}", "type": "Tick", "expires_at": ends.isoformat()}
        town.simulation.ask("phone", MakeSubscription(record))
    town.run(9)
    before = town.broker.broker.state.active
    town.run(11)
    town.publish()
    town.run(20)
    after = town.broker.broker.state.active
    return {
        "subscriptions": count,
        "notified": len(town.numbers()),
        "before": before,
        "after": after,
        "expired notified": len(town.numbers()) - count // 2,
    }


def restarts(quick: bool) -> Numbers:
    """E9 and the vector 17.13: what an agent that starts again finds, by its start policy."""
    answers: Numbers = {}
    policies: tuple[Existing, ...] = ("recover", "discard")
    for policy in policies:
        town = Town()
        for number in range(5):
            town.subscribe(sub_id=f"s{number}")
        town.simulation.crash("phone")
        town.simulation.nodes["phone"].saved.clear()
        town.add("phone", "user", policy)
        town.run(5)
        town.simulation.ask("phone", ListSubscriptions("list"))
        town.run(5)
        answers[policy] = len(town.answers("list")[0].subs)
    return answers
