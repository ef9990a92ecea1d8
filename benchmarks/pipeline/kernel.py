"""Part two: how much of the matcher's speed is left on Spark.

Both sides do the same job: events are read from Parquet, only the columns that filters name, in batches of the size
that Spark makes; the very function that runs in executors matches them; and the notifications, as Arrow, go nowhere. A
plain process does that on one core, then as many at once as there are cores, which tells what the machine allows, since
cores share memory and caches. The matcher without reading and notifications is timed too, on batches in memory.
``floor`` then tells how much of the rest is Spark's own.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline.data import Form
from benchmarks.pipeline.floor import Job, ReadyMade, costs
from benchmarks.pipeline.records import PLAIN, Cost, Kernel, Step
from benchmarks.pipeline.stage import Stage
from benchmarks.records import Rate
from benchmarks.timing import measure
from benchmarks.workloads import Stock, Wide, Workload
from recado.matching.batch import match_batch
from recado.pipeline.match import match
from recado.pipeline.sets import load_folder
from recado.pipeline.worker import ROWS_OUT, EventForm, match_record_batch

FIELDS = ("event_id", "subscription_id", "owner", "event_time")
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
JSON_COLUMN: dict[Form, str | None] = {"columns": None, "JSON": "event"}
BATCHES = 4
"""How many files, a batch each, a plain process goes through again and again."""


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
    cpu_seconds: float
    """An event."""
    ready: ReadyMade


def kernel(stage: Stage) -> Iterator[Kernel | Cost | Step]:
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
            notifications_per_event=bare.ready.per_event,
            pairs=bare.pairs,
            alone=bare.alone,
            together=together,
            spark=rate,
            form=form,
        )
        yield Step(f"kernel: {workload.title}, {form}, Spark step by step")
        yield Cost(workload.name, workload.size, form, PLAIN, events, bare.alone, 0.0, bare.cpu_seconds)
        yield from costs(Job(stage, workload, form, events), way, bare.ready)


def plain(stage: Stage, workload: Workload, form: Form) -> tuple[Bare, Rate]:
    """One process alone, then the sum of one process for each core."""
    size = min(int(stage.spark.conf.get(BATCH_ROWS) or 0), stage.data.block(workload) // BATCHES)
    subscription_set = stage.data.subscriptions(workload)
    place = str(subscription_set.path(subscription_set.current().number))
    events = str(stage.data.event_folder(workload, size * BATCHES, form, files=BATCHES))
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
    files = sorted(Path(work.events).iterdir())
    names = loaded.index.dictionary.names
    batches = [read_batch(file, names) for file in files]
    column = JSON_COLUMN[work.form]
    event_form = EventForm("columns") if column is None else EventForm("json", column)

    def pair(number: int) -> object:
        return match_batch(loaded.index, batches[number], column).events

    def notify(number: int) -> list[pa.RecordBatch]:
        """One by one, as executors send them; only the first one stays."""
        made = match_record_batch(loaded, read_batch(files[number], names), event_form, FIELDS, "fail")
        first = list(islice(made, 1))
        deque(made, maxlen=0)
        return first

    rates = measure(pair, len(batches), work.size, work.seconds), measure(notify, len(files), work.size, work.seconds)
    started = time.process_time()
    made = [part for number in range(len(files)) for part in notify(number)]
    seconds = time.process_time() - started
    events = work.size * len(files)
    pairs = sum(len(match_batch(loaded.index, batch, column)) for batch in batches)
    return Bare(*rates, seconds / events, ReadyMade(_some(made), pairs / events))


def _some(made: list[pa.RecordBatch]) -> pa.RecordBatch:
    """As many as executors send at once, if there are so many."""
    if not made:
        return pa.RecordBatch.from_pydict({})
    (batch,) = pa.Table.from_batches(made).combine_chunks().to_batches()
    return batch.slice(0, ROWS_OUT)


def read_batch(file: Path, names: Container[str]) -> pa.RecordBatch:
    """The columns of a file that filters name, and the envelope, as Spark would send them."""
    parquet = pq.ParquetFile(file)
    needed = [name for name in parquet.schema_arrow.names if name in names or name in ("id", "time", "event")]
    (batch,) = parquet.read(needed, use_threads=False).combine_chunks().to_batches()
    return batch
