"""What all baselines do alike: own subscriptions, the types that are published, requests that make no sense.

The baselines assume what the tree document assumes of them: a static overlay without failures, whose links keep their
order. So changes of links are not acted upon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.algebra import answers, type_of
from recado.protocols.machine import Asked, Deliver, Effect, NodeId, Received, Rng, Stimulus
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Notified, Publish, Subscribe, Unsubscribe
from recado.protocols.wire import WireEvent, write_filter

# --- What the baselines say to each other. Filters travel as expression text, events whole ---------------------------
#
# Node identifiers appear only where an algorithm needs them (``Flooded``: who began it, to tell copies apart).


Named = tuple[str, str]
"""A row of a routing table: its name, and the filter as text."""


class Message(msgspec.Struct, frozen=True, gc=False, tag_field="kind", array_like=True):
    """Base of all messages."""


class Interests(Message, frozen=True, tag="WANT"):
    """One change of what the sender wants from this link. ``tree`` names the tree where there are several."""

    subscribe: tuple[Named, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    tree: str = ""


class Routed(Message, frozen=True, tag="EVENT"):
    """An event on its way over a tree; nothing is known of who will get it."""

    event: WireEvent


class Flooded(Message, frozen=True, tag="FLOOD"):
    """An event that goes everywhere; origin and number tell its copies apart."""

    event: WireEvent
    origin: NodeId
    number: int


class Announced(Message, frozen=True, tag="ANNOUNCE"):
    """A subscription that goes everywhere, or its end if there is no filter."""

    subscription: str
    filter: str
    origin: NodeId
    number: int


class Advertised(Message, frozen=True, tag="ADV"):
    """Somebody on the sender's side will publish events of the type."""

    type: str


class Unadvertised(Message, frozen=True, tag="UNADV"):
    """Nobody on the sender's side publishes the type any more."""

    type: str


class Raised(Message, frozen=True, tag="UP"):
    """An event on its way to the root."""

    event: WireEvent


class Grouped(Message, frozen=True, tag="DOWN"):
    """An event on its way down to the members of a virtual group."""

    event: WireEvent
    group: str


MESSAGES = Interests | Routed | Flooded | Announced | Advertised | Unadvertised | Raised | Grouped
"""The union that ``recado.protocols.wire.decoder`` takes."""


# --- Sets of filters by name: what a table holds for one destination, and what one neighbour was told ----------------
#
# Filters that ask for one event type are kept by it, so that an event, or a filter of the same type, meets no others.


