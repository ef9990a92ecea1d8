"""Families: one super node a filter, the others with an equal filter below it (2.5 to 2.9).

Joining by filter, the keep-alive that goes from child to child, the children's watchdogs, promotion, and K nodes. A
keep-alive that cannot be delivered comes back to its sender (``SendFailed``), with all that is needed to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from recado.protocols.algebra import covers, name_of
from recado.protocols.machine import CancelTimer, Report, Send, SetTimer
from recado.protocols.supernodes import enquiry, membership
from recado.protocols.supernodes.members import Endpoint, Member
from recado.protocols.supernodes.messages import (
    Below,
    BrotherGone,
    FatherLost,
    FilterCheck,
    FilterReply,
    JoinNode,
    KeepAlive,
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
from recado.protocols.supernodes.state import (
    NO_FILTER,
    Brood,
    Child,
    Joining,
    Layer,
    Out,
    State,
    add_seeds,
    household,
    pick,
    send,
    set_role,
)

MOST_STEPS = 24
"""Down a large family, until a joiner begins again."""

CLOSING_SHARE = 0.75
"""Of the watchdog's grace. If a keep-alive has not come back by then, nobody has lost patience yet."""

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
        joining.vain += 1
        if not state.seeds or joining.vain > 1:  # perhaps they are no members any more, and know only each other
            add_seeds(state, state.bootstrap)
            out.append(Report(SeedsWanted()))
        out.append(SetTimer("joining", state.settings.redirect_wait_seconds))
        return
    joining.contact = pick(state.rng, seeds)
    out.append(Send(joining.contact, FilterCheck(state.filter), "is there a super node with this filter?"))
    out.append(SetTimer("joining", ANSWER_SECONDS))


def ask_to_join(state: State, joining: Joining, representative: Endpoint, out: Out) -> None:
    joining.contact, joining.representative = representative, True
    question = JoinNode(state.name, state.filter if joining.covered else "")
    out.append(Send(representative, question, "a joiner asks the representative of its filter"))
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
    if state.child is not None:  # it was to move, and has a place
        state.joining = None
        out.append(CancelTimer("joining"))
        return
    joining.redirects = joining.steps = 0
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
    layer = state.layer
    member = layer.membership.find(layer.key) if layer is not None else None
    if layer is not None and member is not None and name_of(member.filter) == state.name:
        state.joining, state.moving = None, ""  # it was to become a child, and nobody took it
        out.append(CancelTimer("joining"))
        return
    if state.layer is not None:  # a member that changes its filter
        membership.move_within(state, state.layer, out)
        return
    state.joining = None
    out.append(CancelTimer("joining"))
    membership.enter(state, why, out)
    _adopt_brood(state, out)


def on_filter_check(state: State, sender: Endpoint, message: FilterCheck, out: Out) -> None:
    layer = state.layer
    if layer is None or not (layer.active and layer.filters_loaded):
        send(state, sender, TryAnother(membership.known_members(state)), "only an old super node can tell (R39)", out)
        return
    known = [one for one in layer.membership.by_filter(message.filter) if one.key not in layer.suspects]
    endpoint, name = pick(state.rng, known).endpoint if known else None, name_of(message.filter)
    if endpoint is None and state.settings.covering:
        cover = find_cover(state, layer, message.filter)
        if cover is not None and cover.endpoint != sender:
            send(state, sender, FilterReply(name, cover.endpoint, True), "who has a filter that covers it", out)
            return
    send(state, sender, FilterReply(name, endpoint), "who represents the filter", out)


