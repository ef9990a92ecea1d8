"""Restart: the service is filled, killed with SIGKILL and started again on its folder.

*Accepting* is when it has acknowledged a publication over HTTP, *delivering* when the subscriber who was away has the
first of its notifications. Both count from the start of the process, so they have the start of Python in them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx

from benchmarks.service.absence import IN_FLIGHT, PUBLISHERS, Arrivals
from benchmarks.service.brokers import RECADO, Running, broker
from benchmarks.service.drivers.recado import Recado
from benchmarks.service.load import apart, publish_many
from benchmarks.service.records import Restart
from benchmarks.service.workload import CLASSES, members

USERS = 100


def restart(folder: Path, stored: int) -> Restart:
    """Fill, kill, start, look."""
    with broker(RECADO, folder) as running:
        apart(fill, running, stored)
        os.kill(running.pid, signal.SIGKILL)
    began = time.perf_counter()
    with broker(RECADO, folder) as running:
        accepting, delivering, missing = asyncio.run(_look(running, stored, began))
    return Restart(stored, stored, accepting, delivering, missing)


def fill(at: Running, stored: int) -> None:
    asyncio.run(_fill(at, stored))


async def _fill(at: Running, stored: int) -> None:
    """All but the last, which comes after the restart: a mailbox holds so many by default, and no more."""
    driver = Recado(at.port)
    await driver.keep("traveller")
    publishers = [await driver.publisher(number) for number in range(PUBLISHERS)]
    await publish_many(publishers, IN_FLIGHT, 0, until=lambda number: number < stored - 1)
    for publisher in publishers:
        await publisher.close()
    for user in range(USERS):
        await driver.subscribe(f"user-{user}", [n % CLASSES for n in range(user, stored, USERS)])


async def _look(at: Running, stored: int, began: float) -> tuple[float, float, int]:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        url, user = f"http://127.0.0.1:{at.port}/v1/events", {"X-Recado-User": "publisher-0"}
        (await client.post(url, json=members(stored - 1), headers=user)).raise_for_status()
    accepting = time.perf_counter() - began
    first: list[float] = []
    arrivals = Arrivals(stored)

    def heard(number: int) -> None:
        if not first:
            first.append(time.perf_counter() - began)
        arrivals.heard(number)

    listener = await Recado(at.port).back("traveller", heard)
    arrivals.last = time.perf_counter()
    await arrivals.all_there()
    await listener.close()
    return accepting, first[0] if first else 0.0, stored - len(arrivals.seen)
