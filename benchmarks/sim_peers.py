"""Super-node peers in the simulator: steps a second, bytes a peer, and what a run of the document's size would take.

A system of 20,000 peers that grows by itself takes minutes until it is full. So these begin settled: peers in the
middle of their sessions, families complete, everybody knows everybody. From then on peers come and go as in the
document (``experiments.supernodes.peers``), and after a round of everything that is done in rounds the measurement
begins.

Every case runs in a process of its own, so that its memory is known.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import Rate, Record
from benchmarks.timing import process_bytes, run_alone
from experiments.supernodes.peers import Peers, Population, filter_number
from recado.model.subscription import Subscription
from recado.protocols.algebra import name_of
from recado.protocols.machine import Effect, NodeId, Report, Rng, SetTimer, Started, Stimulus
from recado.protocols.supernodes.members import SPACE, Home, Member
from recado.protocols.supernodes.messages import Active, RoleChanged, sizer_of
from recado.protocols.supernodes.node import SuperNode
from recado.protocols.supernodes.settings import SuperNodeSettings
from recado.protocols.supernodes.state import SUB, SUPER, Child, Layer, State, filter_of
from recado.sim.draws import truncated, weibull
from recado.sim.kernel import stream
from recado.sim.memory import use_large_pages

SEED = 4
FULL_SECONDS = 82_800.0
"""How long a run of the document takes in simulated time."""

SUPER_NODES, BASE = "super nodes", "base (BL0)"

WARM_UP_SECONDS = 90.0
STRETCH_SECONDS = 5.0


class PeerSpeed(Record, frozen=True, tag="peers"):
    """Steps a second of super-node peers that come and go, and what the process holds for each of them.

    ``per_second`` is the steps that one simulated second takes, ``full_minutes`` what a whole run of the document
    would take if all peers were there from the start.
    """

    protocol: str
    leaves: str
    peers: int
    super_nodes: int
    steps: int
    per_second: float
    rate: Rate
    bytes_per_peer: float
    dead_bytes: float
    """For each peer that has left."""

    @property
    def microseconds(self) -> float:
        return 1e6 / self.rate.best

    @property
    def full_minutes(self) -> float:
        return FULL_SECONDS * self.per_second / self.rate.median / 60

    @property
    def full_gigabytes(self) -> float:
        """At the end, with all that have been there: peers are replaced once in a mean session."""
        dead = self.peers * FULL_SECONDS / Population().session_seconds
        return (self.peers * self.bytes_per_peer + dead * self.dead_bytes) / 1e9


# --- A system that is settled ----------------------------------------------------------------------------------------


class _Beginning:
    """Stands for a peer while the system is put together: it starts with the effects that it is given."""

    __slots__ = ("effects", "peer")

    def __init__(self, peer: SuperNode) -> None:
        self.peer = peer
        self.effects: list[Effect] = []

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        return self.effects if type(stimulus) is Started else ()

    def inspect(self) -> dict[str, Any]:
        return {}


def settled_peers(count: int, settings: SuperNodeSettings, redundancy: float = 0.8, seed: int = SEED) -> Peers:
    """So many peers, of whom everybody has long joined; time is at 0, and more arrive and leave as it passes."""
    population = Population(rate=count / Population().session_seconds, redundancy=redundancy)
    home, size_of, rng = Home(settings.max_log), sizer_of(settings), stream(seed, "settled")
    settled = False

    def make(node: NodeId) -> SuperNode | _Beginning:
        peer = SuperNode(node, settings, home, size_of)
        return peer if settled else _Beginning(peer)

    peers = Peers(population, settings, seed, make=make)
    session = truncated(
        weibull(population.session_shape, population.session_seconds, rng), population.session_most_seconds
    )
    families: dict[int, list[SuperNode]] = {}
    nodes = peers.simulation.nodes
    for _ in range(count):
        whole = session()
        while rng.random() * population.session_most_seconds > whole:  # who is there is rather somebody who stays long
            whole = session()
        record = peers.arrive(session_seconds=whole * rng.random())
        peer = _beginning(nodes[record.node].machine).peer
        _subscribe(peer.state, record.filter)
        families.setdefault(record.filter if settings.families else record.node, []).append(peer)
    fathers = [family[0].state for family in families.values()]
    keys = sorted(rng.randrange(SPACE) for _ in fathers)
    layer = [Member(key, state.me, state.filter) for key, state in zip(keys, fathers, strict=True)]
    membership = home.found(layer)
    for key, (father, *children) in zip(keys, families.values(), strict=True):
        _settle_father(father.state, Layer(key, membership, "first", 0.0, settings), children)
        _settle_family(father.state, children)
    for node in nodes.values():
        beginning = _beginning(node.machine)
        beginning.effects = _effects(beginning.peer.state, rng.random)
    peers.run(0.0)
    for node in nodes.values():
        node.machine = _beginning(node.machine).peer
    settled = True
    return peers


def _beginning(machine: object) -> _Beginning:
    assert isinstance(machine, _Beginning)
    return machine


def _subscribe(state: State, number: int) -> None:
    state.subscriptions["s"] = Subscription("s", filter_number("integer", number))
    state.filter = filter_of(state.subscriptions)
    state.name = name_of(state.filter)
    state.started = True


def _settle_father(state: State, layer: Layer, children: Sequence[SuperNode]) -> None:
    state.layer, state.role, state.source = layer, SUPER, layer.key
    layer.endpoints_loaded = layer.filters_loaded = layer.announced = layer.active = True
    layer.repair_seconds = state.settings.repair_most_seconds
    layer.children = dict.fromkeys((child.state.me for child in children), 0)
    layer.rounds = bool(children)
    layer.batching = layer.key == layer.membership.keys[0]


def _settle_family(father: State, children: Sequence[SuperNode]) -> None:
    chain = tuple(child.state.me for child in children)
    for place, child in enumerate(children):
        state = child.state
        state.role, state.child = SUB, Child(father.me, 0.0)
        state.child.chain, state.child.place = chain, place


def _effects(state: State, random: Any) -> list[Effect]:
    settings, layer = state.settings, state.layer
    if layer is None:
        assert state.child is not None
        wait = settings.keepalive_seconds + settings.watchdog_grace_seconds + state.child.place
        return [SetTimer("watchdog", wait), Report(RoleChanged(SUB, "settled"))]
    effects: list[Effect] = [Report(RoleChanged(SUPER, "settled")), Report(Active("first"))]
    effects.append(SetTimer("repair", random() * settings.repair_most_seconds))
    if layer.rounds:
        effects.append(SetTimer("keepalive", random() * settings.keepalive_seconds))
    if layer.batching:
        effects.append(SetTimer("batch", random() * settings.join_batch_seconds))
    return effects


# --- The measurement -------------------------------------------------------------------------------------------------


def measure_peers(protocol: str, leaves: str, count: int, seconds: float, runs: int, _: Path) -> Iterator[PeerSpeed]:
    yield run_alone(_measure, protocol, leaves, count, seconds, runs)


def _measure(protocol: str, leaves: Any, count: int, seconds: float, runs: int) -> PeerSpeed:
    settings = SuperNodeSettings(families=protocol == SUPER_NODES, leaves=leaves)
    empty = process_bytes()
    peers = settled_peers(count, settings)
    gc.freeze()
    peers.arrivals(FULL_SECONDS)
    peers.run(WARM_UP_SECONDS)
    use_large_pages()
    full, simulation = process_bytes(), peers.simulation
    gone, begun, before = len(peers.records) - len(peers.live), simulation.now, simulation.steps
    rates = [_rate(peers, seconds) for _ in range(runs)]
    left = len(peers.records) - len(peers.live) - gone
    return PeerSpeed(
        protocol,
        leaves,
        count,
        sum(one.state.layer is not None for one in peers.machines()),
        simulation.steps,
        (simulation.steps - before) / (simulation.now - begun),
        Rate(max(rates), median(rates)),
        (full - empty) / count,
        max(0.0, process_bytes() - full) / max(1, left),
    )


def _rate(peers: Peers, seconds: float) -> float:
    """Stretches of simulated time until so much time of the processor is used."""
    simulation = peers.simulation
    started, before, taken = time.process_time(), simulation.steps, 0.0
    while taken < seconds:
        peers.run(STRETCH_SECONDS)
        taken = time.process_time() - started
    return (simulation.steps - before) / taken
