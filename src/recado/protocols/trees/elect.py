"""Election: a candidate takes the place of a publisher that leaves or fails. Off unless ``elect`` is set.

The tree document leaves it for the future (section 7.2.3): a new publisher is to be elected by attraction force. Nodes
whose application could publish a type, too, stand by for it (``BecomeCandidate``). The force of a candidate is the
number of trees of the type that it is on already, since on each of them it needs no new branch; among equals the
nearest is taken.

*The call.* CALL floods like MP and its answers are collected like MP's, one a link: does anybody publish the type, does
anybody want it, and who is the best candidate? It costs 2m messages. APPOINT walks the branch to the candidate, which
becomes a publisher and searches for subscriptions: it is grafted onto their trees, and no subscription is made again.

*Who calls.* A publisher that leaves by itself calls first, and stays in the trees until its successor has been grafted,
so there is no gap. After a crash the subscribers call, once their rebuilt trees have found no publisher; each waits
for a time drawn by chance, and the first call serves for all. A new candidate calls, too, since subscribers may wait.

*One of them.* Two calls at once, or two parts of the overlay that meet, may bring forth two. An elected publisher
searches with STAND_IN, which all nodes hear: of two the one of lower rank stands down, and any of them does if a
publisher of its own right is there. Whoever is in the right and hears another's search makes itself heard. An elected
publisher that is not needed any more stays in the trees for ``settle_seconds``, until the other one is grafted.

A subscription to several types is served while any of them is published, so it calls only when none is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recado.protocols.machine import NodeId, Persist, Report, Send, SetTimer
from recado.protocols.pubsub import Elected, StoodDown
from recado.protocols.trees import publisher, repair
from recado.protocols.trees.messages import MP, Answer, Appoint, Call, StandIn
from recado.protocols.trees.state import CallState, Out, State, TreeError, call_later, later, refuse
from recado.protocols.trees.table import speaks_of

ATTEMPTS = 5
"""So often a node calls before it waits for something new to happen: links may be lost while it calls."""


# -- roles


def become_publisher(state: State, event_type: str, out: Out) -> None:
    """Of its own right, whatever the node was before."""
    for roles in (state.election.elected, state.election.yielding, state.election.leaving):
        roles.pop(event_type, None)
    publisher.become_publisher(state, event_type, out)


def become_candidate(state: State, event_type: str, out: Out) -> None:
    if not state.settings.elect:
        raise TreeError(f"node {state.me!r} cannot stand by for {event_type!r}: the setting elect is off")
    state.election.candidate[event_type] = None
    out.append(Persist(f"candidate:{event_type}", True))
    call_later(state, event_type, out)


def become_broker(state: State, event_type: str, out: Out) -> None:
    """Be no candidate any more, and stop publishing; the last publisher looks for a successor first."""
    election = state.election
    stood_by = event_type in election.candidate
    if stood_by:
        del election.candidate[event_type]
        out.append(Persist(f"candidate:{event_type}", None))
    if event_type not in state.published and stood_by:
        return
    if not state.settings.elect or event_type not in state.published:
        publisher.become_broker(state, event_type, out)
        return
    _retire(state, event_type)
    out.append(Persist(f"publishes:{event_type}", None))
    election.leaving[event_type] = None
    call(state, event_type, out)


def _retire(state: State, event_type: str) -> None:
    """No publisher from now on; what the trees are told of it is the caller's affair."""
    del state.published[event_type]
    state.lost.pop(event_type, None)
    state.election.elected.pop(event_type, None)
    state.election.yielding.pop(event_type, None)


def _take_office(state: State, event_type: str, out: Out) -> None:
    election = state.election
    if event_type in state.published:
        if event_type in election.yielding:  # that one may have gone again; if not, it will answer this search
            del election.yielding[event_type]
            repair.search_later(state, event_type, out)
        return
    election.elected[event_type] = 1 + state.rng.randrange(1 << 62)
    state.published[event_type] = None
    out.append(Report(Elected(event_type)))
    publisher.search(state, event_type, out)


