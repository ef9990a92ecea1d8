"""Attraction: links that bring those who share an interest close to each other. Off unless ``attract`` is set.

The tree document leaves it for the future (section 7.2.1) and gives the idea: virtual magnetic fields, in which a
publisher attracts its subscribers, with a force that grows with the levels of the trees that it covers. Here the force
on a subscriber is the number of hops that a new link would save it:

1. A subscriber whose tree is built sends SEEK along it, to all publishers.
2. A publisher that has room for another link says so (OFFER). One that has none passes the message on to those who are
   attached to it for the sake of the same type, if possible to one whose filter covers the seeker's, and so on: the
   members of an interest group form a tree of bounded degree around their publisher.
3. After ``attract_seconds`` the subscriber takes the offer of the greatest force. It asks the engine for the link, says
   what it is for (ATTACH), and builds its tree once more, which then takes the shorter way.

A node asks for at most ``attract`` links and accepts as many. When it has them all, a link whose type is not subscribed
to any more gives way, or the weakest one if the new one is stronger by two hops or more. Links that a node did not ask
for are never given up, so what the operator connected stays connected.

A subscription looks around ``attract`` times, and once more when such a link is lost; so attraction comes to rest.

SEEK tells the publishers, and those attached to them, which node subscribes to what. The plain protocol tells nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recado.protocols.machine import Connect, Disconnect, NodeId, Send, SetTimer
from recado.protocols.trees.messages import MAX_PATH, Attach, Offer, Seek
from recado.protocols.trees.state import OpenedLink, Out, State, rebuild_later
from recado.protocols.trees.subscribe import covers_text

MARGIN = 2
"""By so many hops a new link must be better than the one it replaces: rebuilding what used that has its price, too."""


# -- the seeker


def seek(state: State, subscription_id: str, out: Out) -> None:
    """The tree of this subscription has settled: ask along it for a better place."""
    local, row = state.local.get(subscription_id), state.tables.rows.get(subscription_id)
    attraction = state.attraction
    if local is None or row is None or row.joined or local.carrier is not None or local.moves >= state.settings.attract:
        return
    if subscription_id in state.questions or subscription_id in attraction.seeks or isinstance(state.me, tuple):
        return
    branches = [node for node in row.origin if node != state.me]
    if not branches:
        return
    local.moves += 1
    op = attraction.seeks[subscription_id] = 1 + state.rng.randrange(1 << 62)
    message = Seek(op, local.interest(), state.address, (state.me,))
    for node in branches:
        out.append(Send(node, message, "a subscriber looks for a place near its publishers"))
    out.append(SetTimer(("choose", subscription_id), state.settings.attract_seconds))


def on_offer(state: State, sender: NodeId, message: Offer, out: Out) -> None:
    if message.path:
        *rest, back = message.path
        if back in state.neighbours:
            copy = Offer(message.op, message.node, message.address, message.gain, tuple(rest))
            out.append(Send(back, copy, "an offer goes back to the seeker"))
        return
    best = state.attraction.best
    for id, op in state.attraction.seeks.items():
        if op == message.op and (id not in best or message.gain > best[id].gain):
            best[id] = message


def choose(state: State, subscription_id: str, out: Out) -> None:
    """Take the best of the offers that came."""
    attraction = state.attraction
    attraction.seeks.pop(subscription_id, None)
    offer, local = attraction.best.pop(subscription_id, None), state.local.get(subscription_id)
    if offer is None or local is None or offer.node == state.me:
        return
    if offer.node in state.neighbours or offer.node in attraction.opened or not _make_room(state, offer.gain, out):
        return
    attraction.opened[offer.node] = OpenedLink(local.type, offer.gain)
    out.append(Connect(offer.node, offer.address))
    out.append(SetTimer(("opening", offer.node), 2 * state.settings.attract_seconds))


def _make_room(state: State, gain: int, out: Out) -> bool:
    """Is one more link allowed, if need be instead of a weaker one?"""
    opened = state.attraction.opened
    if len(opened) < state.settings.attract:
        return True
    types = {local.type for local in state.local.values()}
    forces = {peer: link.gain if link.type in types else -1 for peer, link in opened.items()}
    weakest = min(forces, key=lambda peer: forces[peer])
    if forces[weakest] >= 0 and gain < forces[weakest] + MARGIN:
        return False
    del opened[weakest]
    out.append(Disconnect(weakest))
    return True


def give_up(state: State, peer: NodeId, out: Out) -> None:
    """The link did not come up."""
    link = state.attraction.opened.get(peer)
    if link is not None and not link.up:
        del state.attraction.opened[peer]
        out.append(Disconnect(peer))


def link_up(state: State, peer: NodeId, out: Out) -> None:
    link = state.attraction.opened.get(peer)
    if link is None or link.up:
        return
    link.up = True
    group = [local for local in state.local.values() if local.type == link.type and local.carrier is None]
    if group:
        out.append(Send(peer, Attach(link.type, group[0].filter), "this link was made for the sake of an interest"))
    for local in group:
        rebuild_later(state, local.id, local.epoch, out)


def link_down(state: State, peer: NodeId, out: Out) -> None:
    """A place is lost, or a member of the group is."""
    attraction = state.attraction
    attraction.attached.pop(peer, None)
    attraction.sent.pop(peer, None)
    link = attraction.opened.pop(peer, None)
    if link is not None:
        out.append(Disconnect(peer))
        for local in state.local.values():
            if local.type == link.type:
                local.moves = max(0, local.moves - 1)


# -- publishers, and those attached to them


def on_seek(state: State, sender: NodeId, message: Seek, out: Out) -> None:
    if not state.settings.attract or not message.path or len(message.path) > MAX_PATH or isinstance(state.me, tuple):
        return
    if message.levels:
        _host(state, sender, message, out)
        return
    interest = message.interest
    row = state.tables.rows.get(interest.id)
    if row is None or row.epoch != interest.epoch or sender not in row.next:
        return
    if state.me in row.origin and state.publishes(interest.type):
        reached = Seek(message.op, interest, message.address, message.path, len(message.path))
        _host(state, sender, reached, out)
    onward = Seek(message.op, interest, message.address, (*message.path, state.me))
    for node in row.origin:
        if node != state.me:
            out.append(Send(node, onward, "a seeker is passed on to the publishers"))


def _host(state: State, sender: NodeId, message: Seek, out: Out) -> None:
    """Offer a place here, or pass the seeker on to a member of its group."""
    attraction, seeker = state.attraction, message.path[0]
    gain = message.levels - (len(message.path) - message.levels + 1)
    if gain < 1 or seeker == state.me or seeker in state.neighbours or isinstance(state.me, tuple):
        return
    if seeker in attraction.promised or len(attraction.attached) + len(attraction.promised) < state.settings.attract:
        attraction.promised[seeker] = None
        out.append(SetTimer(("promise", seeker), 4 * state.settings.attract_seconds))
        offer = Offer(message.op, state.me, state.address, gain, message.path[:-1])
        out.append(Send(sender, offer, "there is room for the seeker here"))
        return
    member = _member_for(state, message)
    if member is not None:
        onward = Seek(message.op, message.interest, message.address, (*message.path, state.me), message.levels)
        out.append(Send(member, onward, "a seeker is passed on within its group"))


def _member_for(state: State, message: Seek) -> NodeId | None:
    """Of those attached here for the same type, the one to whom fewest were sent, so that the group grows evenly."""
    interest, before = message.interest, (message.path[0], *message.path[message.levels :])
    members = {
        peer: filter
        for peer, (type, filter) in state.attraction.attached.items()
        if type == interest.type and peer not in before
    }
    covering = [peer for peer, filter in members.items() if covers_text(filter, interest.filter)]
    sent = state.attraction.sent
    chosen = min(covering or members, key=lambda peer: sent.get(peer, 0), default=None)
    if chosen is not None:
        sent[chosen] = sent.get(chosen, 0) + 1
    return chosen


def on_attach(state: State, sender: NodeId, message: Attach, out: Out) -> None:
    attraction = state.attraction
    attraction.promised.pop(sender, None)
    if sender in attraction.attached or len(attraction.attached) < state.settings.attract:
        attraction.attached[sender] = message.type, message.filter


def break_promise(state: State, peer: NodeId, out: Out) -> None:
    """The seeker has taken another offer, or none."""
    state.attraction.promised.pop(peer, None)


TIMERS: Mapping[str, Callable[[State, Any, Out], None]] = {
    "seek": seek,
    "choose": choose,
    "opening": give_up,
    "promise": break_promise,
}


def inspect(state: State) -> dict[str, Any]:
    if not state.settings.attract:
        return {}
    attraction = state.attraction
    return {
        "attraction": {
            "opened": {str(peer): {"type": link.type, "gain": link.gain} for peer, link in attraction.opened.items()},
            "attached": {str(peer): type for peer, (type, _) in attraction.attached.items()},
        }
    }
