"""What nodes of a sensor network say to each other, how it is counted, and what is refused.

``Store``, ``Query``, ``Lookup`` and ``Flood`` are broadcasts of PAMPA: they are known by ``id``, the node that began
them and its number for them. A ``Reply`` goes back along the way of a query. The messages of AODV have the names and
fields of its documents, as far as they are used. ``Group`` and ``Data`` carry a publication.

``traffic_class`` says as what a transmission is counted, and ``size_of`` how many bytes it takes, so that an engine can
count and time frames without asking the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.filters.cost import check_filter
from recado.model.event import Event
from recado.model.subscription import check_id
from recado.protocols.wire import WireError, WireEvent, read_filter

Name: TypeAlias = int | str
"""A node, as messages can carry it."""
Id: TypeAlias = tuple[Name, int]
"""The node that made something, and its number for it."""


class SensorError(RecadoError):
    """A node was asked for something that makes no sense."""


class Message(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, array_like=True):
    """Base of all messages."""


class Item(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A subscription as it is stored: ``key`` has the subscriber's address. An empty ``filter`` cancels it.

    ``lease`` is how many seconds it is still valid; 0: for ever.
    """

    key: Id
    version: int
    filter: str
    lease: float = 0.0


# -- PAMPA and PCACHE


class Store(Message, frozen=True, tag="ST"):
    """PC_STORE; ``dfs`` is the distance from this transmitter to the nearest copy that it knows."""

    id: Id
    items: tuple[Item, ...]
    dfs: int


class Query(Message, frozen=True, tag="QU"):
    """PC_QUERY: which subscriptions does this publication match?"""

    id: Id
    event: WireEvent
    ttl: int
    hops: int


class Lookup(Message, frozen=True, tag="LU"):
    """The plain query of 5.6: who has the item with this key?"""

    id: Id
    key: Id
    ttl: int
    hops: int


class Reply(Message, frozen=True, tag="RE"):
    """PC_REPLY. ``moved`` are copies that found no place at the sender (5.7)."""

    id: Id
    items: tuple[Item, ...]
    moved: tuple[Item, ...] = ()


class Flood(Message, frozen=True, tag="FL"):
    """A publication to everybody: the baselines B1 and B3."""

    id: Id
    event: WireEvent


# -- AODV


class RouteRequest(Message, frozen=True, tag="RQ"):
    """RREQ; ``id`` is the source and its ``rreq_id``. ``unknown``: nothing is known of the destination (U flag)."""

    id: Id
    src_seq: int
    dst: Name
    dst_seq: int
    hop_count: int
    ttl: int
    unknown: bool = False
    destination_only: bool = False


class RouteReply(Message, frozen=True, tag="RP"):
    """RREP: the way to ``dst``, for ``orig``."""

    dst: Name
    dst_seq: int
    orig: Name
    hop_count: int
    lifetime: float


class RouteError(Message, frozen=True, tag="RX"):
    """RERR: these destinations, with their sequence numbers, cannot be reached through the sender."""

    lost: tuple[tuple[Name, int], ...]


class Hello(Message, frozen=True, tag="HE"):
    """A RREP that says only that the sender is there."""

    seq: int


# -- delivery


class Group(Message, frozen=True, tag="GR"):
    """PS_GROUP: a publication for several subscribers that the sender reaches over the receiver."""

    pid: Id
    event: WireEvent
    dests: tuple[Name, ...]
    hops_left: int


class Data(Message, frozen=True, tag="DA"):
    """PS_DATA: a publication for one subscriber. ``src`` is the node that gave it to AODV."""

    pid: Id
    event: WireEvent
    src: Name
    dst: Name
    ttl: int


MESSAGES = Store | Query | Lookup | Reply | Flood | RouteRequest | RouteReply | RouteError | Hello | Group | Data
"""The union that ``recado.protocols.wire.decoder`` takes."""

CLASSES: dict[type, str] = {
    Store: "pampa.sub",
    Query: "pampa.query",
    Lookup: "pampa.query",
    Flood: "pampa.pub",
    Reply: "pcache.reply",
    RouteRequest: "aodv.rreq",
    RouteReply: "aodv.rrep",
    RouteError: "aodv.rerr",
    Hello: "aodv.hello",
    Group: "data.group",
    Data: "data.single",
}


def traffic_class(message: Any) -> str:
    """As what a transmission of the message is counted (9.4)."""
    return CLASSES[type(message)]


# --- Sizes -----------------------------------------------------------------------------------------------------------
#
# Those of AODV are what ns-2 writes into its traces, the 20 bytes of an IP header included. The documents give no
# others, so these are made alike: a header, 4 bytes for a node or a number, 8 for a value of an event; names and
# filters as text.

HEADER_BYTES = 20
NAME_BYTES = 4
NUMBER_BYTES = 4
ID_BYTES = NAME_BYTES + NUMBER_BYTES
VALUE_BYTES = 8


def event_bytes(event: Event) -> int:
    return (
        len(event.id)
        + len(event.type)
        + len(event.source)
        + sum(len(name) + _value_bytes(value) for name, value in event.attributes.items())
        + (0 if event.time is None else VALUE_BYTES)
    )


def _value_bytes(value: Any) -> int:
    if type(value) is tuple:
        return sum(map(_value_bytes, value))
    return len(value) if type(value) is str else VALUE_BYTES


