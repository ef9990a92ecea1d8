"""What a node lets in (setting ``guard``): who floods, lies about its view or sends garbage harms its link only.

- Every sender has an allowance of messages; what is beyond it is dropped. All that is remembered is bounded.
- Answers are taken only from those that were asked: downloads, views, repairs.
- Trees and changes of the layer are taken only from its members, keep-alives only from the father or a known brother,
  and a promotion only from a brother.
- A keep-alive that does not come back in time is told to every child by the father himself (``family``).
- Departures that somebody tells of others are not believed: the node sees for itself whether they can be reached.
- A request to join is taken from the newcomer itself or through a member, one for each endpoint at a time.

Who is a member can still spread false changes: members that are said to be gone enter again, and those that never were
are found out when they cannot be reached. Events are not signed, so a member can invent them.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from recado.errors import RecadoError
from recado.protocols.machine import NodeId, Send
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.load import may_relay
from recado.protocols.supernodes.members import Endpoint, Membership
from recado.protocols.supernodes.state import Guard, Out, State, household, send

MOST_LINKS = 4_096
MOST_EXPECTED = 4_096
EXPECTED_SECONDS = 300.0
MOST_NAMES = 3
"""So many identifiers may one endpoint have in the layer, while old ones are not yet forgotten."""

ANSWERS: dict[type, tuple[type, ...]] = {
    m.EndpointsRequest: (m.Endpoints, m.TryAnother),
    m.FiltersRequest: (m.Filters, m.TryAnother),
    m.FilterCheck: (m.FilterReply, m.TryAnother),
    m.JoinNode: (m.TryAnother,),
    m.ViewRepair: (m.ViewRepairReply,),
    m.ViewRepairReply: (m.ViewRepairReply,),
    m.RepairTurmoil: (m.TurmoilRepairReply,),
    m.TurmoilRepairReply: (m.TurmoilRepairReply,),
    m.Fetch: (m.Fetched,),
}
ASKED_FOR = frozenset(answer for answers in ANSWERS.values() for answer in answers)


def note_questions(guard: Guard, now: float, out: Out) -> None:
    """Remember who may answer what."""
    for effect in out:
        if type(effect) is Send:
            for answer in ANSWERS.get(type(effect.message), ()):
                guard.expected.pop((effect.receiver, answer), None)
                guard.expected[effect.receiver, answer] = now
    while len(guard.expected) > MOST_EXPECTED:
        del guard.expected[next(iter(guard.expected))]


def admit(state: State, guard: Guard, sender: Any, message: Any, out: Out) -> Any:
    """The message, or what of it can be believed; None if it is dropped."""
    reason = _refuse(state, guard, sender, message)
    if reason:
        guard.dropped[reason] = guard.dropped.get(reason, 0) + 1
        return None
    if type(message) is m.Departures:
        return _believe(state, sender, message, out)
    return message


def _refuse(state: State, guard: Guard, sender: Any, message: Any) -> str:
    """Why a message is dropped; empty if it is not."""
    if not _may_send(state, guard, sender):
        return "too many"
    kind = type(message)
    if kind not in m.CAUSES and kind is not m.MembershipCast:
        return "garbage"
    try:
        m.check_message(message)
    except RecadoError:
        return "garbage"
    if kind in ASKED_FOR and state.now - guard.expected.get((sender, kind), -EXPECTED_SECONDS) >= EXPECTED_SECONDS:
        return "not asked for"
    return "" if _is_plausible(state, sender, message) else "not its business"


def _may_send(state: State, guard: Guard, sender: NodeId) -> bool:
    settings = state.settings
    left, then = guard.links.pop(sender, (float(settings.peer_burst), state.now))
    left = min(float(settings.peer_burst), left + (state.now - then) * settings.peer_messages_per_second)
    guard.links[sender] = max(0.0, left - 1.0), state.now
    while len(guard.links) > MOST_LINKS:
        del guard.links[next(iter(guard.links))]
    return left >= 1.0


def _is_plausible(state: State, sender: Endpoint, message: Any) -> bool:
    """May this sender say that?"""
    child, layer, home = state.child, state.layer, household(state)
    match message:
        case m.Promotion(father=father):
            known = child is None or child.father != father or not child.chain
            if known or state.settings.promotion_policy == "lifo" or child is None:
                return True
            return sender == father or sender in child.chain
        case m.Promoted():
            kin = child or state.former
            return kin is not None and sender in kin.chain
        case m.LiveNodes():
            return home is not None and sender in home.children
        case m.ViewRepairReply(changes=changes):
            if layer is None or not layer.endpoints_loaded or sender in endpoints_of(layer.membership):
                return True
            # a member that only itself knows of has to be heard, but not about others that are gone
            return all(not one.leaves and len(one.joins) <= state.settings.join_batch for one in changes)
        case m.MembershipCast() | m.TurmoilCast():
            if layer is None or not layer.endpoints_loaded or may_relay(state):
                return True
            return sender in endpoints_of(layer.membership)
        case m.JoinRequest(member=member, hops=hops):
            return _may_announce(state, sender, member.endpoint, hops)
    return True


def _may_announce(state: State, sender: Endpoint, newcomer: Endpoint, hops: int) -> bool:
    layer, home = state.layer, household(state)
    if layer is None or not layer.endpoints_loaded:
        return sender == newcomer
    if hops == 0 and sender != newcomer and (home is None or sender not in home.children):
        return False
    known = endpoints_of(layer.membership)
    if hops and sender not in known:
        return False
    for key in [key for key, one in layer.pending_joins.items() if one.endpoint == newcomer]:
        del layer.pending_joins[key]
        layer.full.pop(key, None)
    return known.get(newcomer, 0) < MOST_NAMES


def _believe(state: State, sender: Endpoint, message: m.Departures, out: Out) -> m.Departures:
    """Of the departures those of the sender itself; the others are asked whether they are there."""
    layer = state.layer
    if layer is None or not layer.endpoints_loaded:
        return message
    own = []
    for key in message.keys[: state.settings.join_batch]:
        member = layer.membership.find(key)
        if member is not None and member.endpoint == sender:
            own.append(key)
        elif member is not None and key != layer.key and key not in layer.suspects:
            question = m.ViewRepair(layer.membership.view, key)
            send(state, member.endpoint, question, "somebody says that this member is gone", out)
    return m.Departures(tuple(own))


_endpoints: WeakKeyDictionary[Membership, dict[Endpoint, int]] = WeakKeyDictionary()


def endpoints_of(membership: Membership) -> dict[Endpoint, int]:
    """How many identifiers every endpoint has; worked out once for each membership."""
    known = _endpoints.get(membership)
    if known is None:
        known = {}
        for member in membership.members:
            known[member.endpoint] = known.get(member.endpoint, 0) + 1
        _endpoints[membership] = known
    return known
