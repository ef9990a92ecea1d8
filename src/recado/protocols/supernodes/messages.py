"""The messages of the super-node protocol, with the names of the document's 2.2, and their accounted sizes.

Some messages carry values that nodes share in a simulation (``Change``, ``View``, ``Membership``); on the wire they are
written out. What the document leaves to the base system (downloads, requests to join, repair of views) has names given
here. A field that the document takes as implied (the father of a chain, the name of a filter) is not accounted.

``cause_of`` says what a message is paid for, so that an engine can count traffic by cause and the machine need not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from recado.filters.cost import check_filter
from recado.protocols.supernodes.members import SPACE, Change, Endpoint, Member, Membership, View, check_key
from recado.protocols.supernodes.settings import SuperNodeSettings
from recado.protocols.wire import WireError, WireEvent, read_filter

Ref: TypeAlias = Literal["full", "hash"]
EventId: TypeAlias = tuple[int, int]
"""The identifier under which a node publishes, and the number of the event among its own."""


class Message(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, array_like=True):
    """Base of all messages."""


# -- join by filter (2.5)


class FilterCheck(Message, frozen=True, tag="FC"):
    filter: str


class FilterReply(Message, frozen=True, tag="FR"):
    """The endpoint of a representative; None if the filter of this name has none."""

    name: str
    endpoint: Endpoint | None = None
    covering: bool = False
    """Its filter is not equal, but covers this one."""


class TryAnother(Message, frozen=True, tag="TA"):
    """I cannot answer that (R39), or will not serve that now; these may."""

    seeds: tuple[Endpoint, ...] = ()


class JoinNode(Message, frozen=True, tag="JN"):
    name: str
    """Of the filter (``name_of``)."""
    filter: str = ""
    """If it is not the receiver's own, but covered by it."""


class SuperNodeAccept(Message, frozen=True, tag="SA"):
    name: str
    seeds: tuple[Endpoint, ...] = ()
    brothers: tuple[Endpoint, ...] = ()
    """A few of them, if children have to ask for the others (A1)."""


class KNodeAccept(Message, frozen=True, tag="KA"):
    """Accepted; enter the layer too."""

    name: str
    seeds: tuple[Endpoint, ...] = ()
    brothers: tuple[Endpoint, ...] = ()


class ParentNode(Message, frozen=True, tag="PN"):
    """I have a father myself: ask there."""

    father: Endpoint
    name: str


# -- families (2.7 to 2.10)


class Promotion(Message, frozen=True, tag="P"):
    """The keep-alive, from child to child."""

    father: Endpoint
    name: str
    round: int
    children: tuple[Endpoint, ...]
    seeds: tuple[Endpoint, ...] = ()
    above: Endpoint | None = None
    """The father's father, in a large family."""
    covered: int = 0
    """So many of the last children have filters of their own, which the father's covers."""
    direct: bool = False
    """From the father himself, to be passed on to nobody."""


class Below(Message, frozen=True, tag="B"):
    """I have as many children as I take: ask this one. Or, from a father: he is your father now."""

    head: Endpoint
    name: str


class LiveNodes(Message, frozen=True, tag="L"):
    round: int
    children: tuple[Endpoint, ...]


class KeepAlive(Message, frozen=True, tag="K"):
    """A1: the keep-alive without a list; each child knows whom it passes it on to."""

    father: Endpoint
    round: int
    seeds: tuple[Endpoint, ...] = ()


class BrothersWanted(Message, frozen=True, tag="BW"):
    """A1: who are our brothers? With ``introduce``: tell them of me."""

    father: Endpoint
    introduce: bool


class Brothers(Message, frozen=True, tag="BS"):
    father: Endpoint
    brothers: tuple[Endpoint, ...]


class NewBrother(Message, frozen=True, tag="NB"):
    """A1: this one, or the sender, is a child of our father now."""

    father: Endpoint
    brother: Endpoint | None = None


