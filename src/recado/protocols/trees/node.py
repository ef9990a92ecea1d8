"""The machine of one node: it hands every stimulus to the operation that knows what to do.

What the engine has to provide is in ``repair``: links that are reliable and in order from LinkUp to LinkDown, both of
which it reports at either end. Subscriptions, published types and the last epoch are persisted; a node that starts with
them builds its trees and searches for subscriptions anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recado.model.filter import And, Compare, Filter
from recado.model.subscription import Subscription, check_id
from recado.protocols.machine import (
    Asked,
    Effect,
    LinkDown,
    LinkUp,
    NodeId,
    Persist,
    Received,
    Rng,
    Started,
    Stimulus,
    TimerFired,
)
from recado.protocols.pubsub import (
    REQUESTS,
    BecomeBroker,
    BecomeCandidate,
    BecomePublisher,
    OverlayProtocol,
    Publish,
    Subscribe,
    Unsubscribe,
)
from recado.protocols.trees import attract, elect, messages, notify, publisher, repair, subscribe
from recado.protocols.trees.state import COMMON, LocalSubscription, Out, State, TreeError, TreeSettings
from recado.protocols.trees.table import Row
from recado.protocols.wire import write_filter

Handler = Callable[[State, NodeId, Any, Out], None]

HANDLERS: dict[type, Handler] = {
    messages.Q: subscribe.on_question,
    messages.QYes: subscribe.on_yes,
    messages.QNo: subscribe.on_no,
    messages.Join: subscribe.on_join,
    messages.C: subscribe.on_cancel,
    messages.N: notify.on_notification,
    messages.MP: elect.on_search,
    messages.MPYes: publisher.on_found,
    messages.MPNo: publisher.on_nothing,
    messages.Graft: publisher.on_graft,
    messages.MB: publisher.on_withdrawal,
    messages.Repair: repair.on_repair,
    messages.Redo: repair.on_redo,
    messages.Hello: repair.on_hello,
    messages.Cut: repair.on_cut,
    messages.Merge: repair.on_merge,
    messages.Seek: attract.on_seek,
    messages.Offer: attract.on_offer,
    messages.Attach: attract.on_attach,
    messages.Call: elect.on_call,
    messages.Answer: elect.on_answer,
    messages.Appoint: elect.on_appoint,
    messages.StandIn: elect.on_search,
}


class TreeNode:
    """One node of an overlay of subscription trees: a ``Machine``."""

    __slots__ = ("handlers", "me", "state")

    def __init__(
        self, me: NodeId, settings: TreeSettings | None = None, handlers: Mapping[type, Handler] = HANDLERS
    ) -> None:
        """Other ``handlers`` make variants of the protocol: see ``printed``."""
        self.me = me
        self.state = State(me, settings or TreeSettings())
        self.handlers = handlers

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        state = self.state
        state.now, state.rng = now, rng
        out: Out = []
        if type(stimulus) is Received:
            if stimulus.sender in state.neighbours:  # otherwise the link is gone, and the message of no use
                handler = self.handlers.get(type(stimulus.message))
                if handler is None:
                    raise TreeError(f"{stimulus.message!r} is no message of the tree protocol")
                handler(state, stimulus.sender, stimulus.message, out)
            return out
        match stimulus:
            case Asked(request):
                self._on_request(request, out)
            case TimerFired((kind, key)):
                _timer(state, kind, key, out)
            case LinkUp(peer):
                repair.link_up(state, peer, out)
                attract.link_up(state, peer, out)
            case LinkDown(peer):
                repair.link_down(state, peer, out)
                attract.link_down(state, peer, out)
                elect.link_down(state, peer, out)
            case Started(neighbours, saved, address):
                state.address = address
                _start(state, neighbours, saved, out)
        return out

    def _on_request(self, request: Any, out: Out) -> None:
        state = self.state
        match request:
            case Publish(event):
                notify.publish(state, event, out)
            case Subscribe(subscription):
                _subscribe(state, subscription, out)
            case Unsubscribe(id):
                subscribe.unsubscribe(state, id, out)
            case BecomePublisher(type):
                _check_type(type)
                elect.become_publisher(state, type, out)
            case BecomeCandidate(type):
                _check_type(type)
                elect.become_candidate(state, type, out)
            case BecomeBroker(type):
                elect.become_broker(state, type, out)
            case _:
                raise TreeError(f"{request!r} is no request to a tree node; see recado.protocols.pubsub")

    def inspect(self) -> dict[str, Any]:
        return _inspect(self.state)


def _check_type(event_type: str) -> None:
    if not event_type or "*" in event_type or "?" in event_type:
        raise TreeError(f"{event_type!r} is no event type to publish: it needs a name, without * and ?")


def _subscribe(state: State, subscription: Subscription, out: Out) -> None:
    id = check_id(subscription.id)
    if id in state.local:
        raise TreeError(f"node {state.me!r} already has a subscription {id!r}; ids are unique in the whole overlay")
    if len(state.local) >= state.settings.max_subscriptions:
        raise TreeError(
            f"node {state.me!r} has {len(state.local):,} subscriptions, which is the limit max_subscriptions"
        )
    local = LocalSubscription(id, subscription.type or type_in(subscription.filter), write_filter(subscription.filter))
    out.append(Persist(f"subscription:{id}", [local.type, local.filter]))
    subscribe.begin(state, local, out)


def type_in(parsed: Filter) -> str:
    """The one event type that the filter asks for, as the template syntax always does; empty if it is not told."""
    for part in parsed.parts if isinstance(parsed, And) else (parsed,):
        if isinstance(part, Compare) and part.name == "type" and part.op == "==" and isinstance(part.value, str):
            return part.value
    return ""


def _timer(state: State, kind: str, key: Any, out: Out) -> None:
    state.due.pop((kind, key), None)
    if kind == "rebuild" and key in state.local and state.local[key].carrier is None:
        subscribe.ask(state, state.local[key], out)
    elif kind == "search":
        repair.search_is_due(state, key, out)
    elif kind == "missing":
        repair.search_for_missing(state, key, out)
    elif kind == "causal":
        notify.give_up(state, key, out)
    elif kind in attract.TIMERS:
        attract.TIMERS[kind](state, key, out)
    elif kind in elect.TIMERS:
        elect.TIMERS[kind](state, key, out)


def _start(state: State, neighbours: Sequence[NodeId], saved: Mapping[str, Any], out: Out) -> None:
    """Start in the founding component; but a node without links, or one that was here before, is alone at first."""
    state.neighbours = dict.fromkeys(neighbours)
    state.token = repair.new_name(state)
    if not neighbours or saved:
        state.component, state.alone = repair.new_name(state), True
    if not saved:
        return
    for peer in neighbours:
        repair.link_up(state, peer, out)
    state.epoch = saved.get("epoch", 0)
    for key, value in saved.items():
        kind, _, name = key.partition(":")
        if kind == "publishes":
            publisher.become_publisher(state, name, out)
        elif kind == "candidate" and state.settings.elect:
            elect.become_candidate(state, name, out)
        elif kind == "subscription":
            subscribe.begin(state, LocalSubscription(name, *value), out)


def _inspect(state: State) -> dict[str, Any]:
    tables = state.tables.by_type
    options = attract.inspect(state) | elect.inspect(state)
    return {
        "node": state.me,
        "neighbours": list(state.neighbours),
        "publishes": list(state.published),
        "subscriptions": {
            local.id: {
                "type": local.type,
                "filter": local.filter,
                "epoch": local.epoch,
                "published": local.published,
                "carrier": local.carrier,
                "along": local.along,
            }
            for local in state.local.values()
        },
        "tables": {type: {id: _inspect_row(row) for id, row in table.items()} for type, table in tables.items()},
        "counters": {
            "rows": len(state.tables.rows),
            "questions": len(state.questions) + len(state.older),
            "searches": len(state.searches),
            "seen": len(state.seen),
            "waiting": len(state.waiting),
            "buffered": len(state.buffer),
            "delivered": state.delivered,
            "duplicates": state.duplicates,
            "refused": state.refused,
        },
        **options,
    }


def _inspect_row(row: Row) -> dict[str, Any]:
    known: dict[str, Any] = {"next": list(row.next), "origin": list(row.origin)}
    if row.joined:
        known["rides"] = row.rides
    return known


PROTOCOL = OverlayProtocol(
    name="trees",
    make=lambda settings, topology: lambda node: TreeNode(node, settings),
    settings=TreeSettings,
    messages=messages.MESSAGES,
    check=messages.check_message,
    common=COMMON,
    requests=tuple(REQUESTS.values()),
)
"""The tree protocol, for ``recado.protocols.registry``."""
