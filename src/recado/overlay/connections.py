"""The connections of a node, whoever dialled: from the first byte through the hello to the link.

Every connection is one task. It takes the connection through the hello (``recado.overlay.hello``) and then gives the
link to whom it belongs, until the link's end: to ``links`` (neighbours, one lasting link to each) or to ``contacts``
(whoever is spoken to just now).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Coroutine
from contextlib import suppress
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


class Identity(msgspec.Struct, frozen=True):
    """What a node says of itself when it is greeted, and what it proves that with."""

    name: str
    overlay: str
    protocol: str
    key: bytes = b""
    tls: Tls | None = None


class ConnectionOwner(Protocol):
    """Who has the links that come out of connections."""

    def capabilities(self) -> tuple[str, ...]:
        """What the hello says beside the names."""
        ...

    def refusal(self, hello: Hello) -> Refuse | None:
        """Why there should be no link to a node that has proved who it is; asked of the side that decides."""
        ...

    async def keep(self, hello: Hello, remote: Address, stream: Stream, *, dialled: bool) -> None:
        """Have a link to the node that said this hello, with its end of the connection at ``remote``, until its end."""
        ...


class Stream(msgspec.Struct, frozen=True):
    """A connection, and what has been read of it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    decoder: FrameDecoder

    def refuse(self, reason: str) -> LinkError:
        """End before there is a link; the other side is told."""
        _write(self.writer, Refuse(reason))
        return LinkError(reason)


class Connections:
    """Of the node ``me``; their links go to ``owner``."""

    def __init__(self, me: Identity, owner: ConnectionOwner, limits: OverlayLimits) -> None:
        self._me, self._owner, self._limits = me, owner, limits
        self.address: Address | None = None
        self.refused = self.open = 0
        self.ending = False
        self._complaints = Complaints(me.name, limits.complaints_a_minute)
        self._context: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- begin and end

    async def bind(self, address: Address) -> Address:
        """Take the address, and let nobody in before ``serve``; with the port that the system chose, if it was 0."""
        check_listening(address, self._me.key, self._me.tls)
        self._context = self._me.tls.server_context() if self._me.tls else None
        try:
            self._server = await asyncio.start_server(self._accept, address.host, address.port, start_serving=False)
        except OSError as error:
            raise OverlayError(f"cannot listen on {address}: {reason_of(error)}") from None
        host, port, *_ = self._server.sockets[0].getsockname()
        self.address = Address(host, port)
        return self.address

    async def serve(self) -> None:
        """Let others in."""
        assert self._server is not None, "bind comes first"
        try:
            await self._server.start_serving()
        except OSError as error:
            raise OverlayError(f"cannot listen on {self.address}: {reason_of(error)}") from None

    async def stop_listening(self) -> None:
        self.ending = True
        if self._server is not None:
            await stop_listening(self._server)

    async def close(self, links: list[Link]) -> None:
        """Send what these links have queued, say good-bye, and end every task."""
        for link in links:
            link.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.drain_seconds):
                await asyncio.gather(*(link.ended.wait() for link in links))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close a turn later

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, LinkError | OSError):
            log.error("%s: a connection failed", self._me.name, exc_info=error)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.open >= self._limits.connections or self.ending:
            reason = f"{self.open} connections are open, and the limit is {self._limits.connections}"
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
            self.open -= 1
            writer.close()
            # A peer that does not read would keep the connection open until it has taken the last bytes.
            loop.call_later(self._limits.drain_seconds, writer.transport.abort)

        loop = asyncio.get_running_loop()
        self.open += 1
        task = self.start(work)
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

    async def call(self, address: Address, local: str = "") -> None:
        """Dial once, from the address ``local`` if it is given, and return when the link that it led to has ended."""
        context = self._me.tls.client_context() if self._me.tls else None
        try:
            async with asyncio.timeout(self._limits.hello_seconds):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, ssl=context, local_addr=(local, 0) if local else None
                )
        except TimeoutError:
            raise HelloError(f"no connection within {self._limits.hello_seconds:g} s") from None
        # A task of its own, since the dialler may be told to stop while the link should live on.
        await asyncio.shield(self._talk(self._converse(reader, writer, dialled=True), writer))

    # -- one connection

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, dialled: bool) -> None:
        """From the hello to the end of the link."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        me = self._me
        hello = Hello(VERSION, me.overlay, me.protocol, me.name, nonce, self._owner.capabilities())
        handshake = Handshake(hello, me.key, dialled=dialled)
        decoder = FrameDecoder(self._limits.hello_bytes)
        await self._greet(handshake, decoder, reader, writer)
        assert handshake.peer is not None
        decoder.limit = self._limits.frame_bytes
        host, port, *_ = writer.get_extra_info("peername") or ("", 0)
        stream = Stream(reader, writer, decoder)
        await self._owner.keep(handshake.peer, Address(host, port), stream, dialled=dialled)

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
        if refusal := self._owner.refusal(handshake.peer):
            _write(writer, refusal)
            raise RefusedError(refusal.reason, linked=refusal.linked, peer=handshake.peer.node)
        _write(writer, handshake.accept())


def _write(writer: asyncio.StreamWriter, *messages: Control) -> None:
    """The hello is short, so it needs no queue."""
    for message in messages:
        payload = encode_control(message)
        with suppress(OSError, RuntimeError):
            writer.write(header(payload, control=True) + payload)


def _peer_name(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "an unknown address"
