"""How time is taken: warm up, find how much work fills a run, then several runs; best and median.

The best run is the one least disturbed by others and is what ratios are made of; the median says how far to trust it.
The garbage collector is off while the clock runs.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from benchmarks.harness import Rate

ONE_THREAD = {
    "POLARS_MAX_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
}
"""Has to be in the environment before the libraries are imported."""
RUNS = 5
FEW_RUNS = 2  # where one unit of work takes longer than all runs should


T = TypeVar("T")


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


def percentiles(values: Sequence[float], *percents: float) -> list[float]:
    """The values that so many percent are not above."""
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] for percent in percents]


# --- processes of their own -------------------------------------------------------------------------------------------


def run_apart(work: Callable[..., T], *arguments: Any, initializer: Callable[[], None] | None = None) -> T:
    """Call something in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=initializer) as pool:
        return pool.submit(work, *arguments).result()


def run_alone(work: Callable[..., T], *arguments: Any) -> T:
    """The same on one core, with every library held to one thread."""
    with _environment(ONE_THREAD):
        return run_apart(work, *arguments, initializer=_stay_on_one_core)


def _stay_on_one_core() -> None:
    """Stay on one core, where the system can be asked for that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