class Rows:
    """Filters by name."""

    __slots__ = ("_types", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._types: dict[str, dict[str, str]] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def __contains__(self, name: str) -> bool:
        return name in self.texts

    def put(self, name: str, text: str) -> None:
        self.texts[name] = text
        self._types.setdefault(type_of(text), {})[name] = text

    def take(self, name: str) -> str:
        text = self.texts.pop(name)
        kind = type_of(text)
        del self._types[kind][name]
        if not self._types[kind]:
            del self._types[kind]
        return text

    def of(self, *types: str) -> Iterator[tuple[str, str]]:
        """Names and filters of the given types; the empty type stands for filters that ask for no single one."""
        for type in dict.fromkeys(types):
            yield from self._types.get(type, {}).items()

    def matching(self, event: Event) -> list[str]:
        """The names of the filters that the event matches."""
        answer = answers(event)
        return [name for name, text in self.of(event.type, "") if answer(text)]

    def wants(self, event: Event) -> bool:
        """Is there any filter that the event matches?"""
        answer = answers(event)
        for type in (event.type, "") if event.type else ("",):
            for text in self._types.get(type, {}).values():
                if answer(text):
                    return True
        return False


class SentRows:
    """What one neighbour was told, and what is to be told next."""

    __slots__ = ("_dropped", "_new", "sent")

    def __init__(self) -> None:
        self.sent = Rows()
        self._new: dict[str, str] = {}
        self._dropped: dict[str, None] = {}

    def put(self, name: str, text: str) -> None:
        self.sent.put(name, text)
        if name in self._dropped:
            del self._dropped[name]
        else:
            self._new[name] = text

    def take(self, name: str) -> str:
        if name in self._new:
            del self._new[name]
        else:
            self._dropped[name] = None
        return self.sent.take(name)

    def message(self, tree: str) -> Interests | None:
        """The change since the last message, if there is one."""
        if not self._new and not self._dropped:
            return None
        message = Interests(tuple(self._new.items()), tuple(self._dropped), tree)
        self._new, self._dropped = {}, {}
        return message


# --- What all baselines do alike: own subscriptions, the types that are published, requests that make no sense -------


class BaselineError(RecadoError):
    """A request that a baseline cannot carry out, or a baseline that does not exist."""


class Node(ABC):
    """A machine; the abstract methods are what differs between baselines."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.own = Rows()
        self.subscriptions: dict[str, Subscription] = {}
        self.publishes: dict[str, None] = {}

    # -- what a baseline does

    @abstractmethod
    def on_subscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        """A new subscription of this node; its filter, type included, is given as text."""

    @abstractmethod
    def on_unsubscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        """It was cancelled."""

    @abstractmethod
    def on_publish(self, event: Event) -> Sequence[Effect]:
        """The application publishes an event, of a type that this node publishes."""

    @abstractmethod
    def on_message(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        """A message came from a neighbour."""

    def on_become_publisher(self, event_type: str) -> Sequence[Effect]:
        """The node will publish the type; most baselines need not know."""
        return ()

    def on_become_broker(self, event_type: str) -> Sequence[Effect]:
        return ()

    @abstractmethod
    def tables(self) -> dict[NodeId, dict[str, str]]:
        """The rows of each destination other than this node."""

    # -- the machine

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        match stimulus:
            case Received(sender, message):
                return self.on_message(sender, message)
            case Asked(request):
                return self._on_request(request)
        return ()

    def inspect(self) -> dict[str, Any]:
        tables = self.tables()
        if self.own:
            tables = {self.me: dict(self.own.texts), **tables}
        return {
            "node": self.me,
            "publishes": list(self.publishes),
            "subscriptions": dict(self.own.texts),
            "rows": sum(map(len, tables.values())),
            "tables": tables,
        }

    def deliver(self, event: Event) -> list[Effect]:
        """The event for this node's application, if any of its subscriptions matches."""
        ids = self.own.matching(event)
        return [Deliver(Notified(event, tuple(ids)))] if ids else []

    def _on_request(self, request: Any) -> Sequence[Effect]:
        match request:
            case Subscribe(subscription):
                return self._subscribe(subscription)
            case Unsubscribe(id):
                return self._unsubscribe(id)
            case Publish(event):
                if event.type not in self.publishes:
                    raise BaselineError(
                        f"node {self.me!r} does not publish events of type {event.type!r}; "
                        "ask it to become a publisher of that type first"
                    )
                return self.on_publish(event)
            case BecomePublisher(type):
                return self._become_publisher(type)
            case BecomeBroker(type):
                return self._become_broker(type)
        raise BaselineError(f"node {self.me!r} was asked {request!r}, which is no request of publish/subscribe")

    def _subscribe(self, subscription: Subscription) -> Sequence[Effect]:
        if subscription.id in self.own:
            raise BaselineError(f"node {self.me!r} already has a subscription {subscription.id!r}; take another id")
        text = write_filter(subscription.whole_filter())
        effects = self.on_subscribe(subscription, text)
        self.own.put(subscription.id, text)
        self.subscriptions[subscription.id] = subscription
        return effects

    def _unsubscribe(self, sub_id: str) -> Sequence[Effect]:
        if sub_id not in self.own:
            raise BaselineError(f"node {self.me!r} has no subscription {sub_id!r} to cancel")
        return self.on_unsubscribe(self.subscriptions.pop(sub_id), self.own.take(sub_id))

    def _become_publisher(self, event_type: str) -> Sequence[Effect]:
        if event_type in self.publishes:
            return ()
        self.publishes[event_type] = None
        return self.on_become_publisher(event_type)

    def _become_broker(self, event_type: str) -> Sequence[Effect]:
        if event_type not in self.publishes:
            raise BaselineError(f"node {self.me!r} does not publish {event_type!r}, so it cannot stop")
        del self.publishes[event_type]
        return self.on_become_broker(event_type)


def require_type(subscription: Subscription, system: str) -> str:
    """The subscription's event type, for systems that have a tree or group for each; a BaselineError without one."""
    if not subscription.type or "*" in subscription.type or "?" in subscription.type:
        raise BaselineError(
            f"subscription {subscription.id!r} must name one event type, not {subscription.type!r}: "
            f"{system} for each type"
        )
    return subscription.type
