"""The machine of one node: it hands every stimulus to the part of the protocol that knows what to do.

What the engine has to provide: a node can send to any endpoint it knows, and learns of messages that did not arrive
(``SendFailed``). ``Started.neighbours`` are super nodes that it may ask, or any peers that know some; a node that
starts with none is the first of a new system. ``LinkUp`` names one more, and is asked for with ``SeedsWanted``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recado.model.subscription import Subscription, check_id
from recado.protocols.algebra import name_of
from recado.protocols.machine import (
    Asked,
    Effect,
    LinkUp,
    NodeId,
    Persist,
    Received,
    Rng,
    SendFailed,
    SetTimer,
    Started,
    Stimulus,
    TimerFired,
    TimerKey,
)
from recado.protocols.pubsub import Leave, OverlayProtocol, Publish, Sketch, Subscribe, Unsubscribe
from recado.protocols.supernodes import (
    dissemination,
    enquiry,
    family,
    guard,
    leaving,
    load,
    membership,
    messages,
    recovery,
    repair,
    shrinking,
    sizer,
)
from recado.protocols.supernodes.members import Home
from recado.protocols.supernodes.settings import COMMON, SuperNodeSettings
from recado.protocols.supernodes.state import (
    Layer,
    Out,
    State,
    SuperNodeError,
    add_seeds,
    draw_key,
    filter_of,
    set_role,
)
from recado.protocols.wire import read_filter, write_filter

Handler = Callable[[State, Any, Any, Out], None]
TimerHandler = Callable[[State, Out], None]


def _on_returned(state: State, sender: Any, message: messages.Returned, out: Out) -> None:
    """What a child sent for this node did not arrive."""
    home = state.layer
    if home is not None and sender in home.children:
        FAILURES[type(message.cast)](state, message.to, message.cast, out)


HANDLERS: dict[type, Handler] = {
    messages.FilterCheck: family.on_filter_check,
    messages.FilterReply: family.on_filter_reply,
    messages.TryAnother: family.on_try_another,
    messages.JoinNode: family.on_join_node,
    messages.SuperNodeAccept: family.on_accept,
    messages.KNodeAccept: family.on_accept,
    messages.ParentNode: family.on_parent_node,
    messages.Promotion: family.on_promotion,
    messages.LiveNodes: family.on_live_nodes,
    messages.KeepAlive: family.on_keep_alive,
    messages.BrothersWanted: enquiry.on_brothers_wanted,
    messages.Brothers: enquiry.on_brothers,
    messages.NewBrother: enquiry.on_new_brother,
    messages.BrotherGone: family.on_brother_gone,
    messages.Promoted: family.on_promoted,
    messages.Below: family.on_below,
    messages.TakeOver: leaving.on_take_over,
    messages.Took: leaving.on_took,
    messages.PromoteChild: family.on_promote_child,
    messages.NotYourChild: leaving.on_not_your_child,
    messages.EndpointsRequest: membership.on_endpoints_request,
    messages.Endpoints: membership.on_endpoints,
    messages.FiltersRequest: membership.on_filters_request,
    messages.Filters: membership.on_filters,
    messages.JoinRequest: membership.on_join_request,
    messages.Departures: membership.on_departures,
    messages.MembershipCast: membership.on_membership_cast,
    messages.ViewRepair: membership.on_view_repair,
    messages.ViewRepairReply: membership.on_view_repair_reply,
    messages.TurmoilCast: dissemination.on_turmoil_cast,
    messages.TurmoilReject: dissemination.on_turmoil_reject,
    messages.TurmoilSubnode: dissemination.on_turmoil_subnode,
    messages.PublishUp: dissemination.on_publish_up,
    messages.RepairTurmoil: repair.on_repair_turmoil,
    messages.TurmoilRepairReply: repair.on_repair_reply,
    messages.Fetch: recovery.on_fetch,
    messages.Fetched: recovery.on_fetched,
    messages.Relay: load.on_relay,
    messages.Returned: _on_returned,
    messages.Demote: shrinking.on_demote,
}


def _contact_failed(state: State, to: Any, message: Any, out: Out) -> None:
    state.seeds.pop(to, None)
    family.contact_failed(state, to, out)


def _download_failed(state: State, to: Any, message: Any, out: Out) -> None:
    membership.download_failed(state, to, out)


FAILURES: dict[type, Handler] = {
    messages.FilterCheck: _contact_failed,
    messages.JoinNode: _contact_failed,
    messages.Promotion: family.promotion_failed,
    messages.KeepAlive: family.keep_alive_failed,
    messages.BrothersWanted: enquiry.message_failed,
    messages.Brothers: enquiry.message_failed,
    messages.NewBrother: enquiry.message_failed,
    messages.BrotherGone: enquiry.message_failed,
    messages.Promoted: family.promoted_failed,
    messages.TakeOver: leaving.take_over_failed,
    messages.PromoteChild: sizer.promote_child_failed,
    messages.EndpointsRequest: _download_failed,
    messages.FiltersRequest: _download_failed,
    messages.JoinRequest: membership.join_request_failed,
    messages.Departures: membership.departures_failed,
    messages.Relay: load.relay_failed,
    messages.MembershipCast: membership.membership_cast_failed,
    messages.ViewRepair: membership.view_repair_failed,
    messages.TurmoilCast: dissemination.turmoil_cast_failed,
    messages.TurmoilSubnode: dissemination.turmoil_subnode_failed,
    messages.PublishUp: dissemination.publish_up_failed,
    messages.RepairTurmoil: repair.repair_failed,
    messages.Fetch: recovery.fetch_failed,
}
"""What is done when a message did not arrive; answers are not missed."""


def _evaluate(state: State, out: Out) -> None:
    if state.layer is not None:
        sizer.evaluate(state, state.layer, membership.is_leader(state, state.layer), out)


TIMERS: dict[TimerKey, TimerHandler] = {
    "start": family.join,
    "joining": family.joining_is_late,
    "download": membership.download,
    "filters": membership.load_filters,
    "join-retry": membership.retry_join,
    "batch": membership.batch_is_due,
    "leave": membership.spread_leaves,
    "repair": membership.repair,
    "keepalive": family.keep_alive,
    "closing": family.round_is_open,
    "watchdog": family.father_is_silent,
    "handover": leaving.handover_is_over,
    "sizer": _evaluate,
    "slot": sizer.slot_is_due,
    "events": repair.repair_events,
    "order": recovery.ask_for_missing,
    "upload": shrinking.check_upload,
    "outbox": dissemination.flush_outbox,
}


class SuperNode:
    """One peer of a super-node overlay: a ``Machine``. Peers that share a ``home`` share their tables."""

    __slots__ = ("me", "state")

    def __init__(
        self,
        me: NodeId,
        settings: SuperNodeSettings | None = None,
        home: Home | None = None,
        size_of: Callable[[Any], int] | None = None,
    ) -> None:
        self.me = me
        settings = settings or SuperNodeSettings()
        home = home or Home(settings.max_log)
        self.state = State(me, settings, home, size_of or messages.sizer_of(settings))

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        state = self.state
        state.now, state.rng = now, rng
        out: Out = []
        if type(stimulus) is Received:
            message = stimulus.message
            if state.guard is not None:
                message = guard.admit(state, state.guard, stimulus.sender, message, out)
                if message is None:
                    return out
            handler = HANDLERS.get(type(message))
            if handler is None:
                raise SuperNodeError(f"{message!r} is no message of the super-node protocol")
            handler(state, stimulus.sender, message, out)
        elif type(stimulus) is TimerFired:
            TIMERS[stimulus.timer](state, out)
        elif type(stimulus) is SendFailed:
            handler = FAILURES.get(type(stimulus.message))
            if handler is not None:
                handler(state, stimulus.receiver, stimulus.message, out)
        else:
            self._on_rare(stimulus, out)
        if state.guard is not None:
            guard.note_questions(state.guard, now, out)
        return out

    def _on_rare(self, stimulus: Stimulus, out: Out) -> None:
        state = self.state
        match stimulus:
            case Asked(Publish(event)):
                dissemination.publish(state, event, out)
            case Asked(Subscribe(subscription)):
                _subscribe(state, subscription, out)
            case Asked(Unsubscribe(id)):
                _unsubscribe(state, id, out)
            case Asked(Leave()):
                leaving.leave(state, out)
            case Asked(request):
                raise SuperNodeError(f"{request!r} is no request to a super-node peer; see recado.protocols.pubsub")
            case Started():
                _start(state, stimulus, out)
            case LinkUp(peer):
                if not isinstance(peer, tuple):
                    add_seeds(state, (peer,))

    def inspect(self) -> dict[str, Any]:
        return _inspect(self.state)


def _start(state: State, stimulus: Started, out: Out) -> None:
    state.bootstrap = tuple(one for one in stimulus.neighbours if not isinstance(one, tuple))
    state.source, state.born = draw_key(state), state.now
    for key, value in stimulus.saved.items():
        kind, _, id = key.partition(":")
        if kind == "subscription":
            state.subscriptions[id] = Subscription(id, read_filter(value))
    state.started = True
    _set_filter(state)
    out.append(SetTimer("start", state.settings.start_after_seconds))


def _subscribe(state: State, subscription: Subscription, out: Out) -> None:
    id = check_id(subscription.id)
    if id in state.subscriptions:
        raise SuperNodeError(f"node {state.me!r} already has a subscription {id!r}")
    if len(state.subscriptions) >= state.settings.max_subscriptions:
        raise SuperNodeError(f"node {state.me!r} has {len(state.subscriptions):,} subscriptions, max_subscriptions")
    state.subscriptions[id] = subscription
    out.append(Persist(f"subscription:{id}", write_filter(subscription.whole_filter())))
    _change_filter(state, out)


def _unsubscribe(state: State, sub_id: str, out: Out) -> None:
    if sub_id not in state.subscriptions:
        raise SuperNodeError(f"node {state.me!r} has no subscription {sub_id!r}")
    del state.subscriptions[sub_id]
    out.append(Persist(f"subscription:{sub_id}", None))
    _change_filter(state, out)


def _set_filter(state: State) -> bool:
    """Work out the node's filter; True if it means something else now."""
    name = state.name
    state.filter = filter_of(state.subscriptions)
    state.name = name_of(state.filter)
    return state.name != name


