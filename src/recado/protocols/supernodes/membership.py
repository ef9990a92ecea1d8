"""The layer in which everybody knows everybody (2.4): entering it, spreading changes, finding out what was missed.

- B-JOIN: a newcomer downloads the endpoints, has a member hand its request to the leader of its slice, and has joined
  when it sees its own announcement. Filters come in pieces, later.
- B-CAST: a change goes from node to node. Who is responsible for an interval of identifiers cuts it into parts with
  equally many members and makes a random member of each part responsible for it.
- B-LEAVE: departures are noticed when somebody cannot be reached.
- B-REPAIR: two members compare their views now and then and give each other what is missing.

Filters are not sent a second time over a real network: there ``Endpoints`` has them. ``Filters`` is then only the
account of what the document's system sends, and the time it takes; with ``filter_pieces`` 0 there is none of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from recado.protocols.machine import CancelTimer, Report, Send, SetTimer
from recado.protocols.supernodes.load import delegate, give_back, is_over, may_relay
from recado.protocols.supernodes.members import SPACE, Change, Endpoint, Home, Member, Membership, Stamp
from recado.protocols.supernodes.messages import (
    Active,
    Below,
    Departures,
    Endpoints,
    EndpointsRequest,
    Filters,
    FiltersRequest,
    JoinRequest,
    MembershipCast,
    NotYourChild,
    SeedsWanted,
    Took,
    TryAnother,
    ViewRepair,
    ViewRepairReply,
)
from recado.protocols.supernodes.sizer import promote_one
from recado.protocols.supernodes.state import (
    Layer,
    Out,
    Sizer,
    State,
    add_seeds,
    draw_key,
    pick,
    receive,
    send,
    set_role,
)

GUARD_SECONDS = 60.0
"""A download that has not come by then is asked for elsewhere."""

MOST_REFUSALS = 4
"""Whoever is asked after so many refusals serves."""

NOBODY_HAS = 16
"""After so many refusals of one piece, nobody is taken to have it."""

LEAST_SERVING = 0.1
MOST_HOPS = 2
"""A request to join that was handed on so often is taken by whoever has it."""

REPORT_AGAIN_SECONDS = 90.0

MOST_DEPARTED = 64

FAREWELL_SECONDS = 2.0
"""A member that sees its own departure spread may go so much later, when the others have seen it too."""

RETRY_GROWTH_LIMIT = 5

# --- B-JOIN ----------------------------------------------------------------------------------------------------------


def found(state: State, why: str, out: Out) -> None:
    """Be the first member of a layer of its own."""
    key = draw_key(state)
    membership = state.home.found([Member(key, state.me, state.filter)])
    layer = state.layer = Layer(key, membership, why, state.now, state.settings)
    layer.endpoints_loaded = layer.filters_loaded = layer.announced = True
    set_role(state, why, out)
    _begin_member(state, layer, out)
    _activate(state, layer, out)


def enter(state: State, why: str, out: Out) -> None:
    """Begin to enter the layer (B-JOIN)."""
    state.layer = Layer(draw_key(state), state.home.found(()), why, state.now, state.settings)
    set_role(state, why, out)
    out.append(SetTimer("download", state.rng.random() * state.settings.download_start_seconds))


def download(state: State, out: Out) -> None:
    """Ask somebody for the endpoints, or again when nobody answered."""
    layer = state.layer
    if layer is None or layer.endpoints_loaded:
        return
    if not state.seeds:
        add_seeds(state, state.bootstrap)
        out.append(Report(SeedsWanted()))
        out.append(SetTimer("download", state.settings.redirect_wait_seconds))
        return
    seed = pick(state.rng, list(state.seeds))
    send(state, seed, EndpointsRequest(layer.tries), "a newcomer needs the endpoints of all members", out)
    out.append(SetTimer("download", GUARD_SECONDS))


def on_endpoints_request(state: State, sender: Endpoint, message: EndpointsRequest, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    if layer is None or not layer.active or not _serves(state, layer, message.tries):
        send(state, sender, TryAnother(known_members(state)), "this node does not serve downloads now", out)
    else:
        send(state, sender, Endpoints(layer.membership), "a newcomer gets all endpoints", out)


def _serves(state: State, layer: Layer, tries: int) -> bool:
    """Those that have given less than they got serve more often (5.1 of the document)."""
    if tries >= MOST_REFUSALS:
        return True
    if is_over(state, layer):
        return False
    if state.settings.serving == "always":
        return True
    return state.rng.random() < max(LEAST_SERVING, 1 - layer.up / (1 + layer.down))


def known_members(state: State) -> tuple[Endpoint, ...]:
    """A few super nodes that a peer may ask."""
    layer, settings = state.layer, state.settings
    if layer is None or not layer.endpoints_loaded:
        child = state.child
        known = () if child is None else (child.father, *child.seeds)
        return (*known, *list(state.seeds)[-settings.seeds :])
    members, suspects, random = layer.membership.members, layer.suspects, state.rng.random
    count = len(members)
    chosen = [members[int(random() * count)] for _ in range(min(settings.seeds, count))]
    return tuple(dict.fromkeys([member.endpoint for member in chosen if member.key not in suspects]))


def on_endpoints(state: State, sender: Endpoint, message: Endpoints, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    if layer is None or not len(message.membership):  # whoever is asked knows itself
        return
    first = not layer.endpoints_loaded
    layer.membership = _merge(state.home, layer, message.membership)
    layer.base = message.membership.view
    layer.endpoints_loaded = True
    layer.asked, layer.tries = None, 0
    out.append(CancelTimer("download"))
    if not first:
        if layer.announced and layer.membership.find(layer.key) is None:
            _enter_again(state, layer, out)  # its departure is among what nobody keeps
        return
    if layer.membership.find(layer.key) is not None:
        _announced(state, layer, out)
    else:
        request_join(state, layer, sender, out)
        out.append(SetTimer("join-retry", layer.retry_seconds))
    _begin_member(state, layer, out)
    if not state.settings.filter_pieces:
        layer.filters_loaded = True
    else:
        out.append(SetTimer("filters", _piece_gap(state)))


def _merge(home: Home, layer: Layer, downloaded: Membership) -> Membership:
    """What was downloaded, with the events that came since this node has been a member."""
    membership, old = home.adopt(downloaded), layer.membership
    for change in _kept_changes(layer, old.view.beyond_of(membership.view)):
        membership = membership.apply(change)
    return membership


def _kept_changes(layer: Layer, stamps: Sequence[Stamp]) -> list[Change]:
    """Of these events those that the node has; what it knows by downloading it does not have."""
    return layer.membership.changes([stamp for stamp in stamps if stamp not in layer.base])


def request_join(state: State, layer: Layer, contact: Endpoint, out: Out) -> None:
    settings = state.settings
    if layer.why in ("k", "budget"):
        ref = settings.filter_ref
    else:
        ref = settings.promoted_ref if layer.why == "promoted" else "full"
    member = Member(layer.key, state.me, state.filter)
    send(state, contact, JoinRequest(member, ref), "a newcomer asks to be announced", out)


def retry_join(state: State, out: Out) -> None:
    """The announcement has not come: ask again, through another member."""
    layer = state.layer
    if layer is None or layer.announced or not layer.endpoints_loaded:
        return
    contact = random_member(state, layer)
    if contact is None:
        layer.endpoints_loaded = False
        download(state, out)
        return
    request_join(state, layer, contact.endpoint, out)
    settings = state.settings
    most = RETRY_GROWTH_LIMIT * settings.join_retry_seconds
    layer.retry_seconds = min(most, layer.retry_seconds * max(1.0, settings.join_retry_growth))
    out.append(SetTimer("join-retry", layer.retry_seconds))


def on_join_request(state: State, sender: Endpoint, message: JoinRequest, out: Out) -> None:
    """Hand it to the leader of the slice, or keep it until the next broadcast."""
    receive(state, message)
    layer = state.layer
    if layer is None or not layer.endpoints_loaded:
        if state.child is not None:
            send(state, state.child.father, message, "a sub node hands a request to join to its father", out)
        return
    member = message.member
    if layer.membership.find(member.key) is not None:
        return
    leader = layer.membership.leader(member.key, state.settings.slices)
    handed_on = message.hops >= MOST_HOPS
    if leader is not None and leader.key != layer.key and not handed_on and leader.key not in layer.suspects:
        onward = JoinRequest(member, message.ref, message.hops + 1)
        send(state, leader.endpoint, onward, "the leader of the slice announces newcomers", out)
    elif len(layer.pending_joins) < state.settings.max_pending:
        layer.pending_joins[member.key] = member
        if message.ref == "full":
            layer.full[member.key] = None
        _begin_batches(state, layer, out)
        if len(layer.pending_joins) >= state.settings.join_batch:
            _spread_pending(state, layer, out)


def join_request_failed(state: State, to: Endpoint, message: JoinRequest, out: Out) -> None:
    layer = state.layer
    if layer is None or not layer.endpoints_loaded:
        return
    leader = layer.membership.leader(message.member.key, state.settings.slices)
    if leader is not None and leader.endpoint == to:
        note_departure(state, layer, leader.key, out)
    if message.member.key == layer.key:
        if not layer.announced:
            retry_join(state, out)
    else:
        on_join_request(state, state.me, message, out)


def _announced(state: State, layer: Layer, out: Out) -> None:
    layer.announced = True
    out.append(CancelTimer("join-retry"))
    _activate(state, layer, out)


def _activate(state: State, layer: Layer, out: Out) -> None:
    layer.active = True
    out.append(Report(Active(layer.why)))
    if state.benefactor is not None:
        send(state, state.benefactor, Took(state.name), "the heir is a member now", out)
        state.benefactor = None
    settle(state, out)


def settle(state: State, out: Out) -> None:
    """A node that changes its place has the new one: give up the old one, unless it still serves its heir."""
    if state.former is not None:
        out.append(Send(state.former.father, NotYourChild(), "a child that has another place now"))
        state.former = None
    if not state.moving or state.handover is not None:
        return
    if state.moving == "below" and state.child is not None:
        for child in state.layer.children if state.layer is not None else ():
            out.append(Send(child, Below(state.child.father, state.name), "their father becomes a child himself"))
        leave_layer(state, out)
        set_role(state, "its filter changed", out)
    elif state.moving == "within" and state.layer is not None and state.layer.announced:
        state.moving = ""
        contact = random_member(state, state.layer)
        if contact is not None and state.former_key is not None:
            send(state, contact.endpoint, Departures((state.former_key,)), "the old identifier of a member", out)
        state.former_key = None


def move_within(state: State, layer: Layer, out: Out) -> None:
    """Stay a member with another filter: under a new identifier, and under the old one until that is announced."""
    state.moving = "within"
    if state.former_key is None:
        state.former_key = layer.key
    state.joining = None
    out.append(CancelTimer("joining"))
    layer.why = "first"
    _enter_again(state, layer, out)


def _begin_member(state: State, layer: Layer, out: Out) -> None:
    if state.settings.max_upload_bytes_per_second:
        out.append(SetTimer("upload", state.settings.upload_seconds))
    out.append(SetTimer("repair", state.rng.random() * layer.repair_seconds))
    _lead(state, layer, out)


# -- filters


def _piece_gap(state: State) -> float:
    settings = state.settings
    return settings.filter_seconds / settings.filter_pieces * (0.5 + state.rng.random())


def load_filters(state: State, out: Out) -> None:
    """Ask for the next piece."""
    layer = state.layer
    if layer is None or layer.filters_loaded:
        return
    layer.asked = random_member(state, layer)
    if layer.asked is None:  # alone: there are no filters to be loaded
        layer.filters_loaded = True
        return
    send(state, layer.asked.endpoint, FiltersRequest(layer.piece, layer.tries), "a newcomer loads filters", out)
    out.append(SetTimer("filters", 2 * GUARD_SECONDS))


def on_filters_request(state: State, sender: Endpoint, message: FiltersRequest, out: Out) -> None:
    receive(state, message)
    layer, pieces = state.layer, state.settings.filter_pieces
    if layer is None or not layer.filters_loaded or message.piece >= pieces or not _serves(state, layer, message.tries):
        send(state, sender, TryAnother(), "this node does not serve downloads now", out)
        return
    full, hashed = layer.membership.piece(message.piece, pieces)
    if not state.settings.families or state.settings.filter_ref == "full":
        full, hashed = full + hashed, 0
    send(state, sender, Filters(message.piece, full, hashed), "a newcomer gets a piece of the filters", out)


def on_filters(state: State, sender: Endpoint, message: Filters, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    if layer is None or layer.filters_loaded or message.piece != layer.piece:
        return
    layer.piece += 1
    layer.tries = 0
    layer.asked = None
    if layer.piece == state.settings.filter_pieces:
        layer.filters_loaded = True
        out.append(CancelTimer("filters"))
    else:
        out.append(SetTimer("filters", _piece_gap(state)))


def refused(state: State, sender: Endpoint, message: TryAnother, out: Out) -> None:
    """A download was refused: ask the next one."""
    receive(state, message)
    layer = state.layer
    if layer is None:
        return
    layer.tries += 1
    if not layer.endpoints_loaded:
        if len(state.seeds) > 1 or message.seeds:
            state.seeds.pop(sender, None)
        add_seeds(state, message.seeds)
        download(state, out)
    elif not layer.filters_loaded and layer.asked is not None and layer.asked.endpoint == sender:
        if layer.tries < NOBODY_HAS:
            load_filters(state, out)
        else:  # those that had all filters are gone: a young layer goes on with what it knows
            layer.filters_loaded = True
            out.append(CancelTimer("filters"))


def download_failed(state: State, to: Endpoint, out: Out) -> None:
    """Who was asked for a download cannot be reached."""
    layer = state.layer
    if layer is None:
        return
    state.seeds.pop(to, None)
    if not layer.endpoints_loaded:
        download(state, out)
    elif layer.asked is not None and layer.asked.endpoint == to:
        note_departure(state, layer, layer.asked.key, out)
        load_filters(state, out)


# --- B-CAST ----------------------------------------------------------------------------------------------------------


def _lead(state: State, layer: Layer, out: Out) -> None:
    """Begin to aggregate if the node is the leader of its slice."""
    if is_leader(state, layer):
        _begin_batches(state, layer, out)
        if layer.sizer is None and state.settings.budget_bytes_per_second:
            layer.sizer = Sizer(layer.up)
            out.append(SetTimer("sizer", state.settings.sizer_seconds))


def is_leader(state: State, layer: Layer) -> bool:
    slices, keys = state.settings.slices, layer.membership.keys
    if slices == 1:
        return bool(keys) and keys[0] == layer.key
    leader = layer.membership.leader(layer.key, slices)
    return leader is not None and leader.key == layer.key


def _begin_batches(state: State, layer: Layer, out: Out) -> None:
    if not layer.batching:
        layer.batching = True
        out.append(SetTimer("batch", state.settings.join_batch_seconds))


def batch_is_due(state: State, out: Out) -> None:
    layer = state.layer
    if layer is None:
        return
    layer.batching = False
    _spread_pending(state, layer, out)
    _lead(state, layer, out)


def _spread_pending(state: State, layer: Layer, out: Out) -> None:
    """Spread the joins that came together, and the departures that are known with them."""
    if not layer.pending_joins and (not layer.pending_leaves or state.settings.leaves == "detector"):
        return
    joins = tuple(layer.pending_joins.values())
    full = frozenset(layer.full)
    layer.pending_joins, layer.full = {}, {}
    _spread_new(state, layer, joins, full, out)


def spread_leaves(state: State, out: Out) -> None:
    layer = state.layer
    if layer is not None:
        layer.leave_timer = False
        if layer.pending_leaves:
            _spread_new(state, layer, (), frozenset(), out)


def _spread_new(state: State, layer: Layer, joins: tuple[Member, ...], full: frozenset[int], out: Out) -> None:
    """A new membership event, with all departures that wait."""
    leaves = tuple(layer.pending_leaves)
    layer.pending_leaves = {}
    layer.number += 1
    change = Change((layer.key, layer.number), joins, leaves, full)
    slots = 0
    if layer.sizer is not None:
        slots, layer.sizer.ready = layer.sizer.ready, 0
    learn(state, layer, change, out)
    begun = len(out)
    spread(state, layer, MembershipCast(change, layer.key, 0, SPACE, slots), out)
    delegate(state, layer, begun, out)


def on_membership_cast(state: State, sender: Endpoint, message: MembershipCast, out: Out) -> None:
    layer = state.layer
    if layer is None or message.to not in (layer.key, state.former_key):
        disown(state, sender, message.to, out)
    if layer is None or not layer.endpoints_loaded:
        return
    layer.down += state.size_of(message)
    learn(state, layer, message.change, out)
    if message.low == message.high and not message.slots:
        return
    father = None if state.settings.k_nodes_relay else _father(state, layer)
    if father is not None:
        onward = MembershipCast(message.change, father.key, message.low, message.high, message.slots)
        send(state, father.endpoint, onward, "a K node does not relay: its father does", out)
        return
    begun = len(out)
    spread(state, layer, message, out)
    delegate(state, layer, begun, out)


def _father(state: State, layer: Layer) -> Member | None:
    """A K node's father, if it is known in the layer."""
    child = state.child
    if child is None:
        return None
    return next((one for one in layer.membership.by_filter(state.filter) if one.endpoint == child.father), None)


