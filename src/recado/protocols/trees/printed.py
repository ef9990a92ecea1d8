"""The algorithms as the tree document prints them, where that differs from what is right. For experiments only.

Each name of ``PRINTED`` replaces the handlers of one operation; all else is the corrected protocol:

- ``subscribe``: the counter of answers sent is also raised by answers received (ER2), so a no that comes first silences
  a later yes; a node may say no after it said yes (ER3); a yes overwrites ``origin`` (ER4).
- ``cancel``: C is passed on only from rows with more than one origin (ER9), so it stops at the first relay.
- ``notify``: no notification is recognised when it comes again (ER11), so on a cycle it may never end.
- ``broker``: MB is passed on and rows are deleted whatever other publishers they lead to (ER19).
"""

from __future__ import annotations

from collections.abc import Mapping

from recado.protocols.machine import NodeId, Send
from recado.protocols.trees import notify
from recado.protocols.trees.messages import MB, C, N, Q, QNo, QYes
from recado.protocols.trees.node import HANDLERS, Handler, TreeNode
from recado.protocols.trees.state import Out, Question, State, TreeSettings, make_row
from recado.protocols.trees.table import Nodes


def printed_node(me: NodeId, operation: str, settings: TreeSettings | None = None) -> TreeNode:
    """A node that carries out one operation as it is printed."""
    return TreeNode(me, settings, PRINTED[operation])


# -- subscribe


def _on_question(state: State, sender: NodeId, message: Q, out: Out) -> None:
    interest = message.interest
    question = state.questions.get(interest.id)
    if question is not None:
        _on_no_reply(state, question, sender, out)
        return
    if interest.id in state.local or interest.id in state.tables.rows:
        return  # it is done with this question
    pending = {neighbour for neighbour in state.neighbours if neighbour != sender}
    question = state.questions[interest.id] = Question(interest, sender, pending)
    if state.publishes(interest.type):
        make_row(state, interest, sender, out, firm=True)
        out.append(Send(sender, QYes(interest.id, interest.epoch), "a publisher answers at once"))
    for neighbour in state.neighbours:
        if neighbour != sender:
            out.append(Send(neighbour, message, "a question is passed on"))
    if not pending:
        del state.questions[interest.id]
        if not state.publishes(interest.type):
            out.append(Send(sender, QNo(interest.id, interest.epoch), "no publisher this way"))


def _on_yes(state: State, sender: NodeId, message: QYes, out: Out) -> None:
    question = state.questions.get(message.id)
    if question is None:
        return
    row = state.tables.rows.get(message.id) or make_row(state, question.interest, question.parent, out, firm=True)
    if row is not None:
        row.origin = {sender: None}
    if not question.told and question.parent != state.me:
        out.append(Send(question.parent, message, "the first answer is passed on"))
    question.told = True
    question.pending.discard(sender)
    if not question.pending:
        del state.questions[message.id]


def _on_no(state: State, sender: NodeId, message: QNo, out: Out) -> None:
    question = state.questions.get(message.id)
    if question is not None:
        _on_no_reply(state, question, sender, out)


def _on_no_reply(state: State, question: Question, sender: NodeId, out: Out) -> None:
    question.told = True  # the error: nothing was told, something was heard
    question.pending.discard(sender)
    if not question.pending:
        del state.questions[question.id]
        if question.parent != state.me:
            out.append(Send(question.parent, QNo(question.id, question.epoch), "all have answered"))


# -- cancel


def _on_cancel(state: State, sender: NodeId, message: C, out: Out) -> None:
    row = state.tables.drop(message.id)
    if row is not None and len(row.origin) > 1:
        for node in row.origin:
            if node not in {state.me, sender}:
                out.append(Send(node, message, "a subscription is cancelled"))


# -- notify


def _on_notification(state: State, sender: NodeId, message: N, out: Out) -> None:
    notify.forward(state, message, sender, out, deliver=True)


# -- become a broker


def _on_withdrawal(state: State, sender: NodeId, message: MB, out: Out) -> None:
    rows = list(state.tables.of(message.type))
    if message.type not in state.published:
        targets: Nodes = {}
        for row in rows:
            targets.update(row.next)
        for node in targets:
            if node not in {state.me, sender}:
                out.append(Send(node, message, "a publisher becomes a broker"))
    for row in rows:
        if message.type in state.published or len(row.origin) > 1:
            row.origin.pop(sender, None)
        else:
            state.tables.drop(row.interest.id)


PRINTED: dict[str, Mapping[type, Handler]] = {
    "subscribe": {**HANDLERS, Q: _on_question, QYes: _on_yes, QNo: _on_no},
    "cancel": {**HANDLERS, C: _on_cancel},
    "notify": {**HANDLERS, N: _on_notification},
    "broker": {**HANDLERS, MB: _on_withdrawal},
}
