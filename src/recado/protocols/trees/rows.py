"""Rows come and go here, so that whatever depends on a row learns of it: its root, and the rows that ride on it.

A row of a shared subscription may ride on another row of the same node (see ``sharing``). When the row that carries it
goes or is built anew, the root of the subscription that rode on it is asked to build a tree of its own.
"""

from __future__ import annotations

from recado.errors import FilterError
from recado.protocols.machine import NodeId, Report, Send
from recado.protocols.pubsub import Settled, Unpublished
from recado.protocols.trees.messages import Interest, Repair
from recado.protocols.trees.state import Out, Own, State, later, refuse
from recado.protocols.trees.table import Row
from recado.protocols.wire import read_filter


def make_row(state: State, interest: Interest, toward: NodeId, out: Out, *, firm: bool) -> Row | None:
    """A row in place of whatever was known of the subscription; None, and a report, if there can be none."""
    rows = state.tables.rows
    earlier = rows.get(interest.id)
    if earlier is None and len(rows) >= state.settings.max_rows:
        refuse(state, "max_rows", f"a row for subscription {interest.id!r}", out)
        return None
    try:
        read_filter(interest.filter)
    except FilterError:
        refuse(state, "filter", f"a filter of subscription {interest.id!r} that nobody can read", out)
        return None
    if earlier is not None:
        drop_row(state, earlier, out)
    row = Row(interest, toward, state.tick(), firm)
    if state.publishes(interest.type):
        row.origin[state.me] = None
    state.tables.put(row)
    return row


def drop_row(state: State, row: Row, out: Out) -> None:
    remove(state, row)
    for rider in riders_of(state, row):
        rider.rides = None
        report_row(state, rider, out)


def remove(state: State, row: Row) -> None:
    """Take the row out of the tables; what to do about its riders is the caller's affair."""
    state.tables.drop(row.interest.id)
    carrier = state.tables.rows.get(row.rides) if row.rides is not None else None
    if carrier is not None:
        carrier.riders.pop(row.interest.id, None)


def riders_of(state: State, row: Row) -> list[Row]:
    rows = state.tables.rows
    return [rows[id] for id in row.riders if id in rows]


# -- what roots are told


def rebuild_later(state: State, id: str, epoch: int, out: Out) -> None:
    """The tree of this node's subscription is damaged. What happens within a short time is mended together."""
    own = state.own.get(id)
    if own is not None and own.epoch == epoch and own.carrier is None:
        later(state, "rebuild", id, state.settings.repair_seconds, out)


def report_row(state: State, row: Row, out: Out) -> None:
    """Tell the root of damage, once."""
    id, epoch = row.interest.id, row.epoch
    if state.me in row.next:
        rebuild_later(state, id, epoch, out)
    elif not row.disturbed:
        row.disturbed = True
        for node in row.next:
            out.append(Send(node, Repair(id, epoch), "a branch of the tree is lost"))


# -- what the application is told


def _family(state: State, id: str) -> list[Own]:
    """A subscription of this node, and those that it carries."""
    return [own for own in state.own.values() if id in (own.id, own.carrier)]


def report_settled(state: State, id: str, published: bool, out: Out) -> None:
    """Everyone was asked."""
    for own in _family(state, id):
        out.append(Report(Settled(own.id, published)))
        if own.published and not published:
            out.append(Report(Unpublished(own.id)))
        own.published = published


def report_published(state: State, id: str, out: Out) -> None:
    """A publisher came to a subscription of this node."""
    for own in _family(state, id):
        if not own.published and id not in state.questions:
            out.append(Report(Settled(own.id, True)))
        own.published = True


def report_unpublished(state: State, id: str, out: Out) -> None:
    """The last publisher went."""
    for own in _family(state, id):
        own.published = False
        out.append(Report(Unpublished(own.id)))
        if own.along is not None:  # a publisher may just have found the tree that it joined, so it asks for itself
            rebuild_later(state, own.id, own.epoch, out)
            own.along = None
