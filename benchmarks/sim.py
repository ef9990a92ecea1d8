"""The simulator: steps of protocol machines a second, and how they hold as the network grows.

All cases run on one core, the collector of garbage as it is for every user; those of super-node peers
(``benchmarks.sim_peers``) in processes of their own, the others in this one. Seconds are of the processor's time, so
that other programs disturb less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.harness import (
    Case,
    Grid,
    Rate,
    Record,
    Subject,
    Target,
    at_least,
    at_most,
    of_kind,
    table,
    version_of,
)
from benchmarks.sim_peers import BASE, FULL_SECONDS, SUPER_NODES, PeerSpeed, measure_peers
from benchmarks.sim_radio import (
    DENSE,
    RADIO,
    SIDE,
    RadioSpeed,
    measure_beside_ns2,
    measure_floods,
    measure_sensors,
    radio_targets,
)
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Effect, NodeId, Rng, Send, Stimulus
from recado.protocols.topology import random_graph
from recado.protocols.trees import TreeNode
from recado.sim.draws import uniform
from recado.sim.kernel import Agenda, Entry, Network, Simulation, stream
from recado.sim.network import Links, UnitDelay
from recado.sim.system import System

# --- records ----------------------------------------------------------------------------------------------------------


class Speed(Record, frozen=True, tag="speed"):
    """Steps a second of one protocol on a network of one size. A step is one stimulus that a machine handled.

    ``pending`` is how much was waiting in the simulation at the end.
    """

    protocol: str
    network: str
    nodes: int
    steps: int
    pending: int
    rate: Rate

    @property
    def microseconds(self) -> float:
        return 1e6 / self.rate.best


class Peer(Record, frozen=True, tag="peer"):
    """The same tokens on another simulator in the same run; ``note`` says why there is no rate."""

    peer: str
    version: str
    nodes: int
    rate: Rate | None = None
    ratio: float | None = None
    note: str = ""


class Queue(Record, frozen=True, tag="queue"):
    """Seconds to take the next of so many entries and put one back, from one plain heap and from the agenda."""

    entries: int
    heap_seconds: float
    agenda_seconds: float


# --- what is simulated ------------------------------------------------------------------------------------------------
#
# A token for each node, handed on for ever, and subscription trees at work. The trivial machine does nothing but send,
# so its figure is the kernel's. The tokens of a network of n nodes jump over the whole of it, so that the memory of a
# large one is not used in order. The trees' figure is of whole operations, one after another on a random graph of
# degree 4: a node subscribes, ten events are published, the node unsubscribes.

SEED = 4
JUMP = 7919  # a prime: node i hands on to i * JUMP + 1
EVENTS_PER_SUBSCRIPTION = 10
TOKENS, TREES, PEERS = "tokens", "trees", "peers"

NETWORKS: dict[str, Callable[[], Network]] = {
    "unit delay": UnitDelay,
    "random delays in order": lambda: Links(uniform(0.5, 1.5, stream(SEED, "delay"))),
}

Advance = Callable[[], int]
"""Goes on for a while and says how many steps that took."""


class Relay:
    """Hands on whatever comes, and one token of its own when it starts."""

    def __init__(self, receiver: NodeId) -> None:
        self._out = (Send(receiver, "token"),)

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        return self._out

    def inspect(self) -> dict[str, Any]:
        return {}


def tokens(nodes: int, network: str, steps: int = 20_000) -> tuple[Simulation, Advance]:
    simulation = Simulation(NETWORKS[network](), SEED)
    for node in range(nodes):
        simulation.add(node, Relay((node * JUMP + 1) % nodes))
    return simulation, lambda: simulation.run(steps=steps)


def trees(nodes: int, network: str) -> tuple[Simulation, Advance]:
    system = System(random_graph(nodes, nodes + 1, stream(SEED, "graph")), TreeNode, NETWORKS[network](), SEED)
    rng = stream(SEED, "places")
    publisher = rng.randrange(nodes)
    system.become_publisher(publisher, "quote")
    work = _operations(system, publisher, rng.randrange)

    def advance() -> int:
        before = system.simulation.steps
        next(work)
        return system.simulation.steps - before

    return system.simulation, advance


def _operations(system: System, publisher: NodeId, place: Callable[[int], int]) -> Iterator[None]:
    """A subscription's life, again and again; all events match."""
    wanted = parse("price > 10")
    for number in count():
        node, name = place(len(system.topology.nodes)), f"s-{number}"
        system.subscribe(node, Subscription(name, wanted, "quote"))
        for event in range(EVENTS_PER_SUBSCRIPTION):
            system.publish(publisher, Event(f"e-{number}-{event}", "quote", attributes={"price": 11 + event}))
        system.unsubscribe(node, name)
        system.deliveries.clear()
        yield


