"""Families: one super node a filter, the others with an equal filter below it (2.5 to 2.9).

Joining by filter, the keep-alive that goes from child to child, the children's watchdogs, promotion, and K nodes. A
keep-alive that cannot be delivered comes back to its sender (``SendFailed``), with all that is needed to go on.
"""

from __future__ import annotations

from functools import lru_cache

from recado.protocols.baselines.algebra import name_of
from recado.protocols.machine import CancelTimer, Report, Send, SetTimer
from recado.protocols.supernodes import membership
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.messages import (
    FatherLost,
    FilterCheck,
    FilterReply,
    JoinNode,
    KNodeAccept,
    LiveNodes,
    NotYourChild,
    ParentNode,
    PromoteChild,
    Promoted,
    Promotion,
    SeedsWanted,
    SuperNodeAccept,
    TryAnother,
)
from recado.protocols.supernodes.state import Child, Joining, Layer, Out, State, add_seeds, pick, send, set_role

ANSWER_SECONDS = 10.0
"""How long a joiner waits for an answer."""

# --- Join by filter (2.5) --------------------------------------------------------------------------------------------


def join(state: State, out: Out) -> None:
    """Enter the system with the filter that the node has now."""
    if state.layer is not None or state.child is not None:
        return
    add_seeds(state, state.bootstrap)
    if not state.seeds:
        membership.found(state, "first", out)
    elif not state.settings.families:
        membership.enter(state, "first", out)
    else:
        state.joining = Joining(state.now)
        _ask_for_representative(state, state.joining, out)


def _ask_for_representative(state: State, joining: Joining, out: Out) -> None:
    """Ask a random super node that was not asked in vain."""
    seeds = [seed for seed in state.seeds if seed not in joining.tried]
    joining.representative = False
    if not seeds:
        joining.contact = None
        joining.tried.clear()
        if not state.seeds:
            add_seeds(state, state.bootstrap)
            out.append(Report(SeedsWanted()))
        out.append(SetTimer("joining", state.settings.redirect_wait_seconds))
        return
    joining.contact = pick(state.rng, seeds)
    out.append(Send(joining.contact, FilterCheck(state.filter), "is there a super node with this filter?"))
    out.append(SetTimer("joining", ANSWER_SECONDS))


def _ask_to_join(state: State, joining: Joining, representative: Endpoint, out: Out) -> None:
    joining.contact, joining.representative = representative, True
    out.append(Send(representative, JoinNode(state.name), "a joiner asks the representative of its filter"))
    out.append(SetTimer("joining", ANSWER_SECONDS))


def joining_is_late(state: State, out: Out) -> None:
    """No answer came, or it is time to try again."""
    joining = state.joining
    if joining is None:
        return
    if joining.contact is None:
        _ask_for_representative(state, joining, out)
    else:
        contact_failed(state, joining.contact, out)


def contact_failed(state: State, to: Endpoint, out: Out) -> None:
    """Who was asked by a joiner cannot be reached, or cannot help."""
    joining = state.joining
    if joining is None or joining.contact != to:
        return
    if not joining.representative:
        joining.tried[to] = None
        _ask_for_representative(state, joining, out)
    else:
        _restart(state, joining, out)


def _restart(state: State, joining: Joining, out: Out) -> None:
    """The representative does not answer: begin again, wait for a stand-by, or enter the layer (R8, R9)."""
    settings = state.settings
    joining.redirects = 0
    joining.restarts += 1
    if joining.redirected:
        if state.now - joining.since < settings.redirect_patience_seconds:
            joining.contact = None
            out.append(SetTimer("joining", settings.redirect_wait_seconds))
            return
    elif settings.failed_join == "restart" and joining.restarts <= settings.join_restarts:
        _ask_for_representative(state, joining, out)
        return
    _enter_layer(state, "first", out)


def _enter_layer(state: State, why: str, out: Out) -> None:
    state.joining = None
    out.append(CancelTimer("joining"))
    membership.enter(state, why, out)


def on_filter_check(state: State, sender: Endpoint, message: FilterCheck, out: Out) -> None:
    layer = state.layer
    if layer is None or not (layer.active and layer.filters_loaded):
        send(state, sender, TryAnother(membership.known_members(state)), "only an old super node can tell (R39)", out)
        return
    known = [one for one in layer.membership.by_filter(message.filter) if one.key not in layer.suspects]
    endpoint = pick(state.rng, known).endpoint if known else None
    send(state, sender, FilterReply(name_of(message.filter), endpoint), "who represents the filter", out)


def on_filter_reply(state: State, sender: Endpoint, message: FilterReply, out: Out) -> None:
    joining = state.joining
    if joining is None or joining.contact != sender or joining.representative or message.name != state.name:
        return
    if message.endpoint is None or message.endpoint == state.me:
        _enter_layer(state, "first", out)
    else:
        _ask_to_join(state, joining, message.endpoint, out)


def on_try_another(state: State, sender: Endpoint, message: TryAnother, out: Out) -> None:
    joining = state.joining
    if joining is not None:
        if joining.contact == sender:
            add_seeds(state, message.seeds)
            contact_failed(state, sender, out)
    else:
        membership.refused(state, sender, message, out)


