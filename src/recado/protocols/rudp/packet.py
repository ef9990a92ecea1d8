"""A packet as bytes (the mobility document, section 5.2): 24 bytes of header in network order, the payload, and a tag.

``conn_id`` is the number that the receiver of the packet gave in its SDP. An ACK repeats ``seq`` and ``ts`` of the
packet that it confirms. A PING is numbered and acknowledged like DATA and has no payload; its ``msg_id`` holds the
lowest ``seq`` that its sender still wants acknowledged, so that a receiver does not wait for what was given up
(``receiving``). Sequence numbers are compared modulo 2**32.

The tag is what the document does not have: keyed BLAKE2b over all that stands before it, 128 bits. Both sides announce
a key in their SDP (``a=rudp-key``); each direction has a key of its own, made of both and of both numbers, so a packet
proves that its sender knows both descriptions, and cannot be sent back to where it came from. Version 1 had no tag; a
peer that speaks it is not heard.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, NamedTuple, TypeAlias

import msgspec

from recado.errors import RecadoError

MAGIC = 0x4543
VERSION = 2
DATA, ACK, PING = 1, 2, 3
HEADER = struct.Struct("!HBBIIIHHI")
HEADER_BYTES = HEADER.size
KEY_BYTES = 16
TAG_BYTES = 16
_START = struct.Struct("!HBxI")

MASK = 0xFFFF_FFFF
HALF = 0x8000_0000
"""A distance of at least this means that the second number lies before the first."""


class Packet(NamedTuple):
    kind: int
    conn_id: int
    seq: int
    ts: int
    frag_no: int
    frag_cnt: int
    msg_id: int
    payload: bytes


def distance(start: int, end: int) -> int:
    """How far ``end`` lies after ``start``, modulo 2**32."""
    return (end - start) & MASK


def direction_key(receiver: tuple[int, bytes], sender: tuple[int, bytes]) -> bytes:
    """The key for packets to ``receiver`` from ``sender``: each is the number and the key of its SDP."""
    (to, to_key), (by, by_key) = receiver, sender
    for key in (to_key, by_key):
        if len(key) != KEY_BYTES:
            raise RudpError(f"a key of {len(key)} bytes; it has to have {KEY_BYTES}")
    return blake2b(struct.pack("!II", to, by), key=to_key + by_key, digest_size=32, person=b"recado rudp 2").digest()


def seal(content: bytes, key: bytes) -> bytes:
    """Header and payload, with the tag."""
    return content + blake2b(content, key=key, digest_size=TAG_BYTES).digest()


def encode(packet: Packet, key: bytes) -> bytes:
    return seal(HEADER.pack(MAGIC, VERSION, *packet[:7]) + packet.payload, key)


def encode_ack(conn_id: int, seq: int, ts: int, key: bytes) -> bytes:
    return seal(HEADER.pack(MAGIC, VERSION, ACK, conn_id, seq, ts, 0, 1, 0), key)


def addressee(datagram: bytes) -> int | None:
    """The connection that a datagram says it is for; None for what is no packet. It proves nothing."""
    if len(datagram) < HEADER_BYTES + TAG_BYTES:
        return None
    magic, version, conn_id = _START.unpack_from(datagram)
    return conn_id if magic == MAGIC and version == VERSION else None


def decode(datagram: bytes, key: bytes) -> Packet | None:
    """The packet, or None for bytes that are none, or have another key's tag: anybody may send anything to a port."""
    size = len(datagram) - TAG_BYTES
    if size < HEADER_BYTES:
        return None
    magic, version, kind, conn_id, seq, ts, frag_no, frag_cnt, msg_id = HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION:
        return None
    if kind == DATA:
        if frag_no >= frag_cnt:
            return None
    elif kind not in (ACK, PING) or size != HEADER_BYTES:
        return None
    content = datagram[:size]
    if not compare_digest(blake2b(content, key=key, digest_size=TAG_BYTES).digest(), datagram[size:]):
        return None
    return Packet(kind, conn_id, seq, ts, frag_no, frag_cnt, msg_id, content[HEADER_BYTES:])


# --- What a connection can be asked and what it reports, and what can go wrong with it -------------------------------


Address: TypeAlias = Any
"""Whatever the transport below sends to: a pair of host and port, or the id of a node in the simulator."""


def show(address: Address) -> str:
    """For messages: host and port as people write them."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(address)


class RudpError(RecadoError):
    """A setting or a call that makes no sense."""


class QueueFull(RudpError):  # noqa: N818  # named like the one of the standard library
    """Too many messages wait for their acknowledgement; take care of some Acknowledged first."""


class Unreachable(RudpError):  # noqa: N818  # the document's name
    """The peer did not acknowledge; the layer above marks it DISCONNECTED."""


class SendMessage(msgspec.Struct, frozen=True, gc=False):
    """Asked: send a message. ``ref`` is the caller's; it comes back in one Acknowledged or Failed."""

    message: bytes
    ref: Any = None


class Ping(msgspec.Struct, frozen=True, gc=False):
    """Asked: send a packet without a message, in order with messages.

    It finds out whether the peer is there, and shows it where this side is.
    """

    ref: Any = None


class MoveTo(msgspec.Struct, frozen=True, gc=False):
    """Asked: the session was updated. What is in flight goes to this address at once, with all its attempts before it.

    A connection that had failed sends again.
    """

    address: Address


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Asked: the session was updated and the peer's address stayed; otherwise like MoveTo."""


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """Reported: the peer's application has this message and all before it."""

    ref: Any


class Failed(msgspec.Struct, frozen=True):
    """Reported: given up. The peer may have got it, and gets it no more after a resume."""

    ref: Any
    error: Unreachable


