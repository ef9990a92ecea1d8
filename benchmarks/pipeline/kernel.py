"""Part two: how much of the matcher's speed is left on Spark, and what Spark itself costs."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.harness import Rate, Step
from benchmarks.oracle import compare, naive_answers, sample_events
from benchmarks.pipeline.fixture import (
    Cpu,
    Fixture,
    Form,
    Way,
    as_json,
    seconds_of,
    spark_cpu,
    with_envelope,
    write_files,
)
from benchmarks.pipeline.report import EXCHANGE, PLAIN, READ, SENT, WHOLE, Cost, Kernel
from benchmarks.timing import measure
from benchmarks.workloads import Stock, Wide, Workload, to_events
from recado.matching.batch import match_batch
from recado.pipeline.match import finished, match, needed, output_schema
from recado.pipeline.sets import load_folder
from recado.pipeline.worker import ROWS_OUT, EventForm, match_record_batch

# --- kernel -----------------------------------------------------------------------------------------------------------
# Part two: how much of the matcher's speed is left on Spark.
#
# Both sides do the same job: events are read from Parquet, only the columns that filters name, in batches of the size
# that Spark makes; the very function that runs in executors matches them; and the notifications, as Arrow, go nowhere.
# A plain process does that on one core, then as many at once as there are cores, which tells what the machine allows,
# since cores share memory and caches. The matcher without reading and notifications is timed too, on batches in memory.
# Then the job is built up step by step, which tells how much of the rest is Spark's own.


FIELDS = ("event_id", "subscription_id", "owner", "event_time")
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
JSON_COLUMN: dict[Form, str | None] = {"columns": None, "JSON": "event"}
SAMPLE = 10_000
"""So many subscriptions of a set are evaluated one by one before anything is timed."""
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


def kernel(fixture: Fixture) -> Iterator[Kernel | Cost | Step]:
    """The matcher bare and on Spark: where notifications are many (*stock*), and where attributes are (*wide*)."""
    plan = fixture.plan
    stock, wide = Stock(size=plan.kernel_size), Wide(size=plan.kernel_size)
    cases: tuple[tuple[Workload, Form], ...] = ((stock, "columns"), (wide, "columns"), (wide, "JSON"))
    for workload, form in cases:
        yield Step(f"kernel: {workload.title}, subscriptions")
        subscription_set = fixture.data.subscriptions(workload)
        way = partial(match, subscriptions=subscription_set, json=JSON_COLUMN[form])
        check(fixture, workload, form, {"Spark": way})
        yield Step(f"kernel: {workload.title}, {form}, plain processes")
        bare, together = plain(fixture, workload, form)
        yield Step(f"kernel: {workload.title}, {form}, Spark")
        first = fixture.data.block(workload) // 4
        events, rate = fixture.rate(workload, way, first, plan.kernel_seconds, form)
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
        yield from costs(Job(fixture, workload, form, events), way, bare.ready)


def sample_folder(fixture: Fixture, workload: Workload, form: Form) -> tuple[Path, list[list[str]]]:
    """Some events, half of them made to match, and what the plain evaluator finds for them among the first ids."""
    folder = fixture.data.folder / "oracle" / f"{workload.name}-{workload.size}-{form}"
    first = list(islice(workload.subscriptions(), SAMPLE))
    batch = sample_events(workload, first, fixture.plan.sample_events)
    if not folder.exists():
        folder.mkdir(parents=True)
        table = with_envelope(batch)
        write_files(folder, as_json(table) if form == "JSON" else table)
    return folder, naive_answers(first, to_events(batch))


def check(fixture: Fixture, workload: Workload, form: Form, ways: Mapping[str, Way]) -> int:
    """How many pairs of the sample the plain evaluator finds; a DisagreementError if a way finds others.

    Of a large set only the first subscriptions are compared: evaluating a million of them takes hours.
    """
    folder, expected = sample_folder(fixture, workload, form)
    known = {subscription.id for subscription in islice(workload.subscriptions(), SAMPLE)}
    events = fixture.spark.read.parquet(str(folder))
    for name, way in ways.items():
        found: list[list[str]] = [[] for _ in expected]
        for event, subscription in way(events).select("event_id", "subscription_id").collect():
            if subscription in known:
                found[int(event.removeprefix("e"))].append(subscription)
        compare(f"{workload.title}, {form}", name, expected, found)
    return sum(map(len, expected))


def plain(fixture: Fixture, workload: Workload, form: Form) -> tuple[Bare, Rate]:
    """One process alone, then the sum of one process for each core."""
    size = min(int(fixture.spark.conf.get(BATCH_ROWS) or 0), fixture.data.block(workload) // BATCHES)
    subscription_set = fixture.data.subscriptions(workload)
    place = str(subscription_set.path(subscription_set.current().number))
    events = str(fixture.data.event_folder(workload, size * BATCHES, form, files=BATCHES))
    work = Work(place, events, form, size, fixture.plan.seconds)
    bare = _in_processes(1, work)[0]
    if fixture.plan.cores == 1:
        return bare, bare.alone
    rates = [found.alone for found in _in_processes(fixture.plan.cores, work)]
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


# --- what Spark itself costs ------------------------------------------------------------------------------------------
# What Spark itself costs: the job of part two, built up step by step around a matcher that does nothing.
#
# - *read*: the columns that filters name are read from Parquet, and that is all;
# - *sent*: they travel to a Python function that counts them;
# - *exchange*: the function also gives back as many notifications as matching would, made beforehand;
# - *whole*: the job itself.
#
# What lies between *exchange* and *whole* is ours; the rest is the price of Spark's Python exchange, and no matcher in
# Python can be faster on Spark than *exchange*.


class ReadyMade(msgspec.Struct, frozen=True):
    """Stands for the matcher: gives back so many notifications an event, the same ones again and again."""

    notifications: pa.RecordBatch
    per_event: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        due = 0.0
        for batch in batches:
            due += batch.num_rows * self.per_event
            while due >= 1:
                part = self.notifications.slice(0, int(due))
                due -= part.num_rows
                yield part


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


class Job(NamedTuple):
    """What is matched."""

    fixture: Fixture
    workload: Workload
    form: Form
    size: int

    def events(self) -> DataFrame:
        """With the columns that travel."""
        fixture, workload = self.fixture, self.workload
        events = fixture.data.events(fixture.spark, workload, self.size, self.form)
        if self.form == "JSON":
            return events
        return events.select(*needed(events, fixture.data.subscriptions(workload).current().names))


def costs(job: Job, whole: Way, ready: ReadyMade) -> Iterator[Cost]:
    """Every step: its rate, and the CPU time of JVM and Python."""
    steps: dict[str, Way] = {
        READ: lambda events: events,
        SENT: lambda events: events.mapInArrow(counted, "rows long"),
        EXCHANGE: lambda events: exchanged(events, ready),
        WHOLE: whole,
    }
    events = job.events()
    for step, way in steps.items():
        rate, cpu = _measured(way(events), job.size, job.fixture.plan.runs)
        yield Cost(
            job.workload.name, job.workload.size, job.form, step, job.size, rate,
            jvm_seconds=cpu.jvm / job.size, python_seconds=cpu.python / job.size,
        )  # fmt: skip


def exchanged(events: DataFrame, ready: ReadyMade) -> DataFrame:
    """The plan of ``match``, with notifications that are ready made."""
    schema = output_schema(events, include_event=False, include_constraints=False, expiry=False, rejected=False)
    return finished(events.mapInArrow(ready.__call__, schema))


def _measured(frame: DataFrame, count: int, runs: int) -> tuple[Rate, Cpu]:
    """After one run to warm up, the rate, and the mean CPU time of a run."""
    seconds_of(frame)
    before = spark_cpu()
    times = [seconds_of(frame) for _ in range(runs)]
    used = spark_cpu().since(before)
    return Rate(best=count / min(times), median=count / median(times)), Cpu(used.jvm / runs, used.python / runs)
