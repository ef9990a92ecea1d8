"""Events: a tree among super nodes, then a chain through each family (2.11), and how a sub node publishes (2.14).

Who is responsible for an interval of the ring looks for the first member in it whose filter accepts the event, and
gives it the event and the rest of the interval. So nobody gets what it did not ask for, and only those work who want
it. A member whose view is behind the sender's keeps the event and gives the interval back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recado.model.event import Event
from recado.protocols.algebra import answers
from recado.protocols.machine import Deliver, Send, SetTimer
from recado.protocols.pubsub import Notified
from recado.protocols.supernodes import enquiry, order
from recado.protocols.supernodes.load import delegate, give_back, may_relay
from recado.protocols.supernodes.members import SPACE, Endpoint
from recado.protocols.supernodes.membership import draw_fanout, note_departure
from recado.protocols.supernodes.messages import EventId, PublishUp, TurmoilCast, TurmoilReject, TurmoilSubnode
from recado.protocols.supernodes.state import Events, Layer, Out, Publication, State, household, pick, receive, send
from recado.protocols.wire import write_filter

OUTBOX_SECONDS = 5.0

# --- At one node -----------------------------------------------------------------------------------------------------


def publish(state: State, event: Event, out: Out) -> None:
    """The application has an event."""
    state.number += 1
    published = Publication((state.source, state.number), event)
    consume(state, published, out)
    if answers(event)(state.filter):
        pass_to_brood(state, published, None, out)
    if state.settings.ordered:
        order.keep(state, published, ())
    pass_out(state, published, None, out)


def pass_out(state: State, published: Publication, origin: Endpoint | None, out: Out) -> None:
    """Give an event to the system: by the tree and the own family, by the father, or later."""
    layer = state.layer
    if layer is not None and layer.active:
        cast(state, layer, published, out)
        pass_down(state, layer, published, origin, out)
    elif (father := _way_up(state)) is not None:
        recent = order.recent_of(state, published.id, father) if state.settings.ordered else ()
        out.append(Send(father, PublishUp(*published, recent), "a sub node publishes through its father"))
    elif len(state.outbox) < state.settings.max_outbox:
        state.outbox.append(published)
        out.append(SetTimer("outbox", OUTBOX_SECONDS))


def _way_up(state: State) -> Endpoint | None:
    """Who publishes for a node that is no active member."""
    child = state.child or state.former
    return state.benefactor if child is None else child.father


def flush_outbox(state: State, out: Out) -> None:
    waiting, state.outbox = state.outbox, []
    for published in waiting:
        pass_out(state, published, None, out)


def on_publish_up(state: State, sender: Endpoint, message: PublishUp, out: Out) -> None:
    receive(state, message)
    published = Publication(message.id, message.event)
    if not state.settings.ordered:
        _publish_for(state, sender, published, out)
        return
    for earlier in order.overtaken(state, message.id[0], message.recent):
        order.keep(state, earlier, ())
        order.stamp(state, earlier)
        _publish_for(state, sender, earlier, out)
    order.keep(state, published, message.recent)
    order.stamp(state, published)
    _publish_for(state, sender, published, out)


def _publish_for(state: State, sender: Endpoint, published: Publication, out: Out) -> None:
    """What a repair brought here may not be published yet: the publisher's last father may have died before that."""
    new = consume(state, published, out)
    if new or _was_recovered(state, published.id):
        if answers(published.event)(state.filter):
            pass_to_brood(state, published, sender, out)
        pass_out(state, published, sender, out)


def publish_up_failed(state: State, to: Endpoint, message: PublishUp, out: Out) -> None:
    """The father is gone: keep the event until there is another one."""
    if len(state.outbox) < state.settings.max_outbox:
        state.outbox.append(Publication(message.id, message.event))
        out.append(SetTimer("outbox", OUTBOX_SECONDS))


def _was_recovered(state: State, event_id: EventId) -> bool:
    """Did a repair bring it? That is asked once: from now on it is published."""
    if state.events is None or event_id not in state.events.recovered:
        return False
    del state.events.recovered[event_id]
    return True


def recover(state: State, published: Publication, out: Out) -> bool:
    """Take an event that a repair brought. False if it was known."""
    new = consume(state, published, out)
    if new and state.events is not None:
        state.events.recovered[published.id] = None
    return new


def consume(state: State, published: Publication, out: Out) -> bool:
    """Take an event, and deliver it if a subscription asks for it. False if it was known."""
    event_id, event = published
    events = state.events
    if events is None:
        events = state.events = Events()
    if event_id in events.seen:
        state.duplicates += 1
        if state.settings.ordered:
            deliver(state, order.learn_before(state, events, event_id, out), out)
        return False
    _remember(state, events, published)
    if answers(event)(state.filter):
        events.history[event_id] = None
        ready = order.take(state, events, published, out) if state.settings.ordered else (event,)
        deliver(state, ready, out)
    if state.settings.event_repair and not events.repairing:
        events.repairing = True
        out.append(SetTimer("events", state.settings.event_repair_seconds * (0.5 + state.rng.random())))
    return True


