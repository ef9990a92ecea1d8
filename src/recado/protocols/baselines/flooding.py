"""Flooding (section 3.1): every notification goes everywhere; subscriptions stay where they are made.

It needs no acyclic overlay. A node passes on the first copy of what it hears and drops the others, so one event costs
n - 1 messages on a tree and 2m - n + 1 on a graph with m links. With ``flood_all`` subscriptions and their ends go
everywhere too, as the document's prose has it; they are kept, and change nothing.

On links that keep their order, what was heard first was passed on first. So the end of a subscription never overtakes
its beginning, and deliveries are causal: what a node published after it heard an event is heard after that event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines.messages import Announced, Flooded
from recado.protocols.baselines.node import Node
from recado.protocols.machine import Effect, NodeId, Send

REMEMBERED = 1 << 16
"""How many floods a node tells apart; older ones are long over."""


class FloodingNode(Node):
    def __init__(self, me: NodeId, neighbours: tuple[NodeId, ...], flood_all: bool = False) -> None:
        super().__init__(me)
        self.neighbours, self.flood_all = neighbours, flood_all
        self.known: dict[str, str] = {}
        self.seen: dict[tuple[NodeId, int], None] = {}
        self.number = 0

    def subscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self._announce(subscription.id, text)

    def unsubscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self._announce(subscription.id, "")

    def published(self, event: Event) -> Sequence[Effect]:
        return self.deliver(event) + self._spread(Flooded(event, self.me, self._next()), None)

    def received(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        if not self._first((message.origin, message.number)):
            return ()
        effects = self._spread(message, sender)
        if isinstance(message, Flooded):
            return self.deliver(message.event) + effects
        if message.filter:
            self.known[message.subscription] = message.filter
        else:
            self.known.pop(message.subscription, None)
        return effects

    def tables(self) -> dict[NodeId, dict[str, str]]:
        return {"elsewhere": dict(self.known)} if self.known else {}

    def _announce(self, id: str, text: str) -> list[Effect]:
        return self._spread(Announced(id, text, self.me, self._next()), None) if self.flood_all else []

    def _spread(self, message: Flooded | Announced, sender: NodeId | None) -> list[Effect]:
        return [Send(other, message, "whatever is new goes everywhere") for other in self.neighbours if other != sender]

    def _next(self) -> int:
        self.number += 1
        self._first((self.me, self.number))
        return self.number

    def _first(self, copy: tuple[NodeId, int]) -> bool:
        if copy in self.seen:
            return False
        if len(self.seen) >= REMEMBERED:
            del self.seen[next(iter(self.seen))]
        self.seen[copy] = None
        return True
