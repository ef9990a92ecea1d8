"""Networks in which only some nodes are brokers: the others are clients, each of one broker.

That is what the tree document compares with when it speaks of broker networks (its section 5.5). A client tells its
broker what it wants and what it publishes, one message each, and gets the events that match. It relays nothing and
hears nothing else. To its broker, what a client asks for is the broker's own: any baseline runs between brokers as it
is, and ``AccessBroker`` around it sends to the clients what is delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recado.model.event import Event
from recado.model.memory import RecentKeys
from recado.model.subscription import Subscription
from recado.protocols.baselines.node import Advertised, BaselineError, Interests, Node, Routed, Unadvertised
from recado.protocols.machine import Asked, Deliver, Effect, Machine, NodeId, Received, Rng, Send, Stimulus
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.wire import read_filter, write_filter

EVENTS_REMEMBERED = 4_096


class Client(Node):
    """A node with applications and one link."""

    def __init__(self, me: NodeId, broker: NodeId) -> None:
        super().__init__(me)
        self.broker = broker
        self._met: RecentKeys[str] = RecentKeys(EVENTS_REMEMBERED)

    def on_subscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        wanted = (subscription.id, write_filter(subscription.filter))
        return self._tell(Interests((wanted,), (), subscription.type), "a client tells its broker what it wants")

    def on_unsubscribe(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        return self._tell(Interests((), (subscription.id,), subscription.type), "a client wants it no more")

    def on_publish(self, event: Event) -> Sequence[Effect]:
        self._met.add(event.id)
        return [*self.deliver(event), *self._tell(Routed(event), "a client publishes at its broker")]

    def on_become_publisher(self, event_type: str) -> Sequence[Effect]:
        return self._tell(Advertised(event_type), "a client will publish")

    def on_become_broker(self, event_type: str) -> Sequence[Effect]:
        return self._tell(Unadvertised(event_type), "a client will publish no more")

    def on_message(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        """Where events come down from a root, a client is sent its own as well; it has them already."""
        return self.deliver(message.event) if self._met.add(message.event.id) else ()

    def tables(self) -> dict[NodeId, dict[str, str]]:
        return {}

    def _tell(self, message: Any, why: str) -> list[Effect]:
        return [Send(self.broker, message, why)]


class AccessBroker:
    """The machine of a broker, with the clients whose access to the network it is."""

    def __init__(self, inner: Machine, clients: tuple[NodeId, ...]) -> None:
        self.inner = inner
        self._clients = dict.fromkeys(clients)
        self._owners: dict[str, NodeId] = {}
        self._publishers: dict[str, dict[NodeId, None]] = {}

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        if not (isinstance(stimulus, Received) and stimulus.sender in self._clients):
            return self._send_to_clients(self.inner.handle(stimulus, now, rng), None)
        client, effects = stimulus.sender, list[Effect]()
        for request in self._requests(client, stimulus.message):
            effects += self._send_to_clients(self.inner.handle(Asked(request), now, rng), client)
        return effects

    def inspect(self) -> dict[str, Any]:
        return self.inner.inspect()

    def _requests(self, client: NodeId, message: Any) -> Sequence[Any]:
        """What the client's message means to its broker."""
        match message:
            case Interests(subscribe, unsubscribe, type):
                self._owners |= dict.fromkeys((id for id, _ in subscribe), client)
                for id in unsubscribe:
                    del self._owners[id]
                wanted = [Subscribe(Subscription(id, read_filter(text), type)) for id, text in subscribe]
                return [*wanted, *(Unsubscribe(id) for id in unsubscribe)]
            case Advertised(type):
                publishers = self._publishers.setdefault(type, {})
                publishers[client] = None
                return [BecomePublisher(type)] if len(publishers) == 1 else []
            case Unadvertised(type):
                del self._publishers[type][client]
                return [] if self._publishers[type] else [BecomeBroker(type)]
            case Routed(event):
                return [Publish(event)]
        raise BaselineError(f"client {client!r} sent {message!r}, which clients do not send")

    def _send_to_clients(self, effects: Sequence[Effect], publisher: NodeId | None) -> list[Effect]:
        """What is delivered here is for clients; the one that published it has it already."""
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                event = effect.notification.event
                clients = dict.fromkeys(self._owners[id] for id in effect.notification.subscriptions)
                told = [client for client in clients if client != publisher]
                out += [Send(client, Routed(event), "a client told a filter that matches") for client in told]
            else:
                out.append(effect)
        return out