class BrotherGone(Message, frozen=True, tag="BG"):
    """A1: this one cannot be reached; or the sender is no child of this father."""

    father: Endpoint
    brother: Endpoint | None = None


class Promoted(Message, frozen=True, tag="PD"):
    """Our father is gone; I am your father now."""

    name: str


class TakeOver(Message, frozen=True, tag="TO"):
    """Beyond the document: I leave, or have another filter now; take my place, with these brothers and members."""

    name: str
    children: tuple[Endpoint, ...]
    membership: Membership | None = None


class Took(Message, frozen=True, tag="TK"):
    """The heir is an active member of the layer."""

    name: str


class PromoteChild(Message, frozen=True, tag="PC"):
    """A slot of the sizer: enter the layer."""


class NotYourChild(Message, frozen=True, tag="NC"):
    """R27."""


# -- the layer (2.4)


class EndpointsRequest(Message, frozen=True, tag="ER"):
    tries: int = 0
    """How many have refused it."""


class Endpoints(Message, frozen=True, tag="E"):
    membership: Membership


class FiltersRequest(Message, frozen=True, tag="FQ"):
    piece: int
    tries: int = 0


class Filters(Message, frozen=True, tag="FS"):
    """A piece of the filters: how many are told in full, and how many by a hash. See ``membership.on_filters``."""

    piece: int
    full: int
    hashed: int


class JoinRequest(Message, frozen=True, tag="JR"):
    """To the leader of the slice, through a member. ``ref`` is how the record is to name the filter (R19)."""

    member: Member
    ref: Ref
    hops: int = 0


class Departures(Message, frozen=True, tag="D"):
    """To the leader of the slice, if leaders spread departures."""

    keys: tuple[int, ...]


class MembershipCast(Message, frozen=True, tag="M"):
    """A membership event, for the receiver and all members with low <= key < high."""

    change: Change
    to: int
    """The receiver's key."""
    low: int
    high: int
    slots: int = 0


class ViewRepair(Message, frozen=True, tag="VR"):
    view: View
    to: int


class ViewRepairReply(Message, frozen=True, tag="VA"):
    """Events that the receiver lacks. With ``view``, the sender lacks some too. ``rest``: there are others, older."""

    changes: tuple[Change, ...]
    view: View | None = None
    rest: bool = False


# -- events (2.11 to 2.13)


class TurmoilCast(Message, frozen=True, tag="TC"):
    """An event, for the receiver and those that accept it from ``low`` on around the ring to ``high``."""

    id: EventId
    event: WireEvent
    low: int
    high: int
    view: View
    key: int
    """The sender's, which is a partner for repairs from now on."""
    before: tuple[tuple[str, int], ...] = ()
    """If events are ordered: by name of filter, the number of the publisher's previous event that it accepts."""
    stamper: Endpoint | None = None
    """Who knows that."""


class TurmoilReject(Message, frozen=True, tag="TR"):
    """I have the event, but do not know enough to pass it on: go on without me."""

    id: EventId
    low: int
    high: int


class TurmoilSubnode(Message, frozen=True, tag="TS"):
    id: EventId
    event: WireEvent
    rest: tuple[Endpoint, ...]
    before: int = -2


class PublishUp(Message, frozen=True, tag="PU"):
    """A sub node hands its event to its father (R15); if events are ordered, a new father gets earlier ones too."""

    id: EventId
    event: WireEvent
    recent: tuple[tuple[int, WireEvent], ...] = ()


class RepairTurmoil(Message, frozen=True, tag="RT"):
    ids: tuple[EventId, ...]
    key: int
    """The sender's in the layer; -1 for a sub node, whose filter is the receiver's."""


class TurmoilRepairReply(Message, frozen=True, tag="RR"):
    """``ids``: those that the sender lacks; None ends the exchange."""

    ids: tuple[EventId, ...] | None
    events: tuple[tuple[EventId, WireEvent], ...]
    key: int