def leave(state: State, event_type: str, out: Out) -> None:
    """The successor, if there is one, is in the trees by now."""
    if event_type in state.election.leaving:
        del state.election.leaving[event_type]
        if event_type not in state.published:
            publisher.leave_trees(state, event_type, out)


def stand_down(state: State, event_type: str, out: Out) -> None:
    if event_type in state.election.yielding:
        _retire(state, event_type)
        out.append(Report(StoodDown(event_type)))
        publisher.leave_trees(state, event_type, out)


def on_search(state: State, sender: NodeId, message: MP | StandIn, out: Out) -> None:
    """A search for subscriptions, as ever; and a word to those who publish the same."""
    heard = message.op in state.searches
    publisher.on_search(state, sender, message, out)
    type, election = message.type, state.election
    if heard or not state.settings.elect or type not in state.published:
        return
    mine = election.elected.get(type)
    if isinstance(message, MP):
        if mine is not None:
            _yield(state, type, out)
    elif mine is not None and mine < message.rank:
        _yield(state, type, out)
    elif type not in election.yielding:
        repair.search_later(state, type, out)


def _yield(state: State, event_type: str, out: Out) -> None:
    if event_type not in state.election.yielding:
        state.election.yielding[event_type] = None
        out.append(SetTimer(("yield", event_type), state.settings.settle_seconds))


# -- the call


def call_if_needed(state: State, event_type: str, out: Out) -> None:
    """A wait is over: is there still a subscription without publisher, or a candidate who might be one?"""
    attempts, settle = state.election.attempts, state.settings.settle_seconds
    if state.now - state.election.heard.pop(event_type, state.now - settle) < settle:
        later(state, "call", event_type, settle, out)  # somebody else has called, and that may serve
        return
    stands_by = event_type in state.election.candidate and event_type not in state.published
    if (stands_by or _is_unserved(state, event_type)) and attempts.get(event_type, 0) < ATTEMPTS:
        attempts[event_type] = attempts.get(event_type, 0) + 1
        call(state, event_type, out)


def _is_unserved(state: State, event_type: str) -> bool:
    return any(local.type == event_type and not local.published for local in state.local.values())


def call(state: State, event_type: str, out: Out) -> None:
    op = 1 + state.rng.randrange(1 << 62)
    begun = state.election.calls[op] = CallState(op, event_type, state.me, set(state.neighbours))
    _contribute(state, begun)
    message = Call(op, event_type)
    for neighbour in state.neighbours:
        out.append(Send(neighbour, message, "a call for a publisher of a type"))
    _finish_if_done(state, begun, out)


def on_call(state: State, sender: NodeId, message: Call, out: Out) -> None:
    calls = state.election.calls
    known = calls.get(message.op)
    if known is not None:
        if sender in known.pending:
            known.pending.discard(sender)
            _finish_if_done(state, known, out)
        else:  # the link is younger than this node's part in the call
            out.append(Send(sender, Answer(message.op, False, False, True), "this node has taken part already"))
        return
    if len(calls) >= state.settings.max_operations:
        refuse(state, "max_operations", f"a call for a publisher of {message.type!r}", out)
        out.append(Send(sender, Answer(message.op, False, False, False), "too many operations"))
        return
    if ("call", message.type) in state.due:
        state.election.heard[message.type] = state.now
    pending = set(state.neighbours)
    pending.discard(sender)
    heard = calls[message.op] = CallState(message.op, message.type, sender, pending)
    _contribute(state, heard)
    for neighbour in state.neighbours:
        if neighbour != sender:
            out.append(Send(neighbour, message, "a call is passed on"))
    _finish_if_done(state, heard, out)