def learn(state: State, layer: Layer, change: Change, out: Out) -> None:
    """Take an event into the view."""
    before = layer.membership
    membership = before.apply(change)
    if membership is before:
        return
    layer.membership = membership
    if change.leaves and state.settings.reunite_share:
        _remember_departed(layer, before, change.leaves)
    if layer.sizer is not None:
        layer.sizer.entries += len(change.joins)
    if change.leaves and (layer.suspects or layer.pending_leaves):
        for key in change.leaves:
            layer.suspects.pop(key, None)
            layer.pending_leaves.pop(key, None)
    if layer.pending_joins:
        for key in change.join_keys:
            layer.pending_joins.pop(key, None)
            layer.full.pop(key, None)
    key = layer.key
    if not layer.announced:
        if key in change.join_keys and membership.find(key) is None:  # its departure was told before its entry
            _enter_again(state, layer, out)
        elif key in change.join_keys:
            _announced(state, layer, out)
    elif key in change.leave_keys and state.left:
        out.append(SetTimer("handover", FAREWELL_SECONDS))
    elif key in change.leave_keys and state.moving != "below":
        _enter_again(state, layer, out)
    if not layer.batching:
        _lead(state, layer, out)


def _remember_departed(layer: Layer, before: Membership, keys: Sequence[int]) -> None:
    departed = layer.departed
    for key in keys:
        member = before.find(key)
        if member is not None and key != layer.key:
            departed[key] = member.endpoint
    while len(departed) > MOST_DEPARTED:
        del departed[next(iter(departed))]


