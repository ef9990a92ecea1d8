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
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv6Network
from random import SystemRandom
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from recado.net.address_policy import may_reach
from recado.net.driver import Driver
from recado.net.sparing_log import SparingLog
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
# Only addresses of the family of our own socket are of use. Names come from others (Contact, Route), and whoever owns
# one decides how long its answer takes. So look-ups have threads of their own, a bounded number of them, a time after
# which they count as failed, and a bound on the messages that wait for all of them; what is over a bound fails at once.


_SECONDS = 60.0
_MOST = 1_024


class NameLimits(msgspec.Struct, frozen=True, kw_only=True):
    threads: int = 4
    names: int = 64
    """Names that are asked for at the same time, those that wait for a thread included."""
    messages: int = 256
    """Messages that wait for an answer."""
    seconds: float = 5.0
    """For one name."""


OnFound = Callable[[Address | None], None]


class Names:
    def __init__(self, limits: NameLimits | None = None) -> None:
        self.family = socket.AF_INET
        self._limits = limits or NameLimits()
        self._threads: ThreadPoolExecutor | None = None
        self._known: dict[str, tuple[float, str | None]] = {}
        self._waiting: dict[str, list[tuple[Address, OnFound]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.messages = 0
        """How many wait."""

    def resolve(self, address: Address, on_found: OnFound) -> None:
        """At once if the name is known, or else when it is; None if it has no address, or too much is asked."""
        known = self._known.get(address.host)
        if known is not None and known[0] > time.monotonic():
            on_found(None if known[1] is None else address._replace(host=known[1]))
            return
        asked = address.host in self._waiting
        if self.messages >= self._limits.messages or (not asked and len(self._waiting) >= self._limits.names):
            on_found(None)
            return
        self.messages += 1
        self._waiting.setdefault(address.host, []).append((address, on_found))
        if not asked:
            task = asyncio.get_running_loop().create_task(self._ask(address.host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, host: str) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._limits.threads, thread_name_prefix="sip-names")
        found = None
        with suppress(OSError, UnicodeError):  # a timeout is an OSError
            async with asyncio.timeout(self._limits.seconds):
                answers = await asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)
                found = str(answers[0][4][0])
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[host] = (time.monotonic() + (_SECONDS if found else self._limits.seconds), found)
        waiting = self._waiting.pop(host, [])
        self.messages -= len(waiting)
        for address, on_found in waiting:
            on_found(None if found is None else address._replace(host=found))

    def _look_up(self, host: str) -> list[Any]:
        return socket.getaddrinfo(host, None, family=self.family, type=socket.SOCK_DGRAM)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


# --- SIP over TCP: connections by their peer, made when something has to be sent, closed when they misbehave or rest
#
# A connection that says nothing at first, holds half a message for too long, or rests for long, is closed: a peer that
# sends one byte a minute occupies one place for a bounded time. One host has a part of the places only, and those
# that we dial have places of their own. When all places are taken, the host that has most of them loses the connection
# that has rested for longest to a host that has fewer: some hosts together lock nobody out either. Of IPv6 a host has a
# network of 2**64 addresses. A connection that does not read is cut when too much waits for it.
#
# Only a request makes us dial. A response goes back on the connection that its request came on, or nowhere.


log = logging.getLogger("recado.sip")
sparing = SparingLog(log)

OnMessage = Callable[[bytes, Address], None]
OnFailure = Callable[[Address], None]


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = 256
    """That others open; as many again that we open."""
    connections_per_host: int = 64
    connect_seconds: float = 10.0
    message_seconds: float = 15.0
    """How long a message may take from its first byte to its last."""
    first_seconds: float = 5.0
    """How long a connection may take from its beginning to its first whole message."""
    idle_seconds: float = 600.0
    queue_bytes: int = 1_048_576
    messages: SipLimits = LIMITS


class TlsClient(NamedTuple):
    """Whom to trust, and the name that the other side's certificate has to have."""

    context: ssl.SSLContext
    name: str


class TlsServer(NamedTuple):
    """The certificate, and the port to listen on; 0: any."""

    context: ssl.SSLContext
    port: int


class Streams:
    def __init__(self, limits: StreamLimits, on_message: OnMessage, on_failure: OnFailure) -> None:
        self._limits, self._on_message, self._on_failure = limits, on_message, on_failure
        self._connections: dict[Address, Connection] = {}
        self._by_host: Counter[str] = Counter()  # of those that others opened
        self._dialled = 0
        self._dialling: dict[Address, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.listener: asyncio.Server | None = None
        self.tls_listener: asyncio.Server | None = None
        self.tls: TlsClient | None = None

    def __len__(self) -> int:
        return len(self._connections)

    async def listen_tls(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Which port it is."""
        seconds = self._limits.first_seconds
        self.tls_listener = await asyncio.get_running_loop().create_server(
            self._accepted, host, port, ssl=context, ssl_handshake_timeout=seconds
        )
        bound: int = self.tls_listener.sockets[0].getsockname()[1]
        return bound

    async def listen(self, host: str, port: int) -> None:
        self.listener = await asyncio.get_running_loop().create_server(self._accepted, host, port)

    def send(self, data: bytes, to: Address, local_host: str, *, dial: bool = True) -> None:
        known = self._connections.get(to)
        if known is not None and known.usable:
            known.send(data)
        elif to in self._dialling:
            waiting = self._dialling[to]
            if sum(map(len, waiting)) < self._limits.queue_bytes:
                waiting.append(data)
        elif not dial:
            log.debug("a response to %s is dropped: its connection is gone", to)
        elif len(self._dialling) + self._dialled >= self._limits.connections:
            self._on_failure(to)
        else:
            self._dialling[to] = [data]
            task = asyncio.get_running_loop().create_task(self._dial(to, local_host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _dial(self, to: Address, local_host: str) -> None:
        """From our own address, so that the other side sees where we are."""
        secure: dict[str, Any] = {}
        try:
            if to.transport == "tls":
                if self.tls is None:
                    raise ConnectionError("there is nobody to trust for TLS")
                secure = {"ssl": self.tls.context, "server_hostname": self.tls.name}
            async with asyncio.timeout(self._limits.connect_seconds):
                _, made = await asyncio.get_running_loop().create_connection(
                    self._dialled_connection, to.host, to.port, local_addr=(local_host, 0), **secure
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

    def _accepted(self) -> Connection:
        return Connection(self, self._limits, dialled=False)

    def _dialled_connection(self) -> Connection:
        return Connection(self, self._limits, dialled=True)

    # -- for connections

    def enter(self, connection: Connection) -> bool:
        host = host_of(connection.peer)
        if connection.dialled:
            self._dialled += 1
        elif self._by_host[host] >= self._limits.connections_per_host or not self._has_room(host):
            return False
        else:
            self._by_host[host] += 1
        self._connections[connection.peer] = connection
        return True

    def leave(self, connection: Connection) -> None:
        """Called once for each that entered."""
        host = host_of(connection.peer)
        if connection.dialled:
            self._dialled -= 1
        elif self._by_host[host] > 1:
            self._by_host[host] -= 1
        else:
            del self._by_host[host]
        if self._connections.get(connection.peer) is connection:
            del self._connections[connection.peer]
            self._on_failure(connection.peer)

    def _has_room(self, host: str) -> bool:
        """For one more connection of this host, perhaps in the place of one of the host that has most."""
        if self._by_host.total() < self._limits.connections:
            return True
        ((greedy, count),) = self._by_host.most_common(1)
        if count <= self._by_host[host] + 1:
            return False
        theirs = (one for one in self._connections.values() if not one.dialled and host_of(one.peer) == greedy)
        oldest = min(theirs, key=lambda one: one.active_at)
        sparing.warning("the SIP connection from %s makes room: there are %d", oldest.peer, len(self._connections))
        oldest.cut()
        return True

    def receive(self, data: bytes, peer: Address) -> None:
        self._on_message(data, peer)

    # -- the end

    def cut(self) -> None:
        """Close all connections without a word: after a move they lead nowhere, and nothing new may use them."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    async def close(self) -> None:
        for listener in (self.listener, self.tls_listener):
            if listener is not None:
                listener.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def host_of(peer: Address) -> str:
    """Whom connections are counted for: an address, or the network of 64 bits that one host has of IPv6."""
    if ":" not in peer.host:
        return peer.host
    return str(IPv6Network((peer.host.partition("%")[0], 64), strict=False))


class Connection(asyncio.Protocol):
    def __init__(self, streams: Streams, limits: StreamLimits, *, dialled: bool) -> None:
        self.peer, self.dialled = Address("tcp", "", 0), dialled
        self.active_at = time.monotonic()
        """When something that counts came last."""
        self._entered = self._spoke = False
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
        kind = "tcp" if transport.get_extra_info("ssl_object") is None else "tls"
        self.peer = Address(kind, name[0], name[1]) if name else self.peer
        if not name or not self._streams.enter(self):
            sparing.warning("a SIP connection from %s was refused: there are %d", self.peer, len(self._streams))
            transport.abort()
            return
        self._entered = True
        limits = self._limits
        first = min(limits.first_seconds, limits.message_seconds, limits.idle_seconds)
        self._wait(limits.idle_seconds if self.dialled else first)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._framer.feed(data)
        except SipError as error:
            sparing.warning("the SIP connection from %s is closed: %s", self.peer, error)
            self.close()
            return
        self._spoke = self._spoke or bool(messages) or self.dialled
        if not self._spoke:
            return  # the first message has its time, and keep-alives are none
        if messages or not self._framer.pending:
            self._wait(self._limits.idle_seconds)
        elif self._framer.pending == len(data):
            self._wait(self._limits.message_seconds)
        for message in messages:
            self._streams.receive(message, self.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._entered:
            self._streams.leave(self)

    def send(self, data: bytes) -> None:
        if self._transport is None or not self.usable:
            return
        if self._transport.get_write_buffer_size() > self._limits.queue_bytes:
            sparing.warning("the SIP connection to %s is cut: it does not read", self.peer)
            self._transport.abort()
            return
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def cut(self) -> None:
        """At once; its place is free from now on."""
        if self._entered:
            self._entered = False
            self._streams.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def _wait(self, seconds: float) -> None:
        self.active_at = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.close)


# --- The endpoint: a machine, its driver, and its sockets ------------------------------------------------------------

_CHANCE = SystemRandom()
_TRIES = 16
_MOST_EARLY = 64
_RECEIVE_BYTES = 1_048_576  # a burst waits in the socket while the process is busy, as far as the system lets it


M = TypeVar("M", bound=Machine)
OnEvent = Callable[[Event], None]
Policy = Callable[[str], bool]
"""May something be sent to this numeric host?"""


class Endpoint(Generic[M]):
    """Made by ``open_endpoint``. ``machine`` is what it runs, ``local`` where it is bound."""

    machine: M
    local: Address

    def __init__(
        self, on_event: OnEvent | None, limits: StreamLimits, rng: Rng, *, tcp: bool, policy: Policy | None, home: str
    ) -> None:
        self._on_event, self._rng, self._policy, self._home = on_event, rng, policy, home
        self.only_tls = False
        """Beyond this host nothing is taken in clear."""
        self.tls_port = 0
        self._driver: Driver
        self._datagrams: asyncio.DatagramTransport | None = None
        self._streams = Streams(limits, self._receive, self._tell_unreachable)
        self._tcp = tcp
        self._names, self._home_names = Names(), Names()
        self._early: list[tuple[bytes, Address]] | None = []
        """What comes while sockets are open and there is no machine yet; None from ``start`` on."""
        self._closed = False

    def start(self, machine: M) -> None:
        self.machine = machine
        self._driver = Driver(machine, send=self._send, report=self._report, rng=self._rng)
        early, self._early = self._early or [], None
        for data, source in early:
            self._receive(data, source)

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
        await self._home_names.close()
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
            self._names.family = self._home_names.family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
            return

    def secure(self, tls: TlsClient) -> None:
        self._streams.tls = tls

    async def listen_tls(self, tls: TlsServer) -> None:
        self.tls_port = await self._streams.listen_tls(self.local.host, tls.port, tls.context)

    async def shut(self) -> None:
        """Give the sockets back: there is no machine yet."""
        self._closed = True
        if self._datagrams is not None:
            self._datagrams.close()
        await self._streams.close()

    # -- between the machine and the network

    def _receive(self, data: bytes, source: Address) -> None:
        if self.only_tls and source.transport != "tls" and source.host != self.local.host:
            return
        if self._early is not None:
            if len(self._early) < _MOST_EARLY:
                self._early.append((data, source))
        elif not self._closed:
            self._driver.tell(Received(source, data))

    def _tell_unreachable(self, address: Address) -> None:
        if self._early is None and not self._closed:
            self._driver.tell(SendFailed(address))

    def _report(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _send(self, to: Address, data: bytes) -> bool:
        """What cannot be sent is told later, when that is known."""
        if self._closed:
            pass
        elif is_numeric(to.host):
            self._send_numeric(data, to, trusted=to.host == self._home)
        elif is_response(data):
            log.debug("a response to %s is dropped: nobody asked from a name", to)
        else:
            trusted = to.host == self._home
            names = self._home_names if trusted else self._names
            names.resolve(to, lambda found: self._send_resolved(data, to, found, trusted=trusted))
        return True

    def _send_numeric(self, data: bytes, to: Address, *, trusted: bool) -> None:
        """Every target passes here, whoever named it: Contact, Route, Via or a name's owner."""
        if not trusted and self._policy is not None and not self._policy(to.host):
            log.debug("nothing is sent to %s: no place for a service at %s", to, self.local.host)
            self._tell_unreachable(to)
        elif to.transport == "udp":
            self._send_datagram(data, to)
        else:
            self._streams.send(data, to, self.local.host, dial=not is_response(data))

    def _send_resolved(self, data: bytes, to: Address, found: Address | None, *, trusted: bool) -> None:
        if found is None:
            self._tell_unreachable(to)
        elif not self._closed:
            self._send_numeric(data, found, trusted=trusted)

    def _send_datagram(self, data: bytes, to: Address) -> None:
        """An error of the network is a loss like others: the timers of the protocol deal with it."""
        if self._datagrams is not None and not self._datagrams.is_closing():
            with suppress(OSError, ValueError):
                self._datagrams.sendto(data, (to.host, to.port))


def is_response(data: bytes) -> bool:
    return data.startswith(b"SIP/")


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
    policy: Policy | None = None,
    home: str = "",
    tls: TlsServer | TlsClient | None = None,
    only_tls: bool = False,
) -> Endpoint[M]:
    """Bind ``local`` (port 0: any) and run the machine that ``make`` makes for it.

    With a ``policy`` nothing is sent elsewhere than it allows, except to the host ``home``, which the owner chose. With
    a TlsServer it listens for TLS, too, at ``tls_port``; with a TlsClient it opens connections of TLS. ``only_tls``:
    what comes in clear from another host than its own is dropped.
    Raises SipError if ``local`` is no numeric address, OSError if it cannot be bound.
    """
    if not is_numeric(local.host):
        raise SipError(f"an endpoint listens on a numeric address, not on {local.host!r}")
    endpoint: Endpoint[M] = Endpoint(
        on_event, limits or StreamLimits(), rng, tcp=tcp or local.transport == "tcp", policy=policy, home=home
    )
    endpoint.only_tls = only_tls or local.transport == "tls"
    await endpoint.bind(local)
    if isinstance(tls, TlsClient):
        endpoint.secure(tls)
    elif tls is not None:
        try:
            await endpoint.listen_tls(tls)
        except OSError:
            await endpoint.shut()
            raise
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
    tls: TlsServer | None = None,
) -> Endpoint[Proxy]:
    """Listen on ``local`` for the users of these domains; with a guard they have to prove who they are.

    Where their contacts may be is what ``recado.net.address_policy`` allows from here. With ``tls`` others than this
    host are heard over TLS alone.
    """

    def make(bound: Address) -> Proxy:
        location = Location(limits, least=least_expires)
        return Proxy(bound, domains, secrets.token_bytes(32), guard=guard, location=location, limits=limits)

    def policy(host: str) -> bool:
        return may_reach(host, local.host)

    only_tls = tls is not None
    endpoint = await open_endpoint(make, local, tcp=True, limits=streams, policy=policy, tls=tls, only_tls=only_tls)
    endpoint.machine.tls_port = endpoint.tls_port
    return endpoint
