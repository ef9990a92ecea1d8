"""Roles: a broker becomes a publisher, and a publisher a broker.

MPP is the first (section 2.5 of the tree document, with its errata ER13 to ER18). MPB is below it.

The new publisher floods a search for subscriptions of the type; the answers lead back to it, and the rows of the new
branches are made from them. Three modes: ``stream`` relays every yes at once, as the worked example does;
``aggregate`` answers once, when all branches have; ``graft`` answers like aggregate but changes no table until the
publisher, on a second pass, walks the branches it needs. Only grafting keeps every structure a tree on any graph.

Beside the document: grafting that meets a question of the same subscription on its way, or another graft that was
under way at the same time, might close a circle. Both can be seen where they meet: a question is still running there,
or the row is younger than the search. Then the root is asked to build its tree once more, which settles it.
"""

from __future__ import annotations

from collections.abc import Iterable

from recado.protocols.machine import NodeId, Persist, Send
from recado.protocols.trees.messages import MB, MP, C, Graft, Interest, MPNo, MPYes, Repair, StandIn
from recado.protocols.trees.state import (
    LIVE,
    Out,
    Search,
    State,
    TreeError,
    make_row,
    rebuild_later,
    refuse,
    replay,
    report_published,
    withdraw,
)
from recado.protocols.trees.subscribe import attach
from recado.protocols.trees.table import Row, speaks_of


def become_publisher(state: State, event_type: str, out: Out) -> None:
    """Also when it is one already: then it looks for subscriptions once more."""
    state.published[event_type] = None
    out.append(Persist(f"publishes:{event_type}", True))
    search(state, event_type, out)


def search(state: State, event_type: str, out: Out) -> None:
    state.lost.pop(event_type, None)
    _join_known_trees(state, event_type, out)
    op = 1 + state.rng.randrange(1 << 62)
    found = state.searches[op] = Search(op, event_type, state.me, set(state.neighbours), state.tick())
    rank = state.election.elected.get(event_type)
    message = MP(op, event_type) if rank is None else StandIn(op, event_type, rank)
    for neighbour in state.neighbours:
        out.append(Send(neighbour, message, "a new publisher looks for subscriptions"))
    if not found.pending:
        finish(state, found, out)


def _join_known_trees(state: State, event_type: str, out: Out) -> None:
    """The trees that this node is on already, and those of its own subscriptions."""
    for local in state.local.values():
        if local.carrier is None and local.id not in state.tables.rows and speaks_of(local.type, event_type):
            make_row(state, local.interest(), state.me, out, firm=True)
            report_published(state, local.id, out)
    for row in state.tables.of(event_type):
        row.origin[state.me] = None
    for question in state.questions.values():
        if question.life == LIVE and not question.told and speaks_of(question.interest.type, event_type):
            attach(state, question, state.me, out)


# -- the search


def on_search(state: State, sender: NodeId, message: MP | StandIn, out: Out) -> None:
    known = state.searches.get(message.op)
    if known is not None:
        if sender in known.pending:
            _take_answer(state, known, sender, out)
        else:  # the link is younger than this node's part in the search
            out.append(Send(sender, MPNo(message.op), "this node has taken part already"))
        return
    if len(state.searches) >= state.settings.max_operations:
        refuse(state, "max_operations", f"a search for subscriptions to {message.type!r}", out)
        out.append(Send(sender, MPNo(message.op), "too many operations"))
        return
    pending = set(state.neighbours)
    pending.discard(sender)
    search = state.searches[message.op] = Search(message.op, message.type, sender, pending, state.tick())
    for local in state.local.values():
        if local.carrier is None and local.along is None and speaks_of(local.type, message.type):
            search.found[local.id] = state.me, local.interest()
    mode = state.settings.mpp
    if search.found and mode != "graft":
        for _, interest in search.found.values():
            _extend(state, interest, state.me, sender, out)
        if mode == "stream":
            _say_yes(search, sender, tuple(interest for _, interest in search.found.values()), out)
    for neighbour in state.neighbours:
        if neighbour != sender:
            out.append(Send(neighbour, message, "a search is passed on"))
    if not pending:
        finish(state, search, out)


