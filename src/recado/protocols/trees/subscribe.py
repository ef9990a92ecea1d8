"""The tree of a subscription: built, taken down, and shared.

CAI builds it (section 2.2 of the tree document, with its errata ER1 to ER5); CI and sharing are below.

The root floods a question. A publisher of the type says yes at once and passes the question on; any other node relays
the first yes at once; a node says no when all it asked have said no or came with the same question. Rows grow where a
yes passes. Each link carries two messages, one a direction, so a question costs 2m messages on any graph.

Beside the document: questions have epochs. A newer one replaces the rows of an older one where its yes passes, and
removes them where it ends without one. A yes that nobody waits for (its asker was cancelled or cut off meanwhile) is
answered with C, so that no row outlives its reason.
"""

from __future__ import annotations

from functools import lru_cache

from recado.filters.covering import covers
from recado.protocols.machine import NodeId, Persist, Send
from recado.protocols.trees.messages import C, Join, Q, QNo, QYes, Repair
from recado.protocols.trees.state import (
    CANCELLED,
    CUT,
    LIVE,
    OUTDATED,
    LocalSubscription,
    Out,
    Question,
    State,
    TreeError,
    drop_row,
    later,
    make_row,
    refuse,
    replay,
    report_settled,
    withdraw,
)
from recado.protocols.trees.table import Row, speaks_of
from recado.protocols.wire import read_filter


def ask(state: State, local: LocalSubscription, out: Out) -> None:
    """The root builds its tree, or builds it anew."""
    state.epoch += 1
    local.epoch, local.along = state.epoch, None
    out.append(Persist("epoch", state.epoch))
    interest = local.interest()
    _retire(state, local.id)
    question = state.questions[local.id] = Question(interest, state.me, set(state.neighbours))
    if state.publishes(local.type):
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
        _take_answer(state, question, sender, out)
    else:  # the link is younger than this node's part in the question, so the sender was not asked
        out.append(Send(sender, QNo(question.id, question.epoch), "this node has taken part already"))