PROTOCOLS: dict[str, Callable[[int, str], tuple[Simulation, Advance]]] = {TOKENS: tokens, TREES: trees}


# --- SimPy, the simulator that Python users know ----------------------------------------------------------------------

SIMPY = "simpy"


def simpy_installed() -> bool:
    return find_spec(SIMPY) is not None


def simpy_tokens(nodes: int, time: float = 1.0) -> Callable[[], int]:
    """Each node is a process that waits for its store and puts the token into the next one's, a time unit later."""
    simpy: Any = import_module(SIMPY)
    environment = simpy.Environment()
    stores = [simpy.Store(environment) for _ in range(nodes)]
    steps = 0

    def hand_on(token: Any, store: Any) -> Any:
        yield environment.timeout(1.0)
        store.put(token)

    def live(mine: Any, following: Any) -> Any:
        nonlocal steps
        environment.process(hand_on("token", following))
        while True:
            token = yield mine.get()
            steps += 1
            environment.process(hand_on(token, following))

    for node, store in enumerate(stores):
        environment.process(live(store, stores[(node * JUMP + 1) % nodes]))

    def advance() -> int:
        before = steps
        environment.run(until=environment.now + time)
        return steps - before

    return advance


# --- what the agenda saves: entries are taken and put back a random time later, there and in one plain heap -----------


def compare_queues(entries: int, rounds: int, runs: int) -> Queue:
    """The best of several runs each, in turn."""
    heap, agenda = [], []
    for _ in range(runs):
        heap.append(_heap_seconds(entries, rounds))
        agenda.append(_agenda_seconds(entries, rounds))
    return Queue(entries, min(heap) / rounds, min(agenda) / rounds)


def _fill(entries: int, rng: Random) -> list[Entry]:
    return [(rng.uniform(0.5, 1.5), number, None, None, 0, None, None) for number in range(entries)]


def _heap_seconds(entries: int, rounds: int) -> float:
    rng = stream(1, "queue")
    heap = sorted(_fill(entries, rng))
    random, started = rng.random, time.process_time()
    for number in range(entries, entries + rounds):
        now = heappop(heap)[0]
        heappush(heap, (now + 0.5 + random(), number, None, None, 0, None, None))
    return time.process_time() - started


def _agenda_seconds(entries: int, rounds: int) -> float:
    """As the kernel does it; see ``recado.sim.kernel.Simulation.run``."""
    rng, agenda = stream(1, "queue"), Agenda()
    for entry in _fill(entries, rng):
        agenda.put(entry)
    agenda.next_time()
    near, late, far, order = agenda.near, agenda.late, agenda.far, agenda.order
    scale, edge = agenda.scale, agenda.edge
    random, number, started = rng.random, entries, time.process_time()
    while number < entries + rounds:
        if late and (not near or late[0] < near[-1]):
            now = heappop(late)[0]
        elif near:
            now = near.pop()[0]
        else:
            agenda.open()
            scale, edge = agenda.scale, agenda.edge
            continue
        later = now + 0.5 + random()
        stretch = int(later * scale)
        if stretch <= edge:
            heappush(late, (later, number, None, None, 0, None, None))
        elif stretch in far:
            far[stretch].append((later, number, None, None, 0, None, None))
        else:
            far[stretch] = [(later, number, None, None, 0, None, None)]
            heappush(order, stretch)
        number += 1
    return time.process_time() - started


# --- cases ------------------------------------------------------------------------------------------------------------

NETWORK_NAMES = tuple(NETWORKS)
FEW, MANY = 1_000, 20_000
PEER_CASES = (
    (SUPER_NODES, "leader", FEW),
    (BASE, "leader", FEW),
    (SUPER_NODES, "detector", FEW),
    (BASE, "detector", FEW),
    (SUPER_NODES, "leader", MANY),
    (BASE, "leader", MANY),
)


