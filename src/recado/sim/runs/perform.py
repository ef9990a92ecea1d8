"""One run, from its description to its figures: what a process, or a Spark executor, does.

The seed follows from the set of seeds and the number of the run, not from the configuration, so runs of the same
number are pairs across configurations (common random numbers). Metrics are numbers by name:

- ``subscribe.messages``, ``.time``, ``.bytes``, ``.count``: means over the operations of a kind, and their number;
- ``setup.messages``: all until publishers and subscriptions are in place; ``mix.messages``: mean of what comes after;
- ``messages``, ``bytes``, ``steps``: in the whole run, warm-up included;
- ``rows.*``: routing rows at the end; ``load.*``: messages sent and received by a node after that;
- ``deliveries.*``, ``delay.*``, ``events.*``, ``stretch.*``: see ``recado.sim.runs.observe``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from recado.protocols.machine import NodeId
from recado.sim.kernel import Simulation, Watch
from recado.sim.runs.observe import Observer, delays, judge, travelled
from recado.sim.runs.operations import Operation, Workload
from recado.sim.runs.scenario import Run
from recado.sim.runs.setting import ScenarioError, Setting
from recado.sim.runs.world import build
from recado.sim.streams import stream
from recado.sim.system import Cost, System


class Outcome(msgspec.Struct, frozen=True):
    """What a run gave. Only ``metrics`` is the same whenever and wherever the run is repeated."""

    run: Run
    seed: int
    metrics: dict[str, float]
    steps: int
    wall_seconds: float


def seed_of(run: Run) -> int:
    return stream(run.setting.run.seed_set, "run", run.number).getrandbits(63)


def perform(run: Run) -> Outcome:
    started = time.perf_counter()
    seed = seed_of(run)
    try:
        play = Play(run.setting, seed)
        play.through()
    except ScenarioError as error:
        raise ScenarioError(f"{run.scenario}, configuration {run.configuration!r}: {error}") from None
    steps = play.system.simulation.steps
    return Outcome(run, seed, play.metrics(), steps, time.perf_counter() - started)


class Tally:
    """What the operations of one kind cost."""

    __slots__ = ("bytes", "count", "messages", "time")

    def __init__(self) -> None:
        self.count = self.messages = self.bytes = 0
        self.time = 0.0

    def add(self, cost: Cost, bytes: int) -> None:
        self.count += 1
        self.messages += cost.messages
        self.time += cost.time
        self.bytes += bytes


class Play:
    """A run in progress: the operations are carried out, and their costs written down."""

    def __init__(self, setting: Setting, seed: int, watch: Watch | None = None) -> None:
        """``watch`` sees every step instead of the observer: then nothing is known of how events travel."""
        self.setting, self.seed = setting, seed
        self.observer = Observer()
        self.system = build(setting, seed, watch or self.observer.watch)
        self.workload = Workload(setting.workload, self.system.topology, seed)
        self.tallies: dict[str, Tally] = {}
        self.setup_messages = 0
        self.load_before: dict[NodeId, int] = {}
        """What each node had sent and received when the set-up was done."""

    @property
    def simulation(self) -> Simulation:
        return self.system.simulation

    def through(self) -> None:
        if self.setting.workload.rate:
            self._by_the_clock()
        else:
            self._one_by_one()
        if self.simulation.pending:
            raise ScenarioError(f"not quiet after {self.simulation.steps:,} steps: a loop, or run.max_steps is too low")

    def _one_by_one(self) -> None:
        for operation in self.workload.operations():
            if self._too_late(self.simulation.now):
                break
            self._note(operation, self.simulation.now)
            self._measured(operation)

    def _measured(self, operation: Operation) -> None:
        begun, bytes_before = self.simulation.now, self._bytes()
        cost = self.system.do(operation.node, operation.request)
        if operation.setup:
            self.setup_messages += cost.messages
        if begun < self.setting.run.warm_up:
            return
        spent = self._bytes() - bytes_before
        for name in (operation.kind,) if operation.setup else (operation.kind, "mix"):
            self.tallies.setdefault(name, Tally()).add(cost, spent)

    def _by_the_clock(self) -> None:
        """Operations overlap, so what they cost can only be told together."""
        arrivals, now = stream(self.seed, "arrivals"), 0.0
        for operation in self.workload.operations():
            now += arrivals.expovariate(self.setting.workload.rate)
            if self._too_late(now):
                break
            self.simulation.run(until=now)
            if not self.simulation.nodes[operation.node].alive:
                continue
            self._note(operation, now)
            self.simulation.ask(operation.node, operation.request)
            if now >= self.setting.run.warm_up:
                self.tallies.setdefault(operation.kind, Tally()).count += 1
        self.system.quiet()

    def _note(self, operation: Operation, now: float) -> None:
        self.workload.ledger.note(operation, now)
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
        found |= rows(system) | load(system, self.load_before, publishers)
        found |= judge(ledger, system.deliveries, counted) | delays(system.deliveries, counted)
        return found | travelled(self.observer, topology, system.deliveries, counted)

    def _costs(self, kind: str, tally: Tally) -> dict[str, float]:
        costs = {f"{kind}.count": float(tally.count)}
        if not self.setting.workload.rate:
            costs |= {f"{kind}.{name}": getattr(tally, name) / tally.count for name in ("messages", "time", "bytes")}
        return costs


def rows(system: System) -> dict[str, float]:
    counts = [count_rows(state) for state in system.inspect().values()]
    return {"rows.total": sum(counts), "rows.mean": sum(counts) / len(counts), "rows.max": max(counts)}


def count_rows(state: dict[str, Any]) -> int:
    """Routing rows of one node: one for every type and subscription."""
    return sum(len(table) for table in state["tables"].values())


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
