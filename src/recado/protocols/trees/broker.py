"""MPB: a publisher becomes a broker (section 2.6 of the tree document, corrected as ER19 asks).

MB climbs ``next`` and takes the leaving publisher out of the rows. It goes on only for rows that have lost their last
origin; as printed, it also removed rows that still led to other publishers.
"""

from __future__ import annotations

from collections.abc import Iterable

from recado.protocols.machine import NodeId, Persist, Send
from recado.protocols.trees.messages import MB, Version
from recado.protocols.trees.state import Out, State, TreeError, remove, report_unpublished, riders_of
from recado.protocols.trees.table import Row


def become_broker(state: State, type: str, out: Out) -> None:
    if type not in state.published:
        raise TreeError(f"node {state.me!r} does not publish {type!r}, so it cannot stop; see `publishes`")
    del state.published[type]
    state.lost.pop(type, None)
    out.append(Persist(f"publishes:{type}", None))
    rows = [row for row in state.tables.of(type) if not state.publishes(row.interest.type)]
    _lose(state, type, rows, state.me, out)


def on_withdrawal(state: State, sender: NodeId, message: MB, out: Out) -> None:
    rows = []
    for id, epoch in message.gone:
        row = state.tables.rows.get(id)
        if row is not None and row.epoch == epoch:
            rows.append(row)
    _lose(state, message.type, rows, sender, out)


def _lose(state: State, type: str, rows: Iterable[Row], gone: NodeId, out: Out) -> None:
    empty = []
    for row in rows:
        row.origin.pop(gone, None)
        question = state.questions.get(row.interest.id)
        if not row.has_source and (question is None or question.epoch != row.epoch):
            empty.append(row)  # while its question runs, other publishers may still answer; then `finish` withdraws it
    withdraw(state, type, empty, out)


def withdraw(state: State, type: str, rows: list[Row], out: Out) -> None:
    """Rows without a source go, and the nodes toward their subscribers are told, in one message each."""
    told: dict[NodeId, list[Version]] = {}
    waiting = list(rows)
    for row in waiting:  # which may grow: rows that rode on one that goes have lost that source
        remove(state, row)
        id = row.interest.id
        for node in row.next:
            if node == state.me:
                report_unpublished(state, id, out)
            else:
                told.setdefault(node, []).append((id, row.epoch))
        for rider in riders_of(state, row):
            rider.rides = None
            if not rider.has_source:
                waiting.append(rider)
    for node, gone in told.items():
        out.append(Send(node, MB(type, tuple(gone)), "no publisher is left on this side"))
