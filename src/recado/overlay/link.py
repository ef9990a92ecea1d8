"""A link: one connection to one peer, after the hello.

Reading is one loop, writing another, and a third watches the silence. What is to be sent waits in a queue of bounded
size. A peer that takes less than it is sent would fill it, so the link is cut then: waiting instead would make this
node stop reading from others, and nodes on a cycle could end up waiting for each other. The applications of this node
are the ones that can wait; see ``crowded``.

The speed at which a peer is read may be limited: a peer that sends more feels it, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from recado.overlay.hello import (
    Accept,
    Bye,
    Control,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Proof,
    Refuse,
    decode_control,
    encode_control,
    header,
)
from recado.overlay.limits import LinkError, OverlayLimits, sanitize

_PIECE = 65_536


class Link:
    """``receive(peer, payload)`` is called for every message of the machine; a LinkError from it ends the link.

    ``control(message)`` is called for what a link does not understand by itself; without it, that ends the link, too.
    Without ``pings`` nobody asks whether a silent peer is still there. ``messages_a_second``, if not 0, is how fast the
    peer is read.
    """

    def __init__(
        self,
        peer: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: FrameDecoder,
        *,
        limits: OverlayLimits,
        receive: Callable[[str, bytes], None],
        dialled: bool,
        control: Callable[[Control], None] | None = None,
        pings: bool = True,
        messages_a_second: int = 0,
    ) -> None:
        self.peer, self.dialled = peer, dialled
        self.ended = asyncio.Event()
        self.broken = False
        """Has the peer sent what it should not?"""
        self.sent = self.received = 0
        self.queued_bytes = 0
        self._reader, self._writer, self._decoder = reader, writer, decoder
        self._limits, self._receive, self._other, self._pings = limits, receive, control, pings
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._wake = asyncio.Event()
        self._finishing = False
        self._reason = ""
        self._loop = asyncio.get_running_loop()
        self._heard = self.since = self._loop.time()
        self._most_a_second, self._allowed, self._counted = messages_a_second, float(messages_a_second), self.since

    @property
    def quiet_seconds(self) -> float:
        """For how long nothing has come."""
        return self._loop.time() - self._heard

    @property
    def crowded(self) -> bool:
        """Is the queue half full? Then applications should wait a little before they publish more."""
        return self.queued_bytes > self._limits.queue_bytes // 2

    # -- sending

    def send(self, payload: bytes) -> None:
        """Queue one message of the machine."""
        self.sent += 1
        self._put(header(payload), payload)

    def say(self, message: Control) -> None:
        """Queue something of the link's own."""
        payload = encode_control(message)
        self._put(header(payload, control=True), payload)

    def _put(self, head: bytes, payload: bytes) -> None:
        if self._reason:
            return
        self.queued_bytes += len(head) + len(payload)
        if self.queued_bytes > self._limits.queue_bytes:
            waiting, self.queued_bytes = self.queued_bytes, 0
            self._queue.clear()
            self.cut(f"too slow: {waiting:,} bytes waited to be sent, and the limit is {self._limits.queue_bytes:,}")
            return
        self._queue.append((head, payload))
        self._wake.set()

    async def _write(self) -> None:
        while not (self._finishing and not self._queue):
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                self._writer.write(self._piece())
                await self._writer.drain()

    def _piece(self) -> bytes:
        """Some whole frames."""
        parts: list[bytes] = []
        size = 0
        while self._queue and size < _PIECE:
            head, payload = self._queue.popleft()
            parts += (head, payload)
            size += len(head) + len(payload)
        self.queued_bytes -= size
        return b"".join(parts)

    # -- the end

    def cut(self, reason: str) -> None:
        """End at once, without what is queued; the first reason counts."""
        if not self._reason:
            self._reason = reason
            self._writer.transport.abort()

    def finish(self) -> None:
        """End when everything queued was sent."""
        self.say(Bye())
        self._finishing = True

    def probe(self) -> None:
        """Find out soon whether the peer is still there."""
        asked = self._loop.time()
        self.say(Ping())
        self._loop.call_later(self._limits.probe_seconds, self._check_probe, asked)

    def _check_probe(self, asked: float) -> None:
        if self._heard < asked:
            self.cut(f"no answer to a probe within {self._limits.probe_seconds:g} s")

    async def answers(self) -> bool:
        """Is the peer still there? If not, the link has ended."""
        self.probe()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.5 * self._limits.probe_seconds):
                await self.ended.wait()
        await asyncio.sleep(0)  # whoever ran the link takes note of its end
        return not self.ended.is_set()

    def refuse(self, reason: str) -> LinkError:
        """End before it began; the peer is told."""
        self._farewell(reason)
        return LinkError(reason)

    # -- the loops

    async def run(self) -> str:
        """Until the connection ends; the reason."""
        writing = asyncio.create_task(self._writing())
        watching = asyncio.create_task(self._watch()) if self._pings else None
        try:
            await self._read()
        except LinkError as error:
            self.broken = True
            self._reason = self._reason or str(error)
            self._farewell(str(error))
        except OSError as error:
            self._reason = self._reason or f"connection lost: {error.strerror or error}"
        finally:
            tasks = [task for task in (writing, watching) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._writer.close()
            self.ended.set()
        return self._reason or "closed by the other side"

    async def _read(self) -> None:
        self._take_frames()
        while data := await self._reader.read(_PIECE):
            self._heard = self._loop.time()
            self._decoder.feed(data)
            before = self.received
            self._take_frames()
            if self._most_a_second and (pause := self._pause(self.received - before)):
                await asyncio.sleep(pause)
        if self._decoder.waiting and not self._reason:
            raise LinkError(f"the connection ended inside a frame, after {self._decoder.waiting} bytes of it")

    def _pause(self, messages: int) -> float:
        """How long to read nothing, after so many messages: a second's worth of them may come at once."""
        most, now = self._most_a_second, self._loop.time()
        self._allowed = min(most, self._allowed + (now - self._counted) * most) - messages
        self._counted = now
        return max(0.0, -self._allowed / most)

    def _take_frames(self) -> None:
        for frame in self._decoder.frames():
            if self._reason:
                return
            if frame.control:
                self._control(decode_control(frame.payload))
            else:
                self.received += 1
                self._receive(self.peer, frame.payload)

    def _control(self, message: Control) -> None:
        match message:
            case Ping():
                self.say(Pong())
            case Pong():
                pass
            case Bye():
                self.cut("the other side stopped")
            case Refuse(reason):
                self.cut(f"ended by the other side: {sanitize(reason)}")
            case _ if self._other is not None and not isinstance(message, Hello | Proof | Accept):
                self._other(message)
            case _:
                raise LinkError(f"{type(message).__name__.lower()} on a link that is already accepted")

    def _farewell(self, reason: str) -> None:
        """Tell the peer why, if the connection can still take it."""
        payload = encode_control(Refuse(reason))
        with suppress(OSError, RuntimeError):
            self._writer.write(header(payload, control=True) + payload)

    async def _writing(self) -> None:
        try:
            await self._write()
        except OSError as error:
            self.cut(f"connection lost: {error.strerror or error}")
        else:
            self._reason = self._reason or "finished"
            self._writer.close()

    async def _watch(self) -> None:
        """Ask when it has been quiet, give up when it stays quiet."""
        pause = self._limits.ping_seconds / 2
        while True:
            await asyncio.sleep(pause)
            quiet = self._loop.time() - self._heard
            if quiet >= self._limits.silence_seconds:
                self.cut(f"silent for {quiet:.1f} s")
            elif quiet >= self._limits.ping_seconds:
                self.say(Ping())


# --- The end of a listening socket, without losing a connection that is just being accepted --------------------------


_TURNS = 3


async def stop_listening(server: asyncio.Server) -> None:
    """Accept nothing more, let what was accepted reach its callback, and close.

    A connection takes some turns of the loop from being accepted to the callback. If the server is closed meanwhile,
    asyncio drops the connection without closing it.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
