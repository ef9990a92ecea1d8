"""Events that are known to be missing are asked for (setting ``ordered``; see ``order``).

A super node asks the one that stamped the event, then partners of repairs; a sub node asks its father and brothers.
Whoever has the publisher's latest events, or an equal filter and no gap itself, can say which numbers there were: then
nothing remains open. Others give what they have.
"""

from __future__ import annotations

from recado.model.event import Event
from recado.protocols.baselines.algebra import answers
from recado.protocols.machine import SetTimer
from recado.protocols.supernodes import order
from recado.protocols.supernodes.dissemination import consume, deliver, pass_down, pass_to_brood
from recado.protocols.supernodes.members import Endpoint
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
        flow.tries += 1
        if flow.tries > state.settings.order_tries:
            deliver(state, order.give_up(flow, source, out), out)
            if not flow.held:
                continue
        whom = _choose(state, flow)
        if whom is not None:
            key = state.layer.key if state.layer is not None else SUB_KEY
            question = Fetch(source, flow.last, min(flow.held), key)
            send(state, whom, question, "events that come before one that has come are missing", out)
    if any(flow.held for flow in events.flows.values()):
        events.waiting = True
        out.append(SetTimer("order", state.settings.order_seconds))


def _choose(state: State, flow: Flow) -> Endpoint | None:
    child, layer = state.child, state.layer
    if child is not None:
        brothers = child.brothers(state.me)
        return pick(state.rng, brothers) if brothers and flow.tries % 3 == 0 else child.father
    if flow.stamper is not None and flow.stamper != state.me and flow.tries % 3:
        return flow.stamper
    known = list(layer.neighbours.values()) if layer is not None else []
    return pick(state.rng, known) if known else flow.stamper


def on_fetch(state: State, sender: Endpoint, message: Fetch, out: Out) -> None:
    receive(state, message)
    events = order.events_of(state)
    member = state.layer.membership.find(message.key) if state.layer is not None and message.key != SUB_KEY else None
    text = state.filter if member is None else member.filter
    source, after, upto = message.source, message.after, min(message.upto, message.after + order.MOST_HELD)
    asked = range(after + 1, upto + 1)
    log, flow = events.logs.get(source, {}), events.flows.get(source)
    found: dict[int, Event] = {}
    for number in asked:
        event = log.get(number) or events.bodies.get((source, number), (None, 0.0))[0]
        if event is not None and answers(event)(text):
            found[number] = event
    numbers = None
    if all(number in log for number in asked):
        numbers = tuple(found)
    elif flow is not None and text == state.filter and flow.complete <= after and upto <= flow.last:
        oldest = flow.numbers[0] if flow.numbers else upto
        if len(flow.numbers) < order.KEPT or oldest <= after:
            numbers = tuple(number for number in flow.numbers if after < number <= upto)
    reply = Fetched(source, after, upto, numbers, tuple(found.items()))
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
        if consume(state, published, out):
            pass_to_brood(state, published, None, out)
            if state.layer is not None and state.child is None:
                pass_down(state, state.layer, published, None, out)
    for number in [number for number in flow.held if number in befores]:
        flow.held[number] = flow.held[number][0], befores[number]
    deliver(state, order.release(flow), out)
