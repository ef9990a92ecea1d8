"""One run of the evaluation: a population of peers, a variant of the protocol, and what is measured of it (4.2, 4.3).

All figures are those of the time after the warm-up. Composition is sampled at equal distances; entries into the layer,
takeovers and stints are counted as they happen, by the simulation and not by the peers.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any, Literal

import msgspec

from experiments.supernodes.deliveries import SETTLE_SECONDS, Deliveries
from experiments.supernodes.peers import HOUR, PeerRecord, Peers, Population
from experiments.supernodes.stints import SUB, Numbers, Stints
from recado.protocols.machine import Effect, NodeId, Received, Rng, Send, Stimulus
from recado.protocols.supernodes import Home, SuperNode, SuperNodeSettings
from recado.protocols.supernodes.messages import CAUSES, RoleChanged, TurmoilCast, sizer_of
from recado.protocols.supernodes.state import Child
from recado.sim.kernel import stream
from recado.sim.memory import use_large_pages

SAMPLE_SECONDS = 300.0
MANY = 2_000
"""Peers from which on it matters how memory is laid out."""
VIEWS = 8
"""Views that are looked at in a sample."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that determines a run."""

    rate: float
    redundancy: float = 0.8
    options: Mapping[str, Any] = {}
    """Settings of the protocol that are not the defaults."""
    hours: float
    warm_up_hours: float
    session_hours: float = 4.0
    bin_hours: float = 0.5
    seed: int = 1
    workload: Literal["", "accept_all", "nested"] = ""
    """Of events; without one, none are published."""
    event_seconds: float = 30.0
    statistical: bool = False
    """Filters are drawn as in ablation A2."""
    interior_failure_prob: float = 0.0
    """R20: so often a member that should pass an event on in the tree fails to; its part of the layer goes without."""
    causes: float = 0.0
    """Of so many peers upload is counted by cause, too; that slows them down."""


class Entries:
    """Entries into the layer, and which of them were concurrent."""

    def __init__(self, peers: Peers) -> None:
        self.peers, self.counting = peers, False
        self.first = self.promoted = self.budget = self.standby = self.concurrent = 0
        self.taken_over = 0
        """Stand-bys that took their father's place."""
        self._of_filter: dict[int, dict[int, str]] = {}
        """By filter, the peers that are super nodes or have a father, and which of both."""

    def changed(self, now: float, record: PeerRecord, fact: Any) -> None:
        if type(fact) is not RoleChanged:
            return
        family = self._of_filter.setdefault(record.filter, {})
        before = family.pop(record.node, "")
        if self.counting:
            self._count(before, fact, bool(family))
        if fact.role != "joining":
            family[record.node] = fact.role

    def _count(self, before: str, fact: RoleChanged, represented: bool) -> None:
        if fact.role == "k":
            self.standby += before != "super"
        elif fact.role == "super":
            if before == "k":
                self.taken_over += fact.why == "promoted"
            elif fact.why == "promoted":
                self.promoted += 1
            elif fact.why == "budget":
                self.budget += 1
            else:
                self.first += 1
                self.concurrent += represented

    def leaves(self, record: PeerRecord) -> None:
        family = self._of_filter.get(record.filter, {})
        family.pop(record.node, None)
        if not family:
            self._of_filter.pop(record.filter, None)

    @property
    def all(self) -> int:
        return self.first + self.promoted + self.budget + self.standby


class FailingPeer(SuperNode):
    """A peer that may fail while it is responsible for a part of the event tree (R20).

    It has the event, and so has its family; what it should have sent to other members is lost, as if it had left then.
    """

    __slots__ = ("failure_prob",)
    failure_prob: float

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        effects = super().handle(stimulus, now, rng)
        if type(stimulus) is Received and type(stimulus.message) is TurmoilCast:
            kept = [one for one in effects if not (type(one) is Send and type(one.message) is TurmoilCast)]
            if len(kept) < len(effects) and rng.random() < self.failure_prob:
                return kept
        return effects


def failing_peers(settings: SuperNodeSettings, failure_prob: float) -> Callable[[NodeId], SuperNode]:
    """What makes the peers of a simulation, in which all of them may fail."""
    home, size_of = Home(settings.max_log), sizer_of(settings)

    def make(node: NodeId) -> FailingPeer:
        peer = FailingPeer(node, settings, home, size_of)
        peer.failure_prob = failure_prob
        return peer

    return make