def on_filter_reply(state: State, sender: Endpoint, message: FilterReply, out: Out) -> None:
    joining = state.joining
    if joining is None or joining.contact != sender or joining.representative or message.name != state.name:
        return
    if message.endpoint is None or message.endpoint == state.me:
        _enter_layer(state, "first", out)
    else:
        joining.covered = message.covering
        ask_to_join(state, joining, message.endpoint, out)


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
    handover = state.handover
    if handover is not None and message.name == handover.name and handover.heir is not None:
        send(state, sender, ParentNode(handover.heir, message.name), "another has this family now", out)
    elif state.moving == "below" and state.child is None:
        send(state, sender, TryAnother(), "this node looks for a father itself", out)
    elif message.filter and message.name != state.name:
        take_covered(state, sender, message, out)
    elif message.name != state.name or (layer is None and state.child is None):
        send(state, sender, TryAnother(), "this node has another filter", out)
    elif state.child is not None and layer is None and settings.family_most:
        brood = state.brood = state.brood or Brood()
        if not take_child(state, brood, sender, message.name, out):
            brood.children.setdefault(sender, brood.round)
            send(state, sender, SuperNodeAccept(state.name, membership.known_members(state)), "a new child", out)
            keep_alive(state, out)
    elif state.child is not None:
        send(state, sender, ParentNode(state.child.father, state.name), "a K node has a father itself", out)
    elif layer is not None:
        if sender not in layer.children and len(layer.children) >= settings.max_children:
            send(state, sender, TryAnother(), "this family is full", out)
            return
        if take_child(state, layer, sender, message.name, out):
            return
        layer.children.setdefault(sender, layer.round)
        seeds = membership.known_members(state)
        few = enquiry.choose_contacts(state, layer, sender) if settings.brothers == "enquiry" else ()
        if count_super_nodes(state, layer) >= settings.k:
            send(state, sender, SuperNodeAccept(state.name, seeds, few), "a new child", out)
        else:
            layer.pending_k[sender] = None
            send(state, sender, KNodeAccept(state.name, seeds, few), "the filter has less than K super nodes", out)
        if settings.brothers == "chain":
            keep_alive(state, out)
        elif not layer.rounds:
            layer.rounds = True
            out.append(SetTimer("keepalive", settings.keepalive_seconds))


def find_cover(state: State, layer: Layer, text: str) -> Member | None:
    """The member with the narrowest filter that covers another one."""
    return narrowest_cover([one for one in layer.membership.members if one.key not in layer.suspects], text)


def narrowest_cover(members: Sequence[Member], text: str) -> Member | None:
    best: Member | None = None
    for member in members:
        if (best is None or covers(best.filter, member.filter)) and covers(member.filter, text):
            best = member
    return best


def take_covered(state: State, sender: Endpoint, message: JoinNode, out: Out) -> None:
    """A joiner, or a child that this node inherited, with a filter that this node's covers."""
    layer, child = state.layer, state.child
    fits = name_of(message.filter) == message.name and covers(state.filter, message.filter)
    if not state.settings.covering or not fits or (layer is None and child is None):
        send(state, sender, TryAnother(), "this node's filter does not cover that", out)
    elif child is not None:
        send(state, sender, ParentNode(child.father, message.name), "this node has a father itself", out)
    elif layer is not None and (sender in layer.children or len(layer.children) < state.settings.max_children):
        layer.children.setdefault(sender, layer.round)
        layer.covered[sender] = message.filter
        seeds = membership.known_members(state)
        send(state, sender, SuperNodeAccept(message.name, seeds), "a new child, with a filter of its own", out)
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
    if state.settings.brothers == "enquiry" and child is not None and child.father == sender:
        enquiry.begin(state, child, message.brothers, out)
    if state.brood is not None and state.brood.children:
        return  # who has children is no stand-by
    if type(message) is KNodeAccept and child is not None and child.father == sender and state.layer is None:
        membership.enter(state, "k", out)


def _become_child(state: State, father: Endpoint, why: str, out: Out) -> None:
    covered = state.joining is not None and state.joining.covered
    state.joining = None
    out.append(CancelTimer("joining"))
    if state.child is not None and state.child.father != father:
        out.append(Send(state.child.father, NotYourChild(), "a child that has another father now"))
    state.child = Child(father, state.now)
    state.child.covered = covered
    set_role(state, why, out)
    _arm(state, state.child, state.settings.keepalive_seconds, out)
    membership.settle(state, out)


