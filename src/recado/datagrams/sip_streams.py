"""SIP over TCP: connections by their peer, made when something has to be sent, closed when they misbehave or rest.

A connection that holds half a message for too long, or does nothing for a long time, is closed: a peer that sends one
byte a minute occupies one place for a bounded time. One that does not read is cut when too much waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from recado.protocols.sip.address import Address
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.stream import Framer

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

    def received(self, data: bytes, peer: Address) -> None:
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
            self._streams.received(message, self.peer)

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