def _contribute(state: State, heard: CallState) -> None:
    """What this node itself has to say."""
    election, pattern = state.election, heard.type
    heard.published = any(speaks_of(pattern, type) and type not in election.yielding for type in state.published)
    heard.wanted = any(local.type == pattern or speaks_of(local.type, pattern) for local in state.local.values())
    for type in election.candidate:
        if speaks_of(pattern, type):
            _propose(heard, (len(state.tables.of(type)), 0, type), state.me)


def _propose(heard: CallState, candidate: tuple[int, int, str], branch: NodeId) -> None:
    if heard.best is None or candidate[:2] > heard.best[:2]:
        heard.best, heard.branch = candidate, branch


def on_answer(state: State, sender: NodeId, message: Answer, out: Out) -> None:
    heard = state.election.calls.get(message.op)
    if heard is None or sender not in heard.pending:
        return
    heard.published = heard.published or message.published
    heard.wanted = heard.wanted or message.wanted
    heard.sure = heard.sure and message.sure
    if message.force >= 0:
        _propose(heard, (message.force, -message.hops - 1, message.type), sender)
    heard.pending.discard(sender)
    _finish_if_done(state, heard, out)


def link_down(state: State, peer: NodeId, out: Out) -> None:
    """Calls go on without the answer that was to come over this link."""
    for heard in list(state.election.calls.values()):
        if peer in heard.pending:
            heard.sure = False
            heard.pending.discard(peer)
            _finish_if_done(state, heard, out)


def _finish_if_done(state: State, heard: CallState, out: Out) -> None:
    if heard.pending or heard.done:
        return
    heard.done = True
    if heard.parent == state.me:
        del state.election.calls[heard.op]
        _conclude(state, heard, out)
        return
    if heard.parent in state.neighbours:
        force, nearness, type = heard.best or (-1, 0, "")
        answer = Answer(heard.op, heard.published, heard.wanted, heard.sure, force, -nearness, type)
        out.append(Send(heard.parent, answer, "what is known on this side"))
    if heard.best is None:
        del state.election.calls[heard.op]
    else:
        out.append(SetTimer(("forget", heard.op), 2 * state.settings.settle_seconds))


def forget(state: State, op: int, out: Out) -> None:
    """No appointment came by this call."""
    state.election.calls.pop(op, None)


def _conclude(state: State, heard: CallState, out: Out) -> None:
    """Everyone has answered the node that called."""
    type, election = heard.type, state.election
    if type in election.leaving:
        if heard.wanted and not heard.published and heard.best is not None:
            _appoint(state, heard, out)
            out.append(SetTimer(("leave", type), state.settings.settle_seconds))
        else:
            leave(state, type, out)
    elif type in election.candidate and type not in state.published:
        if heard.wanted and not heard.published:
            _take_office(state, type, out)
        elif not heard.sure:
            later(state, "call", type, state.settings.repair_seconds, out)
    elif _is_unserved(state, type) and not heard.published:
        if heard.best is not None:
            _appoint(state, heard, out)
        if heard.best is not None or not heard.sure:  # an appointment may be lost with a link
            later(state, "call", type, state.settings.settle_seconds, out)


def _appoint(state: State, heard: CallState, out: Out) -> None:
    assert heard.best is not None
    type = heard.best[2]
    if heard.branch == state.me:
        if type in state.election.candidate:
            _take_office(state, type, out)
    elif heard.branch in state.neighbours:
        out.append(Send(heard.branch, Appoint(heard.op, type), "a candidate is elected"))


def on_appoint(state: State, sender: NodeId, message: Appoint, out: Out) -> None:
    heard = state.election.calls.pop(message.op, None)
    if heard is not None and heard.done and heard.best is not None and sender == heard.parent:
        _appoint(state, heard, out)


TIMERS: Mapping[str, Callable[[State, Any, Out], None]] = {
    "call": call_if_needed,
    "forget": forget,
    "leave": leave,
    "yield": stand_down,
}


def inspect(state: State) -> dict[str, Any]:
    if not state.settings.elect:
        return {}
    return {"candidate": list(state.election.candidate), "elected": list(state.election.elected)}
