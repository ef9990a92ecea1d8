"""SIP on real sockets: one endpoint drives a user agent, or the proxy, over UDP and TCP.

``open_endpoint`` binds a UDP socket (and, if asked, a TCP listener on the same port), makes the machine for the address
that came of it, and drives it (``recado.net.driver``): bytes go to it, its effects to the network and its events to
``on_event``::

    endpoint = await open_endpoint(lambda local: UserAgent(settings, local), Address("udp", "127.0.0.1", 0), on_event)
    endpoint.ask(Register())
    call = endpoint.invite("sip:broker@lac.example", media)
    await endpoint.rebind("127.0.0.3")        # the device has moved: new sockets, and the machine is told
    await endpoint.close()

Events are told one after the other; what they lead to may be asked for inside of ``on_event``. A machine whose socket
is bound to every address (0.0.0.0) has to be told where it can be reached:
``lambda bound: UserAgent(settings, bound._replace(host="10.0.0.1"))``.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import SystemRandom
from typing import Any, Generic, TypeVar

import msgspec

from recado.net.driver import Driver
from recado.protocols.machine import Machine, Received, Rng, SendFailed
from recado.protocols.sip.digest import Guard
from recado.protocols.sip.events import Event, Invite, MoveTo, new_name
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.messages import Framer
from recado.protocols.sip.proxy import Location, Proxy
from recado.protocols.sip.registration import AddressMonitor, Change
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import Address, is_numeric

# --- Watching the device's own address (mobility document, section 3.4): the small loop around ``AddressMonitor``
#
# The address is the one that the system would use towards the home server: a UDP socket is connected to it, which sends
# nothing, and asked for its name.


ADDRESS_POLL_SECONDS = 2.0

Probe = Callable[[], str | None]
OnChange = Callable[[Change], Awaitable[None]]


def local_address_towards(home: Address) -> str | None:
    """The local address on the way there; None if there is no way."""
    family = socket.AF_INET6 if ":" in home.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((home.host, home.port))
            return str(sock.getsockname()[0])
    except OSError:
        return None


async def watch_address(
    bound: str, probe: Probe, on_change: OnChange, *, poll_seconds: float = ADDRESS_POLL_SECONDS
) -> None:
    """For ever, until cancelled: look, and tell of each change. A change is told whole before the next look."""
    monitor = AddressMonitor(bound)
    while True:
        change = monitor.observe(probe())
        if change is not None:
            await on_change(change)
        await asyncio.sleep(poll_seconds)


# --- Host names to addresses, one question at a time for each name. SRV and NAPTR records are not asked for ----------
#
# Only addresses of the family of our own socket are of use.


_SECONDS = 60.0
_MOST = 1_024
_WAITING = 64

OnFound = Callable[[Address | None], None]


class Names:
    def __init__(self) -> None:
        self.family = socket.AF_INET
        self._known: dict[str, tuple[float, str]] = {}
        self._waiting: dict[str, list[tuple[Address, OnFound]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def resolve(self, address: Address, on_found: OnFound) -> None:
        """At once if the name is known, or else when it is; None if it has no address. Too many questions are lost."""
        known = self._known.get(address.host)
        if known is not None and known[0] > time.monotonic():
            on_found(address._replace(host=known[1]))
            return
        waiting = self._waiting.setdefault(address.host, [])
        if len(waiting) < _WAITING:
            waiting.append((address, on_found))
        if len(waiting) == 1 and len(self._tasks) < _WAITING:
            task = asyncio.get_running_loop().create_task(self._ask(address.host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, host: str) -> None:
        found = None
        with suppress(OSError, UnicodeError):
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, None, family=self.family, type=socket.SOCK_DGRAM
            )
            found = str(answers[0][4][0])
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[host] = (time.monotonic() + _SECONDS, found)
        for address, on_found in self._waiting.pop(host, []):
            on_found(None if found is None else address._replace(host=found))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


# --- SIP over TCP: connections by their peer, made when something has to be sent, closed when they misbehave or rest
#
# A connection that holds half a message for too long, or does nothing for a long time, is closed: a peer that sends one
# byte a minute occupies one place for a bounded time. One that does not read is cut when too much waits for it.


log = logging.getLogger("recado.sip")

OnMessage = Callable[[bytes, Address], None]
OnFailure = Callable[[Address], None]


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = 256
    connect_seconds: float = 10.0
    message_seconds: float = 15.0
    """How long a message may take from its first byte to its last."""
    idle_seconds: float = 600.0
    queue_bytes: int = 1_048_576
    messages: SipLimits = LIMITS


class Streams:
    def __init__(self, limits: StreamLimits, on_message: OnMessage, on_failure: OnFailure) -> None:
        self._limits, self._on_message, self._on_failure = limits, on_message, on_failure
        self._connections: dict[Address, Connection] = {}
        self._dialling: dict[Address, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.listener: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._connections)

    async def listen(self, host: str, port: int) -> None:
        self.listener = await asyncio.get_running_loop().create_server(self._connection, host, port)

    def send(self, data: bytes, to: Address, local_host: str) -> None:
        known = self._connections.get(to)
        if known is not None and known.usable:
            known.send(data)
        elif to in self._dialling:
            waiting = self._dialling[to]
            if sum(map(len, waiting)) < self._limits.queue_bytes:
                waiting.append(data)
        else:
            self._dialling[to] = [data]
            task = asyncio.get_running_loop().create_task(self._dial(to, local_host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _dial(self, to: Address, local_host: str) -> None:
        """From our own address, so that the other side sees where we are."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                _, made = await asyncio.get_running_loop().create_connection(
                    self._connection, to.host, to.port, local_addr=(local_host, 0)
                )
        except OSError as error:  # a timeout is one
            log.debug("no connection to %s: %s", to, error)
            del self._dialling[to]
            self._on_failure(to)
            return
        waiting = self._dialling.pop(to)
        if not made.usable:
            self._on_failure(to)
        for data in waiting:
            made.send(data)

    def _connection(self) -> Connection:
        return Connection(self, self._limits)

    # -- for connections

    def enter(self, connection: Connection) -> bool:
        if len(self._connections) >= self._limits.connections:
            return False
        self._connections[connection.peer] = connection
        return True

    def leave(self, connection: Connection) -> None:
        if self._connections.get(connection.peer) is connection:
            del self._connections[connection.peer]
            self._on_failure(connection.peer)

    def receive(self, data: bytes, peer: Address) -> None:
        self._on_message(data, peer)

    # -- the end

    def cut(self) -> None:
        """Close all connections without a word: after a move they lead nowhere, and nothing new may use them."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    async def close(self) -> None:
        if self.listener is not None:
            self.listener.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Connection(asyncio.Protocol):
    def __init__(self, streams: Streams, limits: StreamLimits) -> None:
        self.peer = Address("tcp", "", 0)
        self._streams, self._limits = streams, limits
        self._framer = Framer(limits.messages)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        name = transport.get_extra_info("peername")
        self.peer = Address("tcp", name[0], name[1]) if name else self.peer
        if not name or not self._streams.enter(self):
            log.warning("a SIP connection from %s was refused: there are %d", self.peer, len(self._streams))
            transport.abort()
            return
        self._wait(self._limits.idle_seconds)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._framer.feed(data)
        except SipError as error:
            log.warning("the SIP connection from %s is closed: %s", self.peer, error)
            self.close()
            return
        if messages or not self._framer.pending:
            self._wait(self._limits.idle_seconds)
        elif self._framer.pending == len(data):
            self._wait(self._limits.message_seconds)
        for message in messages:
            self._streams.receive(message, self.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._streams.leave(self)

    def send(self, data: bytes) -> None:
        if self._transport is None or not self.usable:
            return
        if self._transport.get_write_buffer_size() > self._limits.queue_bytes:
            log.warning("the SIP connection to %s is cut: it does not read", self.peer)
            self._transport.abort()
            return
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.close)


# --- The endpoint: a machine, its driver, and its sockets ------------------------------------------------------------

_CHANCE = SystemRandom()
_TRIES = 16
_RECEIVE_BYTES = 1_048_576  # a burst waits in the socket while the process is busy, as far as the system lets it


M = TypeVar("M", bound=Machine)
OnEvent = Callable[[Event], None]


class Endpoint(Generic[M]):
    """Made by ``open_endpoint``. ``machine`` is what it runs, ``local`` where it is bound."""

    machine: M
    local: Address

    def __init__(self, on_event: OnEvent | None, limits: StreamLimits, rng: Rng, *, tcp: bool) -> None:
        self._on_event, self._rng = on_event, rng
        self._driver: Driver
        self._datagrams: asyncio.DatagramTransport | None = None
        self._streams = Streams(limits, self._receive, self._tell_unreachable)
        self._tcp = tcp
        self._names = Names()
        self._closed = False

    def start(self, machine: M) -> None:
        self.machine = machine
        self._driver = Driver(machine, send=self._send, report=self._report, rng=self._rng)

    # -- for the application

    def ask(self, request: Any) -> None:
        """Give the machine a request, such as ``Bye(call)``; raises SipError if it makes no sense."""
        self._driver.ask(request)

    def invite(self, uri: str, media: Media) -> str:
        """Open a session; the name of the call is returned."""
        call = new_name(self._rng)
        self.ask(Invite(call, uri, media))
        return call

    async def rebind(self, host: str, port: int | None = None) -> Address:
        """Be at another address from now on; what comes to the old one is lost. The machine is asked to ``MoveTo`` it.

        The port stays the same if it is free there. Raises OSError if the address cannot be used; then nothing changes.
        """
        old_datagrams, old_listener = self._datagrams, self._streams.listener
        try:
            await self.bind(self.local._replace(host=host, port=self.local.port if port is None else port))
        except OSError:
            if port is not None:
                raise
            await self.bind(self.local._replace(host=host, port=0))
        if old_datagrams is not None:
            old_datagrams.close()
        if old_listener is not None:
            old_listener.close()
        self._streams.cut()
        self.ask(MoveTo(self.local))
        return self.local

    async def close(self) -> None:
        self._closed = True
        self._driver.close()
        if self._datagrams is not None:
            self._datagrams.close()
        await self._streams.close()
        await self._names.close()
        await asyncio.sleep(0)  # a transport closes its socket in the next turn of the loop

    # -- sockets

    async def bind(self, wanted: Address) -> None:
        """UDP always, and TCP at the same port if it is wanted; port 0 means any that is free for both."""
        loop = asyncio.get_running_loop()
        for attempt in range(_TRIES):
            datagrams, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self._receive), local_addr=(wanted.host, wanted.port)
            )
            port = datagrams.get_extra_info("sockname")[1]
            try:
                if self._tcp:
                    await self._streams.listen(wanted.host, port)
            except OSError:
                datagrams.close()
                if wanted.port or attempt == _TRIES - 1:
                    raise
                continue
            datagrams.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            self._datagrams, self.local = datagrams, wanted._replace(port=port)
            self._names.family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
            return

    # -- between the machine and the network

    def _receive(self, data: bytes, source: Address) -> None:
        if not self._closed:
            self._driver.tell(Received(source, data))

    def _tell_unreachable(self, address: Address) -> None:
        if not self._closed:
            self._driver.tell(SendFailed(address))

    def _report(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _send(self, to: Address, data: bytes) -> bool:
        """What cannot be sent is told later, when that is known."""
        if self._closed:
            pass
        elif not is_numeric(to.host):
            self._names.resolve(to, lambda found: self._send_resolved(data, to, found))
        elif to.transport == "udp":
            self._send_datagram(data, to)
        else:
            self._streams.send(data, to, self.local.host)
        return True

    def _send_resolved(self, data: bytes, to: Address, found: Address | None) -> None:
        if found is None:
            self._tell_unreachable(to)
        else:
            self._send(found, data)

    def _send_datagram(self, data: bytes, to: Address) -> None:
        """An error of the network is a loss like others: the timers of the protocol deal with it."""
        if self._datagrams is not None and not self._datagrams.is_closing():
            with suppress(OSError, ValueError):
                self._datagrams.sendto(data, (to.host, to.port))


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Address], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._received(data, Address("udp", addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        log.debug("a datagram was not delivered: %s", exc)


async def open_endpoint(
    make: Callable[[Address], M],
    local: Address,
    on_event: OnEvent | None = None,
    *,
    tcp: bool = False,
    limits: StreamLimits | None = None,
    rng: Rng = _CHANCE,
) -> Endpoint[M]:
    """Bind ``local`` (port 0: any) and run the machine that ``make`` makes for it.

    Raises SipError if ``local`` is no numeric address, OSError if it cannot be bound.
    """
    if not is_numeric(local.host):
        raise SipError(f"an endpoint listens on a numeric address, not on {local.host!r}")
    endpoint: Endpoint[M] = Endpoint(on_event, limits or StreamLimits(), rng, tcp=tcp or local.reliable)
    await endpoint.bind(local)
    endpoint.start(make(endpoint.local))
    return endpoint


# --- The embedded registrar and proxy: agents and the broker find each other without other software ------------------
#
# It is ``recado.protocols.sip.proxy.Proxy`` on real sockets, UDP and TCP at one port. A server such as Kamailio does
# more; for one machine or one network this one suffices.


async def open_registrar(
    local: Address,
    domains: tuple[str, ...],
    *,
    guard: Guard | None = None,
    least_expires: int = 5,
    limits: SipLimits = LIMITS,
    streams: StreamLimits | None = None,
) -> Endpoint[Proxy]:
    """Listen on ``local`` for the users of these domains; with a guard they have to prove who they are."""

    def make(bound: Address) -> Proxy:
        location = Location(limits, least=least_expires)
        return Proxy(bound, domains, secrets.token_bytes(32), guard=guard, location=location, limits=limits)

    return await open_endpoint(make, local, tcp=True, limits=streams)
