"""A WebSocket as bytes: handshake, frames and the way it ends, without a word about what its messages mean.

An asyncio protocol of its own around the sans-I/O protocol of the ``websockets`` library, without tasks and queues in
between: a frame that arrives is handled in the same turn of the loop. Compression is not offered: a frame that claims
to be compressed is a protocol error, so there is nothing to inflate. The subclass answers the handshake, takes
messages, and is told once when all is over.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from recado.service.doors import Doors
from recado.service.http.lingering import linger
from recado.service.sessions.outgoing import Batch, Outgoing

_quiet = logging.getLogger("recado.websocket.frames")
_quiet.setLevel(logging.WARNING)  # at DEBUG the library logs whole frames, and HELLO holds a token


class Wire(asyncio.Protocol):
    """One WebSocket; ``out`` takes what is to be sent. Whoever lets it pile up is ``too_slow``."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._loop = asyncio.get_running_loop()
        self._ws = ServerProtocol(max_size=doors.config.limits.first_bytes, logger=_quiet)
        self._out = Outgoing(self._send, self._loop.call_soon)
        self._parts = bytearray()  # of a message in several frames
        self._ended = False  # our side of the connection
        self._closed = self._pinged = False
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def _open(self, request: Request) -> None:
        """Answer the handshake."""

    @abstractmethod
    def _message(self, payload: bytes | bytearray | memoryview) -> None: ...

    @abstractmethod
    def _too_slow(self) -> None: ...

    @abstractmethod
    def _given_back(self, reason: str) -> None:
        """It is over: let go of what the connection held."""

    # -- asyncio's calls -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._doors.connections += 1
        peer = transport.get_extra_info("peername") or ("", 0)
        self._address = f"{peer[0]}:{peer[1]}"
        self._peer = str(peer[0])

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish("connection lost" if exc is None else f"connection lost: {type(exc).__name__}")
        self._doors.connections -= 1
        self._disarm()

    def data_received(self, data: bytes) -> None:
        self._pinged = False
        self._ws.receive_data(data)
        self._handle()

    def eof_received(self) -> None:
        self._ws.receive_eof()
        self._handle()

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()

    # -- in ------------------------------------------------------------------------------------------------------------

    def _handle(self) -> None:
        for event in self._ws.events_received():
            if self._closed:
                break
            if isinstance(event, Request):
                self._open(event)
            elif isinstance(event, Frame):
                self._frame(event)
        self._write_protocol()
        if self._ended:
            self._finish("no WebSocket any more")
        elif self._transport.get_write_buffer_size() > self._doors.config.limits.outgoing_bytes:
            self._too_slow()  # pings are answered, but who takes no answers is asked no more

    def _frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._doors.metrics.frames_in += 1
            self._doors.metrics.bytes_in += len(frame.data)
            if frame.fin and not self._parts:
                self._message(frame.data)
                return
            self._parts += frame.data
            if frame.fin:
                whole, self._parts = self._parts, bytearray()
                self._message(whole)
        elif frame.opcode is Opcode.CLOSE:
            self._finish("closed by the agent")

    # -- out -----------------------------------------------------------------------------------------------------------

    def _send(self, batch: Batch) -> None:
        if self._ws.state is not State.OPEN:
            return
        payload = batch.payload
        self._ws.send_text(payload)
        self._doors.metrics.frames_out += 1
        self._doors.metrics.bytes_out += len(payload)
        self._write_protocol()

    def _write_protocol(self) -> None:
        for data in self._ws.data_to_send():
            if self._ended:
                return
            if data:
                self._transport.write(data)
            else:
                self._end_our_side()

    def _arm(self, seconds: float, call: Callable[[], None]) -> None:
        self._disarm()
        self._timer = self._loop.call_later(seconds, call)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _keep_alive(self) -> None:
        """Ask for a sign of life; one period later it must be there."""
        if self._pinged and self._transport.is_reading():
            if len(self._out):
                self._too_slow()
            else:
                self._transport.abort()
            return
        self._pinged = True
        self._ws.send_ping(b"")
        self._write_protocol()
        self._arm(self._doors.config.sessions.ping_seconds, self._keep_alive)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _close(self, code: int, reason: str) -> None:
        """What waits is sent now; then the closing handshake begins."""
        self._out.resume()
        self._out.flush()
        self._finish(reason)
        if self._ws.state is State.OPEN:
            self._ws.send_close(code, reason[:120])
            self._write_protocol()
        self._end_our_side()

    def _end_our_side(self) -> None:
        """Nothing more is written; what still comes is read and dropped until the peer closes, or for a moment."""
        if self._ended:
            return
        self._ended = True
        self._disarm()
        self._timer = linger(self._transport)

    def _finish(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._ended:  # once our side has ended, the timer is the one that ends the whole
            self._disarm()
        self._given_back(reason)