def on_parent_node(state: State, sender: Endpoint, message: ParentNode, out: Out) -> None:
    joining = state.joining
    if joining is None or joining.contact != sender or not joining.representative:
        return
    joining.redirected = True
    joining.redirects += 1
    if message.father == state.me or joining.redirects > state.settings.redirects:
        _restart(state, joining, out)
    else:
        ask_to_join(state, joining, message.father, out)


# --- The keep-alive (2.7) --------------------------------------------------------------------------------------------


def _in_order(state: State, home: Layer | Brood) -> tuple[Endpoint, ...]:
    """The children as the keep-alive goes through them: those with filters of their own are the last."""
    children = tuple(home.children)
    if state.settings.promotion_policy == "lifo":
        children = children[::-1]
    if state.layer is None or not state.layer.covered:
        return children
    covered = state.layer.covered
    return (*(one for one in children if one not in covered), *(one for one in children if one in covered))


def keep_alive(state: State, out: Out) -> None:
    """A round begins: now, because it is due or a child came."""
    home = household(state)
    if home is None:
        return
    if not home.children:
        _stop_rounds(home, out)
        return
    home.round += 1
    home.rounds = True
    if state.settings.brothers == "enquiry":
        _begin_chain(state, home, out)
        out.append(SetTimer("keepalive", state.settings.keepalive_seconds))
        return
    above = state.child.father if state.child is not None else None
    covered = 0
    if state.layer is not None and state.layer.covered:
        layer = state.layer
        layer.covered = {one: layer.covered[one] for one in layer.children if one in layer.covered}
        covered = len(layer.covered)
    children = _in_order(state, home)
    seeds = membership.known_members(state)
    chain = Promotion(state.me, state.name, home.round, children, seeds, above, covered)
    out.append(Send(children[0], chain, "a father tells his children that he lives"))
    if state.settings.guard:
        out.append(SetTimer("closing", CLOSING_SHARE * state.settings.watchdog_grace_seconds))
    send_down(state, out)
    out.append(SetTimer("keepalive", state.settings.keepalive_seconds))


def round_is_open(state: State, out: Out) -> None:
    """The keep-alive has not come back (``guard``); perhaps a child keeps it to itself. The father tells them all."""
    home = household(state)
    if home is None or home.closed >= home.round or not home.children:
        return
    covered = sum(one in state.layer.covered for one in home.children) if state.layer is not None else 0
    above = state.child.father if state.child is not None else None
    children = _in_order(state, home)
    seeds = membership.known_members(state)
    message = Promotion(state.me, state.name, home.round, children, seeds, above, covered, direct=True)
    for child in children[1:]:
        out.append(Send(child, message, "the keep-alive did not come back"))


def _stop_rounds(home: Layer | Brood, out: Out) -> None:
    if home.rounds:
        home.rounds = False
        out.append(CancelTimer("keepalive"))


def on_promotion(state: State, sender: Endpoint, message: Promotion, out: Out) -> None:
    child, joining, former = state.child, state.joining, state.former
    if joining is not None:
        waited = joining.representative and joining.contact == message.father
        if waited and (message.name == state.name or joining.covered):
            _become_child(state, message.father, "named in a keep-alive", out)  # it has overtaken the answer
            child = state.child
    children = message.children
    try:
        place = children.index(state.me)
    except ValueError:
        return
    if message.direct and sender != message.father:
        return
    if former is not None and former.father == message.father:
        former.chain = children
        _pass_on(state, message, place + 1, out)
        return
    if child is None or child.father != message.father:
        out.append(Send(message.father, NotYourChild(), "this node has no father, or another one"))
        _pass_on(state, without(message, place), place, out)
        return
    child.chain, child.seeds, child.above, child.tail = children, message.seeds, message.above, message.covered
    if child.regular and place == child.place:
        child.heard = state.now
        out.append(child.watchdog)
    else:
        child.place = place
        _arm(state, child, 0.0, out)
    if message.direct:
        return
    if place + 1 < len(children):
        out.append(Send(children[place + 1], message, "the keep-alive goes on to the next brother"))
    else:
        _close_round(state, message, out)