def _enter_again(state: State, layer: Layer, out: Out) -> None:
    """The others take this node for gone: enter under a new identifier."""
    layer.key, layer.announced, layer.number = draw_key(state), False, 0
    layer.retry_seconds = state.settings.join_retry_seconds
    if random_member(state, layer) is not None:
        retry_join(state, out)
        return
    layer.number = 1  # all others are taken for gone as well, so nobody can announce it but itself
    member = Member(layer.key, state.me, state.filter)
    learn(state, layer, Change((layer.key, 1), (member,), (), frozenset({layer.key})), out)


def spread(state: State, layer: Layer, message: MembershipCast, out: Out) -> None:
    """Be responsible for an interval: B-CAST, steps 2 to 5, with the sizer's slots (2.10)."""
    change, low, high, slots = message.change, message.low, message.high, message.slots
    if slots:
        promote_one(state, layer, out)
        slots -= 1
    membership, me, size_of = layer.membership, layer.key, state.size_of
    size = 0 if message.slots else size_of(message)  # without slots all are of one size
    first, last = membership.span(low, high)
    count = last - first
    if count == 0:
        return
    members, keys, suspects = membership.members, membership.keys, layer.suspects
    fanout = draw_fanout(state, layer, state.settings.max_fanout)
    place = bisect_left(keys, me, first, last)
    inside = place < last and keys[place] == me
    if count - inside <= fanout:
        for member in members[first:last]:
            if member.key != me and member.key not in suspects:
                slot = 1 if slots else 0
                slots -= slot
                cast = MembershipCast(change, member.key, 0, 0, slot)
                out.append(Send(member.endpoint, cast, "the last nodes of an interval"))
                layer.up += size or size_of(cast)
        return
    sides: tuple[tuple[int, int, int, int, int], ...] = ((first, last, low, high, fanout),)
    # the parts leave this node out, so that nobody below it sends it the event again
    if inside:
        left = min(max(round(fanout * (place - first) / (count - 1)), place > first), fanout - (last > place + 1))
        sides = ((first, place, low, me, left), (place + 1, last, me + 1, high, fanout - left))
    shares = iter(split_slots(slots, fanout))
    for begin, end, side_low, side_high, parts in sides:
        start = begin
        for part in range(1, parts + 1):
            stop = begin + (end - begin) * part // parts
            target = pick_member(state, layer, start, stop) if stop > start else None
            share = next(shares)
            if target is not None:
                part_low = side_low if part == 1 else keys[start]
                part_high = side_high if part == parts else keys[stop]
                cast = MembershipCast(change, target.key, part_low, part_high, share)
                out.append(Send(target.endpoint, cast, "responsible for a part of the interval"))
                layer.up += size or size_of(cast)
            start = stop


