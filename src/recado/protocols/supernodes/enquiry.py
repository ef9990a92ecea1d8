"""Ablation A1 (setting ``brothers``, 2.7 c, R51): children find their brothers by asking; keep-alives carry no list.

The document implemented this first and dropped it for its cost. The father gives a newcomer the endpoints of a few of
his children. The newcomer announces itself to one of them and asks who the brothers are; that one tells the others and
answers. Then the newcomer asks the rest of the few, one by one, whether anybody was missed. Whoever finds that a
brother cannot be reached tells the father and all others. The keep-alive itself is in ``family``: empty, and each child
passes it on by its own list, in which brothers stand in the order in which it heard of them.

Nobody numbers children, so two that come at once may be ordered differently by different brothers. A child that is
left out of the chain for that promotes itself, and the family ends with two fathers, which is tolerated (2.6, R25).
"""

from __future__ import annotations

import math

from recado.protocols.machine import Send
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.messages import BrotherGone, Brothers, BrothersWanted, JoinNode, NewBrother
from recado.protocols.supernodes.state import Child, Layer, Out, State, household


def choose_contacts(state: State, layer: Layer, newcomer: Endpoint) -> tuple[Endpoint, ...]:
    """The few children that a father tells a newcomer of."""
    settings = state.settings
    others = [child for child in layer.children if child != newcomer]
    count = max(settings.brothers_least, math.ceil(settings.brothers_share * len(others)))
    return tuple(state.rng.sample(others, k=min(count, len(others))))


def begin(state: State, child: Child, contacts: tuple[Endpoint, ...], out: Out) -> None:
    """The father has named a few brothers: ask the first of them."""
    child.contacts = tuple(one for one in contacts if one != state.me)
    add(state, child, state.me)
    _ask(state, child, out)


def _ask(state: State, child: Child, out: Out) -> None:
    if child.contacts:
        question = BrothersWanted(child.father, not child.introduced)
        out.append(Send(child.contacts[0], question, "a new child asks for its brothers"))


def on_brothers_wanted(state: State, sender: Endpoint, message: BrothersWanted, out: Out) -> None:
    child = state.child
    if child is None or child.father != message.father:
        out.append(Send(sender, BrotherGone(message.father), "this node has another father, or none"))
        return
    known = tuple(one for one in child.chain if one != sender)
    if message.introduce:
        for brother in known:
            if brother != state.me:
                out.append(Send(brother, NewBrother(child.father, sender), "there is a new brother"))
    add(state, child, sender)
    out.append(Send(sender, Brothers(child.father, known), "the brothers that this node knows"))


def on_brothers(state: State, sender: Endpoint, message: Brothers, out: Out) -> None:
    """They were there before this node. Those that nobody has told of it are told now."""
    child = state.child
    if child is None or child.father != message.father or child.contacts[:1] != (sender,):
        return
    earlier = tuple(one for one in message.brothers if one not in child.chain)
    if child.introduced:
        for brother in earlier:
            out.append(Send(brother, NewBrother(child.father), "this brother was missed"))
    place = child.chain.index(state.me)
    if state.settings.promotion_policy == "lifo":
        child.chain = (*child.chain[: place + 1], *earlier, *child.chain[place + 1 :])
    else:
        child.chain = (*child.chain[:place], *earlier, *child.chain[place:])
    child.introduced, child.contacts = True, child.contacts[1:]
    _ask(state, child, out)


def on_new_brother(state: State, sender: Endpoint, message: NewBrother, out: Out) -> None:
    child = state.child
    if child is not None and child.father == message.father:
        add(state, child, sender if message.brother is None else message.brother)


def add(state: State, child: Child, brother: Endpoint) -> None:
    """The latest is the last, or with ``lifo`` the first to succeed."""
    if brother not in child.chain and len(child.chain) <= state.settings.max_children:
        lifo = state.settings.promotion_policy == "lifo"
        child.chain = (brother, *child.chain) if lifo else (*child.chain, brother)


def note_departure(state: State, gone: Endpoint, out: Out) -> None:
    """A child or brother cannot be reached: tell the family, unless that was known."""
    if state.settings.brothers != "enquiry":
        return
    home, child = household(state), state.child
    if home is not None and gone in home.children:
        del home.children[gone]
        for one in home.children:
            out.append(Send(one, BrotherGone(state.me, gone), "a brother is gone"))
    elif child is not None and gone != state.me and gone in (*child.chain, *child.contacts):
        forget(state, child, gone)
        for one in (child.father, *child.brothers(state.me)):
            out.append(Send(one, BrotherGone(child.father, gone), "a brother is gone"))
    if child is not None and child.contacts[:1] == (gone,):
        child.contacts = child.contacts[1:]
        if child.contacts or child.introduced:
            _ask(state, child, out)
        else:  # none of the few is left: the father names others, if he has any
            out.append(Send(child.father, JoinNode(state.name), "a new child asks for other brothers"))


def forget(state: State, child: Child, gone: Endpoint) -> None:
    if gone != state.me:
        child.chain = tuple(one for one in child.chain if one != gone)


def message_failed(
    state: State, to: Endpoint, message: BrothersWanted | Brothers | NewBrother | BrotherGone, out: Out
) -> None:
    note_departure(state, to, out)