def item_bytes(item: Item) -> int:
    """What an item takes in a message, and in the memory of a node."""
    return ID_BYTES + NUMBER_BYTES + (NUMBER_BYTES if item.lease else 0) + len(item.filter)


def _items_bytes(items: tuple[Item, ...]) -> int:
    return sum(map(item_bytes, items))


PART_BYTES = 65_536


def parts_of(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    """Items in their order, as few messages as can carry them: one, unless they are very many or very long."""
    part: list[Item] = []
    size = 0
    for item in items:
        size += item_bytes(item)
        if part and (len(part) >= MOST_ITEMS or size > PART_BYTES):
            yield tuple(part)
            part, size = [], item_bytes(item)
        part.append(item)
    if part:
        yield tuple(part)


SIZES: dict[type, Callable[[Any], int]] = {
    Store: lambda m: HEADER_BYTES + ID_BYTES + 1 + _items_bytes(m.items),
    Query: lambda m: HEADER_BYTES + ID_BYTES + 2 + event_bytes(m.event),
    Lookup: lambda m: HEADER_BYTES + ID_BYTES + 2 + ID_BYTES,
    Reply: lambda m: HEADER_BYTES + ID_BYTES + _items_bytes(m.items) + _items_bytes(m.moved),
    Flood: lambda m: HEADER_BYTES + ID_BYTES + event_bytes(m.event),
    RouteRequest: lambda m: 48,
    RouteReply: lambda m: 44,
    RouteError: lambda m: HEADER_BYTES + 4 + 8 * len(m.lost),
    Hello: lambda m: 44,
    Group: lambda m: HEADER_BYTES + ID_BYTES + 1 + NAME_BYTES * len(m.dests) + event_bytes(m.event),
    Data: lambda m: HEADER_BYTES + ID_BYTES + event_bytes(m.event),
}


def size_of(message: Any) -> int:
    """The bytes of the message as a network packet, without what the link layer adds."""
    return SIZES[type(message)](message)


# --- What comes from another node is checked where it enters this one ------------------------------------------------

MOST_NUMBER = 1 << 62
MOST_HOPS = 255
MOST_ITEMS = 1_024
MOST_NAMES = 1_024


def check_message(message: Any) -> None:
    """Raise a RecadoError for a message of the right form that no node could have meant."""
    for name in ("ttl", "hops", "hop_count", "hops_left", "dfs"):
        number = getattr(message, name, 1)
        least = 1 if name in ("ttl", "hops") else 0
        if not least <= number <= MOST_HOPS:
            raise WireError(f"{name} is {number}; it is between {least} and {MOST_HOPS}")
    for name in ("src_seq", "dst_seq", "seq"):
        _check_number(getattr(message, name, 0), name)
    for name in ("id", "key", "pid"):
        made = getattr(message, name, None)
        if made is not None:
            _check_made(made)
    for name in ("src", "dst", "orig"):
        _check_name(getattr(message, name, 0))
    match message:
        case Store(_, items):
            if not items:
                raise WireError("nothing to store")
            _check_items(items)
        case Reply(_, items, moved):
            _check_items(items)
            _check_items(moved)
        case RouteReply():
            if not message.lifetime >= 0:
                raise WireError(f"a route cannot last {message.lifetime} s")
        case RouteError(lost):
            _check_length(lost, MOST_NAMES)
            for node, seq in lost:
                _check_name(node)
                _check_number(seq, "seq")
        case Group(_, _, dests):
            _check_length(dests, MOST_NAMES)
            for node in dests:
                _check_name(node)
            if len(set(dests)) < len(dests) or not dests:
                raise WireError("a group names every subscriber once, and at least one")


def _check_items(items: tuple[Item, ...]) -> None:
    _check_length(items, MOST_ITEMS)
    for item in items:
        _check_made(item.key)
        _check_number(item.version, "version")
        if not 0 <= item.lease < math.inf:
            raise WireError(f"a lease cannot be {item.lease} s")
        if item.filter:
            _check_filter(item.filter)


def _check_length(listed: tuple[Any, ...], most: int) -> None:
    if len(listed) > most:
        raise WireError(f"{len(listed):,} entries; the limit is {most:,}")


def _check_made(made: Id) -> None:
    _check_name(made[0])
    _check_number(made[1], "number")


def _check_name(node: Name) -> None:
    if isinstance(node, str):
        check_id(node)
    else:
        _check_number(node, "node")


def _check_number(number: int, name: str) -> None:
    if not 0 <= number <= MOST_NUMBER:
        raise WireError(f"{name} is {number}")


@lru_cache(maxsize=4_096)
def _check_filter(text: str) -> None:
    check_filter(read_filter(text))


# --- A request and facts of this protocol alone ----------------------------------------------------------------------


class Find(msgspec.Struct, frozen=True, gc=False):
    """The request of 5.6, an ``Asked``: where is the item with this key? ``Found`` answers it."""

    key: Id


class Found(msgspec.Struct, frozen=True, gc=False):
    """A fact: the item of a key, or None if nobody within ``lookup_hops`` answered."""

    key: Id
    item: Item | None


class Collected(msgspec.Struct, frozen=True, gc=False):
    """A fact: what a publication's query has found by the end of its time: all subscribers, and what each way gets.

    ``grouped`` are the sizes of the groups that leave this node.
    """

    pid: Id
    event: str
    subscribers: tuple[Name, ...]
    grouped: tuple[int, ...] = ()
