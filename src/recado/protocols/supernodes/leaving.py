"""Leaving and changing the filter in good order (setting ``graceful``); the document knows only silent departures.

- A super node that leaves promotes its first child at once, with all that it knows of the layer (``TakeOver``). It
  serves the family until that heir is a member. Members stay until they see their own departure spread; then the
  application is told that the node can go.
- A sub node tells its father, a stand-by tells the layer too.
- A node with another filter keeps its old place until it has the new one. A sub node stays in its father's list while
  it joins. A member finds out from its own table where it belongs: below a representative (``moving`` is "below"), or
  in the layer under a new identifier ("within"). Its family goes to an heir as when it leaves.

Without the setting, ``Leave`` is a departure without a word.
"""

from __future__ import annotations

from recado.protocols.machine import CancelTimer, Report, Send, SetTimer
from recado.protocols.pubsub import Left
from recado.protocols.supernodes import family, membership
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.messages import Below, Departures, Endpoints, NotYourChild, TakeOver, Took
from recado.protocols.supernodes.state import Handover, Joining, Layer, Out, State, add_seeds, pick, send, set_role


def leave(state: State, out: Out) -> None:
    """The application wants to leave."""
    if state.left:
        return
    state.left = True
    layer, child = state.layer, state.child
    if state.settings.graceful:
        if child is not None:
            out.append(Send(child.father, NotYourChild(), "a child that leaves"))
            _give_brood(state, child.father, out)
            state.child = None
            out.append(CancelTimer("watchdog"))
        if layer is not None and layer.children:
            hand_over(state, layer, state.name, state.filter, out)
            return
        if state.handover is not None:
            return
        if layer is not None and _announce_departure(state, layer, out):
            out.append(SetTimer("handover", state.settings.linger_seconds))
            return
    _depart(state, out)


def _give_brood(state: State, father: Endpoint, out: Out) -> None:
    """In a large family, the children of a sub node that goes belong to its father."""
    if state.brood is not None:
        for child in state.brood.children:
            out.append(Send(child, Below(father, state.name), "their father leaves, and his own takes them"))
        state.brood = None
        out.append(CancelTimer("keepalive"))


def _announce_departure(state: State, layer: Layer, out: Out) -> bool:
    """Tell the layer; the node stays until it sees that spread, so that nobody gives it work in vain."""
    contact = membership.random_member(state, layer) if layer.announced else None
    if contact is None or layer.membership.find(layer.key) is None:
        return False
    send(state, contact.endpoint, Departures((layer.key,)), "this member leaves", out)
    return True


def _depart(state: State, out: Out) -> None:
    """Nothing is left to be done."""
    if state.settings.graceful:
        membership.leave_layer(state, out)
    else:
        state.layer = None
    family.leave_family(state, out)
    for timer in ("handover", "events", "outbox", "start", "keepalive", "download", "repair", "batch", "join-retry"):
        out.append(CancelTimer(timer))
    set_role(state, "it leaves", out)
    out.append(Report(Left()))


# --- A family changes hands ------------------------------------------------------------------------------------------


def hand_over(state: State, layer: Layer, name: str, text: str, out: Out) -> None:
    """Give the family away: to the first child that can be reached."""
    children = tuple(layer.children)
    if state.settings.promotion_policy == "lifo":
        children = children[::-1]
    children = tuple(one for one in children if one not in layer.covered)
    layer.children, layer.covered, layer.rounds = {}, {}, False
    out.append(CancelTimer("keepalive"))
    state.handover = Handover(name, text, children)
    out.append(SetTimer("handover", state.settings.linger_seconds))
    _offer(state, layer, state.handover, out)


def _offer(state: State, layer: Layer, handover: Handover, out: Out) -> None:
    if not handover.children:
        handover_is_over(state, out)
        return
    handover.heir = handover.children[0]
    known = layer.membership if layer.endpoints_loaded else None
    offer = TakeOver(handover.name, handover.children, known)
    send(state, handover.heir, offer, "the father leaves, and his first child takes his place", out)


def take_over_failed(state: State, to: Endpoint, message: TakeOver, out: Out) -> None:
    """The next child, then."""
    layer, handover = state.layer, state.handover
    if handover is not None and layer is not None and handover.heir == to:
        handover.children = handover.children[1:]
        _offer(state, layer, handover, out)


def on_not_your_child(state: State, sender: Endpoint, message: NotYourChild, out: Out) -> None:
    handover = state.handover
    if handover is not None and state.layer is not None and sender in handover.children:
        handover.children = tuple(one for one in handover.children if one != sender)
        if handover.heir == sender:
            _offer(state, state.layer, handover, out)
    family.on_not_your_child(state, sender, message, out)


def on_take_over(state: State, sender: Endpoint, message: TakeOver, out: Out) -> None:
    child = state.child
    if child is None or child.father != sender or message.name != state.name or state.left:
        out.append(Send(sender, NotYourChild(), "this node has another place"))
        return
    family.take_seeds(state, child)
    child.chain = message.children
    stand_by = state.layer is not None and state.layer.active
    state.benefactor = None if stand_by else sender
    family.promote(state, child, out)
    layer = state.layer
    if stand_by:
        send(state, sender, Took(state.name), "a stand-by is a member already", out)
    elif layer is not None and not layer.endpoints_loaded and message.membership is not None:
        membership.on_endpoints(state, sender, Endpoints(message.membership), out)
    family.keep_alive(state, out)


def on_took(state: State, sender: Endpoint, message: Took, out: Out) -> None:
    handover = state.handover
    if handover is None or handover.heir != sender:
        return
    if not state.left or state.layer is None or not _announce_departure(state, state.layer, out):
        handover_is_over(state, out)


def handover_is_over(state: State, out: Out) -> None:
    """The heir is a member, or there is none, or it took too long."""
    if state.handover is None and not state.left:
        return
    state.handover = None
    out.append(CancelTimer("handover"))
    if state.left:
        _depart(state, out)
    elif state.child is not None or state.moving == "within":
        membership.settle(state, out)


# --- Another filter --------------------------------------------------------------------------------------------------


def move(state: State, name: str, text: str, out: Out) -> bool:
    """Begin to look for the place of the new filter, and keep the one of the old ``text`` until then.

    A node that is moving already keeps the place that it had first. False if it has none yet.
    """
    layer, child = state.layer, state.child
    if layer is not None and not layer.active:
        return False
    if layer is None and child is None and state.former is None:
        return False
    if child is not None and state.former is None:
        family.take_seeds(state, child)
        _give_brood(state, child.father, out)
        state.former, state.child = child, None
        out.append(CancelTimer("watchdog"))
    if layer is None:
        state.child = state.joining = None
        set_role(state, "its filter changed", out)
        family.join(state, out)
        return True
    state.moving, state.child = "below", None
    set_role(state, "its filter changed", out)
    if layer.children and state.handover is None:
        hand_over(state, layer, name, text, out)
    layer.children.clear()
    layer.pending_k.clear()
    add_seeds(state, membership.known_members(state))
    here = [one for one in layer.membership.by_filter(state.filter) if one.key not in layer.suspects]
    if not state.settings.families or not here:
        membership.move_within(state, layer, out)
    else:
        state.joining = Joining(state.now)
        family.ask_to_join(state, state.joining, pick(state.rng, here).endpoint, out)
    return True
