"""One WebSocket, from its handshake to its end.

It goes through these states, and no other way:

    opening --handshake--> hello --HELLO accepted--> open --> closed
                 |                     |
                 +------ refused ------+---> closed

Before HELLO is accepted a message may have ``limits.first_bytes`` and must come within ``sessions.hello_seconds``, and
nothing but HELLO is read. A connection that says nothing is asked with a ping, and closed if it stays silent; one that
lets its answers pile up is too slow, and closed as well.

It is an asyncio protocol around the sans-I/O protocol of the ``websockets`` library, without tasks and queues in
between: a frame that arrives is handled in the same turn of the loop. Compression is not offered: a frame that claims
to be compressed is a protocol error, so there is nothing to inflate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from recado.errors import RecadoError
from recado.protocols.session import messages as m
from recado.server.close import linger
from recado.server.consumer import REVOKED
from recado.server.gateway import Gateway
from recado.server.identity import Caller
from recado.server.permissions import Principal
from recado.server.problems import UnauthenticatedError, status_of, text_of
from recado.server.session import Batch, Outgoing, Session

PATH = "/v1/session"
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("recado.websocket")
_quiet = logging.getLogger("recado.websocket.frames")
_quiet.setLevel(logging.WARNING)  # at DEBUG the library logs whole frames, and HELLO holds a token

_CODES = {
    "draining": 1012,
    "too slow": 1013,
    "failed": 1011,
    "taken over": 1000,
    REVOKED: 1008,
    "ended": 1000,
    "bye": 1000,
}


class Connection(asyncio.Protocol):
    """A WebSocket on ``/v1/session``; ``out`` takes what is to be sent. Whoever lets it pile up is too slow."""

    def __init__(self, gateway: Gateway, live: dict[Connection, None]) -> None:
        self._gateway = gateway
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._ws = ServerProtocol(max_size=gateway.config.limits.first_bytes, logger=_quiet)
        self._out = Outgoing(self._write, self._loop.call_soon)
        self._parts = bytearray()  # of a message in several frames
        self._ended = False  # our side of the connection
        self._closed = self._pinged = False
        self._timer: asyncio.TimerHandle | None = None
        self._caller = Caller("", {})
        self._who: Principal | None = None
        self._session: Session | None = None
        self._reading_paused = self._draining = False

    # -- asyncio's calls -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._gateway.connections += 1
        peer = transport.get_extra_info("peername") or ("", 0)
        self._address = f"{peer[0]}:{peer[1]}"
        self._peer = str(peer[0])
        self._gateway.strangers[self] = self._transport.abort
        self._live[self] = None
        self._arm(self._gateway.config.sessions.hello_seconds, self._no_hello)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish("connection lost" if exc is None else f"connection lost: {type(exc).__name__}")
        self._gateway.connections -= 1
        self._gateway.strangers.pop(self, None)
        self._disarm()
        self._live.pop(self, None)

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

    # -- frames -------------------------------------------------------------------------------------------------------

    def _handle(self) -> None:
        for event in self._ws.events_received():
            if self._closed:
                break
            if isinstance(event, Request):
                self._open(event)
            elif isinstance(event, Frame):
                self._frame(event)
        self._write()
        if self._ended:
            self._finish("no WebSocket any more")
        elif self._transport.get_write_buffer_size() > self._gateway.config.limits.outgoing_bytes:
            self._too_slow()  # pings are answered, but who takes no answers is asked no more

    def _frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._gateway.metrics.frames_in += 1
            self._gateway.metrics.bytes_in += len(frame.data)
            if frame.fin and not self._parts:
                self._message(frame.data)
                return
            self._parts += frame.data
            if frame.fin:
                whole, self._parts = self._parts, bytearray()
                self._message(whole)
        elif frame.opcode is Opcode.CLOSE:
            self._finish("closed by the agent")

    # -- messages -----------------------------------------------------------------------------------------------------

    def _open(self, request: Request) -> None:
        """Answer the handshake; a wrong token is told before the connection is one."""
        url = urlsplit(request.path)
        self._caller = Caller(
            self._peer,
            {name.lower(): value for name, value in request.headers.raw_items()},
            next(iter(parse_qs(url.query).get("user", [])), ""),
        )
        response = self._ws.accept(request)
        if response.status_code == 101:
            try:
                self._gateway.check_open()
                self._check_known()
            except RecadoError as error:
                response = self._ws.reject(status_of(error), text_of(error) + "\n")
                self._note_refused("handshake", error)
        self._ws.send_response(response)

    def _check_known(self) -> None:
        """If the handshake says who it is, that must be right; else HELLO has to say it."""
        try:
            self._gateway.identity.principal(self._caller)
        except UnauthenticatedError:
            if "authorization" in self._caller.headers:
                raise

    def _message(self, payload: bytes | bytearray | memoryview) -> None:
        try:
            messages = m.from_agent(bytes(payload))
            if self._session is None:
                messages = self._hello(messages)
            if self._session is not None and messages:
                self._session.receive(messages)
        except RecadoError as error:
            self._refuse(error)
        else:
            self._pace()

    def _refuse(self, error: RecadoError) -> None:
        """A frame that is none: before HELLO that is the end; after it every request in it is refused."""
        self._out.put(map(_encode, m.refusals(error, status_of(error), text_of(error))))
        if self._session is None:
            self._note_refused("hello", error)
            self.end("refused", 1008)

    def _note_refused(self, reason: str, error: RecadoError) -> None:
        self._gateway.metrics.by["connections_refused"][reason] += 1
        self._gateway.audit.note(None, self._address, "websocket", "connect", status=status_of(error))

    def _hello(self, messages: list[m.FromAgent]) -> list[m.FromAgent]:
        """Begin the session; what is left of the frame."""
        if not messages or not isinstance(messages[0], m.Hello):
            raise m.MessageError('the first message must be HELLO, such as {"type": "HELLO", "device": "laptop"}')
        hello = messages[0]
        identity = self._gateway.identity
        who = identity.principal(self._caller) if hello.token is None else identity.by_token(hello.token, self._peer)
        self._gateway.check_open()
        self._gateway.enter(who)
        self._who = who
        session = Session(self._gateway, who, hello, address=self._address, out=self._out, end=self.end)
        session.begin(hello.seen, hello.log)
        session.answered = self._pace
        self._out.flushed = session.sent
        self._session = session
        self._gateway.strangers.pop(self, None)
        self._ws.max_message_size = self._gateway.config.limits.frame_bytes
        self._arm(self._gateway.config.sessions.ping_seconds, self._keep_alive)
        return messages[1:]

    # -- out -----------------------------------------------------------------------------------------------------------

    def _write(self, batch: Batch | None = None) -> None:
        """Send a frame of messages, or only what the protocol itself has to say."""
        if batch is not None:
            if self._ws.state is not State.OPEN:
                return
            self._ws.send_text(batch.payload)
            self._gateway.metrics.frames_out += 1
            self._gateway.metrics.bytes_out += len(batch.payload)
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
        self._write()
        self._arm(self._gateway.config.sessions.ping_seconds, self._keep_alive)

    # -- pace ----------------------------------------------------------------------------------------------------------

    def _pace(self) -> None:
        """Read on, or not: by what is unanswered; close if the answers are not taken."""
        session = self._session
        if session is None or self._closed:
            return
        if self._out.answer_bytes > self._gateway.config.limits.outgoing_bytes:
            self._too_slow()
        elif self._draining and not session.publishing:
            self._gateway.metrics.by["sessions_closed"]["draining"] += 1
            self.end("draining")
        elif session.busy != self._reading_paused:
            self._reading_paused = session.busy
            if self._reading_paused:
                self._transport.pause_reading()
            elif not self._draining:
                self._transport.resume_reading()

    def drain(self) -> None:
        """Read no more, answer what was published, then say that it is over."""
        self._draining = True
        if self._session is None:
            self.end("draining")
            return
        self._transport.pause_reading()
        self._pace()

    def recheck(self) -> None:
        """The tokens were read again; before HELLO there is nobody to be asked about."""
        if self._session is not None and not self._closed:
            self._session.recheck()

    def cut(self) -> None:
        """No more patience."""
        self._finish("draining")
        self._transport.abort()

    def _no_hello(self) -> None:
        self._gateway.metrics.by["connections_refused"]["silent"] += 1
        self._out.put([_encode(m.Closing("no HELLO came in time"))])
        self.end("no HELLO came in time", 1008)

    def _too_slow(self) -> None:
        self._gateway.metrics.slow_consumers += 1
        _log.warning(
            "a consumer was too slow", extra={"user": self._who.user if self._who else "", "address": self._address}
        )
        self.end("too slow")

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, reason: str, code: int | None = None) -> None:
        """Say CLOSING and close; whoever does not read that is cut off a moment later."""
        if self._closed:
            return
        self._out.drop(answers=reason == "too slow")
        if self._session is not None:
            self._out.put([_encode(m.Closing(reason))])
        self._close(code or _CODES.get(reason, 1000), reason)

    def _close(self, code: int, reason: str) -> None:
        """What waits is sent now; then the closing handshake begins."""
        self._out.resume()
        self._out.flush()
        self._finish(reason)
        if self._ws.state is State.OPEN:
            self._ws.send_close(code, reason[:120])
            self._write()
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
        self._give_back(reason)

    def _give_back(self, reason: str) -> None:
        if self._session is not None:
            self._gateway.engine.lose(self._session, reason)
            self._session.abandon()
        if self._who is not None:
            self._gateway.leave(self._who)
