"""The document's event server, plainly: all subscriptions, one after another, through Algorithm 1 for every event.

Sections 3.2 and 3.3 of the semantics document, its three monitoring points (4.4) included; no index and no compiled
alignment. It is what the work measured, so it is measured here beside it, and it is the oracle of ``grid``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from experiments.semantics.dataset import Item
from experiments.semantics.grid import PERFECT, Operator, Unmatched

Similarity = Callable[[str, str], float]
Callback = Callable[[str, Item], bool]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the monitoring log: ``event_done`` closes an event with the number of its matches."""

    t: int
    point: str
    event: str = ""
    subscription: str = ""
    matches: int | None = None


class Monitor(Protocol):
    """Where records go; it reads the clock."""

    def note(self, point: str, event: str = "", subscription: str = "", matches: int | None = None) -> None: ...


class Settings(msgspec.Struct, frozen=True):
    threshold: float
    value_threshold: float
    operator: Operator = "SM"
    unmatched: Unmatched = "ignore"


class EventService:
    """``subscribe`` and ``publish``; ``names`` and ``values`` are the sentence similarity of names and of values."""

    def __init__(
        self, settings: Settings, names: Similarity, values: Similarity, callback: Callback, monitor: Monitor
    ) -> None:
        self._settings, self._names, self._values = settings, names, values
        self._callback, self._monitor = callback, monitor
        self._subscriptions: list[Item] = []

    def subscribe(self, subscription: Item) -> None:
        self._monitor.note("subscription_in", subscription=subscription.id)
        self._subscriptions.append(subscription)

    def publish(self, event: Item) -> None:
        self._monitor.note("event_in", event.id)
        interested = [one for one in self._subscriptions if self.match(event, one)]
        for subscription in interested:
            if self._callback(subscription.id, event):
                self._monitor.note("event_out", event.id, subscription.id)
        self._monitor.note("event_done", event.id, matches=len(interested))

    def match(self, event: Item, subscription: Item) -> bool:
        """Algorithm 1, line by line."""
        pairs: list[tuple[str, str]] = []
        for name, wanted in subscription.pairs:
            chosen = self._choose(name, event.pairs)
            if chosen is not None:
                pairs.append((wanted, chosen))
            elif self._settings.unmatched == "fail":
                return False
        return bool(pairs) and all(self._holds(value, wanted) for wanted, value in pairs)

    def _choose(self, name: str, attributes: Sequence[tuple[str, str]]) -> str | None:
        """The value of the attribute that stands for a constraint."""
        best, chosen = 0.0, None
        for attribute, value in attributes:
            alike = self._names(name, attribute)
            if alike >= PERFECT:
                return value
            if alike > best and alike > self._settings.threshold:
                best, chosen = alike, value
        return chosen

    def _holds(self, value: str, wanted: str) -> bool:
        if self._settings.operator == "SM":
            alike = self._values(wanted, value)
            return alike > self._settings.value_threshold or alike >= PERFECT
        return self._settings.operator == "ANY" or value == wanted


# --- harness ----------------------------------------------------------------------------------------------------------
# The harness of the work (4.4 of the semantics document): generators of load and subscriptions, receiver, log.
#
# All parts are in one process and call each other. The workload generator sends one event, and the next when the server
# has taken the one before; with a ``rate`` it does not send sooner than that allows, since the published rate at no
# subscribers, 303 events a second at 0.1 ms each, shows a publisher that could not send more (4.5.3).


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
