"""Hand-over as a load: a subscriber changes its address again and again while events come at a steady rate.

A move is as a network makes it: from one moment on the device has another address (127.0.0.2, 127.0.0.3, in turn), the
old connection says nothing any more and is not closed, and the device connects from the new one. The gap is the time
from the change of address to the first notification at the new one; over SIP it has in it the time until the device
notices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.service.brokers import RECADO, RECADO_WITH_SIP, BrokerError, Running, Setting
from benchmarks.service.drivers.base import Heard, Publisher
from benchmarks.service.drivers.recado import DAY_SECONDS, Recado
from benchmarks.service.loads import Arrivals
from benchmarks.service.report import Handover
from benchmarks.service.workload import TYPE, Plan, number_of
from benchmarks.timing import percentiles
from recado.client import Client, ClientSubscription
from recado.client import connect as connect_client
from recado.client.transports.sip import SipTransport
from recado.protocols.session import messages as m

ADDRESSES = ("127.0.0.2", "127.0.0.3")
TICK_SECONDS = 0.005
START_SECONDS = 60.0
POLL_SECONDS = 0.05
"""How often the device looks at its address, over SIP."""


class Traveller(Protocol):
    """A subscriber of all events that can be moved; ``setting`` is how the service has to be started for it."""

    setting: ClassVar[Setting]

    async def start(self, address: str) -> None: ...

    async def move(self, address: str) -> None: ...

    def there(self) -> bool:
        """Has the device left its old address?"""
        ...

    async def stop(self) -> None: ...


class Gaps(Arrivals):
    """Arrivals that know when a move began, and how long nothing came to the new address."""

    def __init__(self) -> None:
        super().__init__(0, publishers=1)
        self.gaps: list[float] = []
        self._arrived = asyncio.Event()
        self._moved_at: float | None = None
        self._there: Callable[[], bool] = bool

    def moving(self, there: Callable[[], bool]) -> None:
        """The address changes now; ``there`` tells whether what comes comes to the new one."""
        self._moved_at, self._there = time.perf_counter(), there
        self._arrived.clear()

    def heard(self, number: int) -> None:
        super().heard(number)
        if self._moved_at is not None and self._there():
            self.gaps.append(self.last - self._moved_at)
            self._moved_at = None
            self._arrived.set()

    async def delivered(self) -> None:
        await self._arrived.wait()


def handover(at: Running, transport: str, plan: Plan) -> Handover:
    return asyncio.run(_handover(at, transport, plan))


async def _handover(at: Running, transport: str, plan: Plan) -> Handover:
    gaps = Gaps()
    traveller = TRANSPORTS[transport](at, gaps.heard)
    async with asyncio.timeout(START_SECONDS):
        await traveller.start(ADDRESSES[0])
    publisher = await Recado(at.port).publisher(0)
    stopping = asyncio.Event()
    publishing = asyncio.create_task(_publish_steadily(publisher, plan.events_per_second, stopping))
    for move in range(1, plan.moves + 1):
        await asyncio.sleep(plan.move_seconds)
        gaps.moving(traveller.there)
        await traveller.move(ADDRESSES[move % 2])
        async with asyncio.timeout(START_SECONDS):
            await gaps.delivered()
    stopping.set()
    gaps.expected = await publishing
    await gaps.all_there()
    await traveller.stop()
    await publisher.close()
    p50, p95, longest = percentiles(gaps.gaps, 50, 95, 100)
    return Handover(
        transport, plan.moves, plan.events_per_second, gaps.expected, len(gaps.seen), gaps.duplicated,
        gaps.out_of_order, p50 * 1e3, p95 * 1e3, longest * 1e3,
    )  # fmt: skip


async def _publish_steadily(publisher: Publisher, rate: float, stopping: asyncio.Event) -> int:
    """So many events a second, each acknowledged; how many there were."""
    began, number = time.perf_counter(), 0
    tasks: set[asyncio.Task[None]] = set()
    while not stopping.is_set():
        due = int((time.perf_counter() - began) * rate)
        while number < due:
            task = asyncio.create_task(publisher.publish(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
        await asyncio.sleep(TICK_SECONDS)
    await asyncio.gather(*tasks)
    return number


class OverWebSocket:
    """Connects again from the new address; the old connection is left as it is, unread."""

    setting = RECADO

    def __init__(self, at: Running, heard: Heard) -> None:
        self._port, self._heard = at.port, heard
        self._session: Session | None = None

    async def start(self, address: str) -> None:
        self._session = await open_session(self._port, "traveller", self._heard, address)
        await self._session.subscribe("all", None)

    async def move(self, address: str) -> None:
        old = self._session
        assert old is not None
        old.fall_silent()
        self._session = await open_session(self._port, "traveller", self._heard, address, old.seen)
        old.abandon()

    def there(self) -> bool:
        return True  # nothing is read at the old one

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()


class OverSip:
    """The client over SIP and RUDP: it notices its new address by itself, updates the session and goes on."""

    setting = RECADO_WITH_SIP

    def __init__(self, at: Running, heard: Heard) -> None:
        url = f"recado+sip://traveller@localhost;registrar=127.0.0.1:{at.sip_port}"
        options = connect_client(url, device="bench").options
        self._line = SipTransport(options.target, options.device, poll_seconds=POLL_SECONDS)
        self._client = Client(options, self._line)
        self._heard = heard
        self._moves = 0
        self._listening: asyncio.Task[None] | None = None

    async def start(self, address: str) -> None:
        self._line.host = address
        await self._client.__aenter__()
        subscription = self._client.subscribe(type=TYPE, id="all", ttl=DAY_SECONDS)
        await subscription.ready()
        self._listening = asyncio.create_task(self._listen(subscription))

    async def _listen(self, subscription: ClientSubscription) -> None:
        async for notification in subscription:
            self._heard(notification["number"])

    async def move(self, address: str) -> None:
        self._line.host = address
        self._moves += 1

    def there(self) -> bool:
        return self._line.handovers >= self._moves

    async def stop(self) -> None:
        await self._client.close()
        if self._listening is not None:
            await self._listening


TRANSPORTS: dict[str, type[OverWebSocket | OverSip]] = {"WebSocket": OverWebSocket, "SIP/RUDP": OverSip}


# --- session ----------------------------------------------------------------------------------------------------------
# One WebSocket session of Recado in the hands of the benchmark, so that it can be moved and left as networks do it.
#
# The messages are those of ``recado.protocols.session.messages``; what is asked in one turn of the event loop leaves in
# one frame, and a frame of notifications is acknowledged once.


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

    async def subscribe(self, name: str, text: str | None) -> None:
        record = {"id": name, "type": TYPE, "ttl": 86_400} | ({"filter": text} if text else {})
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
