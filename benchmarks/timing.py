"""How time is taken: warm up, find how much work fills a run, then several runs; best and median.

The best run is the one least disturbed by others and is what ratios are made of; the median says how far to trust it.
The garbage collector is off while the clock runs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.records import Rate

RUNS = 5
FEW_RUNS = 2  # where one unit of work takes longer than all runs should


def measure(step: Callable[[int], object], units: int, events_per_unit: float, seconds: float) -> Rate:
    """The rate of ``step(number)``, called with the numbers of the units in turn, for about ``seconds`` in all."""
    with _undisturbed():
        per_run, taken = _units_per_run(step, units, seconds / RUNS)
        runs = RUNS if taken < seconds else FEW_RUNS
        times = [_run(step, units, per_run) for _ in range(runs)]
    events = per_run * events_per_unit
    return Rate(best=events / min(times), median=events / median(times))


def _units_per_run(step: Callable[[int], object], units: int, seconds: float) -> tuple[int, float]:
    """How many units take about ``seconds``, and the time of the last trial; whole rounds once all units are in."""
    step(0)  # compiles, fills caches
    count, taken = 1, _run(step, units, 1)
    while taken < seconds / 4:
        count *= 2
        taken = _run(step, units, count)
    wanted = max(1, int(count * seconds / taken))
    return wanted if wanted < units else wanted // units * units, taken


def _run(step: Callable[[int], object], units: int, count: int) -> float:
    started = time.perf_counter()
    for number in range(count):
        step(number % units)
    return time.perf_counter() - started


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Stopwatch:
    """Adds up the time inside its ``with`` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started


def process_bytes() -> int:
    """What the process holds in memory now; 0 where the system does not tell."""
    gc.collect()
    status = Path("/proc/self/statm")
    if not status.exists():
        return 0
    pages = int(status.read_text().split()[1])
    return pages * 4096