def on_found(state: State, sender: NodeId, message: MPYes, out: Out) -> None:
    search = state.searches.get(message.op)
    if search is None:
        return
    for interest in message.found:
        search.found.setdefault(interest.id, (sender, interest))
    mode = state.settings.mpp
    if mode != "graft":
        for interest in message.found:
            _extend(state, interest, sender, search.parent, out)
        if mode == "stream" and search.parent != state.me:
            _say_yes(search, search.parent, message.found, out)
    _take_answer(state, search, sender, out)


def on_nothing(state: State, sender: NodeId, message: MPNo, out: Out) -> None:
    search = state.searches.get(message.op)
    if search is not None:
        _take_answer(state, search, sender, out)


def _say_yes(search: Search, parent: NodeId, found: tuple[Interest, ...], out: Out) -> None:
    search.replied = True
    out.append(Send(parent, MPYes(search.op, found), "subscriptions were found"))


def _extend(state: State, interest: Interest, toward: NodeId, origin: NodeId, out: Out) -> None:
    """Without grafting, answers change the tables at once."""
    row = state.tables.rows.get(interest.id)
    if row is None:
        row = make_row(state, interest, toward, out, firm=False)
    if row is not None:
        row.next[toward] = None
        row.origin[origin] = None
    if toward == state.me:
        report_published(state, interest.id, out)


def _take_answer(state: State, search: Search, sender: NodeId, out: Out) -> None:
    search.pending.discard(sender)
    if not search.pending and not search.done:
        finish(state, search, out)


def finish(state: State, search: Search, out: Out) -> None:
    search.done = True
    mode = state.settings.mpp
    if search.parent == state.me:
        if mode == "graft" and search.type in state.published:
            _graft(state, search, out)
    elif not search.replied and search.parent in state.neighbours:
        if search.found:
            _say_yes(search, search.parent, tuple(interest for _, interest in search.found.values()), out)
        else:
            out.append(Send(search.parent, MPNo(search.op), "no subscription this way"))
    if search.found and (mode == "stream" or (mode == "graft" and search.parent != state.me)):
        _keep(state, search)  # a branch may say yes again, or be needed
    else:
        del state.searches[search.op]


def _keep(state: State, search: Search) -> None:
    """Its branches may be needed; those that were kept for longest are forgotten."""
    searches = state.searches
    del searches[search.op]
    searches[search.op] = search
    if len(searches) > state.settings.max_kept:
        for op, other in searches.items():
            if other.done:
                del searches[op]
                return


# -- the second pass


def _graft(state: State, search: Search, out: Out) -> None:
    for branch, interest in search.found.values():
        row = state.tables.rows.get(interest.id)
        if (row is not None and row.epoch >= interest.epoch) or branch not in state.neighbours:
            continue
        question = state.questions.get(interest.id)
        if question is not None and question.epoch >= interest.epoch:
            continue  # this node publishes the type, so the question will find it
        _branch_off(state, Graft(search.op, interest), state.me, branch, out)
        if state.settings.buffer:
            replay(state, interest, out)


def _branch_off(state: State, graft: Graft, origin: NodeId, branch: NodeId, out: Out) -> bool:
    row = make_row(state, graft.interest, branch, out, firm=False)
    if row is None:
        return False
    row.origin[origin] = None
    out.append(Send(branch, graft, "a new publisher is grafted onto a tree"))
    return True


def on_graft(state: State, sender: NodeId, message: Graft, out: Out) -> None:
    interest = message.interest
    id, epoch = interest.id, interest.epoch
    local, question, row = state.local.get(id), state.questions.get(id), state.tables.rows.get(id)
    newest = max(local.epoch if local else 0, question.epoch if question else 0, row.epoch if row else 0)
    if newest > epoch:
        out.append(Send(sender, C(id, epoch, lost=True), "the subscription has been built anew meanwhile"))
    elif local is not None:
        _graft_at_root(state, sender, message, out)
    elif question is not None and question.epoch == epoch:
        if question.parent in state.neighbours:
            out.append(Send(question.parent, Repair(id, epoch), "a graft met a question"))
        _turn_away(sender, interest, out)
    elif row is not None and row.epoch == epoch:
        _graft_at_row(state, sender, message, row, out)
    else:
        _graft_onward(state, sender, message, out)


