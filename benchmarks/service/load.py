"""Publishing as a load, run in a process of its own against a broker that runs already.

A publisher has a bounded number of publications in flight: so many tasks that each wait for the acknowledgement before
they publish again. Latency is from the call to the acknowledgement.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from typing import Any, TypeVar

from benchmarks.service.brokers import Running
from benchmarks.service.drivers import make_driver
from benchmarks.service.drivers.base import Publisher
from benchmarks.service.plan import Plan
from benchmarks.service.records import Publishing
from benchmarks.service.workload import EVENT_BYTES

WARM_UP = 200
ROUND = 10_000_000

T = TypeVar("T")


def apart(load: Callable[..., T], *arguments: Any) -> T:
    """Call a load in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(load, *arguments).result()


def publishing(at: Running, publishers: int, plan: Plan) -> Publishing:
    return asyncio.run(_publishing(at, publishers, plan))


async def _publishing(at: Running, publishers: int, plan: Plan) -> Publishing:
    driver = make_driver(at.setting.system, at.port)
    await driver.prepare()
    connections = [await driver.publisher(number) for number in range(publishers)]
    await publish_many(connections, plan.in_flight, 0, until=lambda number: number < WARM_UP)
    rounds: list[tuple[list[float], float]] = []
    for number in range(plan.publish_rounds):
        first = WARM_UP + number * ROUND  # an event that was published before would not be stored again
        started = time.perf_counter()
        end = started + plan.publish_seconds
        latencies = await publish_many(connections, plan.in_flight, first, partial(_is_before, end))
        rounds.append((latencies, time.perf_counter() - started))
    for connection in connections:
        await connection.close()
    latencies, seconds = max(rounds, key=lambda one: len(one[0]) / one[1])
    p50, p99 = percentiles(latencies, 50, 99)
    return Publishing(
        at.setting.system,
        at.setting.name,
        publishers,
        plan.in_flight,
        EVENT_BYTES,
        len(latencies),
        seconds,
        p50 * 1e3,
        p99 * 1e3,
    )


def _is_before(end: float, _: int) -> bool:
    return time.perf_counter() < end


async def publish_many(
    publishers: Sequence[Publisher], in_flight: int, first: int, until: Callable[[int], bool]
) -> list[float]:
    """Publish while ``until`` says so; the seconds that each acknowledgement took.

    Publisher ``p`` of ``n`` publishes the events with ``number % n == p``, in their order.
    """
    latencies: list[float] = []

    async def one_at_a_time(publisher: Publisher, numbers: count[int]) -> None:
        while until(number := next(numbers)):
            began = time.perf_counter()
            await publisher.publish(number)
            latencies.append(time.perf_counter() - began)

    tasks = []
    for number, publisher in enumerate(publishers):
        numbers = count(first + number, len(publishers))
        tasks += [one_at_a_time(publisher, numbers) for _ in range(in_flight)]
    await asyncio.gather(*tasks)
    return latencies


def percentiles(values: Sequence[float], *percents: float) -> list[float]:
    """The values that so many percent are not above."""
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] for percent in percents]
