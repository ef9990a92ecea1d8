"""Content-based routing on a tree: a node sends an event to the neighbours that have told it a matching filter.

One machine for simple, identity-based, covering and merging routing (sections 3.2 to 3.5), hierarchies (3.6), and of
the systems of section 3.8 JEDI, the groups of Yoo and type-based multicast. They differ in three things:

- which neighbours are told what is wanted, and how it is reduced (``recado.protocols.baselines.routing``);
- which neighbours get every event, wanted or not (the parent in a hierarchy);
- what a subscription is called and shortened to before anybody is told (``Naming``).

Whatever comes too much is dropped by the last node: the application gets what its own filters match. On a tree whose
links keep their order deliveries are causal, which JEDI promises: an event and the answer to it share the path from
where they meet, and the event is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from recado.model.event import Event
from recado.model.subscription import Subscription, type_filter
from recado.protocols.algebra import name_of
from recado.protocols.baselines.node import (
    Advertised,
    Announced,
    Flooded,
    Grouped,
    Interests,
    Named,
    Node,
    Raised,
    Routed,
    Unadvertised,
    require_type,
)
from recado.protocols.baselines.plan import Rendezvous
from recado.protocols.baselines.routing import Covering, Exact, Router, Strategy
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
    type = require_type(subscription, "there is a group")
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

    def on_subscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self.router.subscribe(self.naming(subscription, text))

    def on_unsubscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self.router.unsubscribe(self.naming(subscription, text)[0])

    def on_publish(self, event: Event) -> Sequence[Effect]:
        return self._route(Routed(event), None)

    def on_message(self, sender: NodeId, message: Any) -> Sequence[Effect]:
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


# --- Flooding (section 3.1): every notification goes everywhere; subscriptions stay where they are made --------------
#
# It needs no acyclic overlay. A node passes on the first copy of what it hears and drops the others, so one event costs
# n - 1 messages on a tree and 2m - n + 1 on a graph with m links. With ``flood_all`` subscriptions and their ends go
# everywhere too, as the document's prose has it; they are kept, and change nothing.
#
# On links that keep their order, what was heard first was passed on first. So the end of a subscription never overtakes
# its beginning, and deliveries are causal: what a node published after it heard an event is heard after that event.


FLOODS_REMEMBERED = 1 << 16
"""How many floods a node tells apart; older ones are long over."""


class FloodingNode(Node):
    def __init__(self, me: NodeId, neighbours: tuple[NodeId, ...], flood_all: bool = False) -> None:
        super().__init__(me)
        self.neighbours, self.flood_all = neighbours, flood_all
        self.known: dict[str, str] = {}
        self.seen: dict[tuple[NodeId, int], None] = {}
        self.number = 0

    def on_subscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self._announce(subscription.id, text)

    def on_unsubscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self._announce(subscription.id, "")

    def on_publish(self, event: Event) -> Sequence[Effect]:
        return self.deliver(event) + self._spread(Flooded(event, self.me, self._next()), None)

    def on_message(self, sender: NodeId, message: Any) -> Sequence[Effect]:
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

    def _announce(self, sub_id: str, text: str) -> list[Effect]:
        return self._spread(Announced(sub_id, text, self.me, self._next()), None) if self.flood_all else []

    def _spread(self, message: Flooded | Announced, sender: NodeId | None) -> list[Effect]:
        return [Send(other, message, "whatever is new goes everywhere") for other in self.neighbours if other != sender]

    def _next(self) -> int:
        self.number += 1
        self._first((self.me, self.number))
        return self.number

    def _first(self, copy: tuple[NodeId, int]) -> bool:
        if copy in self.seen:
            return False
        if len(self.seen) >= FLOODS_REMEMBERED:
            del self.seen[next(iter(self.seen))]
        self.seen[copy] = None
        return True


# --- The virtual groups of Zhang and Hu (section 3.8): one tree, matching at the root, groups that need no matching
#
# Subscriptions go up to the root, filters that mean the same once. An event goes up to the root, which knows all
# filters and so can tell which ones it matches; the nodes that hold those are its *virtual group*. The first event of
# a group is matched at every node on its way down, and each remembers the branches. Later events of the group carry
# its name and are passed on from memory. A node forgets its groups whenever its table changes.
#
# While a subscription is on its way up, an event may come to a branch that has no use for it; the last node drops it.


EVENTS_REMEMBERED = 4096
"""How many groups a node remembers; then it starts afresh."""


class VirtualGroupNode(Node):
    """``parent`` is one node, or nothing at the root."""

    def __init__(self, me: NodeId, parent: tuple[NodeId, ...]) -> None:
        super().__init__(me)
        self.parent = parent
        self.router = Router(dict.fromkeys(parent, Exact()))
        self.groups: dict[str, tuple[NodeId, ...]] = {}
        self.matched = 0
        """How many events this node had to match against the rows of its branches."""

    def on_subscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        self.groups.clear()
        return self.router.subscribe((name_of(text), text))

    def on_unsubscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        self.groups.clear()
        return self.router.unsubscribe(name_of(text))

    def on_publish(self, event: Event) -> Sequence[Effect]:
        return self._raise(Raised(event))

    def on_message(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        if isinstance(message, Interests):
            self.groups.clear()
            return self.router.change(sender, message)
        if isinstance(message, Raised):
            return self._raise(message)
        return self._descend(message)

    def tables(self) -> dict[NodeId, dict[str, str]]:
        return {neighbour: dict(rows.texts) for neighbour, rows in self.router.rows.items()}

    def inspect(self) -> dict[str, Any]:
        groups = {group: list(branches) for group, branches in self.groups.items()}
        return super().inspect() | {"groups": groups, "matched": self.matched}

    def _raise(self, message: Raised) -> list[Effect]:
        if self.parent:
            return [Send(parent, message, "every event goes to the root") for parent in self.parent]
        matching = sorted(self.router.all.matching(message.event))
        if not matching:
            return []
        group = blake2b("\n".join(matching).encode(), digest_size=8).hexdigest()
        return self._descend(Grouped(message.event, group))

    def _descend(self, message: Grouped) -> list[Effect]:
        branches = self.groups.get(message.group)
        if branches is None:
            branches = self._match(message)
        return self.deliver(message.event) + [
            Send(branch, message, "the virtual group has members on this branch") for branch in branches
        ]

    def _match(self, message: Grouped) -> tuple[NodeId, ...]:
        self.matched += 1
        if len(self.groups) >= EVENTS_REMEMBERED:
            self.groups.clear()
        branches = tuple(branch for branch, rows in self.router.rows.items() if rows.wants(message.event))
        self.groups[message.group] = branches
        return branches


# --- Hermes (section 3.8): a tree for each event type, rooted at the type's rendezvous node --------------------------
#
# Whoever begins to publish a type advertises it, hop by hop to the rendezvous node, and every node on the way remembers
# where that came from. Subscriptions take the way to the rendezvous node too, and are remembered likewise.
#
# - *Type-based*: only the type counts. A publication goes to the rendezvous node, and from every node that it passes
#   down to the neighbours that subscribed.
# - *Type and attributes*: subscriptions carry their filters, those covered by others are dropped, and besides going to
#   the rendezvous node they follow the advertisements back to the publishers. A publication then only follows the
#   reverse paths of matching subscriptions and need not pass the rendezvous node.


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

    def on_subscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        type = require_type(subscription, "Hermes has a rendezvous node")
        return self._router(type).subscribe(self._name(subscription, text))

    def on_unsubscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        type = subscription.type
        effects = self._router(type).unsubscribe(self._name(subscription, text)[0])
        self._tidy(type)
        return effects

    def _name(self, subscription: Subscription, text: str) -> tuple[str, str]:
        return (by_meaning if self.attributes else by_type)(subscription, text)

    def _router(self, event_type: str) -> Router:
        router = self.routers.get(event_type)
        if router is None:
            strategy = _COVERING if self.attributes else _EXACT
            up = self.rendezvous.tree(event_type).parent(self.me)
            router = self.routers[event_type] = Router(dict.fromkeys(up, strategy), event_type)
        return router

    def _tidy(self, event_type: str) -> None:
        """Forget a type that nobody here, and no neighbour, has to do with."""
        if event_type in self.routers and not self.routers[event_type].count and event_type not in self.publishers:
            del self.routers[event_type]

    # -- advertisements

    def on_become_publisher(self, event_type: str) -> Sequence[Effect]:
        return self._advertise(event_type, self.me)

    def on_become_broker(self, event_type: str) -> Sequence[Effect]:
        return self._unadvertise(event_type, self.me)

    def _advertise(self, event_type: str, source: NodeId) -> list[Effect]:
        publishers = self.publishers.setdefault(event_type, {})
        effects = [] if publishers else self._up(event_type, Advertised(event_type), "the first publisher on this side")
        publishers[source] = None
        if self.attributes and source != self.me:
            effects += self._router(event_type).open(source, _COVERING)
        return effects

    def _unadvertise(self, event_type: str, source: NodeId) -> list[Effect]:
        publishers = self.publishers[event_type]
        del publishers[source]
        effects: list[Effect] = []
        if self.attributes and source != self.me:
            effects += self._router(event_type).close(source)
        if not publishers:
            del self.publishers[event_type]
            effects += self._up(event_type, Unadvertised(event_type), "the last publisher on this side is gone")
            self._tidy(event_type)
        return effects

    def _up(self, event_type: str, message: Any, why: str) -> list[Effect]:
        return [Send(parent, message, why) for parent in self.rendezvous.tree(event_type).parent(self.me)]

    # -- publications

    def on_publish(self, event: Event) -> Sequence[Effect]:
        return self._route(Routed(event), None)

    def on_message(self, sender: NodeId, message: Any) -> Sequence[Effect]:
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
