"""One run: a placement, its subscriptions and publications, and everything that is counted in it (outline 9.4)."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from experiments.sensornetwork.workload import Workload, draw_interests, draw_publications
from recado.protocols.machine import NodeId, Received
from recado.protocols.pubsub import Notified, Publish, Subscribe
from recado.protocols.sensors import Collected, SensorNode, SensorSettings, size_of, traffic_class
from recado.protocols.sensors.messages import Store
from recado.sim.kernel import Simulation, Step, stream
from recado.sim.network import Place
from recado.sim.radio import (
    ALWAYS_AWAKE,
    RADIOS,
    Batteries,
    CsmaRadio,
    EnergyMeter,
    IdealRadio,
    Radio,
    RandomWaypoint,
    Sleep,
    connected_scatter,
    draw_batteries,
    radio_topology,
    scatter,
)

Numbers = dict[str, float | str]
BLOCKS = 6
FEW_COPIES = 200
"""Of more, nobody looks how far they are apart."""
REACTION_SECONDS = 30.0
"""Who fails within so long of a publication is not counted as somebody it was due to."""
PAMPA = ("pampa.sub", "pampa.query", "pampa.pub")
PCACHE = ("pcache.reply",)
AODV = ("aodv.rreq", "aodv.rrep", "aodv.rerr")
DATA = ("data.group", "data.single")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is run; ``options`` are settings of the protocol."""

    side_metres: float
    options: Mapping[str, Any] = {}
    channel: Literal["ideal", "csma"] = "ideal"
    nodes: int = 100
    connected: bool = False
    """Is the placement drawn again until it is in one piece?"""
    workload: Workload = Workload()
    seed: int = 1

    # -- beyond the paper
    speed: float = 0.0
    """Nodes move between random points at up to so many metres a second, and at half of that at least."""
    failed_share: float = 0.0
    """So many of the nodes, whoever they are, stop for good at random times of the second phase."""
    awake_share: float = 1.0
    """Nodes are awake for so much of every second, all at the same time."""
    power: str = ""
    """The radio, of ``RADIOS``, that energy is counted for, which costs a third of the time of a run; or nothing."""
    battery_joules: float = 0.0
    battery_spread: float = 0.0
    """Each battery holds up to this share more or less."""


