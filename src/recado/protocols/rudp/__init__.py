"""RUDP: reliable datagrams whose failure is the detector of disconnection (the mobility document, section 5).

Pure: no clock and no socket. ``now`` is an argument, in seconds of any clock that never goes back. An address is
whatever the transport below understands; it is kept and given back, never read. One ``RudpConnection`` is one side of
one connection, named by two 32-bit numbers (``a=rudp-conn`` of the two SDPs), so it survives every change of address::

    connection = RudpConnection(profile("fast"), local_conn_id, remote_conn_id, remote_address, now)

    handle = connection.send(message, now)      # bytes; LimitError, QueueFull, Unreachable (failed: resume it first)
    handle = connection.ping(now)               # in order with messages: acknowledged when all before it are
    connection.received(datagram, source, now)  # anything from the network; never raises
    connection.timeout(now)                     # call it at next_timeout(), or at any time
    connection.next_timeout() -> float | None   # an instant; None: nothing to wait for
    connection.move(remote_address, now)        # session update: retransmit at once there; revives what failed
    connection.resume(now)                      # the same with the address unchanged
    connection.icmp_error(now)                  # the network says that nobody listens there
    connection.take() -> list[Output]           # after any of these calls: what is to be done, in order

    Transmit(datagram, address)     send it
    Delivered(message)              the peer's next message: whole, once, in the order in which it was sent
    Acknowledged(handle)            the peer has this message and all before it; handles come in order
    Failed(handle, error)           given up, in order; the peer may have got it, and gets it no more after a resume
    Disconnected(error)             after the last Failed: nothing is sent till move or resume; receiving goes on

Every handle ends in exactly one Acknowledged or Failed. After a failure the layer above sends again what failed, in
order, once the connection is resumed, and its receiver drops what it had (by ``nid`` or ``req``).
``connection.failed``, ``.remote_address``, ``.pending``, ``.rtt_seconds``, ``.counters`` and ``inspect()`` can be
read. ``carrier`` runs a connection inside a machine of ``recado.protocols.machine``; ``recado.net`` runs many of
them on a UDP socket.
"""

from recado.protocols.rudp.connection import RudpConnection
from recado.protocols.rudp.packet import (
    PROFILES,
    Acknowledged,
    Address,
    Counters,
    Delivered,
    Disconnected,
    Failed,
    Output,
    QueueFull,
    RudpError,
    RudpSettings,
    Transmit,
    Unreachable,
    profile,
)

__all__ = [
    "PROFILES",
    "Acknowledged",
    "Address",
    "Counters",
    "Delivered",
    "Disconnected",
    "Failed",
    "Output",
    "QueueFull",
    "RudpConnection",
    "RudpError",
    "RudpSettings",
    "Transmit",
    "Unreachable",
    "profile",
]
