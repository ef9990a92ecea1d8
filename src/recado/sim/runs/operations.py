"""The operations of a run, drawn one by one, and what each of them should lead to.

Operations depend on the workload, the topology and the seed, never on the protocol, so that all protocols of a sweep
meet the same ones. ``Ledger`` is the oracle: it knows the life of every subscription, and so whom an event must reach.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from recado.filters.evaluate import matches
from recado.model.event import Event
from recado.model.filter import TRUE, And, Compare, Filter
from recado.model.subscription import Subscription
from recado.protocols.machine import NodeId, Received
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.reliable import Frame
from recado.protocols.topology import Topology
from recado.sim.kernel import Step, stream
from recado.sim.runs.scenario import ScenarioError, WorkloadPart
from recado.sim.system import Delivery
from recado.sim.workload import Zipf

COMMON_FILTERS = 8

Request: TypeAlias = Subscribe | Unsubscribe | Publish | BecomePublisher | BecomeBroker


class Operation(msgspec.Struct, frozen=True):
    kind: str
    node: NodeId
    request: Request
    setup: bool = False
    """Is it one of those that put publishers and subscriptions in place, before any is drawn?"""


class Life(msgspec.Struct):
    """A subscription from its first to its last moment."""

    node: NodeId
    subscription: Subscription
    start: float
    end: float = math.inf


class Expectation(msgspec.Struct, frozen=True):
    """An event that was published, and the subscriptions that must get it."""

    time: float
    publisher: NodeId
    event: Event
    wanted: tuple[str, ...]


class Ledger:
    """Who has subscribed to what, and who publishes what, as a plain list would know it."""

    def __init__(self, settling: float = 0.0) -> None:
        self.settling = settling
        self.lives: dict[str, Life] = {}
        self.live: dict[str, Life] = {}
        self.publishers: dict[str, list[NodeId]] = {}
        self.expectations: list[Expectation] = []

    def record(self, operation: Operation, now: float) -> None:
        node = operation.node
        match operation.request:
            case Subscribe(subscription):
                self.lives[subscription.id] = self.live[subscription.id] = Life(node, subscription, now)
            case Unsubscribe(id):
                self.live.pop(id).end = now
            case BecomePublisher(type):
                self.publishers.setdefault(type, []).append(node)
            case BecomeBroker(type):
                self.publishers[type].remove(node)
            case Publish(event):
                self.expectations.append(Expectation(now, node, event, self._matching_subscriptions(event, now)))

    def _matching_subscriptions(self, event: Event, now: float) -> tuple[str, ...]:
        settled = now - self.settling
        return tuple(id for id, life in self.live.items() if life.start <= settled and _wants(life, event))

    def due_subscriptions(self, expected: Expectation) -> list[str]:
        """The subscriptions that must get the event: those that stayed long enough."""
        if not self.settling:
            return list(expected.wanted)
        return [id for id in expected.wanted if self.lives[id].end >= expected.time + self.settling]

    def is_allowed(self, expected: Expectation, subscription_id: str) -> bool:
        """Is it no mistake that a subscription got the event, although it need not?"""
        life = self.lives.get(subscription_id)
        if life is None or not self.settling or not _wants(life, expected.event):
            return False
        return life.start <= expected.time + self.settling and life.end >= expected.time - self.settling


def _wants(life: Life, event: Event) -> bool:
    return life.subscription.type == event.type and matches(life.subscription.filter, event)


class Workload:
    """Draws the operations of one run. The set-up comes first: all publishers, then all subscriptions."""

    def __init__(self, part: WorkloadPart, topology: Topology, seed: int) -> None:
        self.part, self.topology, self.rng = part, topology, stream(seed, "operations")
        self._seed = seed
        self.ledger = Ledger(part.settling if part.rate else 0.0)
        self._places = _places(topology) if part.locality else {}
        self._draw_type = Zipf([_type(number) for number in range(part.types)], part.popularity, self.rng)
        self._count = 0
        self._nodes = topology.clients or topology.nodes
        """Where applications are: everywhere, or at the clients if only some nodes are brokers."""
        if part.publishers > len(self._nodes):
            raise ScenarioError(f"{part.publishers} publishers of a type need as many nodes, not {len(self._nodes)}")

    def operations(self) -> Iterator[Operation]:
        """Each must be noted in the ledger before the next is asked for, since that depends on it."""
        yield from self._publishers()
        yield from self._subscriptions()
        for _ in range(self.part.operations):
            drawn = self._draw_operation()
            if drawn is not None:
                yield drawn

    def _publishers(self) -> list[Operation]:
        rng = stream(self._seed, "publishers")
        return [
            Operation("become_publisher", node, BecomePublisher(_type(number)), setup=True)
            for number in range(self.part.types)
            for node in rng.sample(self._nodes, self.part.publishers)
        ]

    def _subscriptions(self) -> list[Operation]:
        """A share of the nodes means different nodes; a count may ask more of some."""
        wanted, nodes = self.part.subscriptions, self._nodes
        if isinstance(wanted, str):
            wanted = max(1, round(float(wanted.rstrip("%")) / 100 * len(nodes)))
        rng = stream(self._seed, "subscribers")
        chosen: list[NodeId] = []
        while len(chosen) < wanted:
            chosen += rng.sample(nodes, min(len(nodes), wanted - len(chosen)))
        return [self._subscribe(node, setup=True) for node in chosen]

    def _draw_operation(self) -> Operation | None:
        """One operation of the mix; None if it makes no sense now, as leaving with nobody there."""
        draws: dict[str, Callable[[], Operation | None]] = {
            "publish": self._publish,
            "subscribe": lambda: self._subscribe(self.rng.choice(self._nodes)),
            "unsubscribe": self._unsubscribe,
            "become_publisher": self._become_publisher,
            "become_broker": self._become_broker,
        }
        weights = [getattr(self.part.mix, kind) for kind in draws]
        return draws[self.rng.choices(list(draws), weights)[0]]()

    def _publish(self) -> Operation | None:
        type = self._draw_type()
        publishers = self.ledger.publishers.get(type)
        if not publishers:
            return None
        node = self.rng.choice(publishers)
        return Operation("publish", node, Publish(Event(self._name("e"), type, attributes={"x": self.rng.random()})))

    def _subscribe(self, node: NodeId, setup: bool = False) -> Operation:
        subscription = Subscription(self._name("s"), self._filter(node), self._draw_type())
        return Operation("subscribe", node, Subscribe(subscription), setup)

    def _unsubscribe(self) -> Operation | None:
        if not self.ledger.live:
            return None
        id = self.rng.choice(list(self.ledger.live))
        return Operation("unsubscribe", self.ledger.live[id].node, Unsubscribe(id))

    def _become_publisher(self) -> Operation | None:
        type = self._draw_type()
        publishers = self.ledger.publishers.get(type, ())
        if len(publishers) == len(self._nodes):
            return None
        node = self.rng.choice([node for node in self._nodes if node not in publishers])
        return Operation("become_publisher", node, BecomePublisher(type))

    def _become_broker(self) -> Operation | None:
        """The last publisher of a type stays: assumption A7 of the tree document."""
        type = self._draw_type()
        publishers = self.ledger.publishers.get(type, [])
        if len(publishers) < 2:
            return None
        return Operation("become_broker", self.rng.choice(publishers), BecomeBroker(type))

    def _filter(self, node: NodeId) -> Filter:
        """As many numbers are drawn whatever the parameters, so that one that changes leaves the others alone."""
        shared, which, place = self.rng.random(), self.rng.randrange(COMMON_FILTERS), self.rng.random()
        part = self.part
        if part.filters == "any":
            return TRUE
        if shared < part.overlap:
            return Compare("x", "<", (which + 1) / COMMON_FILTERS)
        if part.locality:
            place = part.locality * self._places[node] + (1 - part.locality) * place
        low = place * (1 - part.width)
        return And((Compare("x", ">=", low), Compare("x", "<", low + part.width)))

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"


def _type(number: int) -> str:
    return f"t{number}"


def _places(topology: Topology) -> dict[NodeId, float]:
    """A number in [0, 1) for every node: neighbours in the tree of shortest paths, walked in depth, are near."""
    order: dict[NodeId, float] = {}
    stack = list(topology.nodes[:1])
    far = topology.distances(topology.nodes[0])
    while stack:
        node = stack.pop()
        if node in order:
            continue
        order[node] = len(order) / len(topology.nodes)
        stack += [other for other in topology.neighbours(node) if far[other] > far[node]]
    return order


# --- How events travel, and whether they arrive: what a run measures beyond the costs of its operations --------------
#
# The observer sees every message that carries an event. A reception is a **duplicate** if the node had the event
# already, and a **false forward** if nothing came of it: neither the node nor any node to which it led delivered the
# event. **Stretch** is the hops that an event took to a subscriber over the distance from its publisher.


class Travel:
    """The way of one event through the network."""

    __slots__ = ("senders",)

    def __init__(self) -> None:
        self.senders: dict[NodeId, list[NodeId]] = {}
        """From whom a node had the event, the first of them first."""

    @property
    def receptions(self) -> int:
        return sum(map(len, self.senders.values()))

    def hops(self, node: NodeId, publisher: NodeId) -> int:
        count = 0
        while node != publisher and node in self.senders:
            node = self.senders[node][0]
            count += 1
        return count

    def useful(self, delivered: Iterable[NodeId]) -> int:
        """How many nodes that got the event delivered it, or passed it to such nodes, though perhaps not as first."""
        reached: dict[NodeId, None] = {}
        waiting = list(delivered)
        while waiting:
            node = waiting.pop()
            if node in self.senders and node not in reached:
                reached[node] = None
                waiting += self.senders[node]
        return len(reached)


class Observer:
    """Follows the events of a run; its ``watch`` is called by the kernel at every step."""

    def __init__(self) -> None:
        self.travels: dict[str, Travel] = {}
        self._carriers: dict[type, bool] = {}

    def watch(self, step: Step) -> None:
        stimulus = step.stimulus
        if type(stimulus) is not Received:
            return
        message = stimulus.message
        if type(message) is Frame:
            message = message.message
        carries = self._carriers.get(type(message))
        if carries is None:
            carries = self._carriers[type(message)] = hasattr(message, "event")
        if not carries:
            return
        travel = self.travels.get(message.event.id)
        if travel is None:
            travel = self.travels[message.event.id] = Travel()
        travel.senders.setdefault(step.node, []).append(stimulus.sender)


def judge(ledger: Ledger, deliveries: Sequence[Delivery], expectations: Sequence[Expectation]) -> dict[str, float]:
    """Deliveries in five words, counted in pairs of event and subscription; ``expected`` is what should be ``ok``."""
    got: dict[str, Counter[str]] = {}
    for delivery in deliveries:
        got.setdefault(delivery.event, Counter()).update(delivery.subscriptions)
    tally = dict.fromkeys(("expected", "ok", "lost", "duplicated", "unexpected"), 0.0)
    for expected in expectations:
        must, copies = ledger.due_subscriptions(expected), got.get(expected.event.id, Counter())
        ok = sum(1 for id in must if copies[id])
        tally["expected"] += len(must)
        tally["ok"] += ok
        tally["lost"] += len(must) - ok
        tally["duplicated"] += sum(count - 1 for count in copies.values() if count)
        known = set(must)
        tally["unexpected"] += sum(
            1 for id, count in copies.items() if count and id not in known and not ledger.is_allowed(expected, id)
        )
    return {f"deliveries.{word}": count for word, count in tally.items()}


def delays(deliveries: Sequence[Delivery], expectations: Sequence[Expectation]) -> dict[str, float]:
    """How long after its publication an event was delivered."""
    published = {expected.event.id: expected.time for expected in expectations}
    found = [one.time - published[one.event] for one in deliveries if one.event in published]
    return {"delay.mean": sum(found) / len(found), "delay.max": max(found)} if found else {}


def measure_travel(
    observer: Observer, topology: Topology, deliveries: Sequence[Delivery], expectations: Sequence[Expectation]
) -> dict[str, float]:
    """Means over the events: notifications, duplicates and false forwards, and the stretch of their deliveries."""
    if not expectations:
        return {}
    at: dict[str, dict[NodeId, None]] = {}
    for delivery in deliveries:
        at.setdefault(delivery.event, {})[delivery.node] = None
    distances: dict[NodeId, dict[NodeId, int]] = {}
    received = duplicates = false = 0
    hops: list[int] = []
    stretches: list[float] = []
    for expected in expectations:
        travel, nodes = observer.travels.get(expected.event.id, Travel()), at.get(expected.event.id, {})
        received += travel.receptions
        duplicates += travel.receptions - len(travel.senders)
        false += len(travel.senders) - travel.useful(nodes)
        away = [node for node in nodes if node != expected.publisher]
        if away and expected.publisher not in distances:
            distances[expected.publisher] = topology.distances(expected.publisher)
        for node in away:
            if node in travel.senders:
                hops.append(travel.hops(node, expected.publisher))
                least = distances[expected.publisher].get(node)  # nodes that move may have been out of reach at first
                if least:
                    stretches.append(hops[-1] / least)
    found: dict[str, Any] = {
        "events.notifications": received / len(expectations),
        "events.duplicates": duplicates / len(expectations),
        "events.false_forwards": false / len(expectations),
    }
    if stretches:
        found |= {"hops.mean": sum(hops) / len(hops), "hops.max": float(max(hops))}
        found |= {"stretch.mean": sum(stretches) / len(stretches), "stretch.max": max(stretches)}
    return found
