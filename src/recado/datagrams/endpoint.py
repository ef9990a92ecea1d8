"""Many RUDP connections on one UDP socket, with one timer for all of them.

Packets find their connection by the id that is in them, so neither side's address matters. The timer is a heap of
(instant, link); an entry is not moved when its link has less to wait for: it fires, finds nothing due, and is put back.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from heapq import heappop, heappush

from recado.datagrams.link import RudpLink
from recado.datagrams.sockets import Address, DatagramError, UdpSocket, check_address
from recado.protocols.rudp import Counters, RudpConnection, RudpSettings, Unreachable, profile
from recado.protocols.rudp.packet import decode


class RudpEndpoint:
    def __init__(self, address: Address, settings: RudpSettings | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings or profile("fast")
        self._links: dict[int, RudpLink] = {}
        self._closed_links = Counters()
        self._agenda: list[tuple[float, int, RudpLink]] = []
        self._entries = 0
        self._timer: asyncio.TimerHandle | None = None
        self._socket = self._bind(address)
        self._unsent_before = 0
        self.strangers = 0
        """Datagrams that are no packets, or for no connection here; they are dropped."""

    # -- for those above

    @property
    def address(self) -> Address:
        return self._socket.address

    @property
    def links(self) -> tuple[RudpLink, ...]:
        return tuple(self._links.values())

    @property
    def unsent(self) -> int:
        """Datagrams that the system did not take; they count as lost."""
        return self._unsent_before + self._socket.unsent

    def new_conn_id(self) -> int:
        """A number for the own SDP. It cannot be guessed, since whoever knows it can speak on the connection."""
        while True:
            conn_id = secrets.randbits(32)
            if conn_id and conn_id not in self._links:
                return conn_id

    def open(
        self,
        remote_address: Address,
        local_conn_id: int,
        remote_conn_id: int,
        on_message: Callable[[bytes], None],
        on_failed: Callable[[Unreachable], None],
        *,
        settings: RudpSettings | None = None,
    ) -> RudpLink:
        if local_conn_id in self._links:
            raise DatagramError(f"connection {local_conn_id:08x} is open already; each needs a number of its own")
        check_address(remote_address)
        connection = RudpConnection(
            settings or self._settings, local_conn_id, remote_conn_id, remote_address, self.now()
        )
        link = RudpLink(self, connection, on_message, on_failed)
        self._links[local_conn_id] = link
        self.arm(link)
        return link

    def rebind(self, address: Address) -> None:
        """Go on from another address of this machine. What is in flight is sent again from there at once."""
        old, self._socket = self._socket, self._bind(address)
        self._unsent_before += old.unsent
        old.close()
        for link in self.links:
            if not link.failed:
                link.resume()

    def counters(self) -> Counters:
        total = Counters()
        total.add(self._closed_links)
        for link in self._links.values():
            total.add(link.counters)
        return total

    def close(self) -> None:
        for link in self.links:
            link.close()
        self._socket.close()
        if self._timer is not None:
            self._timer.cancel()

    # -- for the links

    def now(self) -> float:
        return self._loop.time()

    def transmit(self, datagram: bytes, address: Address) -> None:
        self._socket.send(datagram, address)

    def arm(self, link: RudpLink) -> None:
        due = link.next_timeout()
        if due is None or link.closed or (link.armed_at is not None and link.armed_at <= due):
            return
        link.armed_at = due
        self._entries += 1
        heappush(self._agenda, (due, self._entries, link))
        if self._agenda[0][2] is link:
            self._set_timer()

    def forget(self, link: RudpLink) -> None:
        del self._links[link.connection_id]
        self._closed_links.add(link.counters)

    # -- inside

    def _bind(self, address: Address) -> UdpSocket:
        return UdpSocket(address, self._received, self._refused)

    def _received(self, datagram: bytes, source: Address) -> None:
        packet = decode(datagram)
        link = None if packet is None else self._links.get(packet.conn_id)
        if packet is None or link is None:
            self.strangers += 1
        else:
            link.received(packet, source)

    def _refused(self, addresses: tuple[Address, ...]) -> None:
        for link in self.links:
            if link.remote_address in addresses:
                link.refused()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._agenda[0][0], self._fired)

    def _fired(self) -> None:
        self._timer = None
        now = self.now()
        while self._agenda and self._agenda[0][0] <= now + _EARLY_SECONDS:
            due, _, link = heappop(self._agenda)
            if link.armed_at != due or link.closed:
                continue
            link.armed_at = None
            link.timeout(max(now, due))
        if self._agenda:
            self._set_timer()


_EARLY_SECONDS = 1e-6
"""A loop may wake up a little before the instant that it was asked for."""
