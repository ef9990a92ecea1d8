"""Connections before there is a request: uvicorn's HTTP/1.1 protocol with the bounds that it lacks.

- Connections are counted; one too many gets a 503 and is closed, unless one that has not said who it is makes room.
- The head of a request must be complete within ``sessions.hello_seconds`` of its first byte, or of the connection: who
  sends a header a second (slow-loris), or nothing, is closed. Bodies are timed where they are read; one whose answer
  has left already, a refusal say, has as long to end.
- A request that is no HTTP gets a problem like any other error: 400, or 431 if its head is too large.
- ``/v1/session`` becomes a WebSocket; an upgrade elsewhere is ignored, as HTTP allows.
"""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from recado.server.close import Lingering
from recado.server.gateway import Gateway
from recado.server.problems import CONTENT_TYPE, answer
from recado.server.websocket import PATH, Connection

HEAD_BYTES = 64 * 1024


class HttpConnection(H11Protocol):
    """An HTTP/1.1 connection."""

    def __init__(
        self, config: UvicornConfig, state: ServerState, gateway: Gateway, sockets: dict[Connection, None]
    ) -> None:
        super().__init__(config, state, {})
        self._gateway, self._sockets = gateway, sockets
        self._patience: asyncio.TimerHandle | None = None
        self._counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lingering = Lingering(cast(asyncio.Transport, transport))
        super().connection_made(cast(asyncio.Transport, self._lingering))
        if self._gateway.draining or not self._gateway.has_room():
            self._gateway.metrics.by["connections_refused"]["too many"] += 1
            self._say(503, "the service has as many connections as it may have, or is stopping; try again later")
            return
        self._counted = True
        self._gateway.connections += 1
        self._gateway.strangers[self.client] = self.cut
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lingering.closed()
        self._stop_waiting()
        self._release()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if self._patience is None and self.timeout_keep_alive_task is None:
                self._wait_for_head()
        elif not self._answer_early():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """An answer may leave before all of its request is there: the rest is dropped, and not waited for for ever."""
        super().on_response_complete()
        if self._answer_early():
            self._stop_waiting()
            self._wait_for_head()

    def _answer_early(self) -> bool:
        complete = getattr(self.cycle, "response_complete", False)  # there is no cycle if it became a WebSocket
        return self.conn.their_state is h11.SEND_BODY and bool(complete)

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(self._gateway.config.sessions.hello_seconds, self._lose_patience)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self._gateway.metrics.by["connections_refused"]["silent"] += 1
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._say(408, "the request did not come in time")
        else:
            self.transport.close()

    def cut(self) -> None:
        """No more patience."""
        self._lingering.plain.abort()

    def _release(self) -> None:
        if self._counted:
            self._counted = False
            self._gateway.connections -= 1
            self._gateway.strangers.pop(self.client, None)

    # -- uvicorn's hooks -----------------------------------------------------------------------------------------------

    def _should_upgrade(self) -> bool:
        """Only for what a handshake is; anything else at that path is answered like a request, with a reason."""
        plain = not any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        upgrade = self._get_upgrade() == b"websocket" and self.scope["path"] == PATH
        return upgrade and plain and self.scope["method"] == "GET"

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Let a WebSocket have the connection; it reads the request once more, in its own way."""
        self.connections.discard(self)
        self._stop_waiting()
        self._release()
        head = [event.method, b" ", event.target, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            head += [name, b": ", value, b"\r\n"]
        connection = Connection(self._gateway, self._sockets)
        self._lingering.plain.set_protocol(connection)
        connection.connection_made(self._lingering.plain)
        connection.data_received(b"".join([*head, b"\r\n", self.conn.trailing_data[0]]))

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no HTTP, called while the error is handled."""
        error: Any = sys.exc_info()[1]
        status = 431 if getattr(error, "error_status_hint", 400) == 431 else 400
        self._gateway.metrics.by["connections_refused"]["no HTTP"] += 1
        self._say(status, f"this is no HTTP request that the service reads: {error}"[:300])

    def _say(self, status: int, text: str) -> None:
        """An answer outside of any request; then the connection ends."""
        body = bytes(answer(status, text, "").body)
        headers = [("content-type", CONTENT_TYPE), ("content-length", str(len(body))), ("connection", "close")]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # an answer is under way already; closing has to do
        self.transport.close()
