"""One run, from its description to its figures: what a process, or a Spark executor, does.

The seed follows from the set of seeds and the number of the run, not from the configuration, so runs of the same
number are pairs across configurations (common random numbers). Metrics are numbers by name:

- ``subscribe.messages``, ``.time``, ``.bytes``, ``.count``: means over the operations of a kind, and their number;
- ``setup.messages``: all until publishers and subscriptions are in place; ``mix.messages``: mean of what comes after;
- ``messages``, ``bytes``, ``steps``: in the whole run, warm-up included;
- ``rows.*``: routing rows at the end; ``load.*``: messages sent and received by a node after that;
- ``deliveries.*``, ``delay.*``, ``events.*``, ``stretch.*``: see ``recado.sim.runs.operations``;
- ``transmissions.*``, ``air.*``, ``energy.*``: on a radio, see ``recado.sim.runs.air``.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from random import Random
from typing import Any, Literal

import msgspec

from recado.protocols.machine import Deliver, NodeId
from recado.protocols.pubsub import MakeMachine, ProtocolError
from recado.protocols.registry import find_protocol
from recado.protocols.reliable import ReliableLinks
from recado.protocols.topology import (
    GENERATORS,
    NETWORKS,
    Topology,
    TopologyError,
    parse_edges,
    random_graph,
    scale_free,
    with_clients,
)
from recado.protocols.wire import wire_size
from recado.sim.draws import Draw, constant, exponential, lognormal, uniform
from recado.sim.faults import (
    Cuts,
    Duplication,
    Loss,
    Outages,
    Reordering,
    schedule_failures,
    schedule_node_failures,
)
from recado.sim.kernel import Network, Simulation, Watch, stream
from recado.sim.network import Bandwidth, Links, Mesh, UnitDelay
from recado.sim.radio import Radio, radio_topology
from recado.sim.recording import LIMIT, Recorder, Recording
from recado.sim.runs.air import exhausted, make_radio, measure_air
from recado.sim.runs.operations import Observer, Operation, Workload, delays, judge, measure_travel
from recado.sim.runs.scenario import (
    NetworkPart,
    Run,
    ScenarioError,
    Setting,
    SettingError,
    TopologyPart,
    configure_protocol,
)
from recado.sim.system import Cost, System
from recado.sim.trace import Trace

# --- From a setting and a seed to a system that can be run: topology, network model and machines ---------------------
#
# Each draws from a stream of its own, so that two settings which differ in the protocol alone have the same topology,
# the same delays in the same order, and the same operations.


LATE = 3.0
"""A message that is late comes up to so many mean delays late."""


def build(
    setting: Setting, seed: int, watch: Watch | None = None, prepare: Callable[[Simulation], None] | None = None
) -> System:
    """The system of one run, started and quiet; if it is to meet failures, they are on their way."""
    protocol = find_protocol(setting.protocol.name)
    if setting.network.kind == "radio":
        return _build_on_radio(setting, seed, watch, prepare)
    topology = make_topology(setting.topology, seed)
    make = make_machines(setting, topology)
    network = make_network(setting.network, seed, protocol.contact)
    cuts = Cuts(network)
    system = System(
        topology,
        make,
        cuts if setting.faults.rate else network,
        seed,
        watch=watch,
        size_of=_size_of(setting) if setting.run.bytes else None,
        cap=setting.run.max_steps,
        contact=protocol.contact,
        settle_seconds=protocol.settle_seconds,
        prepare=prepare,
    )
    if setting.faults.rate:
        _schedule_faults(setting, system, make, cuts, seed)
    return system


def _build_on_radio(
    setting: Setting, seed: int, watch: Watch | None, prepare: Callable[[Simulation], None] | None
) -> System:
    protocol = find_protocol(setting.protocol.name)
    radio = make_radio(setting.radio, range(setting.topology.nodes), seed, protocol.traffic_class)
    topology = radio_topology(radio.places, radio.range_metres)
    make = make_machines(setting, topology)
    network = Loss(radio, setting.network.loss, stream(seed, "loss")) if setting.network.loss else radio
    system = System(
        topology,
        make,
        network,
        seed,
        watch=watch,
        size_of=_size_of(setting) if setting.run.bytes else None,
        cap=setting.run.max_steps,
        contact="nobody",
        settle_seconds=protocol.settle_seconds,
        prepare=prepare,
    )
    faults, simulation = setting.faults, system.simulation
    if faults.rate:
        _require_rate(setting)
        fail = partial(
            schedule_node_failures,
            simulation,
            topology.nodes,
            make,
            stream(seed, "faults"),
            rate=faults.rate,
            seconds=faults.duration,
            is_beyond_repair=lambda node: node in exhausted(radio),
        )
        simulation.at(faults.start, fail)
    return system


def _require_rate(setting: Setting) -> None:
    if not setting.workload.rate:
        raise ScenarioError("failures need operations that go on meanwhile: set workload.rate - at `$.faults.rate`")


def _size_of(setting: Setting) -> Callable[[Any], int]:
    configured = configure_protocol(setting)
    account = configured.protocol.size_of
    return wire_size if account is None else account(configured.settings)


def _schedule_faults(setting: Setting, system: System, make: MakeMachine, cuts: Cuts, seed: int) -> None:
    faults = setting.faults
    _require_rate(setting)
    if find_protocol(setting.protocol.name).contact == "anyone":
        raise ScenarioError("links do not fail where anyone contacts anyone - at `$.faults.rate`")
    outages = Outages(system.simulation, system.topology, make, cuts, faults.notice)
    rng = stream(seed, "faults")
    system.simulation.at(faults.start, lambda: schedule_failures(outages, rng, faults.rate, faults.duration))


def make_topology(part: TopologyPart, seed: int) -> Topology:
    rng = stream(seed, "topology")
    try:
        topology = _topology(part, rng)
    except (TopologyError, ValueError) as error:
        raise ScenarioError(f"{error} - at `$.topology`") from None
    if not topology.connected:
        raise ScenarioError("the network is not in one piece - at `$.topology.edges`")
    return topology


def _topology(part: TopologyPart, rng: Random) -> Topology:
    if part.brokers == 1:
        return _network(part, part.nodes, rng)
    if part.kind in NETWORKS or part.kind == "edges":
        raise TopologyError(f"a share of brokers can be had in networks that are generated, not in {part.kind}")
    return with_clients(_network(part, max(3, round(part.brokers * part.nodes)), rng), part.nodes, rng)


def _network(part: TopologyPart, n: int, rng: Random) -> Topology:
    if part.kind in NETWORKS:
        return NETWORKS[part.kind]
    if part.kind == "edges":
        return parse_edges(part.edges)
    if part.kind == "random-graph":
        extra = min(round(n * part.degree / 2) - (n - 1), (n - 1) * (n - 2) // 2)
        return random_graph(n, max(0, extra), rng)
    if part.kind == "scale-free":
        return scale_free(n, max(1, round(part.degree / 2)), rng)
    return GENERATORS[part.kind](n, rng)


def make_network(part: NetworkPart, seed: int, contact: Literal["links", "anyone"] = "links") -> Network:
    """Latency first, then what is around it; each with a stream of its own."""
    network: Network
    if contact == "anyone":
        network = Mesh(constant(1.0) if part.delay == "unit" else _delay(part, stream(seed, "delays")))
    else:
        network = UnitDelay() if part.delay == "unit" else Links(_delay(part, stream(seed, "delays")))
    if part.bandwidth:
        network = Bandwidth(network, part.bandwidth)
    if part.reordering:
        network = Reordering(network, part.reordering, stream(seed, "reordering"), LATE * part.mean)
    if part.duplication:
        network = Duplication(network, part.duplication, stream(seed, "duplication"), part.mean)
    if part.loss:
        network = Loss(network, part.loss, stream(seed, "loss"))
    return network


def _delay(part: NetworkPart, rng: Random) -> Draw:
    match part.delay:
        case "uniform":
            return uniform(part.mean * (1 - part.spread), part.mean * (1 + part.spread), rng)
        case "exponential":
            return exponential(part.mean, rng)
        case "lognormal":
            return lognormal(part.mean / math.exp(part.spread**2 / 2), part.spread, rng)
    return constant(part.mean)


def make_machines(setting: Setting, topology: Topology) -> MakeMachine:
    """The function that makes the machine of a node."""
    configured = configure_protocol(setting)
    try:
        make = configured.machines(topology)
    except ProtocolError as error:
        raise SettingError(str(error), "protocol.options") from None
    if setting.protocol.reliable:
        return lambda node: ReliableLinks(make(node))
    return make


# --- One run, from its description to its figures: what a process, or a Spark executor, does -------------------------


class Outcome(msgspec.Struct, frozen=True):
    """What a run gave. Only ``metrics`` is the same whenever and wherever the run is repeated."""

    run: Run
    seed: int
    metrics: dict[str, float]
    steps: int
    wall_seconds: float


def seed_of(run: Run) -> int:
    return stream(run.setting.run.seed_set, "run", run.number).getrandbits(63)


def execute_run(run: Run) -> Outcome:
    started = time.perf_counter()
    seed = seed_of(run)
    try:
        scenario_run = ScenarioRun(run.setting, seed)
        scenario_run.execute()
    except ScenarioError as error:
        raise ScenarioError(f"{run.scenario}, configuration {run.configuration!r}: {error}") from None
    steps = scenario_run.system.simulation.steps
    return Outcome(run, seed, scenario_run.metrics(), steps, time.perf_counter() - started)


class Tally:
    """What the operations of one kind cost."""

    __slots__ = ("bytes", "count", "messages", "time")

    def __init__(self) -> None:
        self.count = self.messages = self.bytes = 0
        self.time = 0.0

    def add(self, cost: Cost, size_bytes: int) -> None:
        self.count += 1
        self.messages += cost.messages
        self.time += cost.time
        self.bytes += size_bytes


def _tallies_of(operation: Operation) -> tuple[str, ...]:
    """Under which names an operation is counted. The first publishers find no subscription, so they are apart."""
    if not operation.setup:
        return (operation.kind, "mix")
    return ("first_publisher" if operation.kind == "become_publisher" else operation.kind,)


class ScenarioRun:
    """A run in progress: the operations are carried out, and their costs written down."""

    def __init__(
        self,
        setting: Setting,
        seed: int,
        watch: Watch | None = None,
        prepare: Callable[[Simulation], None] | None = None,
    ) -> None:
        """``watch`` sees every step instead of the observer: then nothing is known of how events travel."""
        self.setting, self.seed = setting, seed
        self.observer = Observer()
        self.system = build(setting, seed, watch or self.observer.watch, prepare)
        self.workload = Workload(setting.workload, self.system.topology, seed)
        self.requests = find_protocol(setting.protocol.name).requests
        self.tallies: dict[str, Tally] = {}
        self.setup_messages = 0
        self.load_before: dict[NodeId, int] = {}
        """What each node had sent and received when the set-up was done."""

    @property
    def simulation(self) -> Simulation:
        return self.system.simulation

    def execute(self) -> None:
        if self.setting.workload.rate:
            self._run_by_the_clock()
        else:
            self._run_one_by_one()
        if self.simulation.pending and not self.system.settle_seconds:
            raise ScenarioError(f"not quiet after {self.simulation.steps:,} steps: a loop, or run.max_steps is too low")

    def _run_one_by_one(self) -> None:
        for operation in self.workload.operations():
            if self._too_late(self.simulation.now):
                break
            self._record(operation, self.simulation.now)
            if type(operation.request) in self.requests:
                self._measure(operation)

    def _measure(self, operation: Operation) -> None:
        begun, bytes_before = self.simulation.now, self._bytes()
        cost = self.system.do(operation.node, operation.request)
        if operation.setup:
            self.setup_messages += cost.messages
        if begun < self.setting.run.warm_up:
            return
        spent = self._bytes() - bytes_before
        for name in _tallies_of(operation):
            self.tallies.setdefault(name, Tally()).add(cost, spent)

    def _run_by_the_clock(self) -> None:
        """Operations overlap, so what they cost can only be told together."""
        arrivals, now = stream(self.seed, "arrivals"), 0.0
        for operation in self.workload.operations():
            now += arrivals.expovariate(self.setting.workload.rate)
            if self._too_late(now):
                break
            self.simulation.run(until=now)
            if not self.simulation.nodes[operation.node].alive:
                continue
            self._record(operation, now)
            if type(operation.request) not in self.requests:
                continue
            self.simulation.ask(operation.node, operation.request)
            if now >= self.setting.run.warm_up:
                self.tallies.setdefault(_tallies_of(operation)[0], Tally()).count += 1
        self.system.run_until_quiet()

    def _record(self, operation: Operation, now: float) -> None:
        self.workload.ledger.record(operation, now)
        if not operation.setup and not self.load_before:
            self.load_before = traffic(self.system)

    def _too_late(self, now: float) -> bool:
        return 0 < self.setting.run.time_limit < now

    def _bytes(self) -> int:
        return sum(sent.bytes for sent in self.simulation.sent.values())

    # -- the figures

    def metrics(self) -> dict[str, float]:
        system, ledger = self.system, self.workload.ledger
        topology = system.topology
        counted = [found for found in ledger.expectations if found.time >= self.setting.run.warm_up]
        found: dict[str, float] = {"nodes": len(topology.nodes), "edges": len(topology.edges)}
        for kind, tally in self.tallies.items():
            found |= self._costs(kind, tally)
        if not self.setting.workload.rate:
            found["setup.messages"] = self.setup_messages
        found |= {"messages": system.messages, "bytes": self._bytes(), "steps": system.simulation.steps}
        publishers = [node for nodes in ledger.publishers.values() for node in nodes]
        found |= links(system) | rows(system) | load(system, self.load_before, publishers)
        found |= judge(ledger, system.deliveries, counted) | delays(system.deliveries, counted)
        found |= measure_travel(self.observer, topology, system.deliveries, counted)
        radio = system.simulation.medium
        return found | measure_air(radio, system.simulation.now) if isinstance(radio, Radio) else found

    def _costs(self, kind: str, tally: Tally) -> dict[str, float]:
        costs = {f"{kind}.count": float(tally.count)}
        if not self.setting.workload.rate:
            costs |= {f"{kind}.{name}": getattr(tally, name) / tally.count for name in ("messages", "time", "bytes")}
        return costs


def links(system: System) -> dict[str, float]:
    """How many there are at the end, if nodes tell: some protocols make their own."""
    ends = [state.get("neighbours") for state in system.inspect().values()]
    return {"links": sum(len(found) for found in ends if found is not None) / 2} if None not in ends else {}


def rows(system: System) -> dict[str, float]:
    counts = [count_rows(state) for state in system.inspect().values()]
    return {"rows.total": sum(counts), "rows.mean": sum(counts) / len(counts), "rows.max": max(counts)}


def count_rows(state: dict[str, Any]) -> int:
    """Routing rows of one node: one for every type and subscription."""
    return sum(len(table) for table in state.get("tables", {}).values())


def traffic(system: System) -> dict[NodeId, int]:
    """Messages that each node sent or received."""
    return {id: node.up_messages + node.down_messages for id, node in system.simulation.nodes.items()}


def load(system: System, before: Mapping[NodeId, int], publishers: Sequence[NodeId]) -> dict[str, float]:
    """Traffic after the set-up: of a node, of the busiest, how much more that has, and of the busiest publisher."""
    counts = {node: count - before.get(node, 0) for node, count in traffic(system).items()}
    mean, most = sum(counts.values()) / len(counts), max(counts.values())
    busiest = max((counts[node] for node in publishers), default=0)
    return {
        "load.mean": mean,
        "load.max": most,
        "load.ratio": most / mean if mean else 1.0,
        "load.publisher": busiest,
    }


# --- One run again, step by step: what happened at a node, and how an event travelled --------------------------------
#
# A run is determined by its setting and its seed, so a run that went wrong in a sweep goes wrong again here.


def replay(run: Run, node: str | None = None, event: str | None = None) -> Iterator[str]:
    """The steps of the node, those that speak of the event, or both; then why each delivery of the event happened."""
    trace = Trace()
    scenario_run = ScenarioRun(run.setting, seed_of(run), trace)
    chosen = None if node is None else _node(scenario_run.system.topology, node)
    scenario_run.execute()
    if event is not None and not any(event == found.event.id for found in scenario_run.workload.ledger.expectations):
        raise ScenarioError(f"no event {event!r} was published in this run; events are called e1, e2, …")
    yield from trace.lines(chosen, event)
    if event is not None:
        yield from _stories(trace, chosen, event)


def _stories(trace: Trace, node: NodeId | None, event: str) -> Iterator[str]:
    for step in trace.select(node, event):
        for effect in step.effects:
            if isinstance(effect, Deliver) and effect.notification.event.id == event:
                yield ""
                yield trace.story(step, effect)


def _node(topology: Topology, name: str) -> NodeId:
    """Generated networks number their nodes; the document's have letters."""
    for node in topology.nodes:
        if str(node) == name:
            return node
    raise ScenarioError(f"there is no node {name!r}; nodes are {topology.nodes[0]!r} to {topology.nodes[-1]!r}")


