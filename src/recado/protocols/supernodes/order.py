"""Events of one publisher in order, and what is missing of them (setting ``ordered``).

A node with a filter cannot see from a number alone whether it missed something: the events between two that it got may
not have been for it. But complete visibility tells a publisher every filter of the layer. Whoever gives an event to
the tree, the publisher or the super node that publishes for it, keeps the publisher's latest events (``logs``) and
stamps the new one: by filter, the number of the previous event that this filter accepts, where that is not just the
number before. The tree takes along the stamps of those that are still to be served, and a family has one filter, so
its chain takes one number. What came before is then known everywhere, exactly.

An event whose predecessor has not come is held back (``Flow.held``). After ``order_seconds`` what is missing is asked
for (``recovery``); what nobody has after ``order_tries`` questions is reported as a gap, and the rest is delivered.

Assumes that a publisher's numbers have no holes where it publishes. When a sub node gets another father it gives him
its latest events; those that are older than that are not known to him, and then nothing is said about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from recado.model.event import Event
from recado.protocols.algebra import answers, name_of
from recado.protocols.machine import Report, SetTimer
from recado.protocols.pubsub import Missed
from recado.protocols.supernodes.members import Endpoint, Member
from recado.protocols.supernodes.messages import EventId, TurmoilCast, TurmoilSubnode
from recado.protocols.supernodes.state import Events, Flow, Out, Publication, State

UNKNOWN = -1
"""Instead of the previous number: the one who stamped it does not know."""
NOT_STAMPED = -2

KEPT = 64
"""Events of a publisher that are kept to stamp later ones, and numbers that are kept of what was delivered. A new
father is given them, and so far a node looks back that hears of a publisher for the first time."""
OVERTAKEN = 3
NEWCOMER_SECONDS = 30.0
MOST_HELD = 64
MOST_FLOWS = 1_024
MOST_LOGS = 256


# --- Where an event enters the tree ----------------------------------------------------------------------------------


def events_of(state: State) -> Events:
    if state.events is None:
        state.events = Events()
    return state.events


def keep(state: State, published: Publication, earlier: Sequence[tuple[int, Event]]) -> None:
    """Keep an event of a publisher that this node publishes for, and ``earlier`` ones that it was given."""
    logs = events_of(state).logs
    source, number = published.id
    log = logs.pop(source, {}) | dict(earlier) | {number: published.event}
    if len(log) > KEPT:
        log = {one: log[one] for one in sorted(log)[-KEPT:]}
    logs[source] = log
    while len(logs) > MOST_LOGS:
        del logs[next(iter(logs))]


def recent_of(state: State, event_id: EventId, father: Endpoint) -> tuple[tuple[int, Event], ...]:
    """What a father is told with an event: much if he is new, or else the few that this one may have overtaken."""
    known = state.told == father
    if event_id[0] == state.source:
        state.told = father
    log = events_of(state).logs.get(event_id[0], {})
    return tuple((one, log[one]) for one in sorted(log) if one < event_id[1])[-OVERTAKEN if known else -KEPT :]


def overtaken(state: State, source: int, recent: Sequence[tuple[int, Event]]) -> list[Publication]:
    """Of a publisher's earlier events those that this node should have published and has not got yet."""
    log = events_of(state).logs.get(source)
    if not log:
        return []
    return [Publication((source, number), event) for number, event in recent if number > min(log) and number not in log]


def stamp(state: State, published: Publication) -> None:
    """Work out what comes before an event, for every filter of the layer that accepts it."""
    layer, events = state.layer, events_of(state)
    if layer is None or not layer.active or published.id in events.stamps:
        return
    log = events.logs.get(published.id[0], {})
    accepts, number = answers(published.event), published.id[1]
    stamps: dict[str, int] = {}
    for text in dict.fromkeys([*(one.filter for one in layer.membership.members), state.filter]):
        if accepts(text):
            found = previous(log, number, text)
            if found != number - 1:
                stamps[name_of(text)] = found
    events.stamps[published.id] = state.me, stamps


def previous(log: dict[int, Event], number: int, text: str) -> int:
    """The number of the last event before ``number`` that the filter accepts; 0 if there is none."""
    for one in range(number - 1, 0, -1):
        event = log.get(one)
        if event is None:
            return UNKNOWN
        if answers(event)(text):
            return one
    return 0


# --- On the way ------------------------------------------------------------------------------------------------------