def deliver(state: State, ready: Sequence[Event], out: Out) -> None:
    """Hand events to the application, with its subscriptions that match."""
    for event in ready:
        accepts = answers(event)
        matching = [id for id, one in state.subscriptions.items() if accepts(write_filter(one.whole_filter()))]
        if matching:
            state.delivered += 1
            out.append(Deliver(Notified(event, tuple(matching))))


def _remember(state: State, events: Events, published: Publication) -> None:
    """Keep the body for a while (R34), and the identifier for longer."""
    event_id, event = published
    settings, bodies = state.settings, events.bodies
    events.seen[event_id] = None
    bodies[event_id] = (event, state.now)
    while len(bodies) > 2 * settings.history:
        oldest = next(iter(bodies))
        if bodies[oldest][1] > state.now - settings.keep_seconds and len(bodies) <= settings.max_events:
            break
        del bodies[oldest]
        events.history.pop(oldest, None)
        events.recovered.pop(oldest, None)
        events.stamps.pop(oldest, None)
        events.before.pop(oldest, None)
    while len(events.seen) > 4 * settings.max_events:
        del events.seen[next(iter(events.seen))]


# --- The tree among super nodes --------------------------------------------------------------------------------------


class Arc(NamedTuple):
    """So many places of the ring from ``first`` on, up to the identifier ``high``."""

    first: int
    places: int
    high: int


def cast(state: State, layer: Layer, published: Publication, out: Out) -> None:
    """Be responsible for the whole ring, from a random place on."""
    if state.settings.ordered:
        order.stamp(state, published)
    keys = layer.membership.keys
    if not keys:
        return
    first = int(state.rng.random() * len(keys))
    begun = len(out)
    _cut(state, layer, published, Arc(first, len(keys), keys[first]), out)
    delegate(state, layer, begun, out)


def _cut(state: State, layer: Layer, published: Publication, arc: Arc, out: Out) -> None:
    """Cut an interval into parts with equally many members."""
    if not arc.places:
        return
    keys = layer.membership.keys
    fanout = draw_fanout(state, layer, state.settings.event_fanout)
    start = 0
    for part in range(1, fanout + 1):
        end = arc.places * part // fanout
        high = keys[(arc.first + end) % len(keys)] if part < fanout else arc.high
        if end > start:
            _scan(state, layer, published, Arc(arc.first + start, end - start, high), out)
        start = end


def _scan(state: State, layer: Layer, published: Publication, arc: Arc, out: Out) -> None:
    """Give the event to the first of these places that accepts it, with the rest of the interval."""
    membership, accepts = layer.membership, answers(published.event)
    members, suspects, me = membership.members, layer.suspects, layer.key
    for place in range(arc.first, arc.first + arc.places):
        member = members[place % len(members)]
        if member.key != me and member.key not in suspects and accepts(member.filter):
            low = (member.key + 1) % SPACE
            message = TurmoilCast(published.id, published.event, low, arc.high, membership.view, me)
            if state.settings.ordered:
                rest = (members[one % len(members)] for one in range(place, arc.first + arc.places))
                message = order.add_stamps(state, message, rest)
            add_neighbour(state, layer, member.key, member.endpoint)
            send(state, member.endpoint, message, "the first of an interval that accepts the event", out)
            return


