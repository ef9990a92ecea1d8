"""Peers that come and go: the workload of the super-node system (4.2 of its document), and what is seen of it.

Arrivals are a Poisson process, sessions Weibull with a limit, departures silent, and every peer draws one of
``lambda * session * (1 - redundancy)`` filters. A newcomer knows a few super nodes at random, as the document assumes.
Each of these draws has a stream of its own, so that variants of the protocol meet the same peers.

``Peers`` keeps what happened to each peer (``PeerRecord``); figures are made from that by whoever runs it.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from recado.model.event import Event
from recado.model.filter import Compare, Filter
from recado.model.subscription import Subscription
from recado.protocols.machine import LinkUp, Machine, NodeId
from recado.protocols.pubsub import Notified, Publish, Subscribe
from recado.protocols.supernodes.members import Home
from recado.protocols.supernodes.messages import Active, FatherLost, RoleChanged, SeedsWanted, sizer_of
from recado.protocols.supernodes.node import SuperNode
from recado.protocols.supernodes.settings import SuperNodeSettings
from recado.sim.draws import truncated, weibull
from recado.sim.kernel import Network, Simulation, Watch, stream
from recado.sim.network import Euclidean

HOUR = 3600.0
LINE_BYTES_PER_SECOND = 24 * 1024.0
HOP_SECONDS = 0.2
"""The mean latency of a message (R16)."""

SIDE = 1000.0
MEAN_DISTANCE = 0.5214 * SIDE
"""Between two random places of a square."""

SEEDS = 3
EVERYTHING = 1_000_000_000
"""No event has a value as large as this."""


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """Who comes, how long they stay and what they want."""

    rate: float = 0.1
    """lambda: arrivals a second."""
    redundancy: float = 0.8
    """R: the share of peers whose filter somebody else has already."""
    session_seconds: float = 4 * HOUR
    session_most_seconds: float = 8 * HOUR
    session_shape: float = 1.8
    filters: Literal["integer", "nested", "mixed", "accept_all"] = "integer"
    """R21: unrelated filters, thresholds that nest, every second of each, or what everybody wants in other words."""

    @property
    def filter_count(self) -> int:
        """F: how many different filters there can be."""
        return max(1, round(self.rate * self.session_seconds * (1 - self.redundancy)))


@lru_cache(1 << 16)
def filter_number(kind: str, number: int) -> Filter:
    """One of the filters of a population; all peers that draw it share the object."""
    if kind == "integer" or (kind == "mixed" and number % 2):
        return Compare("f", "==", number)
    return Compare("value", "<", EVERYTHING + number if kind == "accept_all" else number + 1)


class PeerRecord:
    """What happened to one peer. ``roles`` are the times at which it became something, with the reason."""

    __slots__ = ("activated", "arrived", "filter", "left", "lost", "node", "roles")

    def __init__(self, node: int, filter_number: int, arrived: float) -> None:
        self.node, self.filter, self.arrived = node, filter_number, arrived
        self.left = math.inf
        self.roles: list[tuple[float, str, str]] = []
        self.activated: list[tuple[float, str]] = []
        """When it became an active member of the layer, and why it entered."""
        self.lost: list[tuple[float, int, bool]] = []
        """When it took the place of a father, of which one, and whether it stood by for that."""

    @property
    def role(self) -> str:
        return self.roles[-1][1] if self.roles else "joining"


class RandomSet:
    """Nodes from which one can be drawn, added and removed at once; the order follows from what was done."""

    __slots__ = ("_at", "nodes")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self._at: dict[int, int] = {}

    def add(self, node: int) -> None:
        if node not in self._at:
            self._at[node] = len(self.nodes)
            self.nodes.append(node)

    def discard(self, node: int) -> None:
        at = self._at.pop(node, None)
        if at is not None:
            last = self.nodes.pop()
            if last != node:
                self.nodes[at] = last
                self._at[last] = at

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._at


class Peers:
    """A population of super-node peers in simulation.

    ``make`` gives the machine of a node; without it, a ``SuperNode`` that shares its tables with all others.
    """

    def __init__(
        self,
        population: Population,
        settings: SuperNodeSettings,
        seed: int = 0,
        *,
        network: Network | None = None,
        watch: Watch | None = None,
        make: Callable[[NodeId], Machine] | None = None,
    ) -> None:
        self.population, self.settings, self.seed = population, settings, seed
        self._places: dict[NodeId, tuple[float, float]] = {}
        self._place_rng = stream(seed, "places")
        self._rng, self._filter_rng = stream(seed, "seeds"), stream(seed, "filters")
        self._gap_rng, self._event_rng = stream(seed, "arrivals"), stream(seed, "events")
        least = 0.005
        self.simulation = Simulation(
            network or Euclidean(self._places, least, (HOP_SECONDS - least) / MEAN_DISTANCE, LINE_BYTES_PER_SECOND),
            seed,
            size_of=sizer_of(settings),
            watch=watch,
            deliver=self._deliver,
            report=self._report,
        )
        home, size_of = Home(settings.max_log), sizer_of(settings)
        self._make = make or (lambda node: SuperNode(node, settings, home, size_of))
        self._sessions = truncated(
            weibull(population.session_shape, population.session_seconds, stream(seed, "sessions")),
            population.session_most_seconds,
        )
        self.records: list[PeerRecord] = []
        self.live: dict[int, PeerRecord] = {}
        self.supers = RandomSet()
        """Active members of the layer, stand-bys too."""
        self.deliveries: list[tuple[float, int, str]] = []
        self.draw_filter: Callable[[], int] = lambda: self._filter_rng.randrange(population.filter_count)
        """Which filter the next peer has."""
        self.on_fact: Callable[[float, PeerRecord, Any], None] | None = None
        """Told of every fact that a live peer reports, after it was noted here."""
        self.before_leave: Callable[[PeerRecord], None] | None = None
        """Told of a departure while the machine is still there."""
        self.on_delivery: Callable[[float, int, Notified], None] | None = None
        """Told of deliveries, which are not kept in ``deliveries`` then."""
        self.events = 0
        self.watch_fact: Callable[[float, NodeId, Any], None] | None = None
        """Called with whatever a live peer reports."""

    # -- what happens

    def arrive(self, session_seconds: float | None = None, filter_number: int | None = None) -> PeerRecord:
        """One peer more, now."""
        simulation, node = self.simulation, len(self.records)
        number = self.draw_filter() if filter_number is None else filter_number
        record = PeerRecord(node, number, simulation.now)
        self.records.append(record)
        self.live[node] = record
        self._places[node] = (self._place_rng.random() * SIDE, self._place_rng.random() * SIDE)
        simulation.add(node, self._make(node), self.seeds())
        simulation.ask(node, Subscribe(_subscription(self.population.filters, number)))
        stay = self._sessions() if session_seconds is None else session_seconds
        if math.isfinite(stay):
            simulation.at(simulation.now + stay, lambda: self.leave(node))
        return record

    def seeds(self) -> tuple[int, ...]:
        known = self.supers.nodes
        chosen = [known[self._rng.randrange(len(known))] for _ in range(SEEDS)] if known else []
        if not known and self.live:
            chosen = [next(iter(self.live))]
        return tuple(dict.fromkeys(chosen))

    def leave(self, node: int) -> None:
        """Without a word."""
        record = self.live.get(node)
        if record is not None:
            if self.before_leave is not None:
                self.before_leave(record)
            del self.live[node]
            record.left = self.simulation.now
            self.supers.discard(node)
            self.simulation.crash(node)

    def arrivals(self, seconds: float, rate: float | None = None) -> None:
        """Let peers arrive for so long from now on."""
        end, rate = self.simulation.now + seconds, rate or self.population.rate

        def wait() -> None:
            time = self.simulation.now + self._gap_rng.expovariate(rate)
            if time < end:
                self.simulation.at(time, come)

        def come() -> None:
            self.arrive()
            wait()

        wait()

    def publications(self, every_seconds: float, seconds: float) -> None:
        """Events at equal distances, each from a random peer that has joined (R15)."""
        end = self.simulation.now + seconds

        def speak() -> None:
            joined = [record.node for record in self.live.values() if record.role != "joining"]
            if joined:
                self.publish(joined[self._event_rng.randrange(len(joined))])
            if self.simulation.now + every_seconds < end:
                self.simulation.at(self.simulation.now + every_seconds, speak)

        self.simulation.at(self.simulation.now, speak)

    def publish(self, node: int, value: float | None = None) -> Event:
        self.events += 1
        count = self.population.filter_count
        drawn = self._event_rng.random() * count if value is None else value
        event = Event(f"e{self.events}", "tick", attributes={"value": drawn, "f": int(drawn)})
        self.simulation.ask(node, Publish(event))
        return event

    def run(self, seconds: float) -> None:
        """Let time pass. Nothing that a step leaves behind is in a cycle, so nobody looks for garbage meanwhile."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.simulation.run(until=self.simulation.now + seconds)
        finally:
            if collecting:
                gc.enable()

    # -- what is seen

    def takeovers(self, since: float = 0.0) -> Iterator[tuple[float, bool]]:
        """For each father that was replaced: how long that took until the new one was active, and was it a stand-by?"""
        for record in self.records:
            for time, father, standby in record.lost:
                left = self.records[father].left
                if time < since or left > time:  # the father was only slow
                    continue
                if standby:
                    yield time - left, True
                else:
                    done = next((at for at, _ in record.activated if at >= time), None)
                    if done is not None:
                        yield done - left, False

    def shares(self) -> dict[str, float]:
        """The composition now: super nodes of all joined peers, stand-bys among them, children of an active one."""
        roles = [machine.state for machine in self.machines()]
        layer = [one for one in roles if one.layer is not None]
        active = [one.layer for one in layer if one.child is None and one.layer is not None]
        standby = len(layer) - len(active)
        return {
            "super": len(layer) / max(1, len(roles)),
            "k": standby / max(1, len(layer)),
            "children": sum(len(one.children) for one in active) / max(1, len(active)),
        }

    def _report(self, now: float, node: NodeId, fact: Any) -> None:
        assert isinstance(node, int)
        record = self.live.get(node)
        if record is None:
            return
        if self.watch_fact is not None:
            self.watch_fact(now, node, fact)
        if type(fact) is RoleChanged:
            record.roles.append((now, fact.role, fact.why))
            if fact.role in ("joining", "sub"):
                self.supers.discard(node)
        elif type(fact) is Active:
            record.activated.append((now, fact.why))
            self.supers.add(node)
        elif type(fact) is FatherLost:
            assert isinstance(fact.father, int)
            record.lost.append((now, fact.father, fact.standby))
        elif type(fact) is SeedsWanted:
            for seed in self.seeds():
                if seed != node:
                    self.simulation.tell(node, LinkUp(seed))
        if self.on_fact is not None:
            self.on_fact(now, record, fact)

    def _deliver(self, now: float, node: NodeId, notified: Notified) -> None:
        assert isinstance(node, int)
        if self.on_delivery is not None:
            self.on_delivery(now, node, notified)
        else:
            self.deliveries.append((now, node, notified.event.id))

    def machine(self, node: int) -> SuperNode:
        machine = self.simulation.nodes[node].machine
        assert isinstance(machine, SuperNode)
        return machine

    def machines(self) -> Iterator[SuperNode]:
        return (self.machine(node) for node in self.live)


@lru_cache(1 << 16)
def _subscription(kind: str, number: int) -> Subscription:
    return Subscription(f"s{number}", filter_number(kind, number))