class Field:
    """The simulation of a run, and what was seen of it."""

    def __init__(self, run: Run, watch: Callable[[Step], None] | None = None) -> None:
        self.run, self.workload = run, run.workload
        self.stopped: dict[NodeId, float] = {}
        self.meter: EnergyMeter | None = None
        self.batteries: Batteries | None = None
        names = range(run.nodes)
        place = connected_scatter if run.connected else scatter
        self.places: dict[NodeId, Place] = place(list(names), run.side_metres, stream(run.seed, "places"))
        make = IdealRadio if run.channel == "ideal" else CsmaRadio
        sleep = Sleep(1.0, run.awake_share) if run.awake_share < 1 else ALWAYS_AWAKE
        self.radio: Radio = make(self.places, stream(run.seed, "radio"), class_of=traffic_class, sleep=sleep)
        settings = msgspec.convert(dict(run.options), SensorSettings)
        self.simulation = Simulation(
            self.radio, run.seed, size_of=size_of, watch=watch, deliver=self._deliver, report=self._report
        )
        for node in names:
            self.simulation.add(node, SensorNode(node, settings))
        self._disturb(sleep)
        self.interests = draw_interests(self.workload, run.nodes, run.seed)
        self.publications = draw_publications(self.workload, run.nodes, run.seed)
        self.got: dict[tuple[str, NodeId], float] = {}
        self.duplicates = 0
        self.groups: list[int] = []
        for one in self.interests:
            self.simulation.ask(one.node, Subscribe(one.subscription()), one.time)
        for publication in self.publications:
            self.simulation.ask(publication.node, Publish(publication.event()), publication.time)

    def _disturb(self, sleep: Sleep) -> None:
        """Movement, failures and batteries, as far as the run has them."""
        run = self.run
        if run.speed:
            rngs = {node: stream(run.seed, "ways", str(node)) for node in self.places}
            speeds = {"least_speed": run.speed / 2, "most_speed": run.speed}
            self.radio.add_process(RandomWaypoint(dict(self.places), run.side_metres, rngs, **speeds))
        rng, begin = stream(run.seed, "failures"), self.workload.announce_seconds
        for node in rng.sample(range(run.nodes), k=round(run.failed_share * run.nodes)):
            self.stopped[node] = rng.uniform(begin, begin + self.workload.publish_seconds)
            self.simulation.at(self.stopped[node], partial(self.simulation.crash, node))
        if run.power:
            self.meter = EnergyMeter(self.radio, RADIOS[run.power], sleep)
        if self.meter is not None and run.battery_joules:
            drawn = draw_batteries(self.places, run.battery_joules, run.battery_spread, stream(run.seed, "batteries"))
            self.batteries = Batteries(self.meter, list(self.places), drawn)
            self.radio.add_process(self.batteries)

    def alive(self, node: NodeId, time: float) -> bool:
        died = self.batteries.deaths.get(node, math.inf) if self.batteries is not None else math.inf
        return time < min(self.stopped.get(node, math.inf), died)

    def _deliver(self, now: float, node: NodeId, notified: Notified) -> None:
        key = notified.event.id, node
        if key in self.got:
            self.duplicates += 1
        else:
            self.got[key] = now

    def _report(self, now: float, node: NodeId, fact: Any) -> None:
        if type(fact) is Collected:
            self.groups += fact.grouped

    def until(self, time: float) -> None:
        """Nothing that a step leaves behind is in a cycle, so nobody looks for garbage meanwhile."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.simulation.run(until=time)
        finally:
            if collecting:
                gc.enable()

    def machine(self, node: NodeId) -> SensorNode:
        machine = self.simulation.nodes[node].machine
        assert isinstance(machine, SensorNode)
        return machine

    def machines(self) -> Iterable[SensorNode]:
        return (self.machine(node) for node in self.places)


def measure_run(run: Run) -> Numbers:
    """The whole of it: both phases, and the broadcasts of the first by themselves."""
    field = Field(run)
    workload = run.workload
    field.until(workload.announce_seconds)
    announced = dict(field.radio.transmissions)
    found: Numbers = {"sub.transmissions": sum(announced.values()) / len(field.interests)}
    found |= _storage(field)
    last, count = sum(announced.values()), 0
    for block in range(BLOCKS):
        end = workload.announce_seconds + (block + 1) * workload.publish_seconds / BLOCKS
        field.until(end if block < BLOCKS - 1 else workload.seconds)
        published = sum(1 for one in field.publications[count:] if one.time <= end)
        count += published
        total = sum(field.radio.transmissions.values())
        if published:
            found[f"block.{block + 1}"] = (total - last) / published
        last = total
    found |= _transmissions(field) | _deliveries(field) | _energy(field)
    disturbed = run.speed or run.failed_share or workload.each > 1
    return found if disturbed else found | measure_broadcasts(run)


def _energy(field: Field) -> Numbers:
    """Joules of a node over the whole run, and what the busiest spends."""
    if field.meter is None:
        return {}
    end = field.workload.seconds
    field.radio.advance(end)
    spent = [field.meter.spent(node, end) for node in field.places]
    joules = [one.joules for one in spent]
    used = [one.transmit_joules + one.receive_joules for one in spent]
    found: Numbers = {
        "joules.mean": sum(joules) / len(joules),
        "joules.most": max(joules),
        "joules.messages": sum(used) / len(used),
        "joules.messages_most": max(used),
        "joules.transmit": sum(one.transmit_joules for one in spent) / len(spent),
    }
    return found | (_deaths(field, field.batteries, field.meter) if field.batteries is not None else {})


FIRST_TO_DIE = 10
"""Of a hundred: so many are compared with all."""


def _deaths(field: Field, batteries: Batteries, meter: EnergyMeter) -> Numbers:
    """How long the network lives, and who dies first: what the first had sent, heard and been next to."""
    times = list(batteries.deaths.values())
    found: Numbers = {"dead": len(times)}
    if not times:
        return found
    found |= {
        "dead.first_hours": times[0] / 3600,
        "dead.half_hours": times[len(times) // 2] / 3600,
        "dead.apart_minutes": (times[-1] - times[0]) / 60,
    }
    topology = radio_topology(field.places)
    spent = {node: meter.spent(node, times[0]) for node in field.places}
    first = list(batteries.deaths)[: max(1, FIRST_TO_DIE * field.run.nodes // 100)]
    for name, of in (
        ("sent", lambda node: spent[node].transmit_seconds),
        ("heard", lambda node: spent[node].receive_seconds),
        ("neighbours", lambda node: len(topology.neighbours(node))),
    ):
        everybody = sum(of(node) for node in field.places) / len(field.places)
        if everybody:
            found[f"dead.first_{name}"] = sum(of(node) for node in first) / len(first) / everybody
    return found


def _transmissions(field: Field) -> Numbers:
    counts = Counter(field.radio.transmissions)
    total = sum(counts.values())
    found: Numbers = {f"class.{name}": float(counts[name]) for name in (*PAMPA, *PCACHE, *AODV, *DATA)}
    found |= {
        "total": total,
        "bytes": sum(field.radio.sent_bytes.values()),
        "pampa": sum(counts[name] for name in PAMPA),
        "pcache": counts["pcache.reply"],
        "aodv": sum(counts[name] for name in AODV),
        "data": sum(counts[name] for name in DATA),
        "per_publication": total / max(1, len(field.publications)),
        "grouped.copies": sum(field.groups),
        "grouped.messages": len(field.groups),
        "grouped.saved": sum(field.groups) - len(field.groups),
        "steps": field.simulation.steps,
    }
    other = total - sum(float(found[name]) for name in ("pampa", "pcache", "aodv", "data"))
    return found | {"other": other}


def _storage(field: Field) -> Numbers:
    """What nodes keep, and where copies are; a node of a baseline that keeps nothing has none."""
    held: dict[Any, list[NodeId]] = {}
    sizes = []
    for node in field.places:
        zone = field.machine(node).cache.zone
        sizes.append(len(zone))
        for key in zone:
            held.setdefault(key, []).append(node)
    hops = radio_topology(field.places)
    apart = []
    for nodes in held.values():
        if 1 < len(nodes) <= FEW_COPIES:
            near = [hops.distances(node) for node in nodes]
            apart += [
                min((near[at][other] for other in nodes if other != node and other in near[at]), default=math.nan)
                for at, node in enumerate(nodes)
            ]
    known = [one for one in apart if not math.isnan(one)]
    found: Numbers = {
        "items.mean": sum(sizes) / len(sizes),
        "items.most": max(sizes),
        "items.all": sum(1 for size in sizes if size >= len(field.interests)),
        "replicas": sum(map(len, held.values())) / max(1, len(held)),
    }
    if known:
        found["replicas.hops"] = sum(known) / len(known)
    return found


def _deliveries(field: Field) -> Numbers:
    parts = _parts(field)
    due: dict[tuple[str, NodeId], bool] = {}
    wanted: set[tuple[str, NodeId]] = set()
    remote = []
    local = 0
    for publication in field.publications:
        for one in field.interests:
            if one.wants(publication.values):
                key = f"p{publication.number}", one.node
                wanted.add(key)
                if not field.alive(publication.node, publication.time):
                    continue
                if key in due or not field.alive(one.node, publication.time + REACTION_SECONDS):
                    continue
                due[key] = parts[one.node] == parts[publication.node]
                if key not in field.got:
                    continue
                if one.node == publication.node:
                    local += 1
                else:
                    remote.append(field.got[key] - publication.time)
    reachable = [key for key, together in due.items() if together]
    found: Numbers = {
        "due": len(due),
        "delivered": sum(1 for key in due if key in field.got),
        "delivered.local": local,
        "spurious": sum(1 for key in field.got if key not in wanted),
        "duplicates": field.duplicates,
    }
    if due:
        found["delivery"] = float(found["delivered"]) / len(due)
    if reachable:
        found["delivery.reachable"] = sum(1 for key in reachable if key in field.got) / len(reachable)
    if remote:
        found["latency"] = sum(remote) / len(remote)
    if field.got:
        found["per_delivery"] = sum(field.radio.transmissions.values()) / len(field.got)
    return found


def _parts(field: Field) -> dict[NodeId, int]:
    """Which piece of the network a node is in."""
    topology = radio_topology(field.places)
    found: dict[NodeId, int] = {}
    for number, node in enumerate(field.places):
        if node not in found:
            found |= dict.fromkeys(topology.distances(node), number)
    return found


def measure_broadcasts(run: Run) -> Numbers:
    """The first phase alone, with an eye on every reception: how far the broadcasts of subscriptions get (M3a, M4b).

    The paper estimates publication flooding from them, too (8-B1); the sends of nodes that store are in it (13-A18).
    """
    if run.options.get("system") in ("publication-flooding", "blind-flooding"):
        return {}
    first: dict[tuple[Any, NodeId], float] = {}

    def watch(step: Step) -> None:
        stimulus = step.stimulus
        if type(stimulus) is Received and type(stimulus.message) is Store:
            first.setdefault((stimulus.message.id, step.node), step.time)

    field = Field(run, watch)
    field.until(run.workload.announce_seconds)
    began = {one.node: one.time for one in field.interests}
    reached: Counter[NodeId] = Counter()
    last: dict[NodeId, float] = {}
    for (id, node), time in first.items():
        origin = id[0]
        if node != origin:
            reached[origin] += 1
            last[origin] = max(last.get(origin, 0.0), time - began[origin])
    others = run.nodes - 1
    sent = field.radio.transmissions.get("pampa.sub", 0) / run.workload.subscriptions
    found: Numbers = {
        "reach": sum(reached[one.node] for one in field.interests) / (others * len(field.interests)),
        "flooding.estimate": sent * run.workload.publications,
        "flooding.per_broadcast": sent,
    }
    if last:
        found["latency.broadcast"] = sum(last.values()) / len(last)
    return found
