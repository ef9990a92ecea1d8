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

from recado.bench.pipeline.data import Form
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
JSON_COLUMN: dict[Form, str | None] = {"columns": None, "JSON": "event"}
BATCHES = 4
"""How many batches a plain process has in memory and goes through again and again."""


class Work(msgspec.Struct, frozen=True):
    """What a plain process is to do: the folders of a set and of events, and for how long."""

    place: str
    events: str
    form: Form
    size: int
    seconds: float


class Bare(msgspec.Struct, frozen=True):
    """What a plain process found out."""

    pairs: Rate
    alone: Rate
    notifications_per_event: float


def kernel(stage: Stage) -> Iterator[Kernel | Step]:
    """The matcher bare and on Spark: where notifications are many (*stock*), and where attributes are (*wide*)."""
    plan = stage.plan
    stock, wide = Stock(size=plan.kernel_size), Wide(size=plan.kernel_size)
    cases: tuple[tuple[Workload, Form], ...] = ((stock, "columns"), (wide, "columns"), (wide, "JSON"))
    for workload, form in cases:
        yield Step(f"kernel: {workload.title}, subscriptions")
        subscription_set = stage.data.subscriptions(workload)
        yield Step(f"kernel: {workload.title}, {form}, plain processes")
        bare, together = plain(stage, workload, form)
        yield Step(f"kernel: {workload.title}, {form}, Spark")
        first = stage.data.block(workload) // 4
        way = partial(match, subscriptions=subscription_set, json=JSON_COLUMN[form])
        events, rate = stage.rate(workload, way, first, plan.kernel_seconds, form)
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
            form=form,
        )


def plain(stage: Stage, workload: Workload, form: Form) -> tuple[Bare, Rate]:
    """One process alone, then the sum of one process for each core."""
    size = min(int(stage.spark.conf.get(BATCH_ROWS) or 0), stage.data.block(workload) // BATCHES)
    subscription_set = stage.data.subscriptions(workload)
    place = str(subscription_set.path(subscription_set.current().number))
    events = str(stage.data.event_folder(workload, size * BATCHES, form))
    work = Work(place, events, form, size, stage.plan.seconds)
    bare = _in_processes(1, work)[0]
    if stage.plan.cores == 1:
        return bare, bare.alone
    rates = [found.alone for found in _in_processes(stage.plan.cores, work)]
    return bare, Rate(best=sum(rate.best for rate in rates), median=sum(rate.median for rate in rates))


def _in_processes(count: int, work: Work) -> Sequence[Bare]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        started = [pool.submit(_run_pinned, work, number) for number in range(count)]
        return [one.result() for one in started]


def _run_pinned(work: Work, number: int) -> Bare:
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    return run_bare(work)


def run_bare(work: Work) -> Bare:
    """Match in this process."""
    loaded = load_folder(Path(work.place))
    batches = read_batches(work.events, loaded.index.dictionary.names, work.size)
    column = JSON_COLUMN[work.form]
    event_form = EventForm("columns") if column is None else EventForm("json", column)
    pairs = sum(len(match_batch(loaded.index, batch, column)) for batch in batches)

    def pair(number: int) -> object:
        return match_batch(loaded.index, batches[number], column).events

    def notify(number: int) -> None:
        for _ in match_record_batch(loaded, batches[number], event_form, FIELDS, "fail"):
            pass

    return Bare(
        pairs=measure(pair, len(batches), work.size, work.seconds),
        alone=measure(notify, len(batches), work.size, work.seconds),
        notifications_per_event=pairs / (work.size * len(batches)),
    )


def read_batches(folder: str, names: Container[str], size: int) -> list[pa.RecordBatch]:
    """The columns that filters name, and the envelope, as Spark would send them."""
    table = pq.read_table(folder)
    needed = [name for name in table.column_names if name in names or name in ("id", "time", "event")]
    batches: list[pa.RecordBatch] = table.select(needed).combine_chunks().to_batches(size)
    return batches
