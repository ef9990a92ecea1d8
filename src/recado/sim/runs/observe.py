"""How events travel, and whether they arrive: what a run measures beyond the costs of its operations.

The observer sees every message that carries an event. A reception is a **duplicate** if the node had the event
already, and a **false forward** if nothing came of it: neither the node nor any node to which it led delivered the
event. **Stretch** is the hops that an event took to a subscriber over the distance from its publisher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from recado.protocols.machine import NodeId, Received
from recado.protocols.topology import Topology
from recado.protocols.trees.reliable import Frame
from recado.sim.kernel import Step
from recado.sim.runs.operations import Expectation, Ledger
from recado.sim.system import Delivery


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
        must, copies = ledger.must(expected), got.get(expected.event.id, Counter())
        ok = sum(1 for id in must if copies[id])
        tally["expected"] += len(must)
        tally["ok"] += ok
        tally["lost"] += len(must) - ok
        tally["duplicated"] += sum(count - 1 for count in copies.values() if count)
        known = set(must)
        tally["unexpected"] += sum(
            1 for id, count in copies.items() if count and id not in known and not ledger.may(expected, id)
        )
    return {f"deliveries.{word}": count for word, count in tally.items()}


def delays(deliveries: Sequence[Delivery], expectations: Sequence[Expectation]) -> dict[str, float]:
    """How long after its publication an event was delivered."""
    published = {expected.event.id: expected.time for expected in expectations}
    found = [one.time - published[one.event] for one in deliveries if one.event in published]
    return {"delay.mean": sum(found) / len(found), "delay.max": max(found)} if found else {}


def travelled(
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
    stretches: list[float] = []
    for expected in expectations:
        travel, nodes = observer.travels.get(expected.event.id, Travel()), at.get(expected.event.id, {})
        received += travel.receptions
        duplicates += travel.receptions - len(travel.senders)
        false += len(travel.senders) - travel.useful(nodes)
        away = [node for node in nodes if node != expected.publisher]
        if away and expected.publisher not in distances:
            distances[expected.publisher] = topology.distances(expected.publisher)
        stretches += [
            travel.hops(node, expected.publisher) / distances[expected.publisher][node]
            for node in away
            if node in travel.senders
        ]
    found: dict[str, Any] = {
        "events.notifications": received / len(expectations),
        "events.duplicates": duplicates / len(expectations),
        "events.false_forwards": false / len(expectations),
    }
    if stretches:
        found |= {"stretch.mean": sum(stretches) / len(stretches), "stretch.max": max(stretches)}
    return found
