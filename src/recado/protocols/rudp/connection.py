"""One side of one RUDP connection: a sender, a receiver, and the list of what they want done.

The interface is described at the top of the package. Packets are taken from any address, since a peer that moved sends
before its session is updated; an ACK goes back to where its packet came from, everything else to ``remote_address``,
which only ``move`` changes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from recado.protocols.rudp.counters import Counters
from recado.protocols.rudp.outputs import Address, Delivered, Output, Transmit
from recado.protocols.rudp.packet import ACK, Packet, decode, encode_ack
from recado.protocols.rudp.receiving import Receiver
from recado.protocols.rudp.sending import Sender
from recado.protocols.rudp.settings import RudpSettings


class RudpConnection:
    def __init__(
        self,
        settings: RudpSettings,
        local_conn_id: int,
        remote_conn_id: int,
        remote_address: Address,
        now: float = 0.0,
    ) -> None:
        self.settings = settings
        self.local_conn_id, self.remote_conn_id = local_conn_id, remote_conn_id
        self.counters = Counters()
        self._outputs: list[Output] = []
        self._sender = Sender(
            settings, remote_conn_id, remote_address, now, outputs=self._outputs, counters=self.counters
        )
        self._receiver = Receiver(settings, self.counters)

    # -- what the layer above wants

    def send(self, message: bytes, now: float) -> int:
        """Queue a message; its handle comes back in one Acknowledged or Failed."""
        return self._sender.send(message, now)

    def ping(self, now: float) -> int:
        """Queue a packet without a message: it finds out whether the peer is there, and shows it where we are."""
        return self._sender.ping(now)

    def move(self, remote_address: Address, now: float) -> None:
        """The session was updated: what is in flight goes there at once, with all its attempts before it."""
        self._sender.move(remote_address, now)

    def resume(self, now: float) -> None:
        """The session was updated and the address stayed."""
        self._sender.move(self._sender.address, now)

    # -- what happened

    def received(self, datagram: bytes, source: Address, now: float) -> None:
        packet = decode(datagram)
        if packet is None or packet.conn_id != self.local_conn_id:
            self.counters.malformed += 1
            return
        self.received_packet(packet, source, now)

    def received_packet(self, packet: Packet, source: Address, now: float) -> None:
        """A packet that was read already, to find out that it is for this connection."""
        if packet.kind == ACK:
            self._sender.acknowledged(packet.seq, packet.ts, now)
            return
        messages = self._receiver.take(packet)
        if messages is None:
            return
        self._outputs.append(Transmit(encode_ack(self.remote_conn_id, packet.seq, packet.ts), source))
        self._outputs.extend(map(Delivered, messages))

    def timeout(self, now: float) -> None:
        self._sender.timeout(now)

    def icmp_error(self, now: float) -> None:
        self._sender.icmp_error(now)

    # -- what is to be done, and what can be asked

    def take(self) -> list[Output]:
        """What came up since the last call, in order."""
        outputs = self._outputs[:]
        self._outputs.clear()
        return outputs

    def next_timeout(self) -> float | None:
        return self._sender.next_timeout()

    @property
    def failed(self) -> bool:
        return self._sender.failed

    @property
    def remote_address(self) -> Address:
        return self._sender.address

    @property
    def pending(self) -> int:
        """Messages (and pings) that are neither acknowledged nor failed."""
        return self._sender.pending

    @property
    def rtt_seconds(self) -> float:
        """The smoothed round trip; 0 before the first acknowledgement."""
        return self._sender.estimator.srtt

    @property
    def rto_seconds(self) -> float:
        return self._sender.estimator.rto

    def inspect(self) -> dict[str, Any]:
        return {
            "local_conn_id": self.local_conn_id,
            "remote_conn_id": self.remote_conn_id,
            "remote_address": self.remote_address,
            "failed": self.failed,
            "pending": self.pending,
            "pending_bytes": self._sender.pending_bytes,
            "held": self._receiver.held,
            "rtt_seconds": self.rtt_seconds,
            "rto_seconds": self.rto_seconds,
            "counters": msgspec.structs.asdict(self.counters),
        }
