"""New links: do they join parts of the overlay that did not know each other?

A link between two nodes that were connected anyway changes nothing: all trees stay as they are. A link that joins two
components brings publishers and subscribers within each other's reach. To tell the two cases apart every node knows a
number that names its component, and neighbours on a new link exchange theirs (HELLO).

The name changes when a link is lost, since that may split the component: each end draws a random token and floods it
(CUT), and whoever hears a token adds it (exclusive or) to its name. What is still connected hears both tokens and
agrees; what was cut off hears one of them only, so the names differ from then on. When two names meet on a new link,
one side takes the name of the other by a flood (MERGE), and every node that hears it builds its trees and searches
for subscriptions anew; that is enough for both sides to find each other. A node that comes alone is always
the side that yields, so that its joining costs the others nothing.

A name can be out of date while a flood is under way. So a node that hears of a cut while it has a link younger than
``settle_seconds``, on which the names were equal, does not trust that judgement, and has everybody look again.
"""

from __future__ import annotations

from recado.protocols.machine import NodeId, Send
from recado.protocols.trees.messages import Cut, Hello, Merge, Message
from recado.protocols.trees.repair import lose_link, rebuild_everything
from recado.protocols.trees.state import Out, State


def new_name(state: State) -> int:
    return 1 + state.rng.randrange(1 << 62)


def link_up(state: State, peer: NodeId, out: Out) -> None:
    state.neighbours[peer] = None
    state.young[peer] = state.now
    if peer not in state.greeted:
        _greet(state, peer, out)


def _greet(state: State, peer: NodeId, out: Out) -> tuple[int, bool]:
    greeting = state.greeted[peer] = state.component, state.alone
    out.append(Send(peer, Hello(*greeting), "a new link"))
    return greeting


def link_down(state: State, peer: NodeId, out: Out) -> None:
    if peer not in state.neighbours:
        return
    del state.neighbours[peer]
    state.greeted.pop(peer, None)
    state.young.pop(peer, None)
    state.alone = not state.neighbours
    token = new_name(state)
    state.component ^= token
    state.heard.add((Cut, token))
    _flood(state, Cut(token), None, "a link is lost", out)
    lose_link(state, peer, out)


def on_hello(state: State, sender: NodeId, message: Hello, out: Out) -> None:
    mine = state.greeted.get(sender) or _greet(state, sender, out)
    theirs = message.component, message.alone
    state.alone = False
    if mine[0] == theirs[0]:
        return
    state.young.pop(sender, None)  # whatever happened before, the two sides look for each other now
    if _yields(mine, theirs):
        # another link between the same components leads to the same message, which is heard once
        _merge(state, Merge(0, mine[0], mine[0] ^ theirs[0]), sender, out)


def _yields(mine: tuple[int, bool], theirs: tuple[int, bool]) -> bool:
    if mine[1] != theirs[1]:
        return mine[1]
    return mine[0] < theirs[0]


def on_cut(state: State, sender: NodeId, message: Cut, out: Out) -> None:
    if not state.heard.add((Cut, message.token)):
        return
    state.component ^= message.token
    _flood(state, message, sender, "a lost link is told on", out)
    if _has_young_link(state):
        _merge(state, Merge(message.token, 0, 0), None, out)


def _has_young_link(state: State) -> bool:
    oldest = state.now - state.settings.settle_seconds
    for peer in [peer for peer, since in state.young.items() if since < oldest]:
        del state.young[peer]
    return bool(state.young)


def on_merge(state: State, sender: NodeId, message: Merge, out: Out) -> None:
    if message.delta and state.component == message.old ^ message.delta:
        return
    _merge(state, message, sender, out)


def _merge(state: State, message: Merge, sender: NodeId | None, out: Out) -> None:
    if state.heard.add((Merge, message.cut, message.old, message.delta)):
        state.component ^= message.delta
        _flood(state, message, sender, "two components have met", out)
        rebuild_everything(state, out)


def _flood(state: State, message: Message, sender: NodeId | None, why: str, out: Out) -> None:
    for neighbour in state.neighbours:
        if neighbour != sender:
            out.append(Send(neighbour, message, why))
