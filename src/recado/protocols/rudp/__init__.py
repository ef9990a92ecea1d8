"""RUDP: reliable datagrams whose failure is the detector of disconnection (the mobility document, section 5).

One ``RudpConnection`` is a machine (``recado.protocols.machine``): one side of one connection, named by two 32-bit
numbers (``a=rudp-conn`` of the two SDPs), so it survives every change of address, and authenticated by two keys
(``a=rudp-key``), which the engine draws. An address is whatever the engine sends to; it is kept and given back, never
read. ``now`` is in seconds of any clock that never goes back; no chance is used::

    connection = RudpConnection(
        profile("fast"), local_conn_id, remote_conn_id, remote_address, now, local_key=..., remote_key=...
    )
    effects = connection.handle(stimulus, now, rng)

    Received(source, datagram)          anything from the network
    TimerFired(timer)
    SendFailed(address, None)           the network says that nobody listens there
    Asked(SendMessage(message, ref))    bytes; raises LimitError, QueueFull, Unreachable (failed: resume it first)
    Asked(Ping(ref))                    in order with messages: acknowledged when all before it are
    Asked(MoveTo(address))              session update: retransmit at once there; revives what failed
    Asked(Resume())                     the same with the address unchanged

    Send(address, datagram)
    SetTimer, CancelTimer               one timer a connection; its key is an argument of the connection
    Deliver(message)                    the peer's next message: whole, once, in the order in which it was sent
    Report(Acknowledged(ref))           the peer has this message and all before it; in order
    Report(Failed(ref, error))          given up, in order; the peer may have got it, and gets it no more after a resume
    Report(Heard(source))               before what it brought: the peer was proven to be at another address than before
    Report(Disconnected(error))         after the last Failed: nothing is sent till MoveTo or Resume; receiving goes on

Every SendMessage and Ping ends in exactly one Acknowledged or Failed. After a failure the layer above sends again what
failed, in order, once the connection is resumed, and its receiver drops what it had (by ``nid`` or ``req``).
``connection.failed``, ``.remote_address``, ``.source``, ``.pending``, ``.rtt_seconds``, ``.counters`` and
``inspect()`` can be read. A machine may hold connections and pass on their effects; ``recado.net`` runs many of them on
a UDP socket.
"""

from recado.protocols.rudp.connection import RudpConnection
from recado.protocols.rudp.packet import (
    KEY_BYTES,
    PROFILES,
    Acknowledged,
    Address,
    Counters,
    Disconnected,
    Failed,
    Heard,
    MoveTo,
    Ping,
    QueueFull,
    Resume,
    RudpError,
    RudpSettings,
    SendMessage,
    Unreachable,
    profile,
)

__all__ = [
    "KEY_BYTES",
    "PROFILES",
    "Acknowledged",
    "Address",
    "Counters",
    "Disconnected",
    "Failed",
    "Heard",
    "MoveTo",
    "Ping",
    "QueueFull",
    "Resume",
    "RudpConnection",
    "RudpError",
    "RudpSettings",
    "SendMessage",
    "Unreachable",
    "profile",
]