def plan(quick: bool, parts: Sequence[str]) -> list[Case]:
    """Tokens and trees on networks of several sizes, super-node peers, then queues."""
    seconds, runs, rounds = (0.3, 2, 50_000) if quick else (1.5, 5, 200_000)
    token_sizes, tree_sizes = ((100, 20_000), (100, 2_000)) if quick else ((100, 1_000, 20_000), (100, 20_000))
    speeds = [(TOKENS, network, nodes) for network in NETWORK_NAMES for nodes in token_sizes]
    speeds += [(TREES, NETWORK_NAMES[0], nodes) for nodes in tree_sizes]
    cases = [
        Case(
            protocol,
            f"{protocol}, {network}, {nodes:,} nodes",
            partial(_speeds, protocol, network, nodes, seconds, runs),
        )
        for protocol, network, nodes in speeds
    ]
    cases += [
        Case(
            PEERS,
            f"{protocol}, {leaves}, {peers:,} peers",
            partial(measure_peers, protocol, leaves, peers, seconds, runs),
        )
        for protocol, leaves, peers in (PEER_CASES[:2] if quick else PEER_CASES)
    ]
    floods = [
        ("ideal", 100, 40 if quick else 400),
        ("ideal", 5_000, 2 if quick else 8),
        ("csma", 100, 10 if quick else 100),
    ]
    cases += [
        Case(RADIO, f"floods, {channel}, {nodes:,} nodes", partial(measure_floods, channel, nodes, count))
        for channel, nodes, count in floods
    ]
    cases += [
        Case(RADIO, f"sensors, {channel}, {side:g} m", partial(measure_sensors, channel, side, 0.02 if quick else 1.0))
        for channel in ("ideal", "csma")
        for side in (DENSE, 1500.0)
    ]
    if not quick:
        cases += [
            Case(RADIO, f"sensors, ideal, {nodes:,} nodes", partial(measure_sensors, "ideal", SIDE, 0.01, nodes=nodes))
            for nodes in (100, 5_000)
        ]
        cases.append(Case(RADIO, "an hour beside ns-2", measure_beside_ns2))
    return cases + [
        Case("queues", f"a queue of {entries:,} entries", partial(_queue, entries, rounds, runs))
        for entries in ((100, 20_000) if quick else (100, 20_000, 100_000))
    ]


def _speeds(protocol: str, network: str, nodes: int, seconds: float, runs: int, _: Path) -> Iterator[Speed | Peer]:
    """One protocol on one network; then the same tokens on SimPy, where there is a unit delay."""
    simulation, advance = PROTOCOLS[protocol](nodes, network)
    ours = rate_of(advance, nodes, seconds, runs)
    yield Speed(protocol, network, nodes, simulation.steps, simulation.pending, ours)
    if (protocol, network) != (TOKENS, NETWORK_NAMES[0]):
        return
    if simpy_installed():
        theirs = rate_of(simpy_tokens(nodes), nodes, seconds, runs)
        yield Peer("SimPy", version_of(SIMPY), nodes, theirs, ours.best / theirs.best)
    else:
        yield Peer("SimPy", "", nodes, note="not installed: pip install simpy")


def _queue(entries: int, rounds: int, runs: int, _: Path) -> Iterator[Queue]:
    yield compare_queues(entries, rounds, runs)


def rate_of(advance: Advance, warm_up: int, seconds: float, runs: int) -> Rate:
    """Warmed up until every node has had something to do, about."""
    done = advance()
    while done < warm_up:
        done += advance()
    rates = [_one_rate(advance, seconds) for _ in range(runs)]
    return Rate(max(rates), median(rates))


def _one_rate(advance: Advance, seconds: float) -> float:
    started, steps, taken = time.process_time(), 0, 0.0
    while taken < seconds:
        steps += advance()
        taken = time.process_time() - started
    return steps / taken


# --- tables and targets -----------------------------------------------------------------------------------------------

RATES = {TOKENS: 300_000, TREES: 100_000}
SMALL, LARGE = 100, 20_000
TIMES = 3.0
FULL_RUNS = {SUPER_NODES: (10.0, 4.0), BASE: (40.0, 8.0)}
"""Minutes and GB that a run of the document's size may take."""


def _speed_table(records: Sequence[Record]) -> Grid:
    found = of_kind(records, Speed)

    def growth(speed: Speed) -> str:
        same = [one for one in found if (one.protocol, one.network) == (speed.protocol, speed.network)]
        return f"{speed.microseconds / min(same, key=lambda one: one.nodes).microseconds:.2f}"

    return table(
        "Steps a second, one core",
        Speed,
        {
            "protocol": lambda r: r.protocol,
            "network": lambda r: r.network,
            "nodes": lambda r: r.nodes,
            "steps/s": lambda r: r.rate,
            "median": lambda r: r.rate.median,
            "us/step": lambda r: r.microseconds,
            "x smallest": growth,
            "pending at the end": lambda r: r.pending,
        },
        words=2,
    )(records)


