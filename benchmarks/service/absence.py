"""Absence as a load: events are published for a subscriber who is away, who then comes back and takes them."""

from __future__ import annotations

import asyncio
import time

from benchmarks.service.brokers import Running
from benchmarks.service.drivers import make_driver
from benchmarks.service.load import publish_many
from benchmarks.service.plan import Plan
from benchmarks.service.records import Away

QUIET_SECONDS = 5.0
PUBLISHERS, IN_FLIGHT = 4, 16


def away(at: Running, notifications: int, plan: Plan) -> Away:
    return asyncio.run(_away(at, notifications, plan))


async def _away(at: Running, notifications: int, plan: Plan) -> Away:
    driver = make_driver(at.setting.system, at.port)
    await driver.prepare()
    await driver.keep("traveller")
    publishers = [await driver.publisher(number) for number in range(PUBLISHERS)]
    started = time.perf_counter()
    end = started + plan.patience_seconds
    acks = await publish_many(
        publishers, IN_FLIGHT, 0, until=lambda number: number < notifications and time.perf_counter() < end
    )
    publish_seconds = time.perf_counter() - started
    for publisher in publishers:
        await publisher.close()
    log = Arrivals(len(acks))
    began = time.perf_counter()
    listener = await driver.back("traveller", log.heard)
    await log.all_there()
    await listener.close()
    note = "" if len(acks) == notifications else f"published for {plan.patience_seconds:g} s only"
    return Away(
        *at.row, notifications, len(acks), publish_seconds, len(log.seen), log.duplicated, log.out_of_order,
        log.last - began, note,
    )  # fmt: skip


class Arrivals:
    """Which events came, which of them twice, and which after a later one of the same publisher."""

    def __init__(self, expected: int, publishers: int = PUBLISHERS) -> None:
        self.expected = expected
        self.seen: set[int] = set()
        self.duplicated = self.out_of_order = 0
        self.last = time.perf_counter()
        self._latest = [-1] * publishers

    def heard(self, number: int) -> None:
        self.last = time.perf_counter()
        if number in self.seen:
            self.duplicated += 1
            return
        self.seen.add(number)
        publisher = number % len(self._latest)
        self.out_of_order += number < self._latest[publisher]
        self._latest[publisher] = max(number, self._latest[publisher])

    async def all_there(self) -> None:
        while len(self.seen) < self.expected and time.perf_counter() - self.last < QUIET_SECONDS:
            await asyncio.sleep(0.05)
