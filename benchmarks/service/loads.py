"""The loads that every broker gets: publications, filtered delivery, absence; and a restart of ours."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import httpx

from benchmarks.service.brokers import RECADO, Running, broker
from benchmarks.service.drivers import make_driver
from benchmarks.service.drivers.base import Publisher
from benchmarks.service.drivers.recado import Recado
from benchmarks.service.report import Away, Filtered, Publishing, Restart
from benchmarks.service.workload import CLASSES, EVENT_BYTES, SAME, Plan, class_of, interests, members
from benchmarks.timing import percentiles, run_apart

# --- load -------------------------------------------------------------------------------------------------------------
# Publishing as a load, run in a process of its own against a broker that runs already.
#
# A publisher has a bounded number of publications in flight: so many tasks that each wait for the acknowledgement
# before they publish again. Latency is from the call to the acknowledgement.


WARM_UP = 200
ROUND = 10_000_000


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


# --- filtering --------------------------------------------------------------------------------------------------------
# Content-filtered delivery as a load: many interests on many connections, and how many useful notifications a second.
#
# Publishing is held back by delivery: at most ``UNDELIVERED`` events are on their way, so that the rate is one that the
# system can go on with, and no broker has to throw away what its clients do not take in time.


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


# --- absence ----------------------------------------------------------------------------------------------------------
# Absence as a load: events are published for a subscriber who is away, who then comes back and takes them.


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


# --- restart ----------------------------------------------------------------------------------------------------------
# Restart: the service is filled, killed with SIGKILL and started again on its folder.
#
# *Accepting* is when it has acknowledged a publication over HTTP, *delivering* when the subscriber who was away has the
# first of its notifications. Both count from the start of the process, so they have the start of Python in them.


USERS = 100


def restart(folder: Path, stored: int) -> Restart:
    """Fill, kill, start, look."""
    with broker(RECADO, folder) as running:
        run_apart(fill, running, stored)
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


# --- sockets ----------------------------------------------------------------------------------------------------------
# How many bytes came in on this process's connections to a port, as the kernel counts them.
#
# The same for every client library, and for what it reads ahead or throws away. Linux only: elsewhere it is 0.


_RECEIVED = struct.Struct("@Q")
_RECEIVED_AT = 128  # of tcpi_bytes_received in struct tcp_info


def bytes_received(port: int) -> int:
    """On all open TCP connections of this process to that port of any address."""
    total = 0
    for taken in _connections(port):
        information = taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if len(information) >= _RECEIVED_AT + _RECEIVED.size:
            total += _RECEIVED.unpack_from(information, _RECEIVED_AT)[0]
    return total


def _connections(port: int) -> Iterator[socket.socket]:
    folder = Path("/proc/self/fd")
    if not folder.exists() or not hasattr(socket, "TCP_INFO"):
        return
    for name in [int(entry.name) for entry in folder.iterdir()]:
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(name).st_mode):
                continue
            with socket.socket(fileno=os.dup(name)) as taken:
                if taken.type == socket.SOCK_STREAM and taken.getpeername()[1:2] == (port,):
                    yield taken
