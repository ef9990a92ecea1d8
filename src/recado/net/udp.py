"""A bound UDP socket in the running loop: datagrams in batches, large buffers, and refusals from the network.

A plain asyncio transport wakes up once for every datagram and does not tell who refused. Here one wake-up reads up to
``BATCH`` datagrams, and on Linux the kernel's queue of errors says at which address nobody listens. A datagram that
the kernel does not take is counted and lost: those above cope with loss anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from recado.errors import RecadoError
from recado.net.driver import Driver, Timers
from recado.protocols.machine import Asked, Received, SendFailed, Started
from recado.protocols.rudp import (
    Acknowledged,
    Counters,
    Disconnected,
    Failed,
    Heard,
    MoveTo,
    Ping,
    QueueFull,
    RudpConnection,
    RudpSettings,
    SendMessage,
    Unreachable,
    profile,
)
from recado.protocols.rudp.packet import KEY_BYTES, addressee, show

Address: TypeAlias = tuple[str, int]

BATCH = 64
_BUFFER_BYTES = 8 * 1024 * 1024
_LARGEST = 65_536
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_ERRORS = 256
"""So many refusals are read at one go."""


class DatagramError(RecadoError):
    """A UDP socket that cannot be had."""


class UdpSocket:
    """``on_datagram(bytes, source)`` for what arrives; ``on_refused(addresses)`` for where nobody listens."""

    def __init__(
        self,
        address: Address,
        on_datagram: Callable[[bytes, Address], None],
        on_refused: Callable[[tuple[Address, ...]], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_datagram, self._on_refused = on_datagram, on_refused
        self._socket = _bind(address)
        self.address: Address = self._socket.getsockname()[:2]
        self.unsent = 0
        self.closed = False
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def send(self, datagram: bytes, address: Address) -> None:
        if self.closed:
            self.unsent += 1
            return
        try:
            self._socket.sendto(datagram, address)
        except ConnectionRefusedError:  # of an earlier datagram; this one was not sent yet
            with contextlib.suppress(OSError):
                self._socket.sendto(datagram, address)
                return
            self.unsent += 1
        except (OSError, OverflowError, TypeError):  # no room, no route, or no address at all
            self.unsent += 1

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _readable(self) -> None:
        for _ in range(BATCH):
            try:
                datagram, source = self._socket.recvfrom(_LARGEST)
            except OSError:  # nothing more, or a refusal
                self._read_refusals()
                return
            try:
                self._on_datagram(datagram, source[:2])  # of IPv6 there is more in it
            except Exception as error:  # noqa: BLE001  # one bad datagram must not end the service of all others
                self._loop.call_exception_handler({"message": f"a datagram from {source}", "exception": error})
            if self.closed:
                return

    def _read_refusals(self) -> None:
        """Empty the queue of errors: as long as it holds any, the loop wakes up."""
        refused: dict[Address, None] = {}
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                for _ in range(_ERRORS):
                    _, _, _, address = self._socket.recvmsg(1, 512, socket.MSG_ERRQUEUE)
                    refused[address[:2]] = None
        if refused and self._on_refused is not None:
            self._on_refused(tuple(refused))


def check_address(address: Address) -> None:
    """Only numbers: looking up a name would block the loop, and whoever wrote the SDP chose the name."""
    host, port = address
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise DatagramError(f"{host!r} is no IP address, such as 127.0.0.2") from None
    if not 0 < port < 65_536:
        raise DatagramError(f"{port} is no UDP port; it is a number from 1 to 65535")


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_DGRAM)
    try:
        bound.setblocking(False)
        _enlarge(bound)
        if sys.platform == "linux":
            level, option = (
                (socket.IPPROTO_IPV6, _IPV6_RECVERR) if family == socket.AF_INET6 else (socket.IPPROTO_IP, _IP_RECVERR)
            )
            bound.setsockopt(level, option, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        bound.close()
        reason: Any = getattr(error, "strerror", None) or error
        raise DatagramError(
            f"cannot use UDP port {address[1]} of {address[0]}: {reason}; it takes an address of this machine and a "
            "free port, 0 for any"
        ) from None
    return bound


def _enlarge(bound: socket.socket) -> None:
    """As much as the system gives; more than its limit if we may."""
    for plain, forced in ((socket.SO_RCVBUF, _SO_RCVBUFFORCE), (socket.SO_SNDBUF, _SO_SNDBUFFORCE)):
        with contextlib.suppress(OSError):
            bound.setsockopt(socket.SOL_SOCKET, plain, _BUFFER_BYTES)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, forced, _BUFFER_BYTES)


# --- One RUDP connection on an endpoint: its machine, its driver, and call-backs for what it delivers and reports


OnDone: TypeAlias = Callable[[Unreachable | None], None]


class RudpLink:
    """Made by ``RudpEndpoint.open``; ``recado.net`` describes what can be done with it."""

    def __init__(
        self,
        endpoint: RudpEndpoint,
        connection: RudpConnection,
        on_message: Callable[[bytes], None],
        on_failed: Callable[[Unreachable], None],
    ) -> None:
        self._endpoint, self._connection = endpoint, connection
        self._on_message, self._on_failed = on_message, on_failed
        self._waiting: dict[int, OnDone] = {}
        self._posted = 0
        self._room = asyncio.Event()
        self.closed = False
        self.on_source: Callable[[Address], None] = lambda source: None  # called when ``source`` changes
        self._driver = Driver(
            connection,
            send=endpoint.transmit,
            deliver=self._deliver,
            report=self._report,
            timers=endpoint.timers,
            name=f"the RUDP connection {self.connection_id:08x}",
        )
        self._driver.tell(Started())

    # -- for those above

    def post(self, message: bytes, on_done: OnDone | None = None) -> None:
        self._ask(SendMessage(message, self._posted + 1), on_done)

    def post_ping(self, on_done: OnDone | None = None) -> None:
        self._ask(Ping(self._posted + 1), on_done)

    async def send(self, message: bytes) -> None:
        await self._wait_done(lambda done: self.post(message, done))

    async def ping(self) -> None:
        await self._wait_done(self.post_ping)

    def move(self, remote_address: Address) -> None:
        self._check_open()
        check_address(remote_address)
        self._driver.ask(MoveTo(remote_address))

    def resume(self) -> None:
        self.move(self.remote_address)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._driver.close()
        self._endpoint.forget(self)
        error = Unreachable(f"the connection to {show(self.remote_address)} was closed before this was acknowledged")
        waiting, self._waiting = self._waiting, {}
        for on_done in waiting.values():
            self._call(on_done, error)
        self._room.set()

    @property
    def connection_id(self) -> int:
        return self._connection.local_conn_id

    @property
    def failed(self) -> bool:
        return self._connection.failed

    @property
    def pending(self) -> int:
        return self._connection.pending

    @property
    def remote_address(self) -> Address:
        address: Address = self._connection.remote_address
        return address

    @property
    def source(self) -> Address | None:
        """Where the peer was last proven to be; it may be elsewhere than it says."""
        source: Address | None = self._connection.source
        return source

    @property
    def rtt_seconds(self) -> float:
        return self._connection.rtt_seconds

    @property
    def counters(self) -> Counters:
        return self._connection.counters

    def inspect(self) -> dict[str, Any]:
        return self._connection.inspect()

    # -- for the endpoint

    def receive(self, datagram: bytes, source: Address) -> None:
        self._driver.tell(Received(source, datagram))

    def refuse(self) -> None:
        """The network says that nobody listens at the remote address."""
        self._driver.tell(SendFailed(self.remote_address))

    # -- effects of the connection

    def _deliver(self, message: bytes) -> None:
        if not self.closed:
            self._on_message(message)

    def _report(self, fact: Any) -> None:
        if self.closed:
            return
        if isinstance(fact, Acknowledged):
            self._room.set()
            on_done = self._waiting.pop(fact.ref, None)
            if on_done is not None:
                on_done(None)
        elif isinstance(fact, Failed):
            self._room.set()
            on_done = self._waiting.pop(fact.ref, None)
            if on_done is not None:
                on_done(fact.error)
        elif isinstance(fact, Heard):
            self._call(self.on_source, fact.source)
        elif isinstance(fact, Disconnected):
            self._on_failed(fact.error)

    # -- inside

    def _check_open(self) -> None:
        if self.closed:
            raise Unreachable(f"the connection to {show(self.remote_address)} was closed; open another")

    def _ask(self, request: SendMessage | Ping, on_done: OnDone | None) -> None:
        self._check_open()
        if on_done is not None:
            self._waiting[request.ref] = on_done
        self._posted += 1
        try:
            self._driver.tell(Asked(request))
        except RecadoError:
            self._waiting.pop(request.ref, None)
            raise

    async def _wait_done(self, post: Callable[[OnDone], None]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Unreachable | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        while True:
            try:
                post(done)
                break
            except QueueFull:
                self._room.clear()
                await self._room.wait()
        await future

    def _call(self, callback: Callable[[Any], None], value: Any) -> None:
        try:
            callback(value)
        except Exception as error:  # noqa: BLE001  # a call-back that fails must not stop the packets of all others
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a call-back of the RUDP connection {self.connection_id:08x}", "exception": error}
            )


# --- Many RUDP connections on one UDP socket, with one timer for all of them -----------------------------------------
#
# Packets find their connection by the id that is in them, so neither side's address matters; its tag says whether they
# are its peer's.


def new_key() -> bytes:
    """A key for the own SDP, of a new connection."""
    return secrets.token_bytes(KEY_BYTES)


class RudpEndpoint:
    def __init__(self, address: Address, settings: RudpSettings | None = None) -> None:
        self._settings = settings or profile("fast")
        self._links: dict[int, RudpLink] = {}
        self._closed_links = Counters()
        self.timers = Timers()
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
        """A number for the own SDP."""
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
        local_key: bytes,
        remote_key: bytes,
        settings: RudpSettings | None = None,
    ) -> RudpLink:
        if local_conn_id in self._links:
            raise DatagramError(f"connection {local_conn_id:08x} is open already; each needs a number of its own")
        check_address(remote_address)
        now = asyncio.get_running_loop().time()
        connection = RudpConnection(
            settings or self._settings,
            local_conn_id,
            remote_conn_id,
            remote_address,
            now,
            local_key=local_key,
            remote_key=remote_key,
        )
        link = self._links[local_conn_id] = RudpLink(self, connection, on_message, on_failed)
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
        self.timers.close()

    # -- for the links

    def transmit(self, address: Address, datagram: bytes) -> bool:
        self._socket.send(datagram, address)
        return True

    def forget(self, link: RudpLink) -> None:
        del self._links[link.connection_id]
        self._closed_links.add(link.counters)

    # -- inside

    def _bind(self, address: Address) -> UdpSocket:
        return UdpSocket(address, self._receive, self._refuse)

    def _receive(self, datagram: bytes, source: Address) -> None:
        conn_id = addressee(datagram)
        link = None if conn_id is None else self._links.get(conn_id)
        if link is None:
            self.strangers += 1
        else:
            link.receive(datagram, source)

    def _refuse(self, addresses: tuple[Address, ...]) -> None:
        for link in self.links:
            if link.remote_address in addresses:
                link.refuse()