def on_turmoil_cast(state: State, sender: Endpoint, message: TurmoilCast, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    published = Publication(message.id, message.event)
    if state.settings.ordered:
        order.read_stamps(state, message)
    new = consume(state, published, out)
    if layer is None or not (layer.active and layer.filters_loaded) or not layer.membership.view.covers(message.view):
        reject = TurmoilReject(message.id, message.low, message.high)
        send(state, sender, reject, "this node's view is behind the sender's", out)
        if layer is None:
            return
    elif state.child is not None and not state.settings.k_nodes_relay:
        send(state, state.child.father, message, "a K node does not relay: its father does", out)
    else:
        first, count = layer.membership.ring(message.low, message.high)
        begun = len(out)
        _cut(state, layer, published, Arc(first, count, message.high), out)
        delegate(state, layer, begun, out)
    add_neighbour(state, layer, message.key, sender)
    if new:
        pass_down(state, layer, published, None, out)


def on_turmoil_reject(state: State, sender: Endpoint, message: TurmoilReject, out: Out) -> None:
    """Go on with the interval without the one that rejected it."""
    receive(state, message)
    if state.layer is None and state.child is not None and may_relay(state):
        out.append(Send(state.child.father, message, "an answer to what was sent for the father"))
    _go_on(state, message.id, message.low, message.high, out)


def turmoil_cast_failed(state: State, to: Endpoint, message: TurmoilCast, out: Out) -> None:
    """Note the departure. The rest of the interval is lost, unless it may be tried again (R20)."""
    layer = state.layer
    if layer is None:
        give_back(state, to, message, out)
        return
    key = (message.low - 1) % SPACE
    layer.neighbours.pop(key, None)
    note_departure(state, layer, key, out)
    if state.settings.retry_on_failed_send:
        _go_on(state, message.id, message.low, message.high, out)


def _go_on(state: State, event_id: EventId, low: int, high: int, out: Out) -> None:
    layer, events = state.layer, state.events
    kept = events.bodies.get(event_id) if events is not None else None
    if layer is None or kept is None or not layer.active:
        return
    first, count = layer.membership.ring(low, high)
    _scan(state, layer, Publication(event_id, kept[0]), Arc(first, count, high), out)


def add_neighbour(state: State, layer: Layer, key: int, endpoint: Endpoint) -> None:
    """A super node that this one exchanged an event with is a partner for repairs (2.12, R36)."""
    known = layer.neighbours
    known.pop(key, None)
    known[key] = endpoint
    if len(known) > state.settings.max_neighbours:
        del known[next(iter(known))]


def forget_partner(state: State, endpoint: Endpoint, out: Out) -> None:
    """It cannot be reached: it is no partner any more, and taken for gone, so that nobody chooses it again."""
    layer = state.layer
    if layer is None:
        return
    keys = [key for key, known in layer.neighbours.items() if known == endpoint]
    for key in keys or [member.key for member in layer.membership.members if member.endpoint == endpoint]:
        layer.neighbours.pop(key, None)
        note_departure(state, layer, key, out)


# --- The chain through a family --------------------------------------------------------------------------------------


def pass_down(state: State, layer: Layer, published: Publication, origin: Endpoint | None, out: Out) -> None:
    """Give an event to the own family, and to the one that an heir is about to take over."""
    accepts, handover = answers(published.event), state.handover
    if accepts(state.filter):
        chain(state, layer, published, origin, out)
    if handover is not None and accepts(handover.filter):
        children = tuple(child for child in handover.children if child != origin)
        hand_on(state, published, children, out, handover.name)


def pass_to_brood(state: State, published: Publication, origin: Endpoint | None, out: Out) -> None:
    """A sub node of a large family has children itself."""
    brood = state.brood
    if brood is not None and brood.children:
        hand_on(state, published, tuple(child for child in brood.children if child != origin), out)


def chain(state: State, layer: Layer, published: Publication, origin: Endpoint | None, out: Out) -> None:
    """Give an event to one child, with the list of the others; not to the one that published it."""
    if not layer.children:
        return
    left_out = {origin}
    if state.settings.k_via_tree:
        left_out |= {one.endpoint for one in layer.membership.by_filter(state.filter)}
    if layer.covered:
        accepts = answers(published.event)
        left_out |= {child for child, text in layer.covered.items() if not accepts(text)}
    hand_on(state, published, tuple(child for child in layer.children if child not in left_out), out)


def hand_on(
    state: State, published: Publication, rest: tuple[Endpoint, ...], out: Out, name: str | None = None
) -> None:
    """To one of these, which will go on; ``name`` is that of their filter, if it is not this node's."""
    if state.settings.family_most and len(rest) > 2:  # two at once: the time is logarithmic
        half = len(rest) // 2
        hand_on(state, published, rest[:half], out, name)
        rest = rest[half:]
    if rest:
        child = pick(state.rng, rest)
        before = order.before(state, published.id, name or state.name) if state.settings.ordered else order.NOT_STAMPED
        message = TurmoilSubnode(*published, tuple(one for one in rest if one != child), before)
        send(state, child, message, "one child, and those that are still to be served", out)


def on_turmoil_subnode(state: State, sender: Endpoint, message: TurmoilSubnode, out: Out) -> None:
    receive(state, message)
    published = Publication(message.id, message.event)
    if state.settings.ordered:
        order.read_before(state, message)
    if consume(state, published, out):
        pass_to_brood(state, published, None, out)
    hand_on(state, published, message.rest, out)


def turmoil_subnode_failed(state: State, to: Endpoint, message: TurmoilSubnode, out: Out) -> None:
    enquiry.note_departure(state, to, out)
    home = household(state)
    if home is not None:
        home.children.pop(to, None)
    hand_on(state, Publication(message.id, message.event), message.rest, out)
