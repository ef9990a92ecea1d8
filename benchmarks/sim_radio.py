"""Radio in the simulator: what a transmission costs, with a hundred nodes and with thousands, on both channels.

*floods*: every node relays the first copy of each message after a wait of up to 0.1 s; the machine does next to
nothing, so its figure is the radio's; before the clock starts, one flood has gone over all nodes. *sensor network*: the
whole run of its document (100 nodes, 50 subscriptions, 1,440 publications of four numbers, 87,120 s), or the
subscriptions and a share of the publications, with a hundred nodes and with thousands as far apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Record, Target, at_most
from experiments.sensornetwork.peers import ns2, ours
from experiments.sensornetwork.peers.scene import Count, unicast_scene
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, Broadcast, Effect, Received, Rng, SetTimer, Stimulus, TimerFired
from recado.protocols.pubsub import Publish, Subscribe
from recado.protocols.sensors import SensorNode, SensorSettings, size_of
from recado.sim.kernel import Simulation, stream
from recado.sim.radio import CsmaRadio, IdealRadio, Radio, scatter

RADIO = "radio"
FLOODS, SENSORS, HOUR = "floods", "sensor network", "AODV, an hour, 60 packets"
SEED = 4
SIDE = 900.0
"""Metres, for a hundred nodes; more nodes have as much room each."""
FEW, MANY = 100, 5_000
DENSE = 500.0
HOUR_SIDE = 1000.0
RUN_SECONDS = 87_120.0
LIMITS = {"ideal": 20.0, "csma": 90.0}
"""Seconds that the document's run may take."""
GROWTH = 3.0


class RadioSpeed(Record, frozen=True, tag="radio"):
    """Processor seconds of one run, and what happened in it."""

    workload: str
    channel: str
    nodes: int
    side: float
    transmissions: int
    receptions: int
    seconds: float

    @property
    def microseconds(self) -> float:
        return 1e6 * self.seconds / self.transmissions


class Flooder:
    """Relays what it has not heard before, after a while."""

    def __init__(self) -> None:
        self._known: dict[Any, None] = {}

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        if type(stimulus) is Received:
            if stimulus.message in self._known:
                return ()
            self._known[stimulus.message] = None
            return (SetTimer(stimulus.message, rng.uniform(0.0, 0.1)),)
        if type(stimulus) is TimerFired:
            return (Broadcast(stimulus.timer),)
        if type(stimulus) is Asked:
            self._known[stimulus.request] = None
            return (Broadcast(stimulus.request),)
        return ()

    def inspect(self) -> dict[str, Any]:
        return {}


def _make_radio(channel: str, nodes: int, side: float) -> Radio:
    places = scatter(range(nodes), side, stream(SEED, "places"))
    kind = IdealRadio if channel == "ideal" else CsmaRadio
    return kind(places, stream(SEED, "radio"))


def measure_floods(channel: str, nodes: int, floods: int, _: Path) -> Iterator[RadioSpeed]:
    side = SIDE * (nodes / FEW) ** 0.5
    radio = _make_radio(channel, nodes, side)
    simulation = Simulation(radio, SEED, size_of=lambda message: 60)
    rng = stream(SEED, "origins")
    for node in range(nodes):
        simulation.add(node, Flooder())
    for number in range(floods + 1):
        simulation.ask(rng.randrange(nodes), number, at=1.0 + 10.0 * number)
    simulation.run(until=10.5)
    yield _timed(FLOODS, channel, radio, simulation, side)


def measure_sensors(channel: str, side: float, share: float, _: Path, nodes: int = FEW) -> Iterator[RadioSpeed]:
    """``share`` of the document's run: so much of its time and of its publications.

    ``side`` is that of a hundred nodes; more nodes have as much room each.
    """
    side *= (nodes / FEW) ** 0.5
    radio = _make_radio(channel, nodes, side)
    simulation = Simulation(radio, SEED, size_of=size_of)
    rng = stream(SEED, "workload")
    settings = SensorSettings()
    for node in range(nodes):
        simulation.add(node, SensorNode(node, settings))
    for number, node in enumerate(rng.sample(range(nodes), 50)):
        lows = rng.choices(range(1, 7), [1 / rank for rank in range(1, 7)], k=4)
        wanted = " and ".join(f"a{i} >= {low} and a{i} <= {low + 3}" for i, low in enumerate(lows, 1))
        subscription = Subscription(f"s{number}", parse(wanted), "sample")
        simulation.ask(node, Subscribe(subscription), at=rng.uniform(0, 600))
    for number in range(round(1440 * share)):
        values: dict[str, Any] = {f"a{i}": rng.randrange(1, 10) for i in range(1, 5)}
        event = Event(f"e{number}", "sample", attributes=values)
        simulation.ask(rng.randrange(nodes), Publish(event), at=660 + rng.random() * share * (RUN_SECONDS - 720))
    yield _timed(SENSORS if share == 1 else f"{SENSORS}, {share:.0%}", channel, radio, simulation, side)


def measure_beside_ns2(folder: Path) -> Iterator[RadioSpeed]:
    """An hour with a packet a minute between random nodes, by AODV on the channel with collisions: ns-2 and Recado.

    Receptions are those of packets at their destinations. Without ns-2 there is only Recado's row.
    """
    scene = unicast_scene(SEED, HOUR_SIDE, FEW, 60, 60.0)
    runs: list[Callable[[], Count]] = [lambda: ours.run_aodv(scene, SensorSettings(), "csma", SEED)]
    if ns2.find_ns2() is not None:
        runs.insert(0, lambda: ns2.run_aodv(scene, folder, expiry=False, seed=SEED))
    for run in runs:
        before = _used_seconds()
        count = run()
        seconds = _used_seconds() - before
        sent = sum(count.transmissions.values())
        yield RadioSpeed(HOUR, count.program, FEW, HOUR_SIDE, sent, count.arrived, seconds)


def _used_seconds() -> float:
    """Processor time of this process and of those that it started and that are done."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _timed(workload: str, channel: str, radio: Radio, simulation: Simulation, side: float) -> RadioSpeed:
    before = _counts(radio, simulation)
    started = time.process_time()
    simulation.run(until=RUN_SECONDS)
    seconds = time.process_time() - started
    transmissions, receptions = (now - then for now, then in zip(_counts(radio, simulation), before, strict=True))
    return RadioSpeed(workload, channel, len(radio.places), side, transmissions, receptions, seconds)


def _counts(radio: Radio, simulation: Simulation) -> tuple[int, int]:
    return sum(radio.transmissions.values()), sum(sent.arrived for sent in simulation.sent.values())


def radio_targets(records: Sequence[RadioSpeed]) -> Iterator[Target]:
    if not records:
        return
    for channel, seconds in LIMITS.items():
        whole = [one.seconds for one in records if (one.workload, one.channel) == (SENSORS, channel)]
        yield at_most(f"{SENSORS}, {channel}, the document's run", max(whole, default=None), seconds, "s")
    for workload in dict.fromkeys((FLOODS, *(one.workload for one in records if one.nodes == MANY))):
        cost = {one.nodes: one.microseconds for one in records if (one.workload, one.channel) == (workload, "ideal")}
        ratio = cost[MANY] / cost[FEW] if FEW in cost and MANY in cost else None
        yield at_most(f"a transmission with {MANY:,} nodes against {FEW}, ideal, {workload}", ratio, GROWTH)