class CountedPeer(SuperNode):
    """A peer whose upload is counted by cause."""

    __slots__ = ("sent",)
    sent: Callable[[int, Sequence[Effect]], None]

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        effects = super().handle(stimulus, now, rng)
        assert isinstance(self.me, int)
        self.sent(self.me, effects)
        return effects


def counted_peers(
    settings: SuperNodeSettings, counts: Callable[[int], bool], sent: Callable[[int, Sequence[Effect]], None]
) -> Callable[[NodeId], SuperNode]:
    """What makes the peers of a simulation, of whom some are counted."""
    home, size_of = Home(settings.max_log), sizer_of(settings)

    def make(node: NodeId) -> SuperNode:
        assert isinstance(node, int)
        if not counts(node):
            return SuperNode(node, settings, home, size_of)
        peer = CountedPeer(node, settings, home, size_of)
        peer.sent = sent
        return peer

    return make


class Samples:
    """The composition, again and again; and how many entries of views are of peers that have left."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.found: list[dict[str, float]] = []
        self.hourly: dict[int, float] = {}
        self.dead = self.looked_at = self.violations = 0
        self.brothers = self.known = 0
        """Of all children, the brothers that they have and those of them that they know."""
        self._rng = stream(peers.seed, "samples")

    def take(self) -> None:
        peers = self.peers
        if peers.live:
            shares = peers.shares()
            self.found.append({**shares, "live": float(len(peers.live))})
            self._look_at_views()
            self._look_at_families()
            self._check()

    def note_hour(self) -> None:
        if len(self.peers.live) > MANY:
            use_large_pages()
        if self.peers.live:
            self.hourly[round(self.peers.simulation.now / HOUR)] = self.peers.shares()["super"]

    def _look_at_views(self) -> None:
        supers, live = self.peers.supers.nodes, self.peers.live
        for _ in range(min(VIEWS, len(supers))):
            layer = self.peers.machine(supers[self._rng.randrange(len(supers))]).state.layer
            if layer is not None and layer.active:
                self.looked_at += len(layer.membership)
                self.dead += sum(member.endpoint not in live for member in layer.membership.members)

    def _look_at_families(self) -> None:
        """Brothers are children of the same father who is there."""
        families: dict[Any, dict[NodeId, Child]] = {}
        for machine in self.peers.machines():
            child = machine.state.child
            if child is not None and child.father in self.peers.live:
                families.setdefault(child.father, {})[machine.me] = child
        for family in families.values():
            self.brothers += len(family) * (len(family) - 1)
            for node, child in family.items():
                self.known += sum(one in family for one in child.brothers(node))

    def _check(self) -> None:
        """I2 and I4: a father has the filter of his children, and stand-bys have no children."""
        for machine in self.peers.machines():
            child, layer, node = machine.state.child, machine.state.layer, machine.me
            if child is not None:
                assert isinstance(node, int)
                assert isinstance(child.father, int)
                same = self.peers.records[child.father].filter == self.peers.records[node].filter
                self.violations += (not same) + bool(layer is not None and layer.children)

    def numbers(self) -> Numbers:
        found: Numbers = {"violations": self.violations}
        if self.found:
            for name in ("super", "k", "children", "live"):
                found[f"share.{name}"] = fsum(one[name] for one in self.found) / len(self.found)
            share = fsum(one["k"] for one in self.found) / len(self.found)
            found["share.k_per_active"] = share / (1 - share) if share < 1 else 0.0
        if self.brothers:
            found["brothers.known"] = self.known / self.brothers
        if self.looked_at:
            found["dead"] = self.dead / self.looked_at
        found |= {f"hour.{hour}.super": share for hour, share in self.hourly.items()}
        return found


def measure_run(run: Run) -> Numbers:
    """Let it happen, and measure it."""
    started = time.process_time()
    population = Population(
        rate=run.rate,
        redundancy=run.redundancy,
        session_seconds=run.session_hours * HOUR,
        session_most_seconds=2 * run.session_hours * HOUR,
        filters=run.workload or "integer",
    )
    settings = SuperNodeSettings(**{"event_repair": False, **run.options})

    def counts(node: int) -> bool:
        return int((node + 1) * run.causes) > int(node * run.causes)

    make: Callable[[NodeId], SuperNode] | None = None
    if run.interior_failure_prob:
        make = failing_peers(settings, run.interior_failure_prob)
    elif run.causes:
        make = counted_peers(settings, counts, lambda *step: stints.sent(*step))  # noqa: PLW0108  # made below
    peers = Peers(population, settings, run.seed, make=make)
    stints, entries, samples = Stints(peers, run.bin_hours * HOUR), Entries(peers), Samples(peers)
    stints.counts = counts
    events = Deliveries(peers, run.event_seconds) if run.workload else None
    _observe(peers, stints, entries, events)
    if run.statistical:
        peers.draw_filter = _statistical(peers, run.redundancy)
    warm, end = run.warm_up_hours * HOUR, run.hours * HOUR
    _repeat(peers, HOUR, HOUR, end, samples.note_hour)
    peers.arrivals(end)
    peers.run(warm)
    stints.start_counting()
    entries.counting = True
    before, paid = len(peers.records), _family_bytes(peers)
    _repeat(peers, warm, SAMPLE_SECONDS, end, samples.take)
    if events is not None:
        events.publish_until(max(warm + 1, end - max(SETTLE_SECONDS + 1, min(0.5 * HOUR, 0.25 * (end - warm)))))
    peers.run(end - warm)
    stints.finish()
    arrivals = len(peers.records) - before
    found = {**stints.numbers(), **samples.numbers(), **_entry_numbers(entries, arrivals, end - warm)}
    found |= _takeover_numbers(peers, warm)
    if stints.seconds[SUB]:
        for cause, sent in _family_bytes(peers).items():
            found[f"family.{cause}.rate"] = (sent - paid[cause]) / stints.seconds[SUB]
    if events is not None:
        found |= events.numbers()
    found |= {"arrivals": arrivals, "steps": peers.simulation.steps}
    found |= {"processor.minutes": (time.process_time() - started) / 60, "memory.gigabytes": _most_gigabytes()}
    dead, hours = found.get("dead"), found.get("layer.hours")
    if isinstance(dead, float) and isinstance(hours, float):
        found["stale_seconds"] = dead * hours * HOUR
    return found


def _most_gigabytes() -> float:
    """What the process has had at most, with all that it did before."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _family_bytes(peers: Peers) -> dict[str, int]:
    """What was sent so far, by fathers and children together, so that they know of each other."""
    sent = peers.simulation.sent
    return {
        cause: sum(one.bytes for kind, one in sent.items() if CAUSES.get(kind) == cause)
        for cause in ("keep-alive", "brothers")
    }