def _pass_on(state: State, message: Promotion, place: int, out: Out) -> None:
    """To the child at this place, or back to the father at the end of the chain."""
    children = message.children
    if message.direct:
        return
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
    onward = without(message, place)
    rest = onward.children
    home, child = household(state), state.child
    if message.father == state.me:
        if home is not None:
            home.children.pop(to, None)
            if not home.children:
                _stop_rounds(home, out)
        if not rest:
            return
    elif child is not None and child.father == message.father:
        child.chain, child.tail = rest, onward.covered
    _pass_on(state, onward, place, out)


def without(message: Promotion, place: int) -> Promotion:
    """The keep-alive without the child at this place."""
    children = message.children
    covered = message.covered - (place >= len(children) - message.covered)
    return msgspec.structs.replace(message, children=children[:place] + children[place + 1 :], covered=covered)


def on_live_nodes(state: State, sender: Endpoint, message: LiveNodes, out: Out) -> None:
    """Children that were not reached are gone; those that came after the round began are not meant (R12)."""
    home = household(state)
    if home is None:
        return
    home.closed = max(home.closed, min(message.round, home.round))
    if tuple(home.children) == message.children:
        return
    reached = set(message.children)
    if len(reached) >= len(home.children) and all(child in reached for child in home.children):
        return
    for child, since in list(home.children.items()):
        if since < message.round and child not in reached:
            if state.settings.guard:  # perhaps the last child lies: see whether it can be reached
                probe = Promotion(state.me, state.name, home.round, (child,), membership.known_members(state))
                out.append(Send(child, probe, "is this child there?"))
            else:
                del home.children[child]
    if not home.children:
        _stop_rounds(home, out)


def on_not_your_child(state: State, sender: Endpoint, message: NotYourChild, out: Out) -> None:
    home = household(state)
    if home is not None and home.children.pop(sender, None) is not None and not home.children:
        _stop_rounds(home, out)


# --- The keep-alive without a list (A1; see ``enquiry``) -------------------------------------------------------------


def _begin_chain(state: State, home: Layer | Brood, out: Out) -> None:
    """To the first child. Who has had this round does not pass it on again."""
    if home.children:
        children = list(home.children)
        first = children[-1] if state.settings.promotion_policy == "lifo" else children[0]
        message = KeepAlive(state.me, home.round, membership.known_members(state))
        out.append(Send(first, message, "a father tells his children that he lives"))


def on_keep_alive(state: State, sender: Endpoint, message: KeepAlive, out: Out) -> None:
    joining = state.joining
    if joining is not None and joining.representative and joining.contact == message.father:
        _become_child(state, message.father, "reached by a keep-alive", out)  # it has overtaken the answer
    child = state.child
    if child is None or child.father != message.father:
        out.append(Send(sender, BrotherGone(message.father), "this node has another father, or none"))
        return
    if message.round <= child.round:
        return
    child.round, child.seeds = message.round, message.seeds
    enquiry.add(state, child, state.me)
    child.place = child.chain.index(state.me)
    _arm(state, child, 0.0, out)
    _continue_chain(state, child, out)


def _continue_chain(state: State, child: Child, out: Out) -> None:
    following = next_brother(state, child)
    if following is not None:
        message = KeepAlive(child.father, child.round, child.seeds)
        out.append(Send(following, message, "the keep-alive goes on to the next brother"))


