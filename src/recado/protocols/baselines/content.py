"""Content-based routing on a tree: a node sends an event to the neighbours that have told it a matching filter.

One machine for simple, identity-based, covering and merging routing (sections 3.2 to 3.5), hierarchies (3.6), and of
the systems of section 3.8 JEDI, the groups of Yoo and type-based multicast. They differ in three things:

- which neighbours are told what is wanted, and how it is reduced (``recado.protocols.baselines.strategies``);
- which neighbours get every event, wanted or not (the parent in a hierarchy);
- what a subscription is called and shortened to before anybody is told (``Naming``).

Whatever comes too much is dropped by the last node: the application gets what its own filters match. On a tree whose
links keep their order deliveries are causal, which JEDI promises: an event and the answer to it share the path from
where they meet, and the event is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recado.model.event import Event
from recado.model.subscription import Subscription, type_filter
from recado.protocols.baselines.algebra import name_of
from recado.protocols.baselines.messages import Interests, Named, Routed
from recado.protocols.baselines.node import Node, one_type
from recado.protocols.baselines.router import Router
from recado.protocols.baselines.strategies import Strategy
from recado.protocols.machine import Effect, NodeId, Send
from recado.protocols.wire import write_filter

Naming = Callable[[Subscription, str], Named]
"""From a subscription and its filter's text to the row that stands for it in other nodes' tables."""


def by_subscription(subscription: Subscription, text: str) -> Named:
    """Each subscription has its own row, whatever others there are."""
    return subscription.id, text


def by_meaning(subscription: Subscription, text: str) -> Named:
    """Subscriptions that mean the same share a row."""
    return name_of(text), text


def by_type(subscription: Subscription, text: str) -> Named:
    """Subscriptions of one type share a row, and their filters are left out of it."""
    type = one_type(subscription, "there is a group")
    return type, write_filter(type_filter(type))


class ContentNode(Node):
    def __init__(
        self,
        me: NodeId,
        neighbours: tuple[NodeId, ...],
        told: Mapping[NodeId, Strategy],
        naming: Naming,
        always: tuple[NodeId, ...] = (),
    ) -> None:
        super().__init__(me)
        self.neighbours, self.naming, self.always = neighbours, naming, always
        self.router = Router(told)

    def subscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self.router.subscribe(self.naming(subscription, text))

    def unsubscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self.router.unsubscribe(self.naming(subscription, text)[0])

    def published(self, event: Event) -> Sequence[Effect]:
        return self._route(Routed(event), None)

    def received(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        if isinstance(message, Interests):
            return self.router.change(sender, message)
        return self._route(message, sender)

    def tables(self) -> dict[NodeId, dict[str, str]]:
        return {neighbour: dict(rows.texts) for neighbour, rows in self.router.rows.items()}

    def _route(self, message: Routed, sender: NodeId | None) -> list[Effect]:
        event = message.event
        effects = self.deliver(event)
        for neighbour in self.neighbours:
            if neighbour == sender:
                continue
            if neighbour in self.always:
                effects.append(Send(neighbour, message, "this neighbour gets every event"))
            elif self.router.wants(neighbour, event):
                effects.append(Send(neighbour, message, "this neighbour told a filter that matches"))
        return effects
