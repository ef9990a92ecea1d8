"""A publish/subscribe system in simulation: a topology, a machine for every node, operations one after another.

``Cost`` is what the cost formulas speak of: M, the messages sent on links, and T, the time of the last arrival after
the operation began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Machine, NodeId
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Notified, Publish, Subscribe, Unsubscribe
from recado.protocols.topology import Topology
from recado.sim.kernel import Network, Simulation, Watch
from recado.sim.network import UnitDelay

Contact = Literal["links", "anyone", "nobody"]


class Cost(msgspec.Struct, frozen=True):
    messages: int
    time: float


class Delivery(msgspec.Struct, frozen=True):
    time: float
    node: NodeId
    event: str
    subscriptions: tuple[str, ...]


class System:
    """``make(node)`` gives the machine of a node; operations return what they cost once all is quiet."""

    def __init__(
        self,
        topology: Topology,
        make: Callable[[NodeId], Machine],
        network: Network | None = None,
        seed: int = 0,
        *,
        watch: Watch | None = None,
        size_of: Callable[[Any], int] | None = None,
        cap: int = 10_000_000,
        contact: Contact = "links",
        settle_seconds: float = 0.0,
        prepare: Callable[[Simulation], None] | None = None,
    ) -> None:
        """``contact`` and ``settle_seconds`` are those of the protocol's description (``OverlayProtocol``).

        On a radio the contact is "nobody": who is near is for the nodes to find out.
        ``prepare`` is called with the simulation before its first step.
        """
        self.topology, self.cap, self.settle_seconds = topology, cap, settle_seconds
        self.deliveries: list[Delivery] = []
        self.facts: list[tuple[float, NodeId, Any]] = []
        self.simulation = Simulation(
            network or UnitDelay(), seed, size_of=size_of, watch=watch, deliver=self._deliver, report=self._report
        )
        if prepare is not None:
            prepare(self.simulation)
        for node in topology.nodes:
            self.simulation.add(node, make(node), _first_contacts(topology, node, contact))
        self.run_until_quiet()

    def subscribe(self, node: NodeId, subscription: Subscription) -> Cost:
        return self.do(node, Subscribe(subscription))

    def unsubscribe(self, node: NodeId, subscription: str) -> Cost:
        return self.do(node, Unsubscribe(subscription))

    def publish(self, node: NodeId, event: Event) -> Cost:
        return self.do(node, Publish(event))

    def become_publisher(self, node: NodeId, event_type: str) -> Cost:
        return self.do(node, BecomePublisher(event_type))

    def become_broker(self, node: NodeId, event_type: str) -> Cost:
        return self.do(node, BecomeBroker(event_type))

    def do(self, node: NodeId, request: Any) -> Cost:
        """One operation alone, until nothing is on its way."""
        before, started = self.messages, self.simulation.now
        self.simulation.last_arrival = started
        self.simulation.ask(node, request)
        self.run_until_quiet()
        return Cost(self.messages - before, self.simulation.last_arrival - started)

    def run_until_quiet(self) -> None:
        """Run until nothing is on its way; a loop ends at the cap of steps, and leaves something pending.

        Machines that are never quiet get the time in which they settle.
        """
        if self.settle_seconds:
            self.simulation.run(until=self.simulation.now + self.settle_seconds, steps=self.cap)
        else:
            self.simulation.run(steps=self.cap)

    @property
    def messages(self) -> int:
        return sum(sent.count for sent in self.simulation.sent.values())

    def inspect(self, nodes: Iterable[NodeId] | None = None) -> dict[NodeId, dict[str, Any]]:
        """What the nodes know."""
        return {node: self.simulation.nodes[node].machine.inspect() for node in nodes or self.topology.nodes}

    def _deliver(self, now: float, node: NodeId, notified: Notified) -> None:
        self.deliveries.append(Delivery(now, node, notified.event.id, notified.subscriptions))

    def _report(self, now: float, node: NodeId, fact: Any) -> None:
        self.facts.append((now, node, fact))


def _first_contacts(topology: Topology, node: NodeId, contact: Contact) -> tuple[NodeId, ...]:
    """Its neighbours; where anyone may be contacted, the first node is alone and all others know it too."""
    if contact == "nobody":
        return ()
    if contact == "links":
        return topology.neighbours(node)
    first = topology.nodes[0]
    return () if node == first else tuple(dict.fromkeys((first, *topology.neighbours(node))))
