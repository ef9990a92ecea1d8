"""A protocol of a user's own, in one file: every event is passed on to a few neighbours, a few times.

With ``fanout`` 0 it is passed on to all neighbours, so that everybody gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recado.filters.evaluate import matches
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import (
    Asked,
    Deliver,
    Effect,
    LinkDown,
    LinkUp,
    NodeId,
    Received,
    Rng,
    Send,
    Started,
    Stimulus,
)
from recado.protocols.pubsub import Notified, Publish, Subscribe, Unsubscribe
from recado.protocols.wire import WireEvent


class Rumour(msgspec.Struct, frozen=True, tag="RUMOUR", tag_field="kind", array_like=True):
    event: WireEvent


class GossipSettings(msgspec.Struct, frozen=True):
    fanout: int = 0


class Gossip:
    settings = GossipSettings
    messages = Rumour
    requests = (Subscribe, Unsubscribe, Publish)

    def __init__(self, node: NodeId, settings: GossipSettings) -> None:
        self.node, self.fanout = node, settings.fanout
        self.neighbours: dict[NodeId, None] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.known: dict[str, None] = {}

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        match stimulus:
            case Started(neighbours):
                self.neighbours = dict.fromkeys(neighbours)
            case LinkUp(peer):
                self.neighbours[peer] = None
            case LinkDown(peer):
                self.neighbours.pop(peer, None)
            case Asked(Subscribe(subscription)):
                self.subscriptions[subscription.id] = subscription
            case Asked(Unsubscribe(id)):
                self.subscriptions.pop(id, None)
            case Asked(Publish(event)) | Received(_, Rumour(event)):
                return self._spread(event, rng)
        return ()

    def _spread(self, event: Event, rng: Rng) -> list[Effect]:
        if event.id in self.known:
            return []
        self.known[event.id] = None
        ids = tuple(own.id for own in self.subscriptions.values() if matches(own.whole_filter(), event))
        told = list(self.neighbours)
        if 0 < self.fanout < len(told):
            told = rng.sample(told, self.fanout)
        effects: list[Effect] = [Deliver(Notified(event, ids))] if ids else []
        return effects + [Send(peer, Rumour(event), "a rumour is passed on") for peer in told]

    def inspect(self) -> dict[str, Any]:
        return {"node": self.node, "known": len(self.known), "subscriptions": list(self.subscriptions)}


class Nameless:
    """A machine that is no protocol: nothing shows its state."""

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        return ()


class Silent(Gossip):
    """Without messages it can only be simulated."""

    messages = None