class Relay(Message, frozen=True, tag="RY"):
    """From a father: send these for me, each to its receiver. What they have in common is accounted once."""

    casts: tuple[tuple[Endpoint, MembershipCast | TurmoilCast], ...]


class Returned(Message, frozen=True, tag="RD"):
    """To the father: this one could not be reached."""

    to: Endpoint
    cast: MembershipCast | TurmoilCast


class Demote(Message, frozen=True, tag="DM"):
    """The layer is too large: become a child of this member, which has an equal filter or covers yours."""

    key: int
    father: int


class Fetch(Message, frozen=True, tag="F"):
    """Which events of this publisher, with after < number <= upto, does my filter accept? I lack some."""

    source: int
    after: int
    upto: int
    key: int
    """The sender's in the layer; -1 for a sub node."""


class Fetched(Message, frozen=True, tag="FD"):
    """Those that the sender has; ``numbers`` are all that there were, None if it cannot tell."""

    source: int
    after: int
    upto: int
    numbers: tuple[int, ...] | None
    events: tuple[tuple[int, WireEvent], ...]
    stamper: Endpoint | None = None
    """Who can tell, if the sender cannot."""


MESSAGES = (
    FilterCheck | FilterReply | TryAnother | JoinNode | SuperNodeAccept | KNodeAccept | ParentNode | Promotion
    | LiveNodes | Promoted | TakeOver | Took | Below
    | PromoteChild | NotYourChild | EndpointsRequest | Endpoints | FiltersRequest | Filters
    | JoinRequest | Departures | MembershipCast | ViewRepair | ViewRepairReply | TurmoilCast | TurmoilReject
    | TurmoilSubnode | PublishUp | RepairTurmoil | TurmoilRepairReply | Fetch | Fetched | Relay
    | Returned | Demote | KeepAlive | BrothersWanted | Brothers | NewBrother | BrotherGone
)  # fmt: skip
"""The union that ``recado.protocols.wire.decoder`` takes."""


# --- Sizes and causes ------------------------------------------------------------------------------------------------


