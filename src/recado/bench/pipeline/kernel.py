"""Part two: how much of the matcher's speed is left on Spark.

The same events, in batches of the size that Spark makes, are matched in a plain process on one core, with the very
function that runs in executors: pairs alone, then with the columns of notifications. The same again in as many
processes at once as there are cores tells what the machine allows, since cores share memory and caches. On Spark the
events come from Parquet and the notifications go nowhere.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recado.bench.pipeline.records import Kernel, Step
from recado.bench.pipeline.stage import Stage
from recado.bench.records import Rate
from recado.bench.timing import measure
from recado.bench.workloads import Stock, Wide, Workload
from recado.matching.batch import match_batch
from recado.pipeline.match import EventForm, match, match_record_batch
from recado.pipeline.sets import load_folder

FIELDS = ("event_id", "subscription_id", "owner", "event_time")
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCHES = 4
"""How many batches a plain process has in memory and goes through again and again."""


class Bare(msgspec.Struct, frozen=True):
    """What a plain process found out."""

    pairs: Rate
    alone: Rate
    notifications_per_event: float


def kernel(stage: Stage) -> Iterator[Kernel | Step]:
    """The matcher bare and on Spark, where notifications are many (*stock*) and where attributes are (*wide*)."""
    plan = stage.plan
    for workload in (Stock(size=plan.kernel_size), Wide(size=plan.kernel_size)):
        yield Step(f"kernel: {workload.title}, subscriptions")
        subscription_set = stage.data.subscriptions(workload)
        yield Step(f"kernel: {workload.title}, plain processes")
        bare, together = plain(stage, workload)
        yield Step(f"kernel: {workload.title}, Spark")
        first = stage.data.block(workload) // 4
        events, rate = stage.rate(workload, partial(match, subscriptions=subscription_set), first, plan.kernel_seconds)
        yield Kernel(
            workload=workload.name,
            subscriptions=workload.size,
            cores=plan.cores,
            events=events,
            notifications_per_event=bare.notifications_per_event,
            pairs=bare.pairs,
            alone=bare.alone,
            together=together,
            spark=rate,
        )


def plain(stage: Stage, workload: Workload) -> tuple[Bare, Rate]:
    """One process alone, then the sum of one process for each core."""
    size = min(int(stage.spark.conf.get(BATCH_ROWS) or 0), stage.data.block(workload) // BATCHES)
    subscription_set = stage.data.subscriptions(workload)
    place = str(subscription_set.path(subscription_set.current().number))
    events = str(stage.data.event_folder(workload, size * BATCHES))
    bare = _in_processes(1, place, events, size, stage.plan.seconds)[0]
    if stage.plan.cores == 1:
        return bare, bare.alone
    rates = [found.alone for found in _in_processes(stage.plan.cores, place, events, size, stage.plan.seconds)]
    return bare, Rate(best=sum(rate.best for rate in rates), median=sum(rate.median for rate in rates))


def _in_processes(count: int, place: str, events: str, size: int, seconds: float) -> Sequence[Bare]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        started = [pool.submit(_run_pinned, place, events, size, seconds, number) for number in range(count)]
        return [one.result() for one in started]


def _run_pinned(place: str, events: str, size: int, seconds: float, number: int) -> Bare:
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    return run_bare(place, events, size, seconds)


def run_bare(place: str, events: str, size: int, seconds: float) -> Bare:
    """Match in this process."""
    loaded = load_folder(Path(place))
    batches = read_batches(events, loaded.index.dictionary.names, size)
    form = EventForm("columns")
    pairs = sum(len(match_batch(loaded.index, batch)) for batch in batches)

    def notify(number: int) -> None:
        for _ in match_record_batch(loaded, batches[number], form, FIELDS, "fail"):
            pass

    return Bare(
        pairs=measure(lambda number: match_batch(loaded.index, batches[number]).events, len(batches), size, seconds),
        alone=measure(notify, len(batches), size, seconds),
        notifications_per_event=pairs / (size * len(batches)),
    )


def read_batches(folder: str, names: Container[str], size: int) -> list[pa.RecordBatch]:
    """The columns that filters name, and the envelope, as Spark would send them."""
    table = pq.read_table(folder)
    needed = [name for name in table.column_names if name in names or name in ("id", "time")]
    batches: list[pa.RecordBatch] = table.select(needed).combine_chunks().to_batches(size)
    return batches
