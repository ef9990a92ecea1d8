"""All links of a node: it listens, dials its peers, and keeps one link to each.

Every connection, whoever dialled, is one task that takes it through the hello (``recado.overlay.hello``) and then runs
the link until its end. A dialler tries again for ever, with growing, jittered pauses, and rests while there is a link
to the node at its address.

If the side that decides has a link to the peer already, the new connection is refused and the old one probed: after a
crash that went unnoticed the old one is cut, and the peer's next attempt succeeds. The other side, when it is told of
a new connection and has a link already, lets the new one wait for the probe: if the old one answers, there are two
nodes of one name, and the first stays.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any, Protocol

import msgspec

from recado.overlay.addresses import Address, Tls, check_listening
from recado.overlay.hello import (
    NONCE_BYTES,
    VERSION,
    Control,
    FrameDecoder,
    Handshake,
    Hello,
    Refuse,
    RefusedError,
    encode_control,
    header,
)
from recado.overlay.limits import Complaints, HelloError, LinkError, OverlayError, OverlayLimits, reason_of
from recado.overlay.link import Link, stop_listening

log = logging.getLogger("recado.overlay")

_LINKED = "there is a link to a node of this name already"


class LinkOwner(Protocol):
    """The node that the links belong to: it is told of links that come and go, and of every message."""

    def link_up(self, peer: str) -> None: ...
    def link_down(self, peer: str) -> None: ...
    def receive(self, peer: str, payload: bytes) -> None: ...


class Identity(msgspec.Struct, frozen=True):
    """What a node says of itself when it is greeted, and what it proves that with."""

    name: str
    overlay: str
    protocol: str
    key: bytes = b""
    tls: Tls | None = None


class Links:
    """The links of the node ``me``, by the peer's name."""

    def __init__(self, me: Identity, owner: LinkOwner, limits: OverlayLimits, rng: Random) -> None:
        self._me, self._owner, self._limits, self._rng = me, owner, limits, rng
        self.links: dict[str, Link] = {}
        self.address: Address | None = None
        self.refused = 0
        self._complaints = Complaints(me.name, limits.complaints_a_minute)
        self._context: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._diallers: dict[Address, asyncio.Task[None]] = {}
        self._open = 0
        self._ending = False

    # -- listening and dialling

    async def bind(self, address: Address) -> Address:
        """Take the address, and let nobody in before ``listen``; with the port that the system chose, if it was 0."""
        check_listening(address, self._me.key, self._me.tls)
        self._context = self._me.tls.server_context() if self._me.tls else None
        try:
            self._server = await asyncio.start_server(self._accept, address.host, address.port, start_serving=False)
        except OSError as error:
            raise OverlayError(f"cannot listen on {address}: {reason_of(error)}") from None
        host, port, *_ = self._server.sockets[0].getsockname()
        self.address = Address(host, port)
        return self.address

    async def listen(self) -> None:
        """Let others in."""
        assert self._server is not None, "bind comes first"
        try:
            await self._server.start_serving()
        except OSError as error:
            raise OverlayError(f"cannot listen on {self.address}: {reason_of(error)}") from None

    def unbind(self) -> None:
        """Give the address back; the node did not start."""
        if self._server is not None:
            self._server.close()
            self._server = self.address = None

    def dial(self, address: Address) -> None:
        """Have a link to whoever listens there, from now on."""
        if address not in self._diallers:
            self._diallers[address] = self._start(self._dial(address))

    def hang_up(self, address: Address) -> None:
        """Dial there no more; a link that exists stays."""
        if dialler := self._diallers.pop(address, None):
            dialler.cancel()

    def end(self, peer: str) -> None:
        """End the link to this peer, if there is one, when everything queued was sent."""
        if link := self.links.get(peer):
            link.finish()

    @property
    def dialled(self) -> tuple[Address, ...]:
        return tuple(self._diallers)

    async def close(self) -> None:
        """Send what is queued, say good-bye, and end every task."""
        self._ending = True
        if self._server is not None:
            await stop_listening(self._server)
        for address in self.dialled:
            self.hang_up(address)
        links = list(self.links.values())
        for link in links:
            link.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.drain_seconds):
                await asyncio.gather(*(link.ended.wait() for link in links))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close a turn later

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, LinkError | OSError):
            log.error("%s: a connection failed", self._me.name, exc_info=error)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= self._limits.connections or self._ending:
            reason = f"{self._open} connections are open, and the limit is {self._limits.connections}"
            self._complain(writer, f"refused: {reason}")
            if self._context is None:
                _write(writer, Refuse(reason))
            writer.close()
            return
        if self._context is not None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # until TLS begins, which reads by itself
        self._talk(self._answer(reader, writer), writer)

    def _talk(self, work: Coroutine[Any, Any, None], writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        """The task of one connection, which is closed at its end, even if the task is cancelled before it begins."""

        def done(_: asyncio.Task[None]) -> None:
            self._open -= 1
            writer.close()
            # A peer that does not read would keep the connection open until it has taken the last bytes.
            loop.call_later(self._limits.drain_seconds, writer.transport.abort)

        loop = asyncio.get_running_loop()
        self._open += 1
        task = self._start(work)
        task.add_done_callback(done)
        return task

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._context is not None:
                # TLS begins when the connection is counted, so that handshakes are limited in number, too.
                await writer.start_tls(self._context, ssl_handshake_timeout=self._limits.hello_seconds)
            await self._converse(reader, writer, dialled=False)
        except (LinkError, OSError) as error:
            if not (isinstance(error, RefusedError) and error.linked):
                self._complain(writer, reason_of(error))

    def _complain(self, writer: asyncio.StreamWriter, reason: str) -> None:
        self.refused += 1
        self._complaints.add(f"connection from {_peer_name(writer)}: {reason}")

    async def _dial(self, address: Address) -> None:
        pause = Backoff(self._limits.retry_seconds, self._limits.retry_most_seconds, self._rng)
        complaint = ""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._call(address)
            except (OverlayError, OSError, UnicodeError) as error:  # the last one: a host that cannot be a name
                if reason_of(error) != complaint:
                    complaint = reason_of(error)
                    log.warning("%s: no link to %s: %s; will try again", self._me.name, address, complaint)
            else:
                complaint = ""
            if loop.time() - began > self._limits.probe_seconds:
                pause.reset()  # it was a link for a while, not one that fails at once every time
            await asyncio.sleep(pause.next())

    async def _call(self, address: Address) -> None:
        """Dial once, and return when the link that it led to has ended."""
        context = self._me.tls.client_context() if self._me.tls else None
        try:
            async with asyncio.timeout(self._limits.hello_seconds):
                reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
        except TimeoutError:
            raise HelloError(f"no connection within {self._limits.hello_seconds:g} s") from None
        try:
            # A task of its own, since the dialler may be told to stop while the link should live on.
            await asyncio.shield(self._talk(self._converse(reader, writer, dialled=True), writer))
        except RefusedError as refused:
            if not refused.linked or refused.peer not in self.links:
                raise
            await self._rest(refused.peer)

    # -- one connection

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, dialled: bool) -> None:
        """From the hello to the end of the link."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        hello = Hello(VERSION, self._me.overlay, self._me.protocol, self._me.name, nonce)
        handshake = Handshake(hello, self._me.key, dialled=dialled)
        decoder = FrameDecoder(self._limits.hello_bytes)
        await self._greet(handshake, decoder, reader, writer)
        assert handshake.peer is not None
        decoder.limit = self._limits.frame_bytes
        link = Link(
            handshake.peer.node,
            reader,
            writer,
            decoder,
            limits=self._limits,
            receive=self._owner.receive,
            dialled=dialled,
        )
        await self._keep(link)

    async def _greet(
        self, handshake: Handshake, decoder: FrameDecoder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The hello, in limited time; a refusal is told to the other side before it is raised."""
        try:
            async with asyncio.timeout(self._limits.hello_seconds):
                _write(writer, *handshake.begin())
                while not handshake.accepted:
                    await self._hear(handshake, decoder, reader, writer)
        except TimeoutError:
            error = HelloError(f"no complete hello within {self._limits.hello_seconds:g} s")
            _write(writer, Refuse(str(error)))
            raise error from None
        except RefusedError:
            raise
        except LinkError as error:
            _write(writer, Refuse(str(error)))
            raise

    async def _hear(
        self, handshake: Handshake, decoder: FrameDecoder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        frame = decoder.next()
        if frame is None:
            data = await reader.read(self._limits.hello_bytes)
            if not data:
                raise HelloError("the connection was closed before the hello was complete")
            decoder.feed(data)
            return
        if not frame.control:
            raise HelloError("a message before the hello was complete")
        _write(writer, *handshake.receive(frame.payload))
        if handshake.proven and handshake.decides:
            self._decide(handshake, writer)

    def _decide(self, handshake: Handshake, writer: asyncio.StreamWriter) -> None:
        assert handshake.peer is not None
        if link := self.links.get(handshake.peer.node):
            link.probe()
            _write(writer, Refuse(_LINKED, linked=True))
            raise RefusedError(_LINKED, linked=True, peer=link.peer)
        _write(writer, handshake.accept())

    async def _keep(self, link: Link) -> None:
        """The link is there, until it ends."""
        while older := self.links.get(link.peer):
            if await older.answers():
                raise link.refuse(f"another node called {link.peer!r} is linked here; names are unique in an overlay")
        self.links[link.peer] = link
        log.info("%s: link to %s is up", self._me.name, link.peer)
        self._owner.link_up(link.peer)
        reason = "this node stops"
        try:
            reason = await link.run()
        finally:
            self._remove(link, reason)

    def _remove(self, link: Link, reason: str) -> None:
        if self.links.get(link.peer) is link:
            del self.links[link.peer]
            log.info("%s: link to %s is down: %s", self._me.name, link.peer, reason)
            if not self._ending:
                self._owner.link_down(link.peer)

    async def _rest(self, peer: str) -> None:
        """Wait while there is a link to this peer."""
        while link := self.links.get(peer):
            await link.ended.wait()
            await asyncio.sleep(0)


def _write(writer: asyncio.StreamWriter, *messages: Control) -> None:
    """The hello is short, so it needs no queue."""
    for message in messages:
        payload = encode_control(message)
        with suppress(OSError, RuntimeError):
            writer.write(header(payload, control=True) + payload)


def _peer_name(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "an unknown address"


# --- How long to wait before dialling again: exponential, with jitter, so that many nodes do not return at once


class Backoff:
    """Waits of between half and all of a bound that doubles, up to ``most``; ``reset`` after a success."""

    def __init__(self, first: float, most: float, rng: Random) -> None:
        self._first, self._most, self._rng = first, most, rng
        self._failures = 0

    def next(self) -> float:
        bound = min(self._most, self._first * 2.0 ** min(self._failures, 63))
        self._failures += 1
        return bound * (0.5 + 0.5 * self._rng.random())

    def reset(self) -> None:
        self._failures = 0
