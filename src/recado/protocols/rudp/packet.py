"""A packet as bytes (the mobility document, section 5.2): 24 bytes of header in network order, then the payload.

``conn_id`` is the number that the receiver of the packet gave in its SDP. An ACK repeats ``seq`` and ``ts`` of the
packet that it confirms. A PING is numbered and acknowledged like DATA and has no payload; its ``msg_id`` holds the
lowest ``seq`` that its sender still wants acknowledged, so that a receiver does not wait for what was given up
(``receiving``). Sequence numbers are compared modulo 2**32.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = 0x4543
VERSION = 1
DATA, ACK, PING = 1, 2, 3
HEADER = struct.Struct("!HBBIIIHHI")
HEADER_BYTES = HEADER.size

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


def encode(packet: Packet) -> bytes:
    return HEADER.pack(MAGIC, VERSION, *packet[:7]) + packet.payload


def encode_ack(conn_id: int, seq: int, ts: int) -> bytes:
    return HEADER.pack(MAGIC, VERSION, ACK, conn_id, seq, ts, 0, 1, 0)


def decode(datagram: bytes) -> Packet | None:
    """The packet, or None for bytes that are none: anybody may send anything to a port."""
    if len(datagram) < HEADER_BYTES:
        return None
    magic, version, kind, conn_id, seq, ts, frag_no, frag_cnt, msg_id = HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION:
        return None
    if kind == DATA:
        if frag_no >= frag_cnt:
            return None
        return Packet(DATA, conn_id, seq, ts, frag_no, frag_cnt, msg_id, datagram[HEADER_BYTES:])
    if kind not in (ACK, PING) or len(datagram) != HEADER_BYTES:
        return None
    return Packet(kind, conn_id, seq, ts, frag_no, frag_cnt, msg_id, b"")
