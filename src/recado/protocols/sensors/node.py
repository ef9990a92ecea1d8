"""The machine of one sensor node: it hands every stimulus to the layer that knows what to do.

What the engine has to provide: ``Broadcast`` reaches whoever is in range, and is heard with its signal strength;
``Send`` goes to one neighbour and is acknowledged, or comes back as ``SendFailed``. The node knows its own name, no
position, no neighbour and no broker. It persists one number, how often it has started; what it stored is lost with it.

Nearly all that a node hears are copies of what it has heard already. ``handle`` deals with those itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from recado.protocols.machine import (
    Asked,
    Effect,
    NodeId,
    Persist,
    Received,
    Rng,
    SendFailed,
    Started,
    Stimulus,
    TimerFired,
)
from recado.protocols.pubsub import OverlayProtocol, Publish, Sketch, Subscribe, Unsubscribe
from recado.protocols.sensors import delivery, messages
from recado.protocols.sensors.aodv import Aodv
from recado.protocols.sensors.context import Context, trim
from recado.protocols.sensors.delivery import Delivery, way_of
from recado.protocols.sensors.messages import Find, Flood, Lookup, Query, RouteRequest, SensorError, Store
from recado.protocols.sensors.pampa import Hold, Pampa
from recado.protocols.sensors.pcache import Cache
from recado.protocols.sensors.settings import COMMON, SensorSettings

MOST_SENDERS = 4_096
"""Neighbours whose allowance is remembered."""

FLOODED: Final = frozenset((Store, Query, Lookup, Flood))
NEW: Final = Hold(None, -1)
"""Stands for a broadcast that was not heard before."""


class SensorNode:
    """One node of a sensor network: a ``Machine``."""

    __slots__ = (
        "_allowances", "_decide", "_direct", "_failed", "_first", "_heard", "_seen", "_timers", "aodv", "cache",
        "context", "delivery", "me", "pampa",
    )  # fmt: skip

    def __init__(self, me: NodeId, settings: SensorSettings | None = None) -> None:
        if not isinstance(me, int | str):
            raise SensorError(f"{me!r} is no name of a sensor node; it is a number or a text")
        self.me = me
        context = self.context = Context(me, settings or SensorSettings())
        self.pampa = Pampa(context)
        self.cache = Cache(context, self.pampa, delivery.matches)
        self.aodv = Aodv(context)
        self.delivery = Delivery(context, self.pampa, self.cache, self.aodv)
        self.cache.collected, self.cache.late = self.delivery.on_collected, self.delivery.on_late
        self.aodv.arrived, self.aodv.found = self.delivery.on_data, self.delivery.on_route
        self._heard, self._seen = self.pampa.heard, self.aodv.seen
        self._allowances: dict[NodeId, tuple[float, float]] = {}
        self._first: dict[type, Callable[[Any, Any, float | None], None]] = {
            Store: self.cache.on_store,
            Query: self.cache.on_query,
            Lookup: self.cache.on_lookup,
            Flood: self.delivery.on_flood,
        }
        """Broadcasts of PAMPA, heard for the first time; and what is done when their hold is over."""
        self._decide: dict[type, Callable[[Hold], None]] = {
            Store: self.cache.decide_store,
            Query: self.cache.decide_query,
            Lookup: self.cache.decide_lookup,
            Flood: self.delivery.decide_flood,
        }
        self._direct: dict[type, Callable[[Any, Any], None]] = {
            messages.RouteRequest: self.aodv.on_request,
            messages.RouteReply: self.aodv.on_reply,
            messages.RouteError: self.aodv.on_error,
            messages.Hello: self.aodv.on_hello,
            messages.Data: self.aodv.on_data,
            messages.Reply: self.cache.on_reply,
            messages.Group: self.delivery.on_group,
        }
        self._failed: dict[type, Callable[[Any, Any], None]] = {
            messages.Data: self.aodv.data_failed,
            messages.Group: self.delivery.group_failed,
            messages.RouteReply: self.aodv.reply_failed,
        }
        self._timers: dict[str, Callable[[Any], None]] = {
            "hold": self._on_hold,
            "fire": self.cache.fire,
            "collect": self.cache.is_collected,
            "ring": self.cache.ring_is_over,
            "relay": self.aodv.relay_is_due,
            "rreq": self.aodv.request_is_due,
            "repair": self.aodv.repair_is_over,
        }

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        if type(stimulus) is Received:
            message = stimulus.message
            kind = type(message)
            if kind is RouteRequest:
                if self._seen.get(message.id, 0.0) > now:
                    return ()
            elif kind in FLOODED:
                hold = self._heard.get(message.id, NEW)
                if hold is None:
                    return ()
                if hold is not NEW:
                    hold.copies += 1
                    if kind is Store and message.dfs < hold.least_dfs:
                        hold.least_dfs = message.dfs
                    return ()
        context = self.context
        context.now, context.rng = now, rng
        out = context.out = []
        if type(stimulus) is Received:
            self._on_message(stimulus)
        elif type(stimulus) is TimerFired:
            self._on_timer(stimulus.timer)
        else:
            self._on_rare(stimulus)
        return out

    def _on_message(self, stimulus: Received) -> None:
        sender, message, context = stimulus.sender, stimulus.message, self.context
        if not self._may_send(sender):
            context.count("refused.too_many")
            return
        first = self._first.get(type(message))
        if first is not None:
            first(sender, message, stimulus.signal_dbm)
            return
        handler = self._direct.get(type(message))
        if handler is None:
            context.count("refused.garbage")
        else:
            handler(sender, message)

    def _may_send(self, sender: NodeId) -> bool:
        """Every neighbour has an allowance of what is new."""
        settings, now, allowances = self.context.settings, self.context.now, self._allowances
        if not settings.sender_per_second:
            return True
        left, then = allowances.pop(sender, (float(settings.sender_burst), now))
        left = min(float(settings.sender_burst), left + (now - then) * settings.sender_per_second)
        allowances[sender] = max(0.0, left - 1.0), now
        if len(allowances) > MOST_SENDERS:
            trim(allowances, MOST_SENDERS)
        return left >= 1.0

    def _on_timer(self, timer: Any) -> None:
        if timer == "pace":
            self.delivery.slot_is_due()
        elif timer == "refresh":
            self.delivery.refresh()
        elif timer == "hello":
            self.aodv.hello_is_due()
        else:
            kind, key = timer
            self._timers[kind](key)

    def _on_hold(self, message_id: Any) -> None:
        hold = self.pampa.release(message_id)
        if hold is not None:
            self._decide[type(hold.message)](hold)

    def _on_rare(self, stimulus: Stimulus) -> None:
        match stimulus:
            case SendFailed(receiver, message):
                failed = self._failed.get(type(message))
                if failed is not None:
                    failed(receiver, message)
                else:
                    self.context.count("dropped.answer")
            case Asked(Publish(event)):
                self.delivery.publish(event)
            case Asked(Subscribe(subscription)):
                self.delivery.subscribe(subscription)
            case Asked(Unsubscribe(id)):
                self.delivery.unsubscribe(id)
            case Asked(Find(key)):
                self.cache.find(key)
            case Asked(request):
                raise SensorError(f"{request!r} is no request to a sensor node; see recado.protocols.pubsub")
            case Started(_, saved):
                self.context.boots = int(saved.get("boots", 0))
                self.context.out.append(Persist("boots", self.context.boots + 1))
                self.aodv.start()

    def inspect(self) -> dict[str, Any]:
        """The tables as plain data. Names of nodes and keys of items are as in messages, tuples as lists."""
        cache, aodv, top = self.cache, self.aodv, self.delivery
        return {
            "node": self.me,
            "role": "sink" if top.subscriptions else "sensor",
            "system": self.context.settings.system,
            "subscriptions": {
                id: {"filter": own.filter, "key": list(own.key), "announced": own.announced}
                for id, own in top.subscriptions.items()
            },
            "data_zone": [
                {
                    "key": list(key),
                    "subscriber": key[0],
                    "filter": one.item.filter,
                    "version": one.item.version,
                    "own": one.own,
                    "dist": one.dist,
                    "stored_at": one.stored_at,
                    "expires": _finite(one.expires),
                }
                for key, one in cache.zone.items()
            ],
            "routes": [
                {
                    "dst": dst,
                    "next_hop": route.next_hop,
                    "hops": route.hops,
                    "seq": route.seq,
                    "state": route.state,
                    "expires": _finite(route.expires),
                    "precursors": list(route.precursors),
                }
                for dst, route in aodv.routes.items()
            ],
            "pending": [
                {"id": list(id), "kind": type(hold.message).__name__, "copies": hold.copies}
                for id, hold in self.pampa.heard.items()
                if hold is not None
            ],
            "queries": [
                {
                    "id": list(id),
                    "parent": one.parent,
                    "hops": one.hops,
                    "items": [list(key) for key in one.items],
                    "answered": one.fired,
                    "expires": _finite(one.expires),
                }
                for id, one in cache.gathers.items()
            ],
            "counters": {
                "heard": len(self.pampa.heard),
                "seen": len(aodv.seen),
                "buffered": len(aodv.buffer),
                "waiting": len(top.queue),
                "notified": len(top.notified),
                "gone": len(cache.gone),
                "seqno": aodv.seq,
                **self.context.counts,
            },
        }


def _finite(time: float) -> float | None:
    """None for what never ends."""
    return time if time < math.inf else None


def describe_role(state: Any) -> list[str]:
    """What a node is, in words."""
    zone = state["data_zone"]
    others = sum(not one["own"] for one in zone)
    roles = [f"subscribed: {', '.join(state['subscriptions'])}"] if state["subscriptions"] else []
    return [*roles, f"keeps {others} subscription{'' if others == 1 else 's'} of others"]


def sketch(state: Any) -> Sketch:
    """A sink or a sensor, and the copies that it holds."""
    own = {id: _name_key(one["key"]) for id, one in state["subscriptions"].items()}
    return Sketch(state["role"], (), {_name_key(one["key"]): () for one in state["data_zone"]}, own)


def _name_key(key: Any) -> str:
    return f"{key[0]}/{key[1]}"


def _make(settings: Any, topology: Any) -> Callable[[NodeId], SensorNode]:
    return lambda node: SensorNode(node, settings)


PROTOCOL = OverlayProtocol(
    name="sensor-network",
    make=_make,
    settings=SensorSettings,
    messages=messages.MESSAGES,
    check=messages.check_message,
    common=COMMON,
    requests=(Subscribe, Unsubscribe, Publish),
    live=False,
    needs_radio=True,
    reliable=False,
    size_of=lambda settings: messages.size_of,
    traffic_class=messages.traffic_class,
    way=way_of,
    roles=describe_role,
    sketch=sketch,
)
"""The sensor network, for ``recado.protocols.registry``. It needs a radio, so it does not run on links over TCP."""
