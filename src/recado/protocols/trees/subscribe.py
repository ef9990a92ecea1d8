"""CAI: build the tree of a subscription (section 2.2 of the tree document, with its errata ER1 to ER5).

The root floods a question. A publisher of the type says yes at once and passes the question on; any other node relays
the first yes at once; a node says no when all it asked have said no or came with the same question. Rows grow where a
yes passes. Each link carries two messages, one a direction, so a question costs 2m messages on any graph.

Beside the document: questions have epochs. A newer one replaces the rows of an older one where its yes passes, and
removes them where it ends without one. A yes that nobody waits for (its asker was cancelled or cut off meanwhile) is
answered with C, so that no row outlives its reason.
"""

from __future__ import annotations

from recado.protocols.machine import NodeId, Persist, Send
from recado.protocols.trees import state as buffer
from recado.protocols.trees.broker import withdraw
from recado.protocols.trees.messages import C, Q, QNo, QYes, Repair
from recado.protocols.trees.state import (
    CANCELLED,
    LIVE,
    OUTDATED,
    Out,
    Own,
    Question,
    State,
    drop_row,
    make_row,
    refuse,
    report_settled,
)


def ask(state: State, own: Own, out: Out) -> None:
    """The root builds its tree, or builds it anew."""
    state.epoch += 1
    own.epoch, own.along = state.epoch, None
    out.append(Persist("epoch", state.epoch))
    interest = own.interest()
    _retire(state, own.id)
    question = state.questions[own.id] = Question(interest, state.me, set(state.neighbours))
    if state.publishes(own.type):
        attach(state, question, state.me, out)
    message = Q(interest)
    for neighbour in state.neighbours:
        out.append(Send(neighbour, message, "the root of a subscription asks its neighbours"))
    if not question.pending:
        finish(state, question, out)


def on_question(state: State, sender: NodeId, message: Q, out: Out) -> None:
    interest = message.interest
    id, epoch = interest.id, interest.epoch
    question = find(state, id, epoch)
    if question is not None:
        _cross(state, question, sender, out)
        return
    if _is_outdated(state, id, epoch):
        out.append(Send(sender, QNo(id, epoch), "an outdated question"))
        return
    row = state.tables.rows.get(id)
    if row is not None and row.epoch == epoch:
        out.append(Send(sender, QNo(id, epoch), "this node is in the tree already"))
        if not row.firm:  # grafting was faster than the question and may have gone another way: build once more
            out.append(Send(sender, Repair(id, epoch), "a question met a graft"))
        return
    if len(state.questions) >= state.settings.max_operations:
        refuse(state, "max_operations", f"a question about subscription {id!r}", out)
        out.append(Send(sender, QNo(id, epoch), "too many operations"))
        return
    _join(state, sender, message, out)


def _cross(state: State, question: Question, sender: NodeId, out: Out) -> None:
    """The same question from both ends of a link: neither is the other's child, and both take it for a no."""
    if sender in question.pending:
        _answered(state, question, sender, out)
    else:  # the link is younger than this node's part in the question, so the sender was not asked
        out.append(Send(sender, QNo(question.id, question.epoch), "this node has taken part already"))


def _is_outdated(state: State, id: str, epoch: int) -> bool:
    question, row = state.questions.get(id), state.tables.rows.get(id)
    return (
        (question is not None and question.epoch > epoch) or (row is not None and row.epoch > epoch) or id in state.own
    )


def _join(state: State, sender: NodeId, message: Q, out: Out) -> None:
    """The first time that this node hears the question: its sender becomes the parent."""
    interest = message.interest
    if interest.id in state.questions:
        _retire(state, interest.id)
    pending = set(state.neighbours)
    pending.discard(sender)
    question = state.questions[interest.id] = Question(interest, sender, pending)
    publishes = state.publishes(interest.type)
    if publishes:
        attach(state, question, state.me, out)
    for neighbour in state.neighbours:
        if neighbour != sender:
            out.append(Send(neighbour, message, "a question is passed on"))
    if not pending:
        finish(state, question, out)
    if publishes and state.settings.buffer:
        buffer.replay(state, interest, out)


def _retire(state: State, id: str) -> None:
    """A newer question is here: the older one only waits for its answers."""
    question = state.questions.pop(id, None)
    if question is not None:
        if question.life == LIVE:
            question.life = OUTDATED
        state.older[id, question.epoch] = question


def attach(state: State, question: Question, origin: NodeId, out: Out) -> None:
    """A publisher is behind ``origin``: keep a row, and tell the parent once."""
    row = state.tables.rows.get(question.id)
    if row is None or row.epoch != question.epoch:
        row = make_row(state, question.interest, question.parent, out, firm=True)
        if row is None:
            if origin != state.me:
                out.append(Send(origin, C(question.id, question.epoch), "no room for another row"))
            return
    row.origin[origin] = None
    if not question.told:
        question.told = True
        if question.parent != state.me:
            out.append(Send(question.parent, QYes(question.id, question.epoch), "a publisher was found"))


def on_yes(state: State, sender: NodeId, message: QYes, out: Out) -> None:
    question = find(state, message.id, message.epoch)
    if question is None or sender not in question.pending:
        out.append(Send(sender, C(message.id, message.epoch, lost=True), "nobody waits for this answer"))
        return
    if question.life == LIVE:
        attach(state, question, sender, out)
    else:
        lost = question.life != CANCELLED
        out.append(Send(sender, C(message.id, message.epoch, lost), "the question was withdrawn meanwhile"))
    _answered(state, question, sender, out)


def on_no(state: State, sender: NodeId, message: QNo, out: Out) -> None:
    question = find(state, message.id, message.epoch)
    if question is not None:
        _answered(state, question, sender, out)


def find(state: State, id: str, epoch: int) -> Question | None:
    question = state.questions.get(id)
    if question is not None and question.epoch == epoch:
        return question
    return state.older.get((id, epoch)) if state.older else None


def _answered(state: State, question: Question, sender: NodeId, out: Out) -> None:
    question.pending.discard(sender)
    if not question.pending:
        finish(state, question, out)


def finish(state: State, question: Question, out: Out) -> None:
    """Everyone has answered; nothing about this question will arrive any more."""
    id, epoch = question.id, question.epoch
    if state.questions.get(id) is question:
        del state.questions[id]
    else:
        state.older.pop((id, epoch), None)
    if question.parent == state.me:
        if question.life == LIVE:
            _settle(state, question, out)
        return
    if not question.told and question.parent in state.neighbours:
        out.append(Send(question.parent, QNo(id, epoch), "no publisher this way"))
    if question.life == LIVE:
        _tidy(state, question, out)


def _settle(state: State, question: Question, out: Out) -> None:
    _tidy(state, question, out)
    report_settled(state, question.id, question.id in state.tables.rows, out)


def _tidy(state: State, question: Question, out: Out) -> None:
    """Remove a row that an older question left, or one whose publishers went while the question ran."""
    row = state.tables.rows.get(question.id)
    if row is None:
        return
    if row.epoch < question.epoch:
        drop_row(state, row, out)
    elif not row.has_source and not row.disturbed:
        withdraw(state, row.interest.type, [row], out)
