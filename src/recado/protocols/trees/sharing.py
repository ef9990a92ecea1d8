"""Shared trees: a subscription uses the tree of another one whose filter covers its own (option ``share``).

The tree document gives every subscription a tree of its own, also to equal ones (T4), and names covering as future work
(7.2). Here there are two ways to do with less.

*At one node.* A subscription whose filter is covered by one of the same node needs neither questions nor rows: what it
wants arrives anyway. When the one that carries it is cancelled, it finds another or builds its own tree.

*Along a tree.* A node that relays for a covering subscription s1 is on a tree that all publishers hang on, those
that will come included. All that flows on it passes some node of the path from here to the root of s1. So instead of
flooding a question, JOIN walks that path, and every node of it gets a row that *rides* on its row of s1: whatever comes
for s1 is also sent back along the path. That costs as many messages and rows as the path is long. When a row of s1 goes
because its subscription does, or is built anew, those that rode on it build trees of their own.

With ``forwarding="subscriptions"`` only the first way is used, since notifications then name the trees they follow.
"""

from __future__ import annotations

from functools import lru_cache

from recado.filters.covering import covers
from recado.protocols.machine import NodeId, Persist, Send
from recado.protocols.trees.messages import Join, Repair
from recado.protocols.trees.state import Out, Own, State, make_row, report_settled
from recado.protocols.trees.subscribe import ask
from recado.protocols.trees.table import Row
from recado.protocols.wire import read_filter


def begin(state: State, own: Own, out: Out) -> None:
    """A new subscription of this node finds its place: on another one, along a tree, or with a tree of its own."""
    state.own[own.id] = own
    if state.settings.share:
        own.carrier = _carrier_for(state, own)
        if own.carrier is not None:
            _settle_with(state, own)
            if own.carrier not in state.questions:
                report_settled(state, own.id, own.published, out)
            return
        row = _tree_for(state, own)
        if row is not None:
            _join_tree(state, own, row, out)
            return
    ask(state, own, out)


def _settle_with(state: State, own: Own) -> None:
    assert own.carrier is not None
    own.published = state.own[own.carrier].published


# -- at one node


def _carrier_for(state: State, own: Own) -> str | None:
    """A subscription of this node with a tree that brings all that ``own`` asks for."""
    for other in state.own.values():
        if other is not own and other.carrier is None and _covered(other.type, other.filter, own):
            return other.id
    return None


def _covered(type: str, filter: str, own: Own) -> bool:
    """Of the same type, so that both have the same publishers, and for all that ``own`` asks."""
    return type == own.type and (filter == own.filter or _covers(filter, own.filter))


@lru_cache(maxsize=65_536)
def _covers(filter: str, other: str) -> bool:
    return covers(read_filter(filter), read_filter(other))


def release(state: State, id: str, out: Out) -> None:
    """The subscription ``id`` is gone: those that it carried find another, or begin by themselves."""
    for own in [own for own in state.own.values() if own.carrier == id]:
        own.carrier = None
        begin(state, own, out)


# -- along a tree


def _tree_for(state: State, own: Own) -> Row | None:
    """A row of a tree that brings all that ``own`` asks for, and has not joined another itself."""
    if state.settings.forwarding != "seen":
        return None
    for row in state.tables.rows.values():
        if not row.joined and _covered(row.interest.type, row.filter, own):
            return row
    return None


def _join_tree(state: State, own: Own, carrier: Row, out: Out) -> None:
    state.epoch += 1
    own.epoch, own.along = state.epoch, carrier.interest.id
    out.append(Persist("epoch", state.epoch))
    _ride(state, Join(own.interest(), carrier.interest.id), carrier, state.me, out)
    report_settled(state, own.id, own.id in state.tables.rows, out)


def on_join(state: State, sender: NodeId, message: Join, out: Out) -> None:
    interest = message.interest
    carrier, row = state.tables.rows.get(message.along), state.tables.rows.get(interest.id)
    if carrier is None or carrier.joined or row is not None or interest.id in state.questions:
        out.append(Send(sender, Repair(interest.id, interest.epoch), "the tree to join is not there any more"))
        return
    _ride(state, message, carrier, sender, out)


def _ride(state: State, message: Join, carrier: Row, toward: NodeId, out: Out) -> None:
    """A row that hears what the carrier hears, here and further on the carrier's path to its root."""
    row = make_row(state, message.interest, toward, out, firm=True)
    if row is None:
        if toward != state.me:
            out.append(Send(toward, Repair(message.interest.id, message.interest.epoch), "no room for another row"))
        return
    row.joined, row.rides = True, message.along
    carrier.riders[message.interest.id] = None
    for node in carrier.next:
        if node not in (state.me, toward):
            row.origin[node] = None
            out.append(Send(node, message, "a subscription joins a tree that covers it"))