class Heard(msgspec.Struct, frozen=True, gc=False):
    """Reported before what it brought: a packet came from another address than the last, and it is no repetition."""

    source: Address


class Disconnected(msgspec.Struct, frozen=True):
    """Reported after the last Failed: nothing is sent until MoveTo or Resume; receiving goes on."""

    error: Unreachable


# --- What can be chosen about RUDP: the table of the mobility document's section 5.3, and three named profiles -------
#
# ``classic`` is stop-and-wait with the document's defaults. ``lab`` is its profile for tests. ``fast`` is what the
# service uses: a window of packets, short timers, and a packet that was overtaken is sent again before its timer ends.
# Both sides may differ, but ``mtu_payload_bytes`` and ``max_message_bytes`` of the receiver bound what it takes, and
# its ``dedup`` bounds the window of the sender.


class RudpSettings(msgspec.Struct, frozen=True):
    rto_init_seconds: float = 3.0
    rto_min_seconds: float = 2.0
    rto_max_seconds: float = 60.0
    backoff: float = 2.0
    """By so much the waiting time grows with every retransmission."""
    max_retries: int = 3
    """Retransmissions after the first send."""
    window: int = 1
    """How far the sender may be ahead of the oldest packet that is not acknowledged; 1 is stop-and-wait."""
    dedup: int = 1024
    """How many sequence numbers the receiver knows on either side of the next one: seen before it, held after it."""
    mtu_payload_bytes: int = 1200
    fast_resend: int = 0
    """Send a packet again when so many later ones were acknowledged; 0 waits for the timer."""
    keepalive_seconds: float = 0.0
    """Ping after so long without sending anything; 0 is off, 30 keeps the binding of a NAT."""
    max_message_bytes: int = 1_114_112
    """One event of 1 MiB and what is written around it."""
    max_queue_messages: int = 1024
    max_queue_bytes: int = 8_388_608
    """Messages that are not yet acknowledged, those in flight included."""

    def __post_init__(self) -> None:
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise RudpError(f"{name} is {value}; it has to be between {least:,} and {most:,}")
        if not self.backoff > 1:
            raise RudpError(f"backoff is {self.backoff}; it has to be more than 1, since waiting times grow by it")
        if not self.rto_min_seconds <= self.rto_init_seconds <= self.rto_max_seconds:
            raise RudpError(
                f"rto_init_seconds is {self.rto_init_seconds}; it has to lie between rto_min_seconds "
                f"({self.rto_min_seconds}) and rto_max_seconds ({self.rto_max_seconds})"
            )
        if self.window > self.dedup:
            raise RudpError(f"window is {self.window}; it has to be at most dedup ({self.dedup})")
        if self.max_message_bytes > 65_535 * self.mtu_payload_bytes:
            raise RudpError(
                f"max_message_bytes is {self.max_message_bytes:,}; a message has at most 65,535 fragments of "
                f"mtu_payload_bytes ({self.mtu_payload_bytes}) each"
            )

    @property
    def max_fragments(self) -> int:
        return -(-self.max_message_bytes // self.mtu_payload_bytes)

    def detection_seconds(self, rto_seconds: float | None = None) -> float:
        """How long a silent peer goes unnoticed: from the first send to the failure (section 5.3)."""
        rto = self.rto_init_seconds if rto_seconds is None else rto_seconds
        return sum(min(rto * self.backoff**tries, self.rto_max_seconds) for tries in range(self.max_retries + 1))


_RANGES = (
    ("rto_min_seconds", 0.001, 3600),
    ("rto_max_seconds", 0.001, 3600),
    ("backoff", 1, 100),
    ("max_retries", 0, 100),
    ("window", 1, 65_536),
    ("dedup", 1, 1_048_576),
    ("mtu_payload_bytes", 1, 65_467),
    ("fast_resend", 0, 65_536),
    ("keepalive_seconds", 0, 86_400),
    ("max_message_bytes", 1, 67_108_864),
    ("max_queue_messages", 1, 1_048_576),
    ("max_queue_bytes", 1, 1_073_741_824),
)

PROFILES = {
    "classic": RudpSettings(),
    "lab": RudpSettings(rto_init_seconds=0.3, rto_min_seconds=0.05, rto_max_seconds=2.0, dedup=64),
    "fast": RudpSettings(
        rto_init_seconds=0.5,
        rto_min_seconds=0.2,
        rto_max_seconds=2.0,
        max_retries=7,
        window=64,
        dedup=256,
        fast_resend=3,
    ),
}


def profile(name: str) -> RudpSettings:
    if name not in PROFILES:
        raise RudpError(f"there is no RUDP profile {name!r}; the profiles are {', '.join(PROFILES)}")
    return PROFILES[name]


# --- What a connection counts, for metrics and for tests -------------------------------------------------------------


class Counters(msgspec.Struct):
    sent: int = 0
    """DATA and PING packets, first transmissions."""
    resent: int = 0
    acked: int = 0
    """Packets of ours that were acknowledged."""
    stale_acks: int = 0
    """ACKs of what was acknowledged before, or given up."""
    received: int = 0
    """DATA and PING packets, repeats included."""
    delivered: int = 0
    duplicates: int = 0
    lost_or_reordered: int = 0
    """Packets that came before an earlier one."""
    messages_acked: int = 0
    messages_failed: int = 0
    failures: int = 0
    """How often the connection failed."""
    malformed: int = 0
    """Datagrams that are no packet, or none of this connection, or forged, or break a limit; nobody is told."""
    unproven: int = 0
    """Repetitions from an address that the peer was not heard at; they are not acknowledged."""
    out_of_range: int = 0
    """Packets too far from the next one expected; they are not acknowledged."""
    skipped: int = 0
    """Sequence numbers that the peer gave up before they came."""

    def add(self, other: Counters) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
