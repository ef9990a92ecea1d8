"""One WebSocket session of Recado in the hands of the benchmark, so that it can be moved and left as networks do it.

The messages are those of ``recado.protocols.session.messages``; what is asked in one turn of the event loop leaves in
one frame, and a frame of notifications is acknowledged once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.service.brokers import BrokerError
from benchmarks.service.drivers.base import Heard
from benchmarks.service.workload import TYPE, number_of
from recado.protocols.session import messages as m

PATH = "/v1/session"
MEBIBYTE = 2**20


async def open_session(
    port: int, user: str, heard: Heard, source: str = "127.0.0.1", seen: int | None = None
) -> Session:
    """Connect from an address; ``seen`` is the last nid of the session before."""
    url = f"ws://127.0.0.1:{port}{PATH}?user={user}"
    socket = await connect(
        url, compression=None, max_size=4 * MEBIBYTE, local_addr=(source, 0), ping_interval=None, proxy=None
    )
    session = Session(socket, heard, -1 if seen is None else seen)
    await session.begin(seen)
    return session


class Session:
    """One connection: requests with their answers, notifications handed on and acknowledged."""

    def __init__(self, socket: ClientConnection, heard: Heard, seen: int = -1) -> None:
        self._socket, self._heard = socket, heard
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._outgoing: list[m.FromAgent] = []
        self._next = 0
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self.seen = seen

    async def begin(self, seen: int | None) -> None:
        await self._socket.send(m.encode([m.Hello("bench", seen=seen)]), text=True)
        self._take(await self._socket.recv(decode=False))
        self._reading = asyncio.create_task(self._read())

    async def subscribe(self, id: str, text: str | None) -> None:
        record = {"id": id, "type": TYPE, "ttl": 86_400} | ({"filter": text} if text else {})
        await self._ask(m.Subscribe(self._number(), msgspec.Raw(msgspec.json.encode(record))))

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _ask(self, request: m.Subscribe) -> asyncio.Future[Any]:
        answer = self._waiting[request.req] = self._loop.create_future()
        self._say(request)
        return answer

    def _say(self, message: m.FromAgent) -> None:
        self._outgoing.append(message)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._outgoing:
            messages, self._outgoing = self._outgoing, []
            await self._socket.send(m.encode(messages), text=True)
        self._writing = None

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._socket.recv(decode=False))
        except ConnectionClosed as error:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(BrokerError(f"the service closed the connection: {error}"))

    def _take(self, frame: bytes) -> None:
        upto = None
        for message in m.from_service(frame):
            match message:
                case m.Ok(req) | m.Subscribed(req):
                    self._waiting.pop(req).set_result(None)
                case m.Notify(nid, _, event):
                    upto = nid
                    if nid > self.seen:
                        self.seen = nid
                        self._heard(number_of(bytes(event)))
                case m.Error(req, code, text):
                    error = BrokerError(f"{code}: {text}")
                    if req is None:
                        raise error
                    self._waiting.pop(req).set_exception(error)
                case _:
                    pass
        if upto is not None:
            self._say(m.Ack(upto))

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing
        await self._socket.close()
        if self._reading is not None:
            await self._reading

    def fall_silent(self) -> None:
        """The device is gone from this address: nothing is read, nothing is said."""
        if self._reading is not None:
            self._reading.cancel()
        self._socket.transport.pause_reading()

    def abandon(self) -> None:
        self._socket.transport.abort()
