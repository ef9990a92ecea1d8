"""Random overlays, subscriptions and events, and the plain oracle that every baseline must agree with."""

from __future__ import annotations

from random import Random

from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines import make_baseline
from recado.protocols.machine import Machine, Send
from recado.protocols.topology import Topology
from recado.sim.network import Links
from recado.sim.system import System

TYPES = ("news", "flight")


def sub(id, text="true", type="news"):
    return Subscription(id, parse(text), type)


def event(id, type="news", **attributes):
    return Event(id, type, attributes=attributes)


class Recorded:
    """A machine, and a common list of what it and others send: (sender, receiver, message)."""

    def __init__(self, machine: Machine, sent: list) -> None:
        self.machine, self.sent = machine, sent

    def handle(self, stimulus, now, rng):
        effects = self.machine.handle(stimulus, now, rng)
        self.sent += [(self.machine.me, one.receiver, one.message) for one in effects if isinstance(one, Send)]
        return effects

    def inspect(self):
        return self.machine.inspect()


def recorded(name, topology, **options):
    """A system of a baseline, and the list of all that is sent in it."""
    make, sent = make_baseline(name, topology, **options), []
    return System(topology, lambda node: Recorded(make(node), sent)), sent


def links(seen):
    """The links that were used, in their order."""
    return [(sender, receiver) for sender, receiver, _ in seen]


def random_overlay(rng: Random) -> Topology:
    """A connected graph of 2 to 14 nodes: a random tree, and sometimes more links."""
    n = rng.randrange(2, 15)
    edges = [(rng.randrange(i), i) for i in range(1, n)]
    for _ in range(rng.choice([0, 0, 1, 3, n])):
        first, second = rng.randrange(n), rng.randrange(n)
        if first != second:
            edges.append((first, second))
    return Topology(range(n), edges)


def random_filter(rng: Random) -> str:
    """One to three conditions over few attributes and few values, so that filters cover, touch and meet often."""
    return " and ".join(_condition(rng, name) for name in rng.sample(["x", "y", "z"], rng.choice([1, 1, 2, 3])))


def _condition(rng: Random, name: str) -> str:
    low = rng.randrange(6)
    high = low + rng.randrange(4)
    return rng.choice(
        [
            f"{name} == {low}",
            f"{name} >= {low} and {name} <= {high}",
            f"{name} > {low}",
            f"{name} < {high}",
            f"{name} in {{{low}, {high + 1}}}",
            f"({name} == {low} or {name} > {high})",
            f"exists {name}",
            f"not {name} == {low}",
        ]
    )


def random_event(rng: Random, id: str, type: str | None = None) -> Event:
    values = {name: rng.randrange(8) for name in ("x", "y", "z") if rng.random() < 0.9}
    return Event(id, type or rng.choice(TYPES), attributes=values)


def random_delays(rng: Random) -> Links:
    """Every message takes its own time; links keep their order."""
    return Links(lambda: rng.choice([0.1, 1.0, rng.expovariate(1.0), rng.uniform(0, 20)]))


class Oracle:
    """A global list of subscriptions: who must get an event, and for which of them."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[object, Subscription]] = {}

    def expected(self, published: Event):
        owed: dict[object, list[str]] = {}
        for node, subscription in self.held.values():
            if matches(subscription.whole_filter(), published):
                owed.setdefault(node, []).append(subscription.id)
        return sorted((node, published.id, tuple(sorted(ids))) for node, ids in owed.items())


def delivered(system: System):
    """What the applications got since the last look, in a comparable order."""
    out = sorted((one.node, one.event, tuple(sorted(one.subscriptions))) for one in system.deliveries)
    system.deliveries.clear()
    return out