def add_stamps(state: State, message: TurmoilCast, members: Iterable[Member]) -> TurmoilCast:
    """The message with the stamps of those that it is for."""
    stamper, stamps = events_of(state).stamps.get(message.id, (None, {}))
    names = dict.fromkeys(name_of(member.filter) for member in members)
    before = tuple((name, stamps[name]) for name in names if name in stamps)
    return msgspec.structs.replace(message, before=before, stamper=stamper)


def read_stamps(state: State, message: TurmoilCast) -> None:
    if message.stamper is not None:
        events_of(state).stamps.setdefault(message.id, (message.stamper, dict(message.before)))


def read_before(state: State, message: TurmoilSubnode) -> None:
    if message.before != NOT_STAMPED:
        events_of(state).before[message.id] = message.before


def before(state: State, event_id: EventId, name: str) -> int:
    """What comes before an event for the filter of this name."""
    events = events_of(state)
    if name == state.name and event_id in events.before:
        return events.before[event_id]
    stamper, stamps = events.stamps.get(event_id, (None, {}))
    return stamps.get(name, event_id[1] - 1) if stamper is not None else NOT_STAMPED


# --- Where an event arrives ------------------------------------------------------------------------------------------


def take(state: State, events: Events, published: Publication, out: Out) -> list[Event]:
    """An event for this node came: all that can be delivered now, in order."""
    (source, number), event = published
    if source == state.source:
        return [event]
    earlier = before(state, published.id, state.name)
    flow = events.flows.get(source)
    if flow is None:
        flow = events.flows[source] = Flow(_first_before(state, number, earlier))
        _limit_flows(events)
    if number <= flow.last:
        state.late += 1
        return []
    flow.stamper = events.stamps.get(published.id, (flow.stamper, {}))[0]
    flow.held[number] = event, flow.last if earlier == UNKNOWN else earlier
    ready = release(flow)
    if len(flow.held) > MOST_HELD:
        ready += give_up(flow, source, out)
    _wait(state, events, flow, out)
    return ready


def _first_before(state: State, number: int, earlier: int) -> int:
    """Up to where nothing of a publisher is missed that this node never heard of.

    A node that came lately does not ask for what was before its time; one that is there for long looks back a bit.
    """
    if state.now - state.born < NEWCOMER_SECONDS:
        return earlier if earlier >= 0 else number - 1
    return max(0, number - 1 - KEPT)


def learn_before(state: State, events: Events, event_id: EventId, out: Out) -> list[Event]:
    """A known event came again, perhaps with its stamp: what can be delivered now."""
    flow = events.flows.get(event_id[0])
    if flow is None or event_id[1] not in flow.held or flow.held[event_id[1]][1] != NOT_STAMPED:
        return []
    earlier = before(state, event_id, state.name)
    flow.held[event_id[1]] = flow.held[event_id[1]][0], flow.last if earlier == UNKNOWN else earlier
    return release(flow)


def release(flow: Flow) -> list[Event]:
    """Take out what waits for nothing any more."""
    ready = []
    while flow.held:
        number = min(flow.held)
        event, earlier = flow.held[number]
        if number > flow.last + 1 and (earlier == NOT_STAMPED or earlier > flow.last):
            break
        del flow.held[number]
        if number > flow.last:
            ready.append(event)
            _advance(flow, number)
    if not flow.held:
        flow.tries = 0
    return ready


def _advance(flow: Flow, number: int) -> None:
    flow.last, flow.tries = number, 0
    flow.numbers.append(number)
    del flow.numbers[:-KEPT]


def give_up(flow: Flow, source: int, out: Out) -> list[Event]:
    """What is missing before the first event that waits is lost: say so, and go on without it."""
    number = min(flow.held)
    event, earlier = flow.held.pop(number)
    out.append(Report(Missed(source, flow.last, number - 1 if earlier == NOT_STAMPED else earlier)))
    flow.complete = number
    _advance(flow, number)
    return [event, *release(flow)]


def _wait(state: State, events: Events, flow: Flow, out: Out) -> None:
    if flow.held and not events.waiting:
        events.waiting = True
        out.append(SetTimer("order", state.settings.order_seconds))


def _limit_flows(events: Events) -> None:
    """Forget the publisher that was met first, unless something of it waits."""
    if len(events.flows) > MOST_FLOWS:
        oldest = next((source for source, flow in events.flows.items() if not flow.held), next(iter(events.flows)))
        del events.flows[oldest]