# --- One run again, recorded for a picture ---------------------------------------------------------------------------


def record(run: Run, limit: int = LIMIT) -> Recording:
    """The run as it happened; at most ``limit`` transmissions are kept."""
    setting, seed = run.setting, seed_of(run)
    size_of = _size_of(setting) if setting.run.bytes else None
    recorder = Recorder(find_protocol(setting.protocol.name), size_of=size_of, limit=limit)
    ScenarioRun(setting, seed, recorder, recorder.attach).execute()
    return recorder.finish(
        title=run.scenario,
        scenario=run.scenario,
        configuration=run.configuration,
        run=run.number,
        seed=seed,
        protocol=setting.protocol.name,
        unit="" if setting.network.kind != "radio" and setting.network.delay == "unit" else "s",
    )


# --- Runs on all cores: every worker is a process of its own, and takes the next run when it has finished one --------
#
# Which worker does a run, and when, changes nothing in what it gives.


AHEAD = 4
"""Runs that wait for each worker; enough that none is idle, few enough to stop soon."""


def execute_runs(runs: Sequence[Run], workers: int | None = None) -> Iterator[Outcome]:
    """The outcomes as they come; with one worker, in this process and in order."""
    count = min(workers or os.cpu_count() or 1, len(runs))
    if count <= 1:
        yield from map(execute_run, runs)
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
    try:
        yield from _execute_in(pool, runs, count * AHEAD)
    finally:
        pool.shutdown(cancel_futures=True)


def _execute_in(pool: ProcessPoolExecutor, runs: Sequence[Run], ahead: int) -> Iterator[Outcome]:
    waiting = iter(runs)
    under_way: set[Future[Outcome]] = set()
    while True:
        for run in waiting:
            under_way.add(pool.submit(execute_run, run))
            if len(under_way) >= ahead:
                break
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
