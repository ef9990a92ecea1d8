"""A transport over WebSocket: the sans-I/O protocol of the ``websockets`` library inside an asyncio protocol.

Compression is off: frames are short-lived JSON on fast networks, and a compressed frame is a risk for its reader.
Of several hosts each attempt takes the next one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from typing import cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from recado.client.driver import TransportListener
from recado.client.errors import problem_detail
from recado.client.urls import Host, Target, authority

_quiet = logging.getLogger("recado.client.frames")
_quiet.setLevel(logging.WARNING)  # at DEBUG the library logs whole frames
_LONGEST_FRAME = 64 * 2**20
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_NOTHING_THERE = 404


class WebSocketTransport:
    """Each attempt takes the next host."""

    greets = True
    frame_bytes = 2**20

    def __init__(self, target: Target, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self._tls = (tls or ssl.create_default_context()) if target.tls else None
        self._turn = 0
        self._attempt: asyncio.Task[None] | None = None
        self._connection: _Connection | None = None

    def connect(self, listener: TransportListener) -> None:
        self.disconnect()
        self._attempt = asyncio.get_running_loop().create_task(self._connect(listener))

    async def _connect(self, listener: TransportListener) -> None:
        host = self._target.hosts[self._turn % len(self._target.hosts)]
        self._turn += 1
        loop = asyncio.get_running_loop()
        connection = self._connection = _Connection(self._target, host, listener)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(lambda: connection, *host, ssl=self._tls)
        except TimeoutError:
            self._on_failure(listener, f"{authority(host)} does not answer")
        except OSError as error:
            unknown = isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME
            self._on_failure(listener, _reason(host, error), permanent=unknown and len(self._target.hosts) == 1)

    def _on_failure(self, listener: TransportListener, reason: str, *, permanent: bool = False) -> None:
        self._connection = None
        listener.on_down(reason, permanent=permanent)

    def send(self, frame: bytes) -> None:
        if self._connection is not None:
            self._connection.send(frame)

    def disconnect(self) -> None:
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.leave()
            self._connection = None

    async def close(self) -> None:
        connection = self._connection
        self.disconnect()
        if connection is not None:
            await connection.gone()


class _Connection(asyncio.Protocol):
    """One WebSocket, from its handshake to its end."""

    def __init__(self, target: Target, host: Host, listener: TransportListener) -> None:
        self._target, self._host = target, host
        self._listener: TransportListener | None = listener
        self._ws = ClientProtocol(
            parse_uri(target.websocket(host)), extensions=None, max_size=_LONGEST_FRAME, logger=_quiet
        )
        self._parts: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.get_running_loop().create_future()
        self._patience: asyncio.TimerHandle | None = None
        self._why = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._patience = asyncio.get_running_loop().call_later(_CONNECT_SECONDS, self._transport.abort)
        if self._listener is None:  # hung up meanwhile
            self._transport.abort()
            return
        request = self._ws.connect()
        if self._target.token:
            request.headers["Authorization"] = f"Bearer {self._target.token}"
        self._ws.send_request(request)
        self._write()

    def data_received(self, data: bytes) -> None:
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Response):
                self._open()
            elif isinstance(event, Frame):
                self._frame(event)
        self._write()

    def eof_received(self) -> None:
        self._ws.receive_eof()
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._still()
        if not self._gone.done():
            self._gone.set_result(None)
        listener, self._listener = self._listener, None
        if listener is not None:
            reason = self._why or (_reason(self._host, exc) if exc else "the service closed the connection")
            code = 0
            refused = self._ws.handshake_exc
            if refused is not None:
                code, reason = _refusal(self._host, refused)
            listener.on_down(reason, code, permanent=code == _NOTHING_THERE and len(self._target.hosts) == 1)

    def _open(self) -> None:
        self._still()
        if self._ws.state is State.OPEN and self._listener is not None:
            self._listener.on_up()
        elif self._ws.handshake_exc is not None and self._transport is not None:
            self._transport.close()

    def _still(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return  # pings and closes are answered by the protocol
        if self._listener is None:
            return
        if frame.fin and not self._parts:
            self._listener.on_frame(bytes(frame.data))
            return
        self._parts.append(bytes(frame.data))
        if frame.fin:
            whole, self._parts = b"".join(self._parts), []
            self._listener.on_frame(whole)

    def send(self, frame: bytes) -> None:
        if self._ws.state is State.OPEN:
            self._ws.send_text(frame)
            self._write()

    def _write(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        for data in self._ws.data_to_send():
            if data:
                transport.write(data)
            else:  # the closing handshake is done on our side
                transport.close()

    def leave(self) -> None:
        """Close, and be quiet about it."""
        self._listener = None
        if self._transport is None:
            self._gone.cancel()
        elif self._ws.state is State.OPEN:
            self._ws.send_close(1000)
            self._write()
            self._patience = asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._transport.abort)
        else:
            self._transport.abort()

    async def gone(self) -> None:
        if not self._gone.cancelled():
            await self._gone


def _reason(host: Host, error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return f"{host[0]}: {error.strerror}"
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return f"{authority(host)}: {os.strerror(number) if number else str(error) or type(error).__name__}"


def _refusal(host: Host, error: Exception) -> tuple[int, str]:
    """What the service answered to the handshake."""
    if not isinstance(error, InvalidStatus):
        return 0, f"{authority(host)} is no service of Recado: {error}"
    response = error.response
    text = problem_detail(bytes(response.body or b""))
    return response.status_code, text or f"{authority(host)} answered {response.status_code} {response.reason_phrase}"