def payload_sizes(settings: SuperNodeSettings) -> dict[type, Callable[[Any], int]]:
    """The payload of every type of message as it is accounted, in bytes; 2.2 where the document gives it."""
    endpoint, whole, hashed = settings.endpoint_bytes, settings.filter_bytes, settings.filter_hash_bytes
    stamp, event, interval = settings.event_id_bytes, settings.event_bytes, settings.interval_bytes

    def change(one: Change) -> int:
        full = len(one.full)
        return (
            stamp
            + full * (endpoint + whole)
            + (len(one.joins) - full) * (endpoint + hashed)
            + (len(one.leaves) * endpoint)
        )

    def endpoints(message: Endpoints) -> int:
        membership = message.membership
        size = endpoint * len(membership) + stamp * membership.view.size
        if not settings.filter_pieces:
            full, rest = membership.piece(0, 1)
            size += full * whole + rest * hashed
        return size

    def take_over(message: TakeOver) -> int:
        own = endpoint * len(message.children)
        return own if message.membership is None else own + endpoints(Endpoints(message.membership))

    def turmoil_cast(message: TurmoilCast) -> int:
        stamps = settings.stamp_bytes * len(message.before) + (0 if message.stamper is None else endpoint)
        return event + stamp + interval + stamp * message.view.size + stamps

    def relay(message: Relay) -> int:
        if not message.casts:
            return 0
        first = max(cast(one) for _, one in message.casts)
        return first + endpoint * len(message.casts) + interval * (len(message.casts) - 1)

    def cast(message: MembershipCast | TurmoilCast) -> int:
        if isinstance(message, TurmoilCast):
            return turmoil_cast(message)
        return change(message.change) + interval + (settings.slot_count_bytes if message.slots else 0)

    def empty(message: Any) -> int:
        return 0

    return {
        FilterCheck: lambda m: whole,
        FilterReply: lambda m: 0 if m.endpoint is None else endpoint,
        TryAnother: lambda m: endpoint * len(m.seeds),
        JoinNode: lambda m: whole if m.filter else 0,
        SuperNodeAccept: lambda m: endpoint * len(m.brothers),
        KNodeAccept: lambda m: endpoint * len(m.brothers),
        ParentNode: lambda m: endpoint + hashed,
        Promotion: lambda m: endpoint * (len(m.children) + (m.above is not None)),
        Below: lambda m: endpoint + hashed,
        LiveNodes: lambda m: endpoint * len(m.children),
        KeepAlive: empty,
        BrothersWanted: empty,
        Brothers: lambda m: endpoint * len(m.brothers),
        NewBrother: lambda m: 0 if m.brother is None else endpoint,
        BrotherGone: lambda m: 0 if m.brother is None else endpoint,
        Promoted: empty,
        TakeOver: take_over,
        Took: empty,
        PromoteChild: lambda m: settings.slot_count_bytes,
        NotYourChild: empty,
        EndpointsRequest: empty,
        Endpoints: endpoints,
        FiltersRequest: lambda m: settings.slot_count_bytes,
        Filters: lambda m: m.full * whole + m.hashed * hashed,
        JoinRequest: lambda m: endpoint + whole if m.ref == "full" else endpoint + hashed,
        Departures: lambda m: endpoint * len(m.keys),
        MembershipCast: cast,
        Relay: relay,
        Returned: lambda m: endpoint + interval,
        Demote: lambda m: endpoint,
        ViewRepair: lambda m: stamp * m.view.size,
        ViewRepairReply: lambda m: sum(map(change, m.changes)) + (0 if m.view is None else stamp * m.view.size),
        TurmoilCast: turmoil_cast,
        TurmoilReject: lambda m: stamp + interval,
        TurmoilSubnode: lambda m: event + endpoint * len(m.rest) + (0 if m.before < -1 else settings.slot_count_bytes),
        PublishUp: lambda m: event + event * len(m.recent),
        Fetch: lambda m: stamp + settings.slot_count_bytes,
        Fetched: lambda m: (
            stamp
            + settings.slot_count_bytes * len(m.numbers or ())
            + event * len(m.events)
            + (0 if m.stamper is None else endpoint)
        ),
        RepairTurmoil: lambda m: stamp * len(m.ids),
        TurmoilRepairReply: lambda m: stamp * len(m.ids or ()) + event * len(m.events),
    }


def sizer_of(settings: SuperNodeSettings) -> Callable[[Any], int]:
    """A function that gives the accounted size of a message, header included: ``size_of`` of a simulation.

    Keep-alives and the messages of the layer are nearly all there are. They are done here, since a call costs as much
    as the rest, and of a broadcast the size of its event is worked out once.
    """
    sizes, extra = payload_sizes(settings), settings.header_bytes + settings.type_bytes
    endpoint, stamp = settings.endpoint_bytes, settings.event_id_bytes
    last, last_size = None, 0

    def size_of(message: Any) -> int:
        nonlocal last, last_size
        kind = type(message)
        if kind is LiveNodes or (kind is Promotion and message.above is None):
            return endpoint * len(message.children) + extra
        if kind is ViewRepair:
            return stamp * int(message.view.size) + extra
        if kind is MembershipCast and not message.slots:
            if message.change is not last:
                last, last_size = message.change, sizes[kind](message) + extra
            return last_size
        return sizes[kind](message) + extra

    return size_of


