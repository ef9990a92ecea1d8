"""What all baselines do alike: own subscriptions, the types that are published, requests that make no sense.

The baselines assume what the tree document assumes of them: a static overlay without failures, whose links keep their
order. So changes of links are not acted upon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines.rows import Rows
from recado.protocols.machine import Asked, Deliver, Effect, NodeId, Received, Rng, Stimulus
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Notified, Publish, Subscribe, Unsubscribe
from recado.protocols.wire import write_filter


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
    def subscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        """A new subscription of this node; its filter, type included, is given as text."""

    @abstractmethod
    def unsubscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        """It was cancelled."""

    @abstractmethod
    def published(self, event: Event) -> Sequence[Effect]:
        """The application publishes an event, of a type that this node publishes."""

    @abstractmethod
    def received(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        """A message came from a neighbour."""

    def advertised(self, type: str) -> Sequence[Effect]:
        """The node will publish the type; most baselines need not know."""
        return ()

    def unadvertised(self, type: str) -> Sequence[Effect]:
        return ()

    @abstractmethod
    def tables(self) -> dict[NodeId, dict[str, str]]:
        """The rows of each destination other than this node."""

    # -- the machine

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        match stimulus:
            case Received(sender, message):
                return self.received(sender, message)
            case Asked(request):
                return self._asked(request)
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

    def _asked(self, request: Any) -> Sequence[Effect]:
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
                return self.published(event)
            case BecomePublisher(type):
                return self._become_publisher(type)
            case BecomeBroker(type):
                return self._become_broker(type)
        raise BaselineError(f"node {self.me!r} was asked {request!r}, which is no request of publish/subscribe")

    def _subscribe(self, subscription: Subscription) -> Sequence[Effect]:
        if subscription.id in self.own:
            raise BaselineError(f"node {self.me!r} already has a subscription {subscription.id!r}; take another id")
        text = write_filter(subscription.whole_filter())
        effects = self.subscribed(subscription, text)
        self.own.put(subscription.id, text)
        self.subscriptions[subscription.id] = subscription
        return effects

    def _unsubscribe(self, id: str) -> Sequence[Effect]:
        if id not in self.own:
            raise BaselineError(f"node {self.me!r} has no subscription {id!r} to cancel")
        return self.unsubscribed(self.subscriptions.pop(id), self.own.take(id))

    def _become_publisher(self, type: str) -> Sequence[Effect]:
        if type in self.publishes:
            return ()
        self.publishes[type] = None
        return self.advertised(type)

    def _become_broker(self, type: str) -> Sequence[Effect]:
        if type not in self.publishes:
            raise BaselineError(f"node {self.me!r} does not publish {type!r}, so it cannot stop")
        del self.publishes[type]
        return self.unadvertised(type)


def one_type(subscription: Subscription, system: str) -> str:
    """The subscription's event type, for systems that have a tree or group for each."""
    if not subscription.type or "*" in subscription.type or "?" in subscription.type:
        raise BaselineError(
            f"subscription {subscription.id!r} must name one event type, not {subscription.type!r}: "
            f"{system} for each type"
        )
    return subscription.type
