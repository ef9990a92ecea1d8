"""One WebSocket, from its handshake to its end.

It goes through these states, and no other way:

    opening --handshake--> hello --HELLO accepted--> open --> closed
                 |                     |
                 +------ refused ------+---> closed

Before HELLO is accepted a message may have ``limits.first_bytes`` and must come within ``sessions.hello_seconds``, and
nothing but HELLO is read. A connection that says nothing is asked with a ping, and closed if it stays silent; one that
lets its answers pile up is too slow, and closed as well. ``recado.service.websocket.wire`` has the bytes below this.
"""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.http11 import Request

from recado.errors import RecadoError
from recado.protocols.session import messages as m
from recado.service.doors import Doors
from recado.service.http.identity import Caller
from recado.service.http.problems import UnauthenticatedError, status_of, text_of
from recado.service.legs import REVOKED
from recado.service.permissions import Principal
from recado.service.sessions.session import Session
from recado.service.websocket.wire import Wire

PATH = "/v1/session"
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("recado.websocket")

_CODES = {
    "draining": 1012,
    "too slow": 1013,
    "failed": 1011,
    "taken over": 1000,
    REVOKED: 1008,
    "ended": 1000,
    "bye": 1000,
}


class Connection(Wire):
    """A WebSocket on ``/v1/session``."""

    def __init__(self, doors: Doors, live: dict[Connection, None]) -> None:
        super().__init__(doors)
        self._live = live
        self._caller = Caller("", {})
        self._who: Principal | None = None
        self._session: Session | None = None
        self._reading_paused = self._draining = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._live[self] = None
        self._arm(self._doors.config.sessions.hello_seconds, self._no_hello)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._live.pop(self, None)

    # -- incoming ------------------------------------------------------------------------------------------------------

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
                self._doors.check_open()
                self._check_known()
            except RecadoError as error:
                response = self._ws.reject(status_of(error), text_of(error) + "\n")
                self._doors.metrics.by["connections_refused"]["handshake"] += 1
        self._ws.send_response(response)

    def _check_known(self) -> None:
        """If the handshake says who it is, that must be right; else HELLO has to say it."""
        try:
            self._doors.identity.principal(self._caller)
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
        """A frame that is none: before HELLO that is the end, after it an answer without a request."""
        self._out.put([_encode(m.Error(None, status_of(error), text_of(error)))])
        if self._session is None:
            self._doors.metrics.by["connections_refused"]["hello"] += 1
            self.end("refused", 1008)

    def _hello(self, messages: list[m.FromAgent]) -> list[m.FromAgent]:
        """Begin the session; what is left of the frame."""
        if not messages or not isinstance(messages[0], m.Hello):
            raise m.MessageError('the first message must be HELLO, such as {"type": "HELLO", "device": "laptop"}')
        hello = messages[0]
        identity = self._doors.identity
        who = identity.principal(self._caller) if hello.token is None else identity.by_token(hello.token, self._peer)
        self._doors.check_open()
        self._doors.enter(who)
        self._who = who
        session = Session(self._doors, who, hello, address=self._address, out=self._out, end=self.end)
        session.begin(hello.seen, hello.log)
        session.answered = self._pace
        self._out.flushed = session.sent
        self._session = session
        self._ws.max_message_size = self._doors.config.limits.frame_bytes
        self._arm(self._doors.config.sessions.ping_seconds, self._keep_alive)
        return messages[1:]

    # -- pace ----------------------------------------------------------------------------------------------------------

    def _pace(self) -> None:
        """Read on, or not: by what is unanswered; close if the answers are not taken."""
        session = self._session
        if session is None or self._closed:
            return
        if self._out.answer_bytes > self._doors.config.limits.outgoing_bytes:
            self._too_slow()
        elif self._draining and not session.publishing:
            self._doors.metrics.by["sessions_closed"]["draining"] += 1
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
        self._doors.metrics.by["connections_refused"]["silent"] += 1
        self._out.put([_encode(m.Closing("no HELLO came in time"))])
        self.end("no HELLO came in time", 1008)

    def _too_slow(self) -> None:
        self._doors.metrics.slow_consumers += 1
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

    def _given_back(self, reason: str) -> None:
        if self._session is not None:
            self._doors.engine.lost(self._session, reason)
            self._session.abandon()
        if self._who is not None:
            self._doors.leave(self._who)