def _change_filter(state: State, out: Out) -> None:
    """A node with another filter belongs elsewhere: it leaves, and joins again."""
    old = state.name, state.filter
    if not _set_filter(state) or (state.layer is None and state.child is None and state.joining is None):
        return
    if state.layer is not None and state.layer.active and len(state.layer.membership) == 1:
        membership.rename(state, state.layer, out)
        return
    if state.settings.graceful and leaving.move(state, *old, out):
        return
    membership.leave_layer(state, out)
    family.leave_family(state, out)
    set_role(state, "its filter changed", out)
    family.join(state, out)


# --- The state as plain data -----------------------------------------------------------------------------------------


def _inspect(state: State) -> dict[str, Any]:
    child, layer, events = state.child, state.layer, state.events
    known: dict[str, Any] = {
        "node": state.me,
        "role": state.role,
        "filter": state.filter,
        "subscriptions": {id: {"filter": write_filter(one.whole_filter())} for id, one in state.subscriptions.items()},
        "seeds": list(state.seeds),
        "dropped": dict(state.guard.dropped) if state.guard is not None else {},
        "events": {
            "delivered": state.delivered,
            "duplicates": state.duplicates,
            "late": state.late,
            "held": sum(len(flow.held) for flow in events.flows.values()) if events is not None else 0,
            "published": state.number,
            "waiting": len(state.outbox),
            "history": [list(one) for one in repair.recent(state, events)] if events is not None else [],
            "kept": len(events.bodies) if events is not None else 0,
        },
    }
    if child is not None:
        known["family"] = {
            "father": child.father,
            "brothers": child.brothers(state.me),
            "place": child.place,
            "children": list(state.brood.children) if state.brood is not None else [],
            "watchdog_expires": child.due,
        }
    if layer is not None:
        known["layer"] = _inspect_layer(state, layer)
    return known