def _observe(peers: Peers, stints: Stints, entries: Entries, events: Deliveries | None) -> None:
    def changed(now: float, record: PeerRecord, fact: Any) -> None:
        stints.changed(now, record, fact)
        entries.changed(now, record, fact)

    def leaves(record: PeerRecord) -> None:
        stints.leaves(record)
        entries.leaves(record)

    peers.on_fact, peers.before_leave = changed, leaves
    if events is not None:
        peers.on_delivery = events.delivered


def _repeat(peers: Peers, start: float, every: float, end: float, call: Callable[[], None]) -> None:
    def again() -> None:
        call()
        if peers.simulation.now + every <= end:
            peers.simulation.at(peers.simulation.now + every, again)

    if start <= end:
        peers.simulation.at(start, again)


def _statistical(peers: Peers, redundancy: float) -> Callable[[], int]:
    """A2: a filter that nobody has had, or that of a random peer who is there."""
    rng, used = stream(peers.seed, "statistical"), [0]

    def draw() -> int:
        live = list(peers.live)
        if not live or rng.random() < 1 - redundancy:
            used[0] += 1
            return used[0]
        return peers.live[live[rng.randrange(len(live))]].filter

    return draw


def _entry_numbers(entries: Entries, arrivals: int, seconds: float) -> Numbers:
    total = entries.all
    promotions = entries.promoted + entries.taken_over
    found: Numbers = {
        "entries": total,
        "entries.rate": total / seconds,
        "entries.concurrent": entries.concurrent / total if total else 0.0,
        "entries.budget.rate": entries.budget / seconds,
        "activations.rate": (entries.first + promotions) / seconds,
    }
    if arrivals:
        found["entries.share"] = total / arrivals
        found["entries.budget.share"] = entries.budget / arrivals
        found["activations.share"] = (entries.first + promotions) / arrivals
    return found


def _takeover_numbers(peers: Peers, since: float) -> Numbers:
    times = list(peers.takeovers(since))
    if not times:
        return {"takeovers": 0}
    return {
        "takeovers": len(times),
        "takeovers.seconds": fsum(seconds for seconds, _ in times) / len(times),
        "takeovers.standby": sum(standby for _, standby in times) / len(times),
    }
