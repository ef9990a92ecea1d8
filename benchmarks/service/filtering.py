"""Content-filtered delivery as a load: many interests on many connections, and how many useful notifications a second.

Publishing is held back by delivery: at most ``UNDELIVERED`` events are on their way, so that the rate is one that the
system can go on with, and no broker has to throw away what its clients do not take in time.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from itertools import count

from benchmarks.service.brokers import Running
from benchmarks.service.drivers import make_driver
from benchmarks.service.drivers.base import Publisher
from benchmarks.service.plan import Plan
from benchmarks.service.records import Filtered
from benchmarks.service.sockets import bytes_received
from benchmarks.service.workload import SAME, class_of, interests

QUIET_SECONDS = 5.0
UNDELIVERED = 256
PUBLISHERS, IN_FLIGHT = 4, 16


def filtered(at: Running, plan: Plan) -> Filtered:
    return asyncio.run(_filtered(at, plan))


async def _filtered(at: Running, plan: Plan) -> Filtered:
    driver = make_driver(at.setting.system, at.port)
    await driver.prepare()
    tally = Tally()
    listeners = [
        await driver.listener(f"user-{number}", interests(number, plan.connections, plan.interests), tally.heard)
        for number in range(plan.connections)
    ]
    publishers = [await driver.publisher(number) for number in range(PUBLISHERS)]
    before = bytes_received(at.port)
    tasks, numbers = PUBLISHERS * IN_FLIGHT, count()
    started = tally.last = time.perf_counter()
    end = started + plan.filtered_seconds

    async def publish(publisher: Publisher) -> None:
        while time.perf_counter() < end and not tally.quiet:
            number = next(numbers)
            tally.published += _wanting(number, plan)
            await publisher.publish(number)
            while tally.outstanding > UNDELIVERED * SAME and not tally.quiet:
                await tally.wait(0.05)

    await asyncio.gather(*(publish(publishers[task % PUBLISHERS]) for task in range(tasks)))
    events = next(numbers)
    await tally.all_there()
    seconds, received = tally.last - started, bytes_received(at.port) - before
    for connection in (*listeners, *publishers):
        await connection.close()
    return Filtered(
        at.setting.system,
        at.setting.name,
        plan.connections,
        plan.interests,
        events,
        tally.published,
        tally.useful,
        seconds,
        received,
    )


def _wanting(number: int, plan: Plan) -> int:
    """How many interests there are in an event."""
    first = class_of(number) * SAME
    return max(0, min(SAME, plan.interests - first))


class Tally:
    """Counts what comes against what was published, and knows when nothing comes any more."""

    def __init__(self) -> None:
        self.published = self.useful = 0
        self.last = time.perf_counter()
        self._woken = asyncio.Event()

    def heard(self, number: int) -> None:
        self.useful += 1
        self.last = time.perf_counter()
        self._woken.set()

    @property
    def outstanding(self) -> int:
        return self.published - self.useful

    @property
    def quiet(self) -> bool:
        """Something is missing, and nothing has come for long."""
        return self.outstanding > 0 and time.perf_counter() - self.last > QUIET_SECONDS

    async def wait(self, seconds: float) -> None:
        self._woken.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)

    async def all_there(self) -> None:
        while self.outstanding > 0 and not self.quiet:
            await self.wait(0.1)