def on_join_node(state: State, sender: Endpoint, message: JoinNode, out: Out) -> None:
    layer, settings = state.layer, state.settings
    if message.name != state.name or (layer is None and state.child is None):
        send(state, sender, TryAnother(), "this node has another filter", out)
    elif state.child is not None:
        send(state, sender, ParentNode(state.child.father, state.name), "a K node has a father itself", out)
    elif layer is not None:
        if sender not in layer.children and len(layer.children) >= settings.max_children:
            send(state, sender, TryAnother(), "this family is full", out)
            return
        layer.children.setdefault(sender, layer.round)
        seeds = membership.known_members(state)
        if count_super_nodes(state, layer) >= settings.k:
            send(state, sender, SuperNodeAccept(state.name, seeds), "a new child", out)
        else:
            layer.pending_k[sender] = None
            send(state, sender, KNodeAccept(state.name, seeds), "the filter has less than K super nodes", out)
        keep_alive(state, out)


def count_super_nodes(state: State, layer: Layer) -> int:
    """The known super nodes of the own filter, with this one and those that were told to become one (R24)."""
    if state.settings.k == 1:
        return 1
    known = {one.endpoint for one in layer.membership.by_filter(state.filter) if one.key not in layer.suspects}
    known.add(state.me)
    for child in [child for child in layer.pending_k if child in known or child not in layer.children]:
        del layer.pending_k[child]
    return len(known) + len(layer.pending_k)


def on_accept(state: State, sender: Endpoint, message: SuperNodeAccept | KNodeAccept, out: Out) -> None:
    joining = state.joining
    if message.name != state.name:
        return
    add_seeds(state, message.seeds)
    if joining is not None and joining.contact == sender and joining.representative:
        _become_child(state, sender, "accepted by a super node", out)
    child = state.child
    if type(message) is KNodeAccept and child is not None and child.father == sender and state.layer is None:
        membership.enter(state, "k", out)


def _become_child(state: State, father: Endpoint, why: str, out: Out) -> None:
    state.joining = None
    out.append(CancelTimer("joining"))
    state.child = Child(father, state.now)
    set_role(state, why, out)
    _arm(state, state.child, state.settings.keepalive_seconds, out)


def on_parent_node(state: State, sender: Endpoint, message: ParentNode, out: Out) -> None:
    joining = state.joining
    if joining is None or joining.contact != sender or not joining.representative:
        return
    joining.redirected = True
    joining.redirects += 1
    if message.father == state.me or joining.redirects > state.settings.redirects:
        _restart(state, joining, out)
    else:
        _ask_to_join(state, joining, message.father, out)


# --- The keep-alive (2.7) --------------------------------------------------------------------------------------------


def keep_alive(state: State, out: Out) -> None:
    """A round begins: now, because it is due or a child came."""
    layer = state.layer
    if layer is None:
        return
    if not layer.children:
        _stop_rounds(layer, out)
        return
    layer.round += 1
    layer.rounds = True
    children = tuple(layer.children)
    if state.settings.promotion_policy == "lifo":
        children = children[::-1]
    chain = Promotion(state.me, state.name, layer.round, children, membership.known_members(state))
    out.append(Send(children[0], chain, "a father tells his children that he lives"))
    out.append(SetTimer("keepalive", state.settings.keepalive_seconds))


def _stop_rounds(layer: Layer, out: Out) -> None:
    if layer.rounds:
        layer.rounds = False
        out.append(CancelTimer("keepalive"))


def on_promotion(state: State, sender: Endpoint, message: Promotion, out: Out) -> None:
    child, joining = state.child, state.joining
    if joining is not None:
        waited = joining.representative and joining.contact == message.father
        if waited and message.name == state.name:
            _become_child(state, message.father, "named in a keep-alive", out)  # it has overtaken the answer
            child = state.child
    children = message.children
    try:
        place = children.index(state.me)
    except ValueError:
        return
    if child is None or child.father != message.father:
        out.append(Send(message.father, NotYourChild(), "this node has no father, or another one"))
        rest = children[:place] + children[place + 1 :]
        _pass_on(state, Promotion(message.father, message.name, message.round, rest, message.seeds), place, out)
        return
    child.chain, child.seeds = children, message.seeds
    if child.regular and place == child.place:
        child.heard = state.now
        out.append(child.watchdog)
    else:
        child.place = place
        _arm(state, child, 0.0, out)
    if place + 1 < len(children):
        out.append(Send(children[place + 1], message, "the keep-alive goes on to the next brother"))
    else:
        _close_round(state, message, out)


def _pass_on(state: State, message: Promotion, place: int, out: Out) -> None:
    """To the child at this place, or back to the father at the end of the chain."""
    children = message.children
    if place < len(children):
        out.append(Send(children[place], message, "the keep-alive goes on to the next brother"))
    else:
        _close_round(state, message, out)


def _close_round(state: State, message: Promotion, out: Out) -> None:
    if message.father != state.me:
        live = LiveNodes(message.round, message.children)
        out.append(Send(message.father, live, "the last child tells who was reached"))


