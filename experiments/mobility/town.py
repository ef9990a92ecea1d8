"""A broker, a publisher who stays, and devices that move: what the scenarios are played in.

Every datagram takes ``DELAY`` seconds, so times are exact. A device is sent everything that one subscription takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recado.broker.state import Bounds
from recado.protocols.machine import NodeId
from recado.protocols.rudp import RudpSettings, profile
from recado.protocols.session import messages as m
from recado.protocols.session.commands import AgentSettings, Answered, Existing, MakeSubscription, PublishEvent
from recado.sim.draws import constant
from recado.sim.kernel import Simulation
from recado.sim.mobility.broker import BrokerNode, NodeSettings
from recado.sim.mobility.device import Device, MoveTo
from recado.sim.mobility.wire import BROKER, size_of
from recado.sim.network import Links

Numbers = dict[str, float | str]
DELAY = 0.02
PUBLISHER = "publisher"


class Town:
    """``heard`` is what the applications of devices got: when, where, which event."""

    def __init__(
        self,
        devices: Sequence[str] = ("phone",),
        *,
        rudp: RudpSettings | None = None,
        bounds: Bounds | None = None,
        queues: bool = True,
        updates: bool = True,
    ) -> None:
        self.rudp = rudp or profile("lab")
        self.heard: list[tuple[float, str, int]] = []
        self.facts: list[tuple[float, str, Any]] = []
        self.updates = updates
        self.simulation = Simulation(
            Links(constant(DELAY)), size_of=size_of, deliver=self._deliver, report=self._report
        )
        settings = NodeSettings(bounds=bounds or Bounds(), queues=queues)
        self.simulation.add(BROKER, BrokerNode(settings, self.rudp))
        self._moves = dict.fromkeys((PUBLISHER, *devices), 0)
        self.published = 0
        self.add(PUBLISHER, "publisher")
        for name in devices:
            self.add(name, "user")
        self.run(2.0)

    def add(self, name: str, user: str, existing: Existing = "recover") -> None:
        settings = AgentSettings(
            device=name, greets=False, confirms=False, existing=existing, silence_seconds=0.0, outbox=100_000
        )
        device = Device(name, user, f"{name}/0", settings, self.rudp, updates=self.updates)
        self.simulation.add(name, device)

    @property
    def broker(self) -> BrokerNode:
        machine = self.simulation.nodes[BROKER].machine
        assert isinstance(machine, BrokerNode)
        return machine

    def run(self, seconds: float) -> None:
        self.simulation.run(until=self.simulation.now + seconds)

    def subscribe(self, name: str = "phone", sub_id: str = "all", **members: Any) -> None:
        self.simulation.ask(name, MakeSubscription({"id": sub_id, "type": "Tick", "ttl": 1e6, **members}, sub_id))
        self.run(1.0)

    def publish(self, at: float | None = None) -> None:
        number = self.published
        self.published += 1
        event = msgspec.json.encode({"id": f"e-{number}", "type": "Tick", "number": number})
        self.simulation.ask(PUBLISHER, PublishEvent(msgspec.Raw(event), number), at)

    def publish_steadily(self, rate: float, seconds: float) -> None:
        """So many events a second, from now on."""
        for number in range(int(rate * seconds)):
            self.publish(self.simulation.now + number / rate)

    def move(self, name: str = "phone", covered: bool = True) -> None:
        self._moves[name] += 1
        self.simulation.ask(name, MoveTo(f"{name}/{self._moves[name]}" if covered else None))

    def numbers(self, name: str = "phone") -> list[int]:
        """The events that a device heard, in their order."""
        return [number for _, node, number in self.heard if node == name]

    def answers(self, ref: Any) -> list[Any]:
        return [fact.answer for _, _, fact in self.facts if isinstance(fact, Answered) and fact.ref == ref]

    def connected(self, user: str = "user") -> bool:
        return self.broker.user(user).connected

    def waiting(self, user: str = "user") -> int:
        return sum(mailbox.length for mailbox in self.broker.user(user).mailboxes.values())

    def _deliver(self, now: float, node: NodeId, notify: m.Notify) -> None:
        self.heard.append((now, str(node), msgspec.json.decode(notify.event)["number"]))

    def _report(self, now: float, node: NodeId, fact: Any) -> None:
        self.facts.append((now, str(node), fact))


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent are not above; 0 if there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0
