"""A relay for devices behind a NAT (the mobility document, section 12): it learns where each side really is.

A SIP proxy asks for a relay with the key of the dialog, and writes the relay's addresses into the SDP of both sides.
Whatever comes from the caller goes to the callee and back, unread. Where a side is, its first datagram tells; so each
side has to send before it can receive (RUDP pings once the session is up).

A side that moved keeps its relay, since the other side's SDP does not change. When the SIP proxy sees the new INVITE it
asks for the same key again, and for ``learning_seconds`` a side may show up at another address: the first datagram from
elsewhere wins, and until then the old address goes on working. At any other time a stranger's datagrams are dropped,
so nobody can take over a relay by sending to its port.
"""

from __future__ import annotations

import asyncio

from recado.net.udp import Address, DatagramError, UdpSocket


class _Side:
    """One port of a relay, and the address that was learnt there."""

    def __init__(self, host: str, relay: Relay) -> None:
        self._relay = relay
        self.socket = UdpSocket((host, 0), self._received)
        self.peer: Address | None = None
        self.may_move_until = 0.0
        self.other: _Side | None = None

    def _received(self, datagram: bytes, source: Address) -> None:
        now = self._relay.now()
        if source != self.peer:
            if self.peer is not None and now >= self.may_move_until:
                self._relay.dropped += 1
                return
            self.peer, self.may_move_until = source, 0.0
        self._relay.last_used = now
        if self.other is None or self.other.peer is None:
            self._relay.dropped += 1
            return
        self._relay.relayed += 1
        self.other.socket.send(datagram, self.other.peer)


class Relay:
    """Two ports: the caller sends to ``for_caller``, the callee to ``for_callee``."""

    def __init__(self, host: str, learning_seconds: float) -> None:
        self.now = asyncio.get_running_loop().time
        self._learning_seconds = learning_seconds
        self.last_used = self.now()
        self.relayed = self.dropped = 0
        self._caller = _Side(host, self)
        try:
            self._callee = _Side(host, self)
        except DatagramError:
            self._caller.socket.close()
            raise
        self._caller.other, self._callee.other = self._callee, self._caller

    @property
    def for_caller(self) -> Address:
        return self._caller.socket.address

    @property
    def for_callee(self) -> Address:
        return self._callee.socket.address

    @property
    def learnt(self) -> tuple[Address | None, Address | None]:
        """Where the caller and the callee are."""
        return self._caller.peer, self._callee.peer

    def learn_again(self) -> None:
        self.last_used = self.now()
        for side in (self._caller, self._callee):
            side.may_move_until = self.now() + self._learning_seconds

    def close(self) -> None:
        self._caller.socket.close()
        self._callee.socket.close()


class MediaProxy:
    def __init__(
        self, host: str = "127.0.0.1", *, idle_seconds: float = 60.0, learning_seconds: float = 10.0, relays: int = 1000
    ) -> None:
        self._host, self._idle, self._learning, self._most = host, idle_seconds, learning_seconds, relays
        self._loop = asyncio.get_running_loop()
        self._relays: dict[str, Relay] = {}
        self._sweep = self._loop.call_later(idle_seconds / 2, self._expire)

    def relay(self, key: str) -> Relay:
        """The relay of a dialog: a new one, or the same with the chance to move."""
        relay = self._relays.get(key)
        if relay is not None:
            relay.learn_again()
            return relay
        if len(self._relays) >= self._most:
            raise DatagramError(f"all {self._most:,} relays are in use; unused ones end after {self._idle:g} s")
        relay = self._relays[key] = Relay(self._host, self._learning)
        return relay

    def release(self, key: str) -> None:
        """The dialog has ended."""
        relay = self._relays.pop(key, None)
        if relay is not None:
            relay.close()

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._relays)

    def close(self) -> None:
        self._sweep.cancel()
        for key in self.keys:
            self.release(key)

    def _expire(self) -> None:
        for key, relay in list(self._relays.items()):
            if self._loop.time() - relay.last_used >= self._idle:
                self.release(key)
        self._sweep = self._loop.call_later(self._idle / 2, self._expire)