def split_slots(slots: int, fanout: int) -> list[int]:
    """Equally many for each target, and one more for the first ones while there are any."""
    return [slots // fanout + (part < slots % fanout) for part in range(fanout)]


def draw_fanout(state: State, layer: Layer, most: int) -> int:
    """Nodes that have sent less than they got work more (5.1): the target moves with the balance."""
    target = layer.fanout * (1 - (layer.up - layer.down) / (1 + layer.down))
    target = layer.fanout = min(max(target, state.settings.min_fanout), most)
    whole = int(target)
    return whole + (state.rng.random() < target - whole)


def pick_member(state: State, layer: Layer, start: int, end: int) -> Member | None:
    """A random member of these places that may be alive, and not the node itself."""
    members, suspects, me, random = layer.membership.members, layer.suspects, layer.key, state.rng.random
    for _ in range(4):
        member = members[start + int(random() * (end - start))]
        if member.key != me and member.key not in suspects:
            return member
    others = [one for one in members[start:end] if one.key != me and one.key not in suspects]
    return pick(state.rng, others) if others else None


def random_member(state: State, layer: Layer) -> Member | None:
    count = len(layer.membership)
    return pick_member(state, layer, 0, count) if count else None


def membership_cast_failed(state: State, to: Endpoint, message: MembershipCast, out: Out) -> None:
    """Choose another member of the same interval, and note the departure."""
    layer = state.layer
    if layer is None:
        give_back(state, to, message, out)
        return
    if not layer.endpoints_loaded:
        return
    note_departure(state, layer, message.to, out)
    if message.low == message.high:
        return
    first, last = layer.membership.span(message.low, message.high)
    target = pick_member(state, layer, first, last) if last > first else None
    if target is not None:
        cast = MembershipCast(message.change, target.key, message.low, message.high, message.slots)
        send(state, target.endpoint, cast, "another for one that could not be reached", out)


# --- B-LEAVE ---------------------------------------------------------------------------------------------------------


def note_departure(state: State, layer: Layer, key: int, out: Out) -> None:
    """A member could not be reached: it is taken for gone, and that is spread later."""
    settings = state.settings
    if key == layer.key or key in layer.suspects or layer.membership.find(key) is None:
        return
    if len(layer.suspects) >= settings.max_pending:
        return
    layer.suspects[key] = state.now
    if settings.leaves == "leader":
        _tell_leader(state, layer, (key,), out)
        return
    layer.pending_leaves[key] = None
    _batch_leaves(state, layer, out)


def _batch_leaves(state: State, layer: Layer, out: Out) -> None:
    """Spread the departures that wait when they are many, or a while later."""
    settings = state.settings
    if not layer.active:
        return
    if len(layer.pending_leaves) >= settings.leave_batch:
        _spread_new(state, layer, (), frozenset(), out)
    elif settings.leave_batch_seconds and not layer.leave_timer:
        layer.leave_timer = True
        out.append(SetTimer("leave", settings.leave_batch_seconds))


def _tell_leader(state: State, layer: Layer, keys: tuple[int, ...], out: Out) -> None:
    members, slices = layer.membership.members, state.settings.slices
    leader = layer.membership.leader(layer.key, slices)
    if leader is None:
        return
    if leader.key in layer.suspects:  # the next one after it will lead
        leader = next((one for one in members if one.key not in layer.suspects), leader)
    if leader.key == layer.key:
        layer.pending_leaves |= dict.fromkeys(keys)
        _begin_batches(state, layer, out)
    else:
        send(state, leader.endpoint, Departures(keys), "the leader spreads departures", out)


def on_departures(state: State, sender: Endpoint, message: Departures, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    if layer is None and state.child is not None and may_relay(state):
        out.append(Send(state.child.father, message, "an answer to what was sent for the father"))
    if layer is None or not layer.endpoints_loaded:
        return
    for key in message.keys:
        room = len(layer.pending_leaves) < state.settings.max_pending
        if room and key != layer.key and layer.membership.find(key) is not None:
            layer.pending_leaves[key] = None
    if layer.pending_leaves and state.settings.leaves == "leader":
        _begin_batches(state, layer, out)
    elif layer.pending_leaves:
        _batch_leaves(state, layer, out)


def disown(state: State, sender: Endpoint, key: int, out: Out) -> None:
    """This node was taken for a member that it is no more: it has another filter or identifier now."""
    send(state, sender, Departures((key,)), "a member that is no more", out)


def departures_failed(state: State, to: Endpoint, message: Departures, out: Out) -> None:
    layer = state.layer
    if layer is None or not layer.endpoints_loaded:
        return
    gone = next((one for one in layer.membership.members if one.endpoint == to), None)  # rare: a leader is gone
    if gone is not None and gone.key not in layer.suspects:
        layer.suspects[gone.key] = state.now
        _tell_leader(state, layer, (*message.keys, gone.key), out)


# --- B-REPAIR --------------------------------------------------------------------------------------------------------


def repair(state: State, out: Out) -> None:
    """Compare views with a random member."""
    layer = state.layer
    if layer is None or not layer.endpoints_loaded:
        return
    if layer.departed and state.rng.random() < state.settings.reunite_share:
        key = pick(state.rng, list(layer.departed))
        view = ViewRepair(layer.membership.view, key)
        send(state, layer.departed[key], view, "perhaps it was only out of reach", out)
    elif (partner := random_member(state, layer)) is not None:
        view = ViewRepair(layer.membership.view, partner.key)
        send(state, partner.endpoint, view, "two members compare what they have seen", out)
    if layer.suspects and state.settings.leaves == "leader":
        _report_again(state, layer, out)
    settings = state.settings
    layer.repair_seconds = min(settings.repair_most_seconds, layer.repair_seconds * 1.25)
    out.append(SetTimer("repair", layer.repair_seconds * (0.75 + 0.5 * state.rng.random())))


def _report_again(state: State, layer: Layer, out: Out) -> None:
    """Departures that were told to a leader which did not spread them."""
    old = tuple(key for key, time in layer.suspects.items() if state.now - time > REPORT_AGAIN_SECONDS)
    if old:
        layer.suspects |= dict.fromkeys(old, state.now)
        _tell_leader(state, layer, old, out)


def on_view_repair(state: State, sender: Endpoint, message: ViewRepair, out: Out) -> None:
    layer = state.layer
    if layer is None or message.to not in (layer.key, state.former_key):
        disown(state, sender, message.to, out)
    if layer is None or not layer.endpoints_loaded:
        return
    layer.down += state.size_of(message)
    mine, theirs = layer.membership.view, message.view
    if mine is theirs or mine == theirs:  # nearly always
        return
    lacking = mine.beyond_of(theirs)
    changes = _kept_changes(layer, lacking)
    view = None if mine.covers(theirs) else mine
    rest = len(changes) < len(lacking)
    if changes or view is not None or rest:
        reply = ViewRepairReply(tuple(changes), view, rest)
        send(state, sender, reply, "what one has seen and the other has not", out)
        _hurry(state, layer)


def on_view_repair_reply(state: State, sender: Endpoint, message: ViewRepairReply, out: Out) -> None:
    receive(state, message)
    layer = state.layer
    if layer is None or not layer.endpoints_loaded:
        return
    _hurry(state, layer)
    for change in message.changes:
        learn(state, layer, change, out)
    if message.view is not None:
        lacking = layer.membership.view.beyond_of(message.view)
        changes = _kept_changes(layer, lacking)
        if changes or len(changes) < len(lacking):
            reply = ViewRepairReply(tuple(changes), None, len(changes) < len(lacking))
            send(state, sender, reply, "what the other asked for", out)
    if message.rest:
        send(state, sender, EndpointsRequest(MOST_REFUSALS), "events are missing that nobody keeps", out)


def _hurry(state: State, layer: Layer) -> None:
    """A repair that was needed brings the next one forward."""
    layer.repair_seconds = max(state.settings.repair_least_seconds, layer.repair_seconds / 2)


def view_repair_failed(state: State, to: Endpoint, message: ViewRepair, out: Out) -> None:
    if state.layer is not None:
        note_departure(state, state.layer, message.to, out)


def rename(state: State, layer: Layer, out: Out) -> None:
    """The only member has another filter now: it takes a new identifier, and newcomers that know the old one follow."""
    layer.number += 1
    old, layer.key = layer.key, draw_key(state)
    member = Member(layer.key, state.me, state.filter)
    layer.children.clear()
    learn(state, layer, Change((old, layer.number), (member,), (old,), frozenset({layer.key})), out)
    layer.number = 0


def leave_layer(state: State, out: Out) -> None:
    """Give up the membership while running on: the node's filter has changed."""
    layer = state.layer
    if layer is None:
        return
    keys = (layer.key,) if layer.announced and layer.membership.find(layer.key) is not None else ()
    if state.former_key is not None:
        keys = (*keys, state.former_key)
    if keys and len(layer.membership) > 1:
        contact = random_member(state, layer)
        if contact is not None:
            send(state, contact.endpoint, Departures(keys), "this node leaves the layer", out)
    state.moving, state.handover, state.former_key = "", None, None
    for timer in (
        "download",
        "join-retry",
        "filters",
        "repair",
        "batch",
        "leave",
        "sizer",
        "slot",
        "keepalive",
        "upload",
    ):
        out.append(CancelTimer(timer))
    others = [random_member(state, layer) for _ in range(state.settings.seeds)] if layer.endpoints_loaded else []
    add_seeds(state, tuple(one.endpoint for one in others if one is not None))
    state.layer = None