def _targets(records: Sequence[Record]) -> Iterator[Target]:
    speeds = {(r.protocol, r.network, r.nodes): r for r in of_kind(records, Speed)}
    for protocol, least in RATES.items():
        found = speeds.get((protocol, NETWORK_NAMES[0], SMALL))
        yield at_least(f"{protocol}, {SMALL} nodes: steps/s", found.rate.best if found else None, least, "")
    for protocol, network in dict.fromkeys((protocol, network) for protocol, network, _ in speeds):
        small, large = (speeds.get((protocol, network, nodes)) for nodes in (SMALL, LARGE))
        ratio = large.microseconds / small.microseconds if small and large else None
        yield at_most(f"{protocol}, {network}: time a step with {LARGE:,} nodes against {SMALL}", ratio, TIMES)
    yield from radio_targets(of_kind(records, RadioSpeed))
    yield from _peer_targets({(r.protocol, r.leaves, r.peers): r for r in of_kind(records, PeerSpeed)})


def _peer_targets(found: dict[tuple[str, str, int], PeerSpeed]) -> Iterator[Target]:
    for protocol, (minutes, gigabytes) in FULL_RUNS.items() if found else ():
        few, many = (found.get((protocol, "leader", peers)) for peers in (FEW, MANY))
        ratio = many.microseconds / few.microseconds if few and many else None
        yield at_most(f"{protocol}: time a step with {MANY:,} peers against {FEW:,}", ratio, TIMES)
        whole = f"{protocol}, {MANY:,} peers, {FULL_SECONDS:,.0f} s"
        yield at_most(f"{whole}: minutes", many.full_minutes if many else None, minutes, "min")
        yield at_most(f"{whole}: memory", many.full_gigabytes if many else None, gigabytes, "GB")


SUBJECT = Subject(
    name="sim",
    title="The simulator, measured",
    parts=(TOKENS, TREES, PEERS, RADIO, "queues"),
    plan=plan,
    packages=("msgspec", SIMPY),
    note=(
        "A step is one stimulus that a machine handled, with all its effects carried out. *tokens*: a token for each "
        "node, handed on for ever by a machine that does nothing else. *trees*: subscriptions, publications and "
        "cancellations on a random graph of degree 4. *peers*: super-node peers that come and go as in their document "
        "(redundancy 0.8, sessions of 4 hours), from a settled start; *base* has every peer in the layer. A full run "
        "is 23 simulated hours, estimated from the median as if all peers were there from the start. Of departures, "
        "the leader of the slice tells (`leaves` is leader) or whoever noticed (detector). *radio*: floods in which "
        "every node relays once, the sensor network's run of its document, and the same hour of AODV on ns-2 where it "
        "is installed; sides are in metres."
    ),
    tables=(
        _speed_table,
        table(
            "Super-node peers that come and go, one core",
            PeerSpeed,
            {
                "protocol": lambda r: r.protocol,
                "leaves": lambda r: r.leaves,
                "peers": lambda r: r.peers,
                "in the layer": lambda r: r.super_nodes,
                "steps/s": lambda r: r.rate,
                "median": lambda r: r.rate.median,
                "us/step": lambda r: r.microseconds,
                "steps a simulated second": lambda r: r.per_second,
                "bytes a peer": lambda r: r.bytes_per_peer,
                "a full run, min": lambda r: r.full_minutes,
            },
            words=2,
        ),
        table(
            "Radio, one core",
            RadioSpeed,
            {
                "workload": lambda r: r.workload,
                "channel": lambda r: r.channel,
                "nodes": lambda r: r.nodes,
                "side, m": lambda r: r.side,
                "transmissions": lambda r: r.transmissions,
                "receptions": lambda r: r.receptions,
                "s": lambda r: r.seconds,
                "us/transmission": lambda r: r.microseconds,
                "us/reception": lambda r: 1e6 * r.seconds / r.receptions,
            },
            words=2,
        ),
        table(
            "Taking the next entry and putting one back",
            Queue,
            {
                "entries": lambda r: r.entries,
                "plain heap, us": lambda r: r.heap_seconds * 1e6,
                "agenda, us": lambda r: r.agenda_seconds * 1e6,
                "x faster": lambda r: f"{r.heap_seconds / r.agenda_seconds:.2f}",
            },
            words=0,
        ),
        table(
            "The same tokens on another simulator",
            Peer,
            {
                "peer": lambda r: f"{r.peer} {r.version}".strip(),
                "nodes": lambda r: r.nodes,
                "steps/s": lambda r: r.rate,
                "recado is x faster": lambda r: f"{r.ratio:.1f}",
            },
            keys=2,
            measured=lambda r: r.rate is not None,
        ),
    ),
    targets=(_targets,),
)
