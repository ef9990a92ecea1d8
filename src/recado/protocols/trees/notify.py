"""NE: bring an event to those who want it (section 2.4 of the tree document).

A notification climbs the ``next`` nodes of all matching rows, one copy to each neighbour. On a graph with cycles it can
come back, so either every node drops what it has seen (``forwarding="seen"``), or every copy says which
subscriptions it serves and only their rows are followed (``"subscriptions"``): each tree is then walked once.
"""

from __future__ import annotations

from collections.abc import Collection

from recado.model.event import Event
from recado.protocols.machine import Deliver, NodeId, Send, SetTimer
from recado.protocols.pubsub import Notified
from recado.protocols.trees.messages import N, Stamp
from recado.protocols.trees.state import Out, State, TreeError, WaitingNotification, keep
from recado.protocols.trees.table import Nodes, Row, speaks_of, verdicts_of

# --- Causal order, which the tree document leaves for the future (section 7.2). Off unless ``causal`` is set ---------
#
# Every event of a publisher has a number among its events of that type. A notification carries the latest numbers that
# its publisher knew of, from what it published, delivered, or was told with that: what the event may depend on. A
# subscriber holds it back while one of those is of a type that it subscribes to, and has not come. Filters let events
# through that depend on others which they do not, and the subscriber cannot know; so nothing waits longer than
# ``causal_wait_seconds``.


def dependencies(state: State, event_type: str) -> tuple[Stamp, ...]:
    """The latest event of every publisher and type that this node knows; then its own new one."""
    after = tuple((token, kind, number) for (token, kind), number in state.after.items())
    _known(state, state.token, event_type, state.numbers[event_type])
    return after


def deliver(state: State, message: N, ids: tuple[str, ...], out: Out) -> None:
    """Hand the event to the application as soon as it is its turn."""
    held = WaitingNotification(message, ids)
    if _missing(state, message):
        key = state.tick()
        state.waiting[key] = held
        out.append(SetTimer(("causal", key), state.settings.causal_wait_seconds))
        return
    _hand_over(state, held, out)
    _release(state, out)


def give_up(state: State, key: int, out: Out) -> None:
    """What it waited for did not come in time."""
    held = state.waiting.pop(key, None)
    if held is not None:
        _hand_over(state, held, out)
        _release(state, out)


def _release(state: State, out: Out) -> None:
    """Deliver what has waited for nothing but what came just now."""
    ready = True
    while ready:
        ready = False
        for key, held in list(state.waiting.items()):
            if not _missing(state, held.message):
                del state.waiting[key]
                _hand_over(state, held, out)
                ready = True


def _missing(state: State, message: N) -> bool:
    return any(
        number > state.after.get((token, type), 0)
        and any(speaks_of(local.type, type) for local in state.local.values())
        for token, type, number in message.after
    )


def _hand_over(state: State, held: WaitingNotification, out: Out) -> None:
    message = held.message
    for token, type, number in message.after:  # what this node publishes next may depend on these too
        _known(state, token, type, number)
    _known(state, message.token, message.event.type, message.number)
    ids = tuple(id for id in held.ids if id in state.local)
    if ids:
        state.delivered += 1
        out.append(Deliver(Notified(message.event, ids)))


def _known(state: State, token: int, event_type: str, number: int) -> None:
    """Remember the latest; the publisher that was silent for longest is forgotten first."""
    latest = max(number, state.after.pop((token, event_type), 0))
    if len(state.after) >= state.settings.max_kept:
        del state.after[next(iter(state.after))]
    state.after[token, event_type] = latest


# --- NE: bring an event to those who want it (section 2.4 of the tree document) --------------------------------------


def publish(state: State, event: Event, out: Out) -> None:
    if event.type not in state.published:
        known = ", ".join(state.published) or "nothing"
        raise TreeError(
            f"node {state.me!r} does not publish {event.type!r} but {known}; it has to become a publisher of it first"
        )
    number = state.numbers[event.type] = state.numbers.get(event.type, 0) + 1
    message = N(state.token, number, event, (), dependencies(state, event.type) if state.settings.causal else ())
    if state.settings.buffer:
        keep(state, message)
    if state.settings.forwarding == "seen":
        state.seen.add((state.token, event.type, number))
        forward(state, message, None, out, deliver=state.settings.echo)
        return
    ids = tuple(row.interest.id for row in _matching(state, event))
    if ids:
        _forward_addressed(state, message, ids, None, out, deliver=state.settings.echo)


def on_notification(state: State, sender: NodeId, message: N, out: Out) -> None:
    if message.ids:
        _forward_addressed(state, message, message.ids, sender, out, deliver=True)
    elif state.seen.add((message.token, message.event.type, message.number)):
        forward(state, message, sender, out, deliver=True)
    else:
        state.duplicates += 1


def forward(state: State, message: N, sender: NodeId | None, out: Out, *, deliver: bool) -> None:
    event = message.event
    targets: Nodes = {}
    for row in _matching(state, event):
        targets.update(row.next)
    targets.pop(state.me, None)
    for node in targets:
        if node != sender:
            out.append(Send(node, message, "an event climbs the trees that it matches"))
    if deliver and state.local:
        _deliver(state, message, _own_matching(state, event), out)


def _matching(state: State, event: Event) -> Collection[Row]:
    rows = state.tables.of(event.type)
    if state.settings.filtering == "type":
        return rows
    known = verdicts_of(event)
    verdicts, judge = known.verdicts, known.judge
    found = []
    for row in rows:
        verdict = verdicts.get(row.filter)
        if verdict or (verdict is None and judge(row.filter)):
            found.append(row)  # the hottest loop of a simulation, and faster than a comprehension
    return found


def _own_matching(state: State, event: Event) -> tuple[str, ...]:
    """This node's subscriptions that want the event, whatever relays look at."""
    known = verdicts_of(event)
    found = []
    for local in state.local.values():
        if local.type == event.type or speaks_of(local.type, event.type):
            verdict = known.verdicts.get(local.filter)
            if verdict or (verdict is None and known.judge(local.filter)):
                found.append(local.id)
    return tuple(found)


def _forward_addressed(
    state: State, message: N, ids: tuple[str, ...], sender: NodeId | None, out: Out, *, deliver: bool
) -> None:
    """Follow the rows of these subscriptions, and no others."""
    served: dict[NodeId, list[str]] = {}
    for id in ids:
        row = state.tables.rows.get(id)
        if row is not None:
            for node in row.next:
                if node != sender:
                    served.setdefault(node, []).append(id)
        elif id in state.local:
            served.setdefault(state.me, []).append(id)
    mine = served.pop(state.me, [])
    for node, theirs in served.items():
        copy = N(message.token, message.number, message.event, tuple(theirs), message.after)
        out.append(Send(node, copy, "an event climbs the trees that it matches"))
    if mine and deliver:
        wanted = _own_matching(state, message.event)
        carriers = dict.fromkeys(mine)
        _deliver(state, message, tuple(id for id in wanted if (state.local[id].carrier or id) in carriers), out)


def _deliver(state: State, message: N, ids: tuple[str, ...], out: Out) -> None:
    if state.settings.buffer:  # what is replayed may have been there before
        event = message.event
        ids = tuple(id for id in ids if state.seen.add((message.token, event.type, message.number, id)))
    if not ids:
        return
    if state.settings.causal:
        deliver(state, message, ids, out)
        return
    state.delivered += 1
    out.append(Deliver(Notified(message.event, ids)))
