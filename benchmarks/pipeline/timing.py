"""How a Spark job is timed: once to warm up, then so many events that a run takes long enough, then several runs.

Nothing is subtracted: scheduling and start of the job are part of the figure, as they are for whoever runs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from pyspark.sql import DataFrame

from benchmarks.records import Rate

Job = Callable[[int], float]
"""Runs so many events and gives the seconds that took."""


def seconds_of(frame: DataFrame) -> float:
    """The seconds to compute every row and throw it away."""
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def rate_of(job: Job, first: int, seconds: float, runs: int, fit: Callable[[int], int]) -> tuple[int, Rate]:
    """How many events fill about ``seconds``, and their rate; ``fit`` says which number of events can be had."""
    job(first)
    count, taken = first, job(first)
    while taken < seconds / 2:
        count = fit(int(count * min(16.0, max(2.0, seconds / taken))))
        taken = job(count)
    times = [taken, *(job(count) for _ in range(runs - 1))]
    return count, Rate(best=count / min(times), median=count / median(times))