def _graft_at_root(state: State, sender: NodeId, message: Graft, out: Out) -> None:
    id = message.interest.id
    local = state.local[id]
    _forget_branch(state, message.op, id)
    if id in state.questions:
        rebuild_later(state, id, local.epoch, out)
        _turn_away(sender, message.interest, out)
        return
    row = state.tables.rows.get(id) or make_row(state, local.interest(), state.me, out, firm=True)
    if row is not None:
        row.origin[sender] = None
        report_published(state, id, out)


def _graft_at_row(state: State, sender: NodeId, message: Graft, row: Row, out: Out) -> None:
    search, id = state.searches.get(message.op), message.interest.id
    if row.firm or search is None or id not in search.found or row.born < search.born:
        row.origin[sender] = None
        _forget_branch(state, message.op, id)
        return
    branch, _ = search.found[id]
    if branch in state.neighbours:
        out.append(Send(branch, Repair(id, row.epoch, message.op), "two grafts met"))
    _turn_away(sender, message.interest, out)


def _turn_away(sender: NodeId, interest: Interest, out: Out) -> None:
    """The new branch goes; the root's next question will find the publisher, or the publisher looks again."""
    out.append(Send(sender, C(interest.id, interest.epoch, lost=True), "this branch might close a circle"))


def _graft_onward(state: State, sender: NodeId, message: Graft, out: Out) -> None:
    interest = message.interest
    search = state.searches.get(message.op)
    branch = None if search is None or interest.id not in search.found else search.found[interest.id][0]
    if search is None or branch is None or branch not in state.neighbours:
        lost = branch != state.me  # otherwise it was a subscription of this node, and was cancelled
        out.append(Send(sender, C(interest.id, interest.epoch, lost), "the branch is not there any more"))
    elif _branch_off(state, message, sender, branch, out):
        _forget_branch(state, message.op, interest.id)
    else:
        out.append(Send(sender, C(interest.id, interest.epoch), "no room for another row"))


def _forget_branch(state: State, op: int, sub_id: str) -> None:
    search = state.searches.get(op)
    if search is not None:
        search.found.pop(sub_id, None)
        if not search.found and search.done:
            del state.searches[op]


# --- MPB: a publisher becomes a broker (section 2.6 of the tree document, corrected as ER19 asks) --------------------
#
# MB climbs ``next`` and takes the leaving publisher out of the rows. It goes on only for rows that have lost their last
# origin; as printed, it also removed rows that still led to other publishers.


def become_broker(state: State, event_type: str, out: Out) -> None:
    if event_type not in state.published:
        raise TreeError(f"node {state.me!r} does not publish {event_type!r}, so it cannot stop; see `publishes`")
    del state.published[event_type]
    state.lost.pop(event_type, None)
    out.append(Persist(f"publishes:{event_type}", None))
    leave_trees(state, event_type, out)


def leave_trees(state: State, event_type: str, out: Out) -> None:
    """This node is no source of the type any more."""
    rows = [row for row in state.tables.of(event_type) if not state.publishes(row.interest.type)]
    _lose(state, event_type, rows, state.me, out)


def on_withdrawal(state: State, sender: NodeId, message: MB, out: Out) -> None:
    rows = []
    for id, epoch in message.gone:
        row = state.tables.rows.get(id)
        if row is not None and row.epoch == epoch:
            rows.append(row)
    _lose(state, message.type, rows, sender, out)


def _lose(state: State, event_type: str, rows: Iterable[Row], gone: NodeId, out: Out) -> None:
    empty = []
    for row in rows:
        row.origin.pop(gone, None)
        question = state.questions.get(row.interest.id)
        if not row.has_source and (question is None or question.epoch != row.epoch):
            empty.append(row)  # while its question runs, other publishers may still answer; then `finish` withdraws it
    withdraw(state, event_type, empty, out)