def next_brother(state: State, child: Child) -> Endpoint | None:
    """Who comes after this node in its own list."""
    if state.me not in child.chain:
        return None
    place = child.chain.index(state.me) + 1
    return child.chain[place] if place < len(child.chain) else None


def keep_alive_failed(state: State, to: Endpoint, message: KeepAlive, out: Out) -> None:
    """Tell the family that this one is gone, and go on with the next one."""
    home, child = household(state), state.child
    if home is not None and message.father == state.me:
        enquiry.note_departure(state, to, out)
        if message.round == home.round:
            _begin_chain(state, home, out)
    elif child is not None and child.father == message.father:
        enquiry.note_departure(state, to, out)
        if message.round == child.round:
            _continue_chain(state, child, out)


def on_brother_gone(state: State, sender: Endpoint, message: BrotherGone, out: Out) -> None:
    """Somebody tells of another; or who was sent a keep-alive or asked is not one of the family, and says so."""
    home, child = household(state), state.child
    if message.brother is not None:
        if home is not None and message.father == state.me:
            home.children.pop(message.brother, None)
        elif child is not None and child.father == message.father:
            enquiry.forget(state, child, message.brother)
    elif home is not None and message.father == state.me:
        if sender in home.children:
            enquiry.note_departure(state, sender, out)
            _begin_chain(state, home, out)
    elif child is not None and child.father == message.father:
        was_next = child.round and next_brother(state, child) == sender
        enquiry.note_departure(state, sender, out)
        if was_next:
            _continue_chain(state, child, out)


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


def take_seeds(state: State, child: Child) -> None:
    """Those of the last keep-alive are alive; what the node knew when it joined is old."""
    seeds = [one for one in child.seeds if one != state.me]
    if seeds:
        state.seeds = dict.fromkeys(seeds)


def father_is_silent(state: State, out: Out) -> None:
    """The watchdog expired: the father is taken for gone."""
    child = state.child
    if child is None:
        return
    take_seeds(state, child)
    if child.above is not None and state.layer is None:
        climb(state, child, child.above, out)
        return
    if (state.settings.recheck_on_promotion or child.covered) and state.layer is None and state.seeds:
        state.child = None  # R29: perhaps there is another super node; if not, the join ends in the layer
        state.joining = Joining(state.now)
        set_role(state, "its father is silent", out)
        _ask_for_representative(state, state.joining, out)
        return
    promote(state, child, out)


def promote(state: State, child: Child, out: Out) -> None:
    """Take the father's place: warn the brothers, inherit them, enter the layer."""
    if state.moving:
        membership.leave_layer(state, out)
    brothers = child.brothers(state.me) if not child.covered else []
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
        if child.tail and not child.covered:  # they will say what they want
            layer.covered = dict.fromkeys((one for one in child.chain[-child.tail :] if one != state.me), NO_FILTER)
        layer.rounds = True
        out.append(SetTimer("keepalive", state.settings.keepalive_seconds))
    _adopt_brood(state, out)


def _adopt_brood(state: State, out: Out) -> None:
    """A sub node that becomes a super node keeps its own children."""
    brood, layer = state.brood, state.layer
    state.brood = None
    if brood is not None and layer is not None and brood.children:
        layer.children |= dict.fromkeys((one for one in brood.children if one not in layer.children), 0)
        layer.rounds = True
        out.append(SetTimer("keepalive", state.settings.keepalive_seconds))


def climb(state: State, child: Child, above: Endpoint, out: Out) -> None:
    """In a large family the father's place is below his own father: take it, with the brothers."""
    brothers = child.brothers(state.me)
    for brother in brothers:
        out.append(Send(brother, Promoted(state.name), "the father is silent, and this child takes its place"))
    brood = state.brood = state.brood or Brood()
    brood.children |= dict.fromkeys((one for one in brothers if one not in brood.children), 0)
    state.child = None
    out.append(CancelTimer("watchdog"))
    set_role(state, "its father is silent", out)
    state.joining = Joining(state.now)
    ask_to_join(state, state.joining, above, out)
    keep_alive(state, out)


