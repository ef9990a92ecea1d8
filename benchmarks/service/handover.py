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
from typing import ClassVar, Protocol

from benchmarks.service.absence import Arrivals
from benchmarks.service.brokers import RECADO, RECADO_WITH_SIP, Running, Setting
from benchmarks.service.drivers.base import Heard, Publisher
from benchmarks.service.drivers.recado import DAY_SECONDS, Recado
from benchmarks.service.load import percentiles
from benchmarks.service.plan import Plan
from benchmarks.service.records import Handover
from benchmarks.service.session import Session, open_session
from benchmarks.service.workload import TYPE
from recado.client import Client, Subscription
from recado.client.options import make_options
from recado.client.transports.sip import SipTransport

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
        options = make_options(url, user=None, device="bench", state=None)
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

    async def _listen(self, subscription: Subscription) -> None:
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
