"""CI: take a tree down (section 2.3 of the tree document, corrected as ER9 and ER10 ask).

C follows ``origin`` from the root to the publishers, and every row on the way goes. Where a question is still running,
C goes to a branch when that branch answers. C is taken only from a node that the row leads to, and only for the row's
epoch, so that a late one does no harm.

The same message takes down what a broken link has cut off from its subscriber. Then it is marked ``lost``, and the
publishers it reaches will look for the subscription again if its root does not come back first: see ``repair``.
"""

from __future__ import annotations

from recado.protocols.machine import NodeId, Persist, Send
from recado.protocols.trees import sharing
from recado.protocols.trees.messages import C
from recado.protocols.trees.state import CANCELLED, CUT, LIVE, Out, State, TreeError, drop_row, later
from recado.protocols.trees.table import Row, speaks_of


def unsubscribe(state: State, id: str, out: Out) -> None:
    own = state.own.get(id)
    if own is None:
        known = ", ".join(state.own) or "none"
        raise TreeError(f"node {state.me!r} has no subscription {id!r}; it has {known}")
    del state.own[id]
    out.append(Persist(f"subscription:{id}", None))
    if own.carrier is not None:
        return
    withdraw_question(state, id, CANCELLED)
    row = state.tables.rows.get(id)
    if row is not None:
        drop_row(state, row, out)
        _pass_on(state, row, None, False, out)
    sharing.release(state, id, out)


def withdraw_question(state: State, id: str, why: str) -> None:
    """The running question builds nothing more, and waits only for its answers."""
    question = state.questions.get(id)
    if question is not None and question.life == LIVE:
        question.life = why


def on_cancel(state: State, sender: NodeId, message: C, out: Out) -> None:
    row = state.tables.rows.get(message.id)
    if row is None or row.epoch != message.epoch or sender not in row.next:
        return
    take_down(state, row, sender, message.lost, out)


def take_down(state: State, row: Row, sender: NodeId | None, lost: bool, out: Out) -> None:
    """The row goes, and so does all that hangs on it."""
    id = row.interest.id
    drop_row(state, row, out)
    question = state.questions.get(id)
    if question is not None and question.epoch == row.epoch:
        withdraw_question(state, id, CUT if lost else CANCELLED)
    if lost and state.me in row.origin:
        _miss(state, row, out)
    _pass_on(state, row, sender, lost, out)


def _pass_on(state: State, row: Row, sender: NodeId | None, lost: bool, out: Out) -> None:
    message = C(row.interest.id, row.epoch, lost)
    for node in row.origin:
        if node not in (state.me, sender):
            out.append(Send(node, message, "the path is broken" if lost else "a subscription is cancelled"))


def _miss(state: State, row: Row, out: Out) -> None:
    """This publisher has lost a subscriber; look for it after a while unless it comes back by itself."""
    settings = state.settings
    for type in [type for type in state.published if speaks_of(row.interest.type, type)]:
        state.lost.setdefault(type, {})[row.interest.id] = None
        later(state, "missing", type, settings.repair_seconds * settings.patience, out)
