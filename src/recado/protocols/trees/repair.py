"""Repair: what a node does when a link or a neighbour is lost (beyond the tree document, which knows no failures).

A broken link damages the trees that used it, and the operations that were under way on it.

- On the subscriber's side, REPAIR climbs to the root, which after a short wait builds its tree anew, with a new epoch.
- On the publishers' side the rows lead nowhere: they are taken down by C marked ``lost``. A publisher that hears it
  waits for the root's new question, and searches by itself if none comes; for a graft may have been lost on the link
  of which the root never knew.
- A question or search that waited for an answer over the link goes on without it, and whoever began it is told to
  begin again: REPAIR to a root, REDO to a publisher.

A message that is lost with its link needs no other care: both ends notice the loss of the link, and the end that
would have received it acts as if it had heard the worst. Links have to be reliable and in order while they are up.
"""

from __future__ import annotations

from recado.protocols.machine import NodeId, Send
from recado.protocols.trees import publisher
from recado.protocols.trees.messages import Cut, Hello, Merge, Message, Redo, Repair
from recado.protocols.trees.state import (
    CUT,
    LIVE,
    Out,
    Question,
    Search,
    State,
    call_later,
    later,
    rebuild_later,
    report_row,
)
from recado.protocols.trees.subscribe import finish, take_down
from recado.protocols.trees.table import Row


def lose_link(state: State, peer: NodeId, out: Out) -> None:
    """The link to ``peer``, which is no neighbour any more, took these with it."""
    for question in [*state.questions.values(), *state.older.values()]:
        _mend_question(state, question, peer, out)
    for row in list(state.tables.rows.values()):
        _mend_row(state, row, peer, out)
    for search in list(state.searches.values()):
        _mend_search(state, search, peer, out)


def _mend_question(state: State, question: Question, peer: NodeId, out: Out) -> None:
    if question.parent == peer:
        if question.life == LIVE:
            question.life = CUT
    elif peer in question.pending and question.life == LIVE:
        _report_question(state, question, out)
    if peer in question.pending:
        question.pending.discard(peer)
        if not question.pending:
            finish(state, question, out)


def _report_question(state: State, question: Question, out: Out) -> None:
    if question.parent == state.me:
        rebuild_later(state, question.id, question.epoch, out)
    elif not question.disturbed:
        question.disturbed = True
        out.append(Send(question.parent, Repair(question.id, question.epoch), "a question lost a branch"))


def _mend_row(state: State, row: Row, peer: NodeId, out: Out) -> None:
    if peer in row.next:
        del row.next[peer]
        if not row.next:
            row.origin.pop(peer, None)
            take_down(state, row, None, True, out)
            return
    if peer in row.origin:
        del row.origin[peer]
        report_row(state, row, out)


def on_repair(state: State, sender: NodeId, message: Repair, out: Out) -> None:
    id, epoch = message.id, message.epoch
    if id in state.local:
        rebuild_later(state, id, epoch, out)
        return
    search = state.searches.get(message.op) if message.op else None
    if search is not None and id in search.found and search.found[id][0] in state.neighbours:
        out.append(Send(search.found[id][0], message, "damage is reported to the root"))
        return
    question, row = state.questions.get(id), state.tables.rows.get(id)
    if question is not None and question.epoch == epoch and question.life == LIVE:
        _report_question(state, question, out)
    elif row is not None and row.epoch == epoch:
        report_row(state, row, out)


# -- searches


def _mend_search(state: State, search: Search, peer: NodeId, out: Out) -> None:
    if search.parent == peer:
        search.disturbed = True  # nobody is left to tell
    branches = [id for id, (branch, _) in search.found.items() if branch == peer]
    if search.done:
        return  # a graft that comes for such a branch is sent back
    for id in branches:
        del search.found[id]
    if branches or peer in search.pending:
        _report_search(state, search, out)
    if peer in search.pending:
        search.pending.discard(peer)
        if not search.pending:
            publisher.finish(state, search, out)


def _report_search(state: State, search: Search, out: Out) -> None:
    if search.parent == state.me:
        search_later(state, search.type, out)
    elif not search.disturbed:
        search.disturbed = True
        out.append(Send(search.parent, Redo(search.op), "a search lost a branch"))


def on_redo(state: State, sender: NodeId, message: Redo, out: Out) -> None:
    search = state.searches.get(message.op)
    if search is not None:
        _report_search(state, search, out)


def search_later(state: State, event_type: str, out: Out) -> None:
    """A whole search is due, after a short wait for what else may happen."""
    if event_type in state.published:
        later(state, "search", event_type, state.settings.repair_seconds, out)


def search_is_due(state: State, event_type: str, out: Out) -> None:
    if event_type in state.published:
        publisher.search(state, event_type, out)


def search_for_missing(state: State, event_type: str, out: Out) -> None:
    """This publisher has waited long enough; if all that was lost has come back, there is nothing to do."""
    missing = state.lost.pop(event_type, {})
    if event_type in state.published and any(id not in state.tables.rows for id in missing):
        publisher.search(state, event_type, out)


def rebuild_everything(state: State, out: Out) -> None:
    """Others may be within reach now: look for publishers and for subscriptions again."""
    for local in state.local.values():
        rebuild_later(state, local.id, local.epoch, out)
    for type in state.published:
        search_later(state, type, out)
    for type in state.election.candidate:
        call_later(state, type, out)


# --- New links: do they join parts of the overlay that did not know each other? --------------------------------------
#
# A link between two nodes that were connected anyway changes nothing: all trees stay as they are. A link that joins two
# components brings publishers and subscribers within each other's reach. To tell the two cases apart every node knows a
# number that names its component, and neighbours on a new link exchange theirs (HELLO).
#
# The name changes when a link is lost, since that may split the component: each end draws a random token and floods it
# (CUT), and whoever hears a token adds it (exclusive or) to its name. What is still connected hears both tokens and
# agrees; what was cut off hears one of them only, so the names differ from then on. When two names meet on a new link,
# one side takes the name of the other by a flood (MERGE), and every node that hears it builds its trees and searches
# for subscriptions anew; that is enough for both sides to find each other. A node that comes alone is always
# the side that yields, so that its joining costs the others nothing.
#
# A name can be out of date while a flood is under way. So a node that hears of a cut while it has a link younger than
# ``settle_seconds``, on which the names were equal, does not trust that judgement, and has everybody look again.


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