def _inspect_layer(state: State, layer: Layer) -> dict[str, Any]:
    table = layer.membership
    known: dict[str, Any] = {
        "key": layer.key,
        "why": layer.why,
        "active": layer.active,
        "filters_loaded": layer.filters_loaded,
        "children": list(layer.children),
        "rounds": layer.round,
        "members": len(table),
        "same_filter": [one.endpoint for one in table.by_filter(state.filter)],
        "k_nodes": [one.endpoint for one in table.by_filter(state.filter) if one.endpoint in layer.children],
        "view": [list(pair) for pair in sorted(table.view.upto.items())],
        "view_beyond": [list(pair) for pair in sorted(table.view.beyond)],
        "leads": bool(table.keys) and membership.is_leader(state, layer),
        "pending_joins": len(layer.pending_joins),
        "pending_leaves": list(layer.pending_leaves),
        "suspects": list(layer.suspects),
        "upload_bytes": layer.up,
        "download_bytes": layer.down,
        "fanout": layer.fanout,
        "neighbours": list(layer.neighbours.values()),
    }
    if layer.sizer is not None:
        known["sizer"] = {
            "rate": layer.sizer.rate,
            "cap": layer.sizer.cap,
            "ready": layer.sizer.ready,
            "generated": layer.sizer.generated,
            "entries": layer.sizer.entries,
        }
    return known