def promotion_failed(state: State, to: Endpoint, message: Promotion, out: Out) -> None:
    """Leave out the child that could not be reached, and go on with the next one."""
    place = message.children.index(to)
    rest = message.children[:place] + message.children[place + 1 :]
    layer, child = state.layer, state.child
    if message.father == state.me:
        if layer is not None:
            layer.children.pop(to, None)
            if not layer.children:
                _stop_rounds(layer, out)
        if not rest:
            return
    elif child is not None and child.father == message.father:
        child.chain = rest
    _pass_on(state, Promotion(message.father, message.name, message.round, rest, message.seeds), place, out)


def on_live_nodes(state: State, sender: Endpoint, message: LiveNodes, out: Out) -> None:
    """Children that were not reached are gone; those that came after the round began are not meant (R12)."""
    layer = state.layer
    if layer is None:
        return
    if tuple(layer.children) == message.children:
        return
    reached = set(message.children)
    if len(reached) >= len(layer.children) and all(child in reached for child in layer.children):
        return
    for child, since in list(layer.children.items()):
        if since < message.round and child not in reached:
            del layer.children[child]
    if not layer.children:
        _stop_rounds(layer, out)


def on_not_your_child(state: State, sender: Endpoint, message: NotYourChild, out: Out) -> None:
    layer = state.layer
    if layer is not None and layer.children.pop(sender, None) is not None and not layer.children:
        _stop_rounds(layer, out)


# --- Watchdog and promotion (2.8, 2.9) -------------------------------------------------------------------------------


def _arm(state: State, child: Child, extra: float, out: Out) -> None:
    """The first child of the list expires first; the others a little later, one by one (R5)."""
    settings = state.settings
    period = settings.keepalive_seconds
    wait = extra + period + settings.watchdog_grace_seconds + child.place * settings.eta_step_seconds
    if settings.watchdog == "period" and child.chain:
        late = (state.now - child.since) % period
        wait -= late
    child.heard, child.watchdog = state.now, _watchdog(wait)
    child.regular = not extra and settings.watchdog == "receipt"
    out.append(child.watchdog)


@lru_cache(1 << 10)
def _watchdog(wait: float) -> SetTimer:
    """Effects are values: all children at the same place of their families may have one."""
    return SetTimer("watchdog", wait)


def _take_seeds(state: State, child: Child) -> None:
    """Those of the last keep-alive are alive; what the node knew when it joined is old."""
    if child.seeds:
        state.seeds = dict.fromkeys(child.seeds)


def father_is_silent(state: State, out: Out) -> None:
    """The watchdog expired: the father is taken for gone."""
    child = state.child
    if child is None:
        return
    _take_seeds(state, child)
    if state.settings.recheck_on_promotion and state.layer is None and state.seeds:
        state.child = None  # R29: perhaps there is another super node; if not, the join ends in the layer
        state.joining = Joining(state.now)
        set_role(state, "its father is silent", out)
        _ask_for_representative(state, state.joining, out)
        return
    promote(state, child, out)


def promote(state: State, child: Child, out: Out) -> None:
    """Take the father's place: warn the brothers, inherit them, enter the layer."""
    brothers = child.brothers(state.me)
    for brother in brothers:
        out.append(Send(brother, Promoted(state.name), "the father is silent, and this child takes its place"))
    out.append(Report(FatherLost(child.father, state.layer is not None and state.layer.active)))
    state.child = None
    out.append(CancelTimer("watchdog"))
    if state.layer is None:
        membership.enter(state, "promoted", out)
    else:
        set_role(state, "promoted", out)
    layer = state.layer
    if layer is not None and brothers:
        layer.children = dict.fromkeys(brothers, 0)
        layer.rounds = True
        out.append(SetTimer("keepalive", state.settings.keepalive_seconds))


def promoted_failed(state: State, to: Endpoint, message: Promoted, out: Out) -> None:
    layer = state.layer
    if layer is not None and layer.children.pop(to, None) is not None and not layer.children:
        _stop_rounds(layer, out)


def on_promoted(state: State, sender: Endpoint, message: Promoted, out: Out) -> None:
    child = state.child
    if child is None or message.name != state.name or sender == state.me:
        return
    child.father = sender
    child.chain = tuple(one for one in child.chain if one != sender)
    child.place = child.chain.index(state.me) if state.me in child.chain else 0
    child.since = state.now
    _arm(state, child, 0.0, out)


def on_promote_child(state: State, sender: Endpoint, message: PromoteChild, out: Out) -> None:
    """A slot of the sizer: enter the layer without brothers."""
    child = state.child
    if child is None or child.father != sender:
        return
    _take_seeds(state, child)
    state.child = None
    out.append(CancelTimer("watchdog"))
    if state.layer is None:
        membership.enter(state, "budget", out)
    else:
        set_role(state, "budget", out)


def leave_family(state: State, out: Out) -> None:
    """Forget father and brothers; the next keep-alive tells the father."""
    if state.child is not None:
        _take_seeds(state, state.child)
    state.joining = state.child = None
    out.append(CancelTimer("watchdog"))
    out.append(CancelTimer("joining"))
