"""The simplest machine that delivers: every event goes to every neighbour, once. Links and drivers are tested on it."""

import msgspec

from recado.errors import RecadoError
from recado.filters.evaluate import matches
from recado.model.codec import read_event, write_flat
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, Deliver, LinkDown, LinkUp, Persist, Received, Send, Started
from recado.protocols.pubsub import Notified, OverlayProtocol, Publish, Subscribe, Unsubscribe


class News(msgspec.Struct, frozen=True, tag="news"):
    event: bytes


class Odd(msgspec.Struct, frozen=True, tag="odd"):
    pass


class Flood:
    def __init__(self, me):
        self.me = me
        self.neighbours, self.seen, self.subscriptions, self.saved = {}, {}, {}, {}

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Started(neighbours, saved):
                self.neighbours = dict.fromkeys(neighbours)
                self.saved = dict(saved)
                self.subscriptions = {id: Subscription(id, type=value["type"]) for id, value in saved.items()}
            case LinkUp(peer):
                self.neighbours[peer] = None
            case LinkDown(peer):
                self.neighbours.pop(peer, None)
            case Asked(Subscribe(subscription)):
                if subscription.id in self.subscriptions:
                    raise RecadoError(f"there is a subscription {subscription.id!r} already")
                self.subscriptions[subscription.id] = subscription
                return [Persist(subscription.id, {"type": subscription.type})]
            case Asked(Unsubscribe(id)):
                del self.subscriptions[id]
                self.saved.pop(id, None)
                return [Persist(id, None)]
            case Asked(Publish(event)):
                return self.spread(event, self.me)
            case Received(sender, News(event)):
                return self.spread(read_event(event), sender)
            case Received(sender, Odd()):
                raise ZeroDivisionError("a bug in the machine")
        return ()

    def spread(self, event, sender):
        if event.id in self.seen:
            return ()
        self.seen[event.id] = None
        mine = tuple(s.id for s in self.subscriptions.values() if matches(s.whole_filter(), event))
        effects = [Deliver(Notified(event, mine))] if mine else []
        return effects + [Send(peer, News(write_flat(event)), "flooding") for peer in self.neighbours if peer != sender]

    def inspect(self):
        return {
            "node": self.me,
            "neighbours": list(self.neighbours),
            "saved": self.saved,
            "subscriptions": list(self.subscriptions),
        }


FLOOD = OverlayProtocol(
    name="flood",
    make=lambda settings, topology: Flood,
    messages=News | Odd,
    requests=(Subscribe, Unsubscribe, Publish),
)