def _is_outdated(state: State, sub_id: str, epoch: int) -> bool:
    question, row = state.questions.get(sub_id), state.tables.rows.get(sub_id)
    return (
        (question is not None and question.epoch > epoch)
        or (row is not None and row.epoch > epoch)
        or sub_id in state.local
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
        replay(state, interest, out)


def _retire(state: State, sub_id: str) -> None:
    """A newer question is here: the older one only waits for its answers."""
    question = state.questions.pop(sub_id, None)
    if question is not None:
        if question.life == LIVE:
            question.life = OUTDATED
        state.older[sub_id, question.epoch] = question


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
    _take_answer(state, question, sender, out)


def on_no(state: State, sender: NodeId, message: QNo, out: Out) -> None:
    question = find(state, message.id, message.epoch)
    if question is not None:
        _take_answer(state, question, sender, out)


def find(state: State, subscription_id: str, epoch: int) -> Question | None:
    question = state.questions.get(subscription_id)
    if question is not None and question.epoch == epoch:
        return question
    return state.older.get((subscription_id, epoch)) if state.older else None


def _take_answer(state: State, question: Question, sender: NodeId, out: Out) -> None:
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


# --- CI: take a tree down (section 2.3 of the tree document, corrected as ER9 and ER10 ask) --------------------------
#
# C follows ``origin`` from the root to the publishers, and every row on the way goes. Where a question is still
# running, C goes to a branch when that branch answers. C is taken only from a node that the row leads to, and only for
# the row's epoch, so that a late one does no harm.
#
# The same message takes down what a broken link has cut off from its subscriber. Then it is marked ``lost``, and the
# publishers it reaches will look for the subscription again if its root does not come back first: see ``repair``.


def unsubscribe(state: State, subscription_id: str, out: Out) -> None:
    local = state.local.get(subscription_id)
    if local is None:
        known = ", ".join(state.local) or "none"
        raise TreeError(f"node {state.me!r} has no subscription {subscription_id!r}; it has {known}")
    del state.local[subscription_id]
    out.append(Persist(f"subscription:{subscription_id}", None))
    if local.carrier is not None:
        return
    withdraw_question(state, subscription_id, CANCELLED)
    row = state.tables.rows.get(subscription_id)
    if row is not None:
        drop_row(state, row, out)
        _pass_on(state, row, None, False, out)
    release(state, subscription_id, out)


def withdraw_question(state: State, subscription_id: str, why: str) -> None:
    """The running question builds nothing more, and waits only for its answers."""
    question = state.questions.get(subscription_id)
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


# --- Shared trees: a subscription uses the tree of another one that covers it (option ``share``) ---------------------
#
# The tree document gives every subscription a tree of its own, also to equal ones (T4), and names covering as future
# work (7.2). Here there are two ways to do with less.
#
# *At one node.* A subscription whose filter is covered by one of the same node needs neither questions nor rows: what
# it wants arrives anyway. When the one that carries it is cancelled, it finds another or builds its own tree.
#
# *Along a tree.* A node that relays for a covering subscription s1 is on a tree that all publishers hang on, those
# that will come included. All that flows on it passes some node of the path from here to the root of s1. So instead of
# flooding a question, JOIN walks that path, and every node of it gets a row that *rides* on its row of s1: whatever
# comes for s1 is also sent back along the path. That costs as many messages and rows as the path is long. When a row
# of s1 goes because its subscription does, or is built anew, those that rode on it build trees of their own.
#
# With ``forwarding="subscriptions"`` only the first way is used, since notifications then name the trees they follow.


def begin(state: State, local: LocalSubscription, out: Out) -> None:
    """A new subscription of this node finds its place: on another one, along a tree, or with a tree of its own."""
    state.local[local.id] = local
    if state.settings.share:
        local.carrier = _carrier_for(state, local)
        if local.carrier is not None:
            _settle_with(state, local)
            if local.carrier not in state.questions:
                report_settled(state, local.id, local.published, out)
            return
        row = _tree_for(state, local)
        if row is not None:
            _join_tree(state, local, row, out)
            return
    ask(state, local, out)


def _settle_with(state: State, local: LocalSubscription) -> None:
    assert local.carrier is not None
    local.published = state.local[local.carrier].published


# -- at one node


def _carrier_for(state: State, local: LocalSubscription) -> str | None:
    """A subscription of this node with a tree that brings all that ``local`` asks for."""
    for other in state.local.values():
        if other is not local and other.carrier is None and _is_covered(other.type, other.filter, local):
            return other.id
    return None


def _is_covered(event_type: str, text: str, local: LocalSubscription) -> bool:
    """Of the same type, so that both have the same publishers, and for all that ``local`` asks."""
    return event_type == local.type and (text == local.filter or covers_text(text, local.filter))


@lru_cache(maxsize=65_536)
def covers_text(text: str, other: str) -> bool:
    return covers(read_filter(text), read_filter(other))


def release(state: State, subscription_id: str, out: Out) -> None:
    """The subscription ``id`` is gone: those that it carried find another, or begin by themselves."""
    for local in [local for local in state.local.values() if local.carrier == subscription_id]:
        local.carrier = None
        begin(state, local, out)


# -- along a tree


def _tree_for(state: State, local: LocalSubscription) -> Row | None:
    """A row of a tree that brings all that ``local`` asks for, and has not joined another itself."""
    if state.settings.forwarding != "seen":
        return None
    for row in state.tables.rows.values():
        if not row.joined and _is_covered(row.interest.type, row.filter, local):
            return row
    return None


def _join_tree(state: State, local: LocalSubscription, carrier: Row, out: Out) -> None:
    state.epoch += 1
    local.epoch, local.along = state.epoch, carrier.interest.id
    out.append(Persist("epoch", state.epoch))
    _ride(state, Join(local.interest(), carrier.interest.id), carrier, state.me, out)
    report_settled(state, local.id, local.id in state.tables.rows, out)


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