def on_below(state: State, sender: Endpoint, message: Below, out: Out) -> None:
    """Go down one step; a father may send a child down that he has."""
    joining, child = state.joining, state.child
    home = household(state)
    if message.name != state.name or message.head == state.me or (home is not None and message.head in home.children):
        return
    if joining is not None and joining.contact == sender and joining.representative:
        joining.steps += 1
        if joining.steps > MOST_STEPS:
            _restart(state, joining, out)
        else:
            ask_to_join(state, joining, message.head, out)
    elif joining is None and child is not None and child.father == sender and state.layer is None:
        state.joining = Joining(state.now)
        ask_to_join(state, state.joining, message.head, out)


def take_child(state: State, home: Layer | Brood, sender: Endpoint, name: str, out: Out) -> bool:
    """In a large family: take a child, or name the one below whom it should be. True if it was named."""
    most = state.settings.family_most
    if not most or sender in home.children or len(home.children) < most:
        return False
    stand_bys = {one.endpoint for one in state.layer.membership.by_filter(state.filter)} if state.layer else set()
    heads = [one for one in home.children if one not in stand_bys][: 2 * most]
    if not heads:
        return False
    send(state, sender, Below(pick(state.rng, heads), name), "this node has enough children", out)
    return True


def send_down(state: State, out: Out) -> None:
    """A family that was inherited may have too many children: the latest go below the others."""
    home, most = household(state), state.settings.family_most
    if home is None or not most or len(home.children) <= 2 * most:
        return
    children = list(home.children)
    stand_bys = {one.endpoint for one in state.layer.membership.by_filter(state.filter)} if state.layer else set()
    heads = [one for one in children[:most] if one not in stand_bys]
    for child in children[2 * most : 3 * most]:
        if heads and child not in stand_bys:
            send(state, child, Below(pick(state.rng, heads), state.name), "this node has too many children", out)


def promoted_failed(state: State, to: Endpoint, message: Promoted, out: Out) -> None:
    enquiry.note_departure(state, to, out)
    home = household(state)
    if home is not None and home.children.pop(to, None) is not None and not home.children:
        _stop_rounds(home, out)


def on_promoted(state: State, sender: Endpoint, message: Promoted, out: Out) -> None:
    child, former = state.child, state.former
    if former is not None and sender in former.chain:
        former.father = sender
        return
    if child is None or sender == state.me:
        return
    if child.covered and sender in child.chain[: len(child.chain) - child.tail]:
        out.append(Send(sender, JoinNode(state.name, state.filter), "a covered child tells its new father its filter"))
    elif message.name != state.name or child.covered:
        return
    child.father, child.round = sender, 0
    child.chain = tuple(one for one in child.chain if one != sender)
    child.place = child.chain.index(state.me) if state.me in child.chain else 0
    child.since = state.now
    _arm(state, child, 0.0, out)


def on_promote_child(state: State, sender: Endpoint, message: PromoteChild, out: Out) -> None:
    """A slot of the sizer: enter the layer without brothers."""
    child = state.child
    if child is None or child.father != sender:
        return
    take_seeds(state, child)
    state.child = None
    out.append(CancelTimer("watchdog"))
    if state.layer is None:
        membership.enter(state, "budget", out)
    else:
        set_role(state, "budget", out)
    _adopt_brood(state, out)


def leave_family(state: State, out: Out) -> None:
    """Forget father and brothers; the next keep-alive tells the father."""
    if state.child is not None:
        take_seeds(state, state.child)
    if state.brood is not None:
        _stop_rounds(state.brood, out)
    state.joining = state.child = state.former = state.brood = None
    out.append(CancelTimer("watchdog"))
    out.append(CancelTimer("joining"))
