"""Hermes (section 3.8): a tree for each event type, rooted at the type's rendezvous node.

Whoever begins to publish a type advertises it, hop by hop to the rendezvous node, and every node on the way remembers
where that came from. Subscriptions take the way to the rendezvous node too, and are remembered likewise.

- *Type-based*: only the type counts. A publication goes to the rendezvous node, and from every node that it passes
  down to the neighbours that subscribed.
- *Type and attributes*: subscriptions carry their filters, those covered by others are dropped, and besides going to
  the rendezvous node they follow the advertisements back to the publishers. A publication then only follows the
  reverse paths of matching subscriptions and need not pass the rendezvous node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines.content import by_meaning, by_type
from recado.protocols.baselines.messages import Advertised, Interests, Routed, Unadvertised
from recado.protocols.baselines.node import Node, one_type
from recado.protocols.baselines.plan import Rendezvous
from recado.protocols.baselines.router import Router
from recado.protocols.baselines.strategies import Covering, Exact
from recado.protocols.machine import Effect, NodeId, Send

_COVERING, _EXACT = Covering(), Exact()


class HermesNode(Node):
    """``attributes`` tells the second way from the first."""

    def __init__(self, me: NodeId, rendezvous: Rendezvous, attributes: bool) -> None:
        super().__init__(me)
        self.rendezvous, self.attributes = rendezvous, attributes
        self.routers: dict[str, Router] = {}
        self.publishers: dict[str, dict[NodeId, None]] = {}
        """Of each type, the neighbours that advertised it, and this node itself if it publishes."""

    # -- subscriptions

    def subscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        type = one_type(subscription, "Hermes has a rendezvous node")
        return self._router(type).subscribe(self._name(subscription, text))

    def unsubscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        type = subscription.type
        effects = self._router(type).unsubscribe(self._name(subscription, text)[0])
        self._tidy(type)
        return effects

    def _name(self, subscription: Subscription, text: str) -> tuple[str, str]:
        return (by_meaning if self.attributes else by_type)(subscription, text)

    def _router(self, type: str) -> Router:
        router = self.routers.get(type)
        if router is None:
            strategy = _COVERING if self.attributes else _EXACT
            up = self.rendezvous.tree(type).parent(self.me)
            router = self.routers[type] = Router(dict.fromkeys(up, strategy), type)
        return router

    def _tidy(self, type: str) -> None:
        """Forget a type that nobody here, and no neighbour, has to do with."""
        if type in self.routers and not self.routers[type].count and type not in self.publishers:
            del self.routers[type]

    # -- advertisements

    def advertised(self, type: str) -> Sequence[Effect]:
        return self._advertise(type, self.me)

    def unadvertised(self, type: str) -> Sequence[Effect]:
        return self._unadvertise(type, self.me)

    def _advertise(self, type: str, source: NodeId) -> list[Effect]:
        publishers = self.publishers.setdefault(type, {})
        effects = [] if publishers else self._up(type, Advertised(type), "the first publisher on this side")
        publishers[source] = None
        if self.attributes and source != self.me:
            effects += self._router(type).open(source, _COVERING)
        return effects

    def _unadvertise(self, type: str, source: NodeId) -> list[Effect]:
        publishers = self.publishers[type]
        del publishers[source]
        effects: list[Effect] = []
        if self.attributes and source != self.me:
            effects += self._router(type).close(source)
        if not publishers:
            del self.publishers[type]
            effects += self._up(type, Unadvertised(type), "the last publisher on this side is gone")
            self._tidy(type)
        return effects

    def _up(self, type: str, message: Any, why: str) -> list[Effect]:
        return [Send(parent, message, why) for parent in self.rendezvous.tree(type).parent(self.me)]

    # -- publications

    def published(self, event: Event) -> Sequence[Effect]:
        return self._route(Routed(event), None)

    def received(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        match message:
            case Interests(tree=type):
                effects = self._router(type).change(sender, message)
                self._tidy(type)
                return effects
            case Advertised(type):
                return self._advertise(type, sender)
            case Unadvertised(type):
                return self._unadvertise(type, sender)
        return self._route(message, sender)

    def _route(self, message: Routed, sender: NodeId | None) -> list[Effect]:
        event = message.event
        tree = self.rendezvous.tree(event.type)
        effects = self.deliver(event)
        if not self.attributes:
            up = [parent for parent in tree.parent(self.me) if parent != sender]
            effects += [Send(parent, message, "every event goes to the rendezvous node") for parent in up]
        router = self.routers.get(event.type)
        for neighbour, rows in router.rows.items() if router else ():
            if neighbour != sender and rows.wants(event):
                effects.append(Send(neighbour, message, "a matching subscription came from this neighbour"))
        return effects

    # -- inspection

    def tables(self) -> dict[NodeId, dict[str, str]]:
        tables: dict[NodeId, dict[str, str]] = {}
        for router in self.routers.values():
            for neighbour, rows in router.rows.items():
                tables.setdefault(neighbour, {}).update(rows.texts)
        return tables

    def inspect(self) -> dict[str, Any]:
        pointers = {type: list(publishers) for type, publishers in self.publishers.items()}
        return super().inspect() | {"advertisements": pointers}
