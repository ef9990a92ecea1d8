"""Runs on all cores: every worker is a process of its own, and takes the next run when it has finished one.

Which worker does a run, and when, changes nothing in what it gives.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from recado.sim.runs.perform import Outcome, perform
from recado.sim.runs.scenario import Run

AHEAD = 4
"""Runs that wait for each worker; enough that none is idle, few enough to stop soon."""


def execute(runs: Sequence[Run], workers: int | None = None) -> Iterator[Outcome]:
    """The outcomes as they come; with one worker, in this process and in order."""
    count = min(workers or os.cpu_count() or 1, len(runs))
    if count <= 1:
        yield from map(perform, runs)
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
    try:
        yield from _as_they_come(pool, runs, count * AHEAD)
    finally:
        pool.shutdown(cancel_futures=True)


def _as_they_come(pool: ProcessPoolExecutor, runs: Sequence[Run], ahead: int) -> Iterator[Outcome]:
    waiting = iter(runs)
    under_way: set[Future[Outcome]] = set()
    while True:
        for run in waiting:
            under_way.add(pool.submit(perform, run))
            if len(under_way) >= ahead:
                break
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
