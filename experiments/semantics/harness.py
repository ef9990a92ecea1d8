"""The harness of the work (4.4 of the semantics document): generators of load and subscriptions, receiver, log.

All parts are in one process and call each other. The workload generator sends one event, and the next when the server
has taken the one before; with a ``rate`` it does not send sooner than that allows, since the published rate at no
subscribers, 303 events a second at 0.1 ms each, shows a publisher that could not send more (4.5.3).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import msgspec

from experiments.semantics.dataset import Item
from experiments.semantics.server import EventService, Record


class LogMonitor:
    """The monitoring points of the server: one JSON line each, as section 4.4 names them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._encoder = msgspec.json.Encoder()

    def note(self, point: str, event: str = "", subscription: str = "", matches: int | None = None) -> None:
        record = Record(time.perf_counter_ns(), point, event, subscription, matches)
        self._file.write(self._encoder.encode(record) + b"\n")

    def __enter__(self) -> LogMonitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class MemoryMonitor:
    """The same in memory, where a disk would be measured along."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def note(self, point: str, event: str = "", subscription: str = "", matches: int | None = None) -> None:
        self.records.append(Record(time.perf_counter_ns(), point, event, subscription, matches))


class Receiver:
    """Plays all subscribers: counts what comes, and says that it came."""

    def __init__(self) -> None:
        self.received = 0

    def __call__(self, subscription: str, event: Item) -> bool:
        self.received += 1
        return True


def load_subscriptions(server: EventService, subscriptions: Iterable[Item]) -> None:
    for subscription in subscriptions:
        server.subscribe(subscription)


def run_workload(
    server: EventService, events: Iterable[Item], rate: float | None = None, seconds: float | None = None
) -> None:
    """Send events in order; stop when they end or when the time is over."""
    start = time.perf_counter()
    for number, event in enumerate(events):
        if seconds is not None and time.perf_counter() - start >= seconds:
            return
        if rate is not None:
            _wait_until(start + number / rate)
        server.publish(event)


def _wait_until(moment: float) -> None:
    """Sleeping alone comes late by more than an event takes."""
    while (left := moment - time.perf_counter()) > 0:
        if left > 0.001:
            time.sleep(left - 0.001)