def describe_role(state: Any) -> list[str]:
    """What a node is, in words."""
    layer, kin = state.get("layer") or {}, state.get("family") or {}
    match state.get("role"):
        case "super":
            entering = "" if layer.get("active") else ", entering"
            return [f"super node of {state['filter']}, {len(layer['children'])} children{entering}"]
        case "k":
            return [f"stand-by of {kin['father']} for {state['filter']}"]
        case "sub":
            return [f"child of {kin['father']}, {len(kin['brothers'])} brothers, for {state['filter']}"]
    return ["joining"]


def describe_sections(state: Any) -> dict[str, dict[str, Any]]:
    """Family, layer and sizer of a node, as far as it has them."""
    kin, layer = state.get("family") or {}, state.get("layer") or {}
    sections: dict[str, dict[str, Any]] = {}
    family = {"father": kin["father"], "brothers": kin["brothers"]} if kin else {}
    if layer:
        family["children"] = layer["children"]
    if family:
        sections["family"] = family
    if layer:
        sections["layer"] = {
            "members": layer["members"],
            "K nodes": layer["k_nodes"],
            "view": " ".join(f"{origin:x}:{number}" for origin, number in layer["view"] + layer["view_beyond"]),
            "identifier": f"{layer['key']:x}",
            "leads a slice": layer["leads"],
            "entered as": layer["why"],
        }
        sizer = layer.get("sizer")
        if sizer:
            sections["sizer"] = sizer
    return sections


ROLE_NAMES = {"super": "super node", "k": "stand-by", "sub": "child", "joining": "joining"}


def sketch(state: Any) -> Sketch:
    """A node in the family of its filter: below its father, if it has one."""
    father = (state.get("family") or {}).get("father")
    above = () if father is None else (str(father),)
    filter = state.get("filter")
    holds = {filter: above} if filter and state["role"] != "joining" else {}
    own = dict.fromkeys(state["subscriptions"], filter) if holds else {}
    return Sketch(ROLE_NAMES.get(state["role"], state["role"]), above, holds, own)


def is_joined(state: Any) -> bool:
    layer = state.get("layer")
    return state["role"] != "joining" and (layer is None or bool(layer["active"]))


def _make(settings: Any, topology: Any) -> Callable[[NodeId], SuperNode]:
    home, size_of = Home(settings.max_log), messages.sizer_of(settings)
    return lambda node: SuperNode(node, settings, home, size_of)


PROTOCOL = OverlayProtocol(
    name="super-nodes",
    make=_make,
    settings=SuperNodeSettings,
    messages=messages.MESSAGES,
    check=messages.check_message,
    common=COMMON,
    requests=(Subscribe, Unsubscribe, Publish, Leave),
    roles=describe_role,
    sections=describe_sections,
    sketch=sketch,
    traffic_class=messages.cause_of,
    joined=is_joined,
    reliable=False,
    contact="anyone",
    settle_seconds=120.0,
    size_of=messages.sizer_of,
)
"""The super-node protocol, for ``recado.protocols.registry``."""
