"""Events that are known to be missing are asked for (setting ``ordered``; see ``order``).

A super node asks the one that stamped the event, then partners of repairs; a sub node asks its father and brothers.
Whoever has the publisher's latest events, or an equal filter and no gap itself, can say which numbers there were: then
nothing remains open. Others give what they have.
"""

from __future__ import annotations

from recado.model.event import Event
from recado.protocols.algebra import answers
from recado.protocols.machine import SetTimer
from recado.protocols.supernodes import order
from recado.protocols.supernodes.dissemination import deliver, forget_partner, pass_down, pass_to_brood, recover
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.membership import random_member
from recado.protocols.supernodes.messages import Fetch, Fetched
from recado.protocols.supernodes.repair import SUB_KEY
from recado.protocols.supernodes.state import Flow, Out, Publication, State, pick, receive, send


def ask_for_missing(state: State, out: Out) -> None:
    """Events wait for others: ask, or give up what nobody has."""
    events = state.events
    if events is None:
        return
    events.waiting = False
    for source, flow in list(events.flows.items()):
        if not flow.held:
            continue
        flow.tries += state.layer is None or state.layer.active  # others do not know yet what one that enters wants
        if flow.tries > state.settings.order_tries:
            deliver(state, order.give_up(flow, source, out), out)
            if not flow.held:
                continue
        whom = _choose(state, flow)
        if whom is not None:
            _ask(state, source, flow, whom, out)
    if any(flow.held for flow in events.flows.values()):
        events.waiting = True
        out.append(SetTimer("order", state.settings.order_seconds))


def _ask(state: State, source: int, flow: Flow, whom: Endpoint, out: Out) -> None:
    key = state.layer.key if state.layer is not None else SUB_KEY
    question = Fetch(source, flow.last, min(flow.held), key)
    send(state, whom, question, "events that come before one that has come are missing", out)


def fetch_failed(state: State, to: Endpoint, message: Fetch, out: Out) -> None:
    """Who was asked is gone: perhaps somebody else knows who publishes for that publisher now."""
    forget_partner(state, to, out)
    flow = state.events.flows.get(message.source) if state.events is not None else None
    if flow is None or not flow.held:
        return
    flow.tries = max(0, flow.tries - 1)  # nobody has said that he does not have it
    child, whom = state.child, None
    if child is not None and child.father == to:
        brothers = child.brothers(state.me)
        whom = pick(state.rng, brothers) if brothers else None
    elif flow.stamper == to:
        flow.stamper = None
        whom = _choose(state, flow)
    if whom is not None:
        _ask(state, message.source, flow, whom, out)


def _choose(state: State, flow: Flow) -> Endpoint | None:
    child, layer = state.child, state.layer
    if child is not None:
        brothers = child.brothers(state.me)
        return pick(state.rng, brothers) if brothers and flow.tries % 3 == 0 else child.father
    if flow.stamper is not None and flow.stamper != state.me and flow.tries % 3:
        return flow.stamper
    if layer is None:
        return flow.stamper
    member = random_member(state, layer)  # who has just taken its father's place has no partners for repairs yet
    known = list(layer.neighbours.values()) or ([] if member is None else [member.endpoint])
    return pick(state.rng, known) if known else flow.stamper


def _filter_of(state: State, key: int) -> str | None:
    """Of who asks; None for a member that has just entered the layer, so that this node does not know it yet."""
    if key == SUB_KEY:
        return state.filter
    member = state.layer.membership.find(key) if state.layer is not None else None
    return None if member is None else member.filter


def on_fetch(state: State, sender: Endpoint, message: Fetch, out: Out) -> None:
    receive(state, message)
    events = order.events_of(state)
    text = _filter_of(state, message.key)
    source, after, upto = message.source, message.after, min(message.upto, message.after + order.MOST_HELD)
    asked = range(after + 1, upto + 1)
    log, flow = events.logs.get(source, {}), events.flows.get(source)
    found: dict[int, Event] = {}
    for number in asked:
        event = log.get(number) or events.bodies.get((source, number), (None, 0.0))[0]
        if event is not None and text is not None and answers(event)(text):
            found[number] = event
    numbers = None
    if text is not None and all(number in log for number in asked):
        numbers = tuple(found)
    elif flow is not None and text == state.filter and flow.complete <= after and upto <= flow.last:
        oldest = flow.numbers[0] if flow.numbers else upto
        if len(flow.numbers) < order.KEPT or oldest <= after:
            numbers = tuple(number for number in flow.numbers if after < number <= upto)
    stamper = flow.stamper if flow is not None and numbers is None else None
    reply = Fetched(source, after, upto, numbers, tuple(found.items()), stamper)
    send(state, sender, reply, "the events of a publisher that the asker's filter accepts", out)


def on_fetched(state: State, sender: Endpoint, message: Fetched, out: Out) -> None:
    receive(state, message)
    events = order.events_of(state)
    flow = events.flows.get(message.source)
    if flow is None:
        return
    source, numbers = message.source, message.numbers
    befores: dict[int, int] = {}
    if numbers is not None:
        befores = dict(zip(numbers, (message.after, *numbers), strict=False))
    for number, event in message.events:
        if number in befores:
            events.before[source, number] = befores[number]
        published = Publication((source, number), event)
        if recover(state, published, out):
            pass_to_brood(state, published, None, out)
            if state.layer is not None and state.child is None:
                pass_down(state, state.layer, published, None, out)
    for number in [number for number in flow.held if number in befores]:
        flow.held[number] = flow.held[number][0], befores[number]
    deliver(state, order.release(flow), out)
    knows = message.stamper
    if flow.held and state.child is None and knows not in (None, state.me, sender, flow.stamper):
        flow.stamper = knows
        _ask(state, source, flow, knows, out)
