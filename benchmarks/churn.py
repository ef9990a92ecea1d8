"""*churn*: matching goes on while subscriptions come and go.

One thread does both: it matches a few events, then applies the changes that have become due by the clock, a new
subscription and an old one's end in turn, so the size stays. The rates count all the time, that of the changes
included, and are compared with the rates of the same index left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa

from benchmarks.cases import Case, Settings
from benchmarks.records import Churn
from benchmarks.timing import measure
from benchmarks.workloads import Workload, subscription_id
from recado.matching.batch import match_batch
from recado.matching.index import Index
from recado.model.event import Event

_EVENTS_BETWEEN = 16
_BATCH = 512


def churn(case: Case, settings: Settings, index: Index, events: list[Event], batch: pa.RecordBatch) -> Churn:
    """Both rates, undisturbed and disturbed."""
    small = batch.slice(0, _BATCH)

    def single(number: int) -> None:
        index.match(events[number % len(events)])

    def several(number: int) -> None:
        for event in range(number * _EVENTS_BETWEEN, (number + 1) * _EVENTS_BETWEEN):
            single(event)

    def whole(number: int) -> None:
        match_batch(index, small)

    undisturbed_single = measure(single, len(events), 1, settings.seconds).best
    undisturbed_batch = measure(whole, 1, len(small), settings.seconds).best
    changes = Changes(case.workload, index, settings)
    rounds, took = _disturbed(several, changes, settings.churn_seconds)
    batch_rounds, batch_took = _disturbed(whole, changes, settings.churn_seconds)
    return Churn(
        case=f"churn, {case.workload.title}",
        subscriptions=case.workload.size,
        changes_per_second=changes.applied / (took + batch_took),
        single=rounds * _EVENTS_BETWEEN / took,
        single_undisturbed=undisturbed_single,
        batch=batch_rounds * len(small) / batch_took,
        batch_undisturbed=undisturbed_batch,
    )


class Changes:
    """An endless, steady stream of changes; the new subscriptions are drawn before the clock runs."""

    def __init__(self, workload: Workload, index: Index, settings: Settings) -> None:
        enough = int(settings.churn_rate * settings.churn_seconds)
        self._fresh = iter(list(workload.subscriptions(workload.size, enough + 1)))
        self._oldest: Iterator[int] = count()
        self._index = index
        self._rate = settings.churn_rate
        self.applied = 0

    def apply(self, due: int) -> None:
        """Apply as many changes: an insert and a delete in turn."""
        for _ in range(due):
            if self.applied % 2:
                self._index.remove(subscription_id(next(self._oldest)))
            else:
                self._index.add(next(self._fresh))
            self.applied += 1

    def due_after(self, seconds: float) -> int:
        return int(self._rate * seconds)


def _disturbed(work: Callable[[int], None], changes: Changes, seconds: float) -> tuple[int, float]:
    """How often the work was done between the changes, and the time it all took."""
    rounds, before, elapsed = 0, changes.applied, 0.0
    most = changes.due_after(seconds)
    started = time.perf_counter()
    while elapsed < seconds:
        work(rounds)
        rounds += 1
        elapsed = time.perf_counter() - started
        changes.apply(min(most, changes.due_after(elapsed)) - (changes.applied - before))
        elapsed = time.perf_counter() - started
    return rounds, elapsed