CAUSES: dict[type, str] = {
    FilterCheck: "family join",
    FilterReply: "family join",
    TryAnother: "family join",
    JoinNode: "family join",
    SuperNodeAccept: "family join",
    KNodeAccept: "family join",
    ParentNode: "family join",
    Below: "family join",
    Promotion: "keep-alive",
    LiveNodes: "keep-alive",
    KeepAlive: "keep-alive",
    BrothersWanted: "brothers",
    Brothers: "brothers",
    NewBrother: "brothers",
    BrotherGone: "brothers",
    Promoted: "promotion",
    TakeOver: "promotion",
    Took: "promotion",
    PromoteChild: "sizer",
    NotYourChild: "promotion",
    EndpointsRequest: "endpoints",
    Endpoints: "endpoints",
    FiltersRequest: "filters",
    Filters: "filters",
    JoinRequest: "joins",
    Departures: "leaves",
    ViewRepair: "membership repair",
    ViewRepairReply: "membership repair",
    TurmoilCast: "events",
    TurmoilReject: "events",
    TurmoilSubnode: "events",
    PublishUp: "events",
    RepairTurmoil: "event repair",
    TurmoilRepairReply: "event repair",
    Fetch: "event repair",
    Fetched: "event repair",
    Relay: "relay",
    Returned: "relay",
    Demote: "sizer",
}


def cause_of(message: Any) -> str:
    """What a message is paid for. Departures that travel with joins are paid with them."""
    cause = CAUSES.get(type(message))
    if cause is None:
        cause = "joins" if message.change.joins else "leaves"
    return cause


# --- Facts: the values of ``Report`` ---------------------------------------------------------------------------------


class RoleChanged(msgspec.Struct, frozen=True, gc=False):
    """``role`` is one of ``state.ROLES``; ``why`` says how it came to that."""

    role: str
    why: str


class Active(msgspec.Struct, frozen=True, gc=False):
    """The node is an active member of the layer: endpoints loaded, own announcement seen (R41)."""

    why: str


class FatherLost(msgspec.Struct, frozen=True, gc=False):
    """The node takes the place of its father, which is silent; ``standby`` if it is in the layer already."""

    father: Endpoint
    standby: bool


class SeedsWanted(msgspec.Struct, frozen=True, gc=False):
    """No super node that the node knows can be reached. The engine may name one: ``LinkUp(peer)``."""

    def __str__(self) -> str:
        return "none of the peers that this node knows can be reached; it will try them again, or others it is told of"


# --- What comes from another node is checked where it enters this one ------------------------------------------------

MOST_LISTED = 20_000
MOST_NUMBER = 1 << 62
MOST_RELAYED = 64


_LISTS = (
    "seeds", "children", "brothers", "rest", "keys", "ids", "events", "changes", "before", "recent", "numbers",
)  # fmt: skip


def check_message(message: Any) -> None:
    """Raise a RecadoError for a message of the right form that no peer could have meant."""
    for name in _LISTS:
        listed = getattr(message, name, None)
        if isinstance(listed, tuple) and len(listed) > MOST_LISTED:
            raise WireError(f"{name} has {len(listed):,} entries; the limit is {MOST_LISTED:,}")
    if isinstance(message, Returned):
        check_message(message.cast)
        return
    for name in ("piece", "tries", "full", "hashed", "hops", "round", "slots", "covered", "low", "high", "to"):
        number = getattr(message, name, 0)
        if not 0 <= number <= (SPACE if name in ("low", "high", "to") else MOST_NUMBER):
            raise WireError(f"{name} is {number}")
    match message:
        case FilterCheck(text) | JoinRequest(Member(_, _, text)):
            _check_filter(text)
        case JoinNode(_, text) if text:
            _check_filter(text)
        case MembershipCast(change) | ViewRepairReply((change,)):
            _check_change(change)
        case ViewRepairReply(changes):
            for one in changes:
                _check_change(one)
        case Endpoints(membership):
            for member in membership.members:
                _check_filter(member.filter)
        case Relay(casts):
            if len(casts) > MOST_RELAYED:
                raise WireError(f"{len(casts):,} casts to relay; the limit is {MOST_RELAYED}")
            for _, relayed in casts:
                check_message(relayed)
    if isinstance(message, JoinRequest):
        check_key(message.member.key)


def _check_change(change: Change) -> None:
    for member in change.joins:
        _check_filter(member.filter)


@lru_cache(maxsize=4_096)
def _check_filter(text: str) -> None:
    check_filter(read_filter(text))
