"""A world of devices and a broker, with everything that can go wrong, and what must hold in it whatever does.

- What was acknowledged is in the log, and every subscription that was acknowledged and active then got it: at least one
  device of its user had it delivered, unless a gap named it.
- No notification is for an event that was accepted when its subscription had expired, or that it does not match.
- A device hears the events of one publisher for one subscription in the order of their publication, and none twice
  while it does not crash.
- What a device published since its last crash is acknowledged.
- When faults have stopped, all of this is done within ``BOUND`` seconds.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from recado.broker.state import Bounds
from recado.filters.evaluate import matches
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.protocols.rudp import profile
from recado.protocols.session import messages as m
from recado.protocols.session.commands import (
    AgentSettings,
    Answered,
    CancelSubscription,
    Dropped,
    GapFound,
    MakeSubscription,
    PublishEvent,
)
from recado.sim.draws import uniform
from recado.sim.faults import Duplication, Loss, Reordering
from recado.sim.kernel import Simulation, stream
from recado.sim.mobility.broker import BrokerNode, NodeSettings
from recado.sim.mobility.device import Device, MoveTo
from recado.sim.mobility.disk import EPOCH, instant
from recado.sim.mobility.wire import BROKER
from recado.sim.network import Links

TYPES = ("a", "b")
TROUBLE = 90.0
BOUND = 120.0
"""A silent connection is noticed after 10 + 10 s, given up by RUDP after 14 s more; then the agent waits up to 8 s, and
an INVITE that was sent before the end of the faults is repeated after up to 16 s; and then two of these once more."""


class World:
    def __init__(self, seed: int, *, crashes: bool = True, expiry: bool = True, bounds: Bounds | None = None) -> None:
        self.seed, self.rng = seed, stream(seed, "world")
        rng = self.rng
        self.crashes, self.expiry = crashes, expiry
        self.rudp = profile(rng.choice(("fast", "lab")))
        self.settings = NodeSettings(
            bounds=bounds or Bounds(),
            store_seconds=rng.choice((0.1, 2.0, 20.0)),
            sync_seconds=rng.choice((0.001, 0.02, 0.2)),
        )
        delays = Links(uniform(0.005, rng.choice((0.05, 0.4)), stream(seed, "delay")))
        self.faults = [
            Loss(delays, rng.choice((0.0, 0.05, 0.3)), stream(seed, "loss")),
            Duplication(delays, rng.choice((0.0, 0.2)), stream(seed, "duplication"), 2.0),
            Reordering(delays, rng.choice((0.0, 0.2)), stream(seed, "reordering"), 1.0),
        ]
        network = delays
        for fault in self.faults:
            fault.inner = network
            network = fault
        self.simulation = Simulation(network, seed, deliver=self._deliver, report=self._report)
        self.tells_seen = rng.random() < 0.5
        users = rng.randrange(1, 4) if self.tells_seen else 4  # else one device each, see Invite
        self.users = {f"d{n}": f"u{n % users}" for n in range(rng.randrange(2, 5))}
        self.places = {name: f"{name}/0" for name in self.users}
        self.moves = self.published = self.subscribed = 0
        self.sequences = dict.fromkeys(self.users, 0)
        self.acked: dict[str, int] = {}
        self.events: dict[str, bytes] = {}
        self.asked: dict[str, tuple[str, int]] = {}  # by which life of which device
        self.records: dict[str, dict] = {}
        self.granted: dict[str, float] = {}  # acknowledged subscriptions, and when
        self.left: set[str] = set()
        self.gaps: set[int] = set()
        self.dropped: set[str] = set()
        self.incarnation = dict.fromkeys(self.users, 0)
        self.deliveries: list[tuple[float, str, int, m.Notify]] = []
        self.simulation.add(BROKER, BrokerNode(self.settings, self.rudp))
        for name in self.users:
            self.start(name)

    # -- what happens

    def start(self, name: str) -> None:
        settings = AgentSettings(
            device=name, greets=False, confirms=False, outbox=1_000, silence_seconds=10.0, longest_wait_seconds=8.0,
            on_cancelled="ignore", first_request=1 + 1_000_000 * self.incarnation[name],
        )  # fmt: skip
        device = Device(
            name, self.users[name], self.places[name], settings, self.rudp, tells_seen=self.tells_seen
        )  # fmt: skip
        self.simulation.add(name, device)

    def alive(self, name: str) -> bool:
        return self.simulation.nodes[name].alive

    def publish(self, name: str) -> None:
        self.published += 1
        self.sequences[name] += 1
        id = f"{name}-{self.sequences[name]}"
        members = {"id": id, "type": self.rng.choice(TYPES), "level": self.rng.randrange(4), "n": self.sequences[name]}
        self.events[id] = msgspec.json.encode(members)
        self.asked[id] = name, self.incarnation[name]
        self.simulation.ask(name, PublishEvent(msgspec.Raw(self.events[id]), ("event", id)))

    def subscribe(self, name: str) -> None:
        self.subscribed += 1
        id = f"s{self.subscribed}"
        record = {"id": id, "type": self.rng.choice(TYPES)}
        if self.rng.random() < 0.5:
            record["filter"] = f"level < {self.rng.randrange(1, 4)}"
        if self.expiry and self.rng.random() < 0.4:
            ends = instant(self.simulation.now + self.rng.uniform(5, 2 * TROUBLE))
            record["expires_at"] = ends.isoformat()
        else:
            record["ttl"] = 100_000
        self.records[id] = record | {"user": self.users[name]}
        self.simulation.ask(name, MakeSubscription(record, ("sub", id)))

    def cancel(self, name: str) -> None:
        mine = [id for id in self.granted if self.records[id]["user"] == self.users[name] and id not in self.left]
        if mine:
            self.left.add(mine[0])
            self.simulation.ask(name, CancelSubscription(mine[0], ("cancel", mine[0])))

    def move(self, name: str, covered: bool = True) -> None:
        self.moves += 1
        self.places[name] = f"{name}/{self.moves}" if covered else None
        self.simulation.ask(name, MoveTo(self.places[name]))

    def crash(self, name: str) -> None:
        self.simulation.crash(name)
        self.simulation.at(self.simulation.now + self.rng.uniform(0.01, 20), lambda: self.restart(name))

    def restart(self, name: str) -> None:
        if self.alive(name):
            return
        if name == BROKER:
            self.simulation.add(BROKER, BrokerNode(self.settings, self.rudp))
        else:
            self.incarnation[name] += 1
            self.start(name)

    def act(self) -> None:
        rng = self.rng
        name = rng.choice([name for name in self.users if self.alive(name)] or [""])
        if not name:
            return
        kind = rng.randrange(100)
        if kind < 55:
            self.publish(name)
        elif kind < 70:
            self.subscribe(name)
        elif kind < 73:
            self.cancel(name)
        elif kind < 85:
            self.move(name)
        elif kind < 92:
            self.move(name, covered=False)
        elif self.crashes:
            victim = rng.choice((name, BROKER))
            if self.alive(victim):
                self.crash(victim)

    def trouble(self, actions: int) -> None:
        for time in sorted(self.rng.uniform(0, TROUBLE) for _ in range(actions)):
            self.simulation.at(time, self.act)
        self.simulation.at(TROUBLE, self.calm)
        self.simulation.run(until=TROUBLE + BOUND)

    def calm(self) -> None:
        for fault in self.faults:
            fault.probability = 0.0
        for name in (BROKER, *self.users):
            self.restart(name)
        for name in self.users:
            if self.places[name] is None:
                self.move(name)

    # -- what is seen

    def _deliver(self, now: float, node: str, notify: m.Notify) -> None:
        self.deliveries.append((now, node, self.incarnation[node], notify))

    def _report(self, now: float, node: str, fact: object) -> None:
        match fact:
            case Answered(("event", id), m.Ok(_, position)):
                self.acked[id] = position
            case Answered(("sub", id), m.Subscribed()):
                self.granted.setdefault(id, now)
            case Answered(ref, m.Error(_, code, text)):
                raise AssertionError((ref, code, text))
            case Dropped(("event", id)):
                self.dropped.add(id)
            case GapFound(gap):
                self.gaps.update(gap.nids)

    # -- what must hold

    @property
    def log(self) -> list[tuple[float, str, bytes]]:
        saved = self.simulation.nodes[BROKER].saved
        return [saved[f"log:{position}"] for position in range(sum(key.startswith("log:") for key in saved))]

    def check(self) -> None:
        self._check_log()
        self._check_sound()
        self._check_order()
        self._check_complete()

    def _check_log(self) -> None:
        ids = [read_event(raw).id for _, _, raw in self.log]
        assert len(ids) == len(set(ids)), "an event was stored twice"
        for id, position in self.acked.items():
            assert ids[position] == id, f"{id} was acknowledged and is lost"
        for id, (name, incarnation) in self.asked.items():
            if incarnation == self.incarnation[name] and id not in self.dropped:
                assert id in self.acked, f"{id} was never acknowledged"
        for name in self.users:
            mine = [int(id.partition("-")[2]) for id in ids if id.startswith(f"{name}-")]
            assert mine == sorted(mine), f"the events of {name} were stored out of order: {mine}"

    def _check_sound(self) -> None:
        log = self.log
        for _, node, _, notify in self.deliveries:
            position = notify.nid >> m.ORDINAL_BITS
            at, _, raw = log[position]
            record = self.records[notify.sub_id]
            assert bytes(notify.event) == raw
            assert record["user"] == self.users[node], "it came to somebody else"
            assert self._wants(record, at, raw), f"{notify} does not match {record}, or came too late"

    def _check_order(self) -> None:
        heard: dict[tuple, list[int]] = {}
        for _, node, incarnation, notify in self.deliveries:
            id = read_event(bytes(notify.event)).id
            publisher, _, number = id.partition("-")
            heard.setdefault((node, incarnation, notify.sub_id, publisher), []).append(int(number))
        for who, numbers in heard.items():
            assert numbers == sorted(set(numbers)), f"{who} heard {numbers}"

    def _check_complete(self) -> None:
        got = {(notify.sub_id, notify.nid >> m.ORDINAL_BITS) for _, _, _, notify in self.deliveries}
        gaps = {nid >> m.ORDINAL_BITS for nid in self.gaps}
        broker = self.simulation.nodes[BROKER].machine.broker
        for sub_id, granted in self.granted.items():
            record = self.records[sub_id]
            if sub_id in self.left:
                continue
            for position, (at, _, raw) in enumerate(self.log):
                if at > granted and self._wants(record, at, raw) and position not in gaps:
                    assert (sub_id, position) in got, f"{sub_id} never got {raw} of {at:.3f} ({granted:.3f})"
        left = broker.state.waiting.length
        assert left == 0, f"{left} still wait"
        connected = [name for name in self.users if self.simulation.nodes[name].machine.agent.status == "CONNECTED"]
        assert connected == list(self.users)

    def _wants(self, record: dict, at: float, raw: bytes) -> bool:
        members = {name: record[name] for name in ("id", "type", "filter") if name in record}
        if "expires_at" in record and (EPOCH + timedelta(seconds=at)).isoformat() >= record["expires_at"]:
            return False
        return matches(read_subscription(msgspec.json.encode(members)).whole_filter(), read_event(raw))


def life(seed: int, **options) -> World:
    world = World(seed, **options)
    for name in world.users:
        world.subscribe(name)
    world.trouble(world.rng.randrange(20, 80))
    world.check()
    return world
