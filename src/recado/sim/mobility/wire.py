"""What travels: datagrams between addresses, which hold a packet of RUDP or a message of the signalling.

A node of the simulation has a name, ``phone``, and at each time at most one address, ``phone/3``: a datagram goes to
the node that its target is an address of, and is thrown away there if the node has another address by now.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from recado.protocols.machine import Send

BROKER = "broker"


class Invite(msgspec.Struct, frozen=True, gc=False):
    """Open a session (version 1) or update it; ``conn`` and ``key`` are those of the sender's RUDP connection.

    ``seen`` is as in HELLO. Without it a broker that crashed may bring to one device, out of order, what another device
    of the user had confirmed just before the crash.
    """

    call: str
    version: int
    user: str
    device: str
    conn: int
    key: bytes
    seen: int | None


class Accepted(msgspec.Struct, frozen=True, gc=False):
    call: str
    version: int
    conn: int
    key: bytes


class Confirmed(msgspec.Struct, frozen=True, gc=False):
    call: str
    version: int


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """481: the session that was to be updated does not exist."""

    call: str
    version: int


Signal: TypeAlias = Invite | Accepted | Confirmed | Unknown


class Datagram(msgspec.Struct, frozen=True, gc=False):
    source: str
    target: str
    content: bytes | Signal


def simulated_key(conn: int) -> bytes:
    """The key of a connection. Nobody guesses here, so nothing is drawn for it."""
    return b"%016x" % conn


def node_of(address: str) -> str:
    return address.partition("/")[0]


def datagram(source: str, target: str, content: bytes | Signal) -> Send:
    return Send(node_of(target), Datagram(source, target, content), why=type(content).__name__)


def size_of(message: Datagram) -> int:
    """Bytes on the wire: IP and UDP headers, and what SIP with SDP takes, about."""
    return 28 + (len(message.content) if isinstance(message.content, bytes) else 600)
