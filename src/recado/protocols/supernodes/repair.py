"""Repair of events (2.12, 2.13): two nodes compare the last identifiers they have and give each other what is missing.

A super node chooses among those that it exchanged events with, and those with the same filter as one of them; a sub
node among its brothers and its father. A completed exchange counts for both.
"""

from __future__ import annotations

from recado.model.event import Event
from recado.protocols.algebra import answers
from recado.protocols.machine import SetTimer
from recado.protocols.supernodes import enquiry
from recado.protocols.supernodes.dissemination import forget_partner, pass_down, pass_to_brood, recover
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.membership import random_member
from recado.protocols.supernodes.messages import EventId, RepairTurmoil, TurmoilRepairReply
from recado.protocols.supernodes.state import Events, Out, Publication, State, pick, receive, send

STRANGERS = 0.25
"""With ``ordered``, so many rounds are held with any member: who has just taken its father's place knows no other, and
those that had to do with each other may be islands."""

SUB_KEY = -1
"""Instead of a key, from a node that is in no layer: its filter is that of the family."""


def repair_events(state: State, out: Out) -> None:
    """A round is due."""
    _set_round(state, out)
    _ask_partner(state, out)


def _set_round(state: State, out: Out) -> None:
    wait = state.settings.event_repair_seconds
    out.append(SetTimer("events", wait * (0.9 + 0.2 * state.rng.random())))


def _ask_partner(state: State, out: Out) -> None:
    events = state.events
    partner = _choose_partner(state)
    if partner is not None and events is not None:
        key = state.layer.key if state.layer is not None else SUB_KEY
        message = RepairTurmoil(recent(state, events), key)
        send(state, partner, message, "two nodes compare their latest events", out)


def _choose_partner(state: State) -> Endpoint | None:
    layer, child = state.layer, state.child
    if child is not None:
        equal = child.chain[: len(child.chain) - child.tail]
        family = [child.father] if child.covered else [*(one for one in equal if one != state.me), child.father]
        return pick(state.rng, family) if family else None
    if layer is None or not layer.endpoints_loaded:
        return None
    if state.settings.ordered and (not layer.neighbours or state.rng.random() < STRANGERS):
        stranger = random_member(state, layer)
        return None if stranger is None else stranger.endpoint
    if not layer.neighbours:
        return None
    key = pick(state.rng, list(layer.neighbours))
    member = layer.membership.find(key)
    if member is None:
        return layer.neighbours[key]
    alike = [one for one in layer.membership.by_filter(member.filter) if one.key not in layer.suspects]
    others = [one.endpoint for one in alike if one.key != layer.key]
    return pick(state.rng, others) if others else layer.neighbours[key]


def recent(state: State, events: Events) -> tuple[EventId, ...]:
    """The latest identifiers, the oldest of them first."""
    return tuple(events.history)[-state.settings.history :]


def repair_failed(state: State, to: Endpoint, message: RepairTurmoil, out: Out) -> None:
    """Try another partner at once."""
    forget_partner(state, to, out)
    if state.child is not None:
        enquiry.note_departure(state, to, out)
        state.child.chain = tuple(one for one in state.child.chain if one != to)
        if to == state.child.father:
            return  # the watchdog will say
    _ask_partner(state, out)


def on_repair_turmoil(state: State, sender: Endpoint, message: RepairTurmoil, out: Out) -> None:
    receive(state, message)
    events = state.events
    if events is None:
        events = state.events = Events()
    theirs = dict.fromkeys(message.ids)
    mine = recent(state, events)
    if len(theirs) >= state.settings.history:  # it may have had more: leave out what is older than all of that (R35)
        known = [at for at, one in enumerate(mine) if one in theirs]
        mine = mine[known[0] :] if known else mine
    lacking = [one for one in mine if one not in theirs]
    wanted = tuple(one for one in message.ids if one not in events.seen)
    if lacking or wanted:
        found = _bodies(state, events, lacking, message.key, sender)
        key = state.layer.key if state.layer is not None else SUB_KEY
        send(state, sender, TurmoilRepairReply(wanted, found, key), "events that one has and the other has not", out)


def _bodies(
    state: State, events: Events, ids: tuple[EventId, ...] | list[EventId], key: int, asker: Endpoint
) -> tuple[tuple[EventId, Event], ...]:
    """The events that the other one's filter accepts; of one that is not known, that of this node."""
    member = state.layer.membership.find(key) if state.layer is not None and key != SUB_KEY else None
    text = state.filter if member is None else member.filter
    if member is None and state.layer is not None:
        text = state.layer.covered.get(asker, text)
    found = ((one, events.bodies[one][0]) for one in ids if one in events.bodies)
    return tuple((one, event) for one, event in found if answers(event)(text))


def on_repair_reply(state: State, sender: Endpoint, message: TurmoilRepairReply, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    for event_id, event in message.events:
        published = Publication(event_id, event)
        new = recover(state, published, out)
        if new:
            pass_to_brood(state, published, None, out)
        if new and layer is not None and (state.child is None or state.handover is not None):
            pass_down(state, layer, published, None, out)
    events = state.events
    if message.ids and events is not None:
        found = _bodies(state, events, message.ids, message.key, sender)
        if found:
            key = state.layer.key if state.layer is not None else SUB_KEY
            reply = TurmoilRepairReply(None, found, key)
            send(state, sender, reply, "events that the partner lacks", out)
    if events is not None and events.repairing:
        _set_round(state, out)
