"""What each kind of output leaves of the matcher's speed, and whether workers should read Parquet themselves.

A plain process and Spark do the same job by turns: events from Parquet, only the columns that filters name, to
notifications in Arrow, which go nowhere; as rows, nested, or as ordinals. Where the rows of Spark's own Parquet reader
travel through the JVM to Python, a worker may read row groups itself: the job is then a table of files and numbers.

Before anything is timed, every way finds on a sample what the plain evaluator finds.

Both sides are judged by the clock, against as many times the plain process as there are cores, and by CPU time, which
moves little when the machine has other work.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.harness import Step
from benchmarks.pipeline.fixture import Fixture, Form, Way, seconds_of, spark_cpu
from benchmarks.pipeline.kernel import BATCH_ROWS, JSON_COLUMN, check, sample_folder
from benchmarks.pipeline.report import OWN_READER, ROWS_BEFORE, SPARKS_READER, Outcome
from benchmarks.workloads import Stock, Wide, Workload
from recado.pipeline.match import (
    Matcher,
    Output,
    event_form,
    finished,
    match,
    needed_names,
    nest_schema,
    notifications,
    output_schema,
    place_of,
)
from recado.pipeline.match import subscriptions as name_ordinals
from recado.pipeline.row_groups import find_files
from recado.pipeline.sets import LoadedSet, SubscriptionSet, load_folder
from recado.pipeline.worker import EventForm, match_record_batch

OUTPUTS: tuple[Output, ...] = ("rows", "nested", "ordinals")
CASES: tuple[tuple[type[Stock | Wide], Form, int], ...] = (
    (Stock, "columns", 1),
    (Wide, "columns", 2),
    (Wide, "JSON", 4),
)
"""Workload, form, and by what the number of events is divided: those of *wide* cost more."""


class Shape(NamedTuple):
    """A workload's events, the set, and how the result looks."""

    workload: Workload
    form: Form
    output: Output
    events: DataFrame
    folder: Path
    names: frozenset[str]

    @property
    def event_form(self) -> EventForm:
        column = JSON_COLUMN[self.form]
        return EventForm("columns") if column is None else EventForm("json", column)


def outputs(fixture: Fixture) -> Iterator[Outcome | Step]:
    """Every output of every workload, a plain process and Spark by turns."""
    plan = fixture.plan
    for kind, form, divisor in CASES:
        workload = kind(size=plan.kernel_size)
        yield Step(f"outputs: {workload.title}, {form}")
        subscription_set = fixture.data.subscriptions(workload)
        block = fixture.data.block(workload)
        # many events, since a job costs the same two seconds of CPU time for any number
        count = fixture.data.fit(workload, max(block, plan.output_events // divisor))
        folder = fixture.data.event_folder(workload, block, form)
        events = fixture.data.events(fixture.spark, workload, count, form)
        loaded = load_folder(subscription_set.local_path(subscription_set.current().number))
        check_outputs(fixture, workload, form, subscription_set)
        for output in OUTPUTS:
            shape = shape_of(workload, form, output, subscription_set, events=events, folder=folder)
            ways = ways_of(shape, subscription_set)
            yield from by_turns(fixture, shape, loaded, ways, count)


def shape_of(
    workload: Workload,
    form: Form,
    output: Output,
    subscription_set: SubscriptionSet,
    *,
    events: DataFrame,
    folder: Path,
) -> Shape:
    """What is asked of the newest version of a set."""
    return Shape(workload, form, output, events, folder, frozenset(subscription_set.current().names))


def ways_of(shape: Shape, subscription_set: SubscriptionSet) -> dict[tuple[str, str], DataFrame]:
    """The jobs that give one output, by the names of output and reader."""
    column = JSON_COLUMN[shape.form]
    ways: dict[tuple[str, str], DataFrame] = {}
    ways[shape.output, SPARKS_READER] = match(shape.events, subscription_set, json=column, output=shape.output)
    if shape.form == "columns" and shape.output != "rows":
        files = find_files(shape.events, needed_names(shape.events, shape.names))
        assert files is not None, "these are plain files"
        ways[shape.output, OWN_READER] = match(shape.events, subscription_set, output=shape.output, files=files)
    if shape.output == "rows" and isinstance(shape.workload, Stock):
        ways[ROWS_BEFORE, SPARKS_READER] = rows_from_python(shape, subscription_set)
    return ways


def rows_from_python(shape: Shape, subscription_set: SubscriptionSet) -> DataFrame:
    """Rows as they were made before there were arrays: each comes from Python, through Arrow."""
    known = subscription_set.current()
    shaped, form = event_form(shape.events, json=JSON_COLUMN[shape.form], names=known.names)
    schema = output_schema(shaped, include_event=False, include_constraints=False, expiry=False, rejected=False)
    place = place_of(shape.events.sparkSession, subscription_set, known.number)
    return finished(shaped.mapInArrow(Matcher(place, form, tuple(schema.names), "fail").__call__, schema))


def check_outputs(fixture: Fixture, workload: Workload, form: Form, subscription_set: SubscriptionSet) -> int:
    """Every way on the sample, against the plain evaluator; how many pairs there are."""
    folder, _ = sample_folder(fixture, workload, form)
    named = name_ordinals(fixture.spark, subscription_set)

    def pairs(output: Output, key: tuple[str, str], events: DataFrame) -> DataFrame:
        found = ways_of(
            shape_of(workload, form, output, subscription_set, events=events, folder=folder), subscription_set
        )
        flat = notifications(found[key])
        return flat.join(named, "ordinal") if output == "ordinals" else flat

    ways: dict[str, Way] = {}
    for output in OUTPUTS:
        keys: list[tuple[str, str]] = [(output, SPARKS_READER)]
        keys += [(output, OWN_READER)] if form == "columns" and output != "rows" else []
        keys += [(ROWS_BEFORE, SPARKS_READER)] if output == "rows" and isinstance(workload, Stock) else []
        ways |= {", ".join(key): partial(pairs, output, key) for key in keys}
    return check(fixture, workload, form, ways)


def by_turns(
    fixture: Fixture, shape: Shape, loaded: LoadedSet, ways: dict[tuple[str, str], DataFrame], count: int
) -> Iterator[Outcome]:
    """One way after the other, again and again; medians."""
    size = int(fixture.spark.conf.get(BATCH_ROWS) or 0)
    files = sorted(shape.folder.iterdir())[:2]
    bare: list[tuple[float, float]] = []
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {way: [] for way in ways}
    for turn in range(fixture.plan.runs + 1):
        timed = run_bare(loaded, files, shape, size)
        if turn:  # the first one warms up
            bare.append(timed)
        for way, frame in ways.items():
            before = spark_cpu()
            seconds = seconds_of(frame)
            used = spark_cpu().since(before)
            if turn:
                found[way].append((seconds / count, used.jvm / count, used.python / count))
    for (output, reader), runs in found.items():
        yield Outcome(
            workload=shape.workload.name,
            subscriptions=shape.workload.size,
            form=shape.form,
            output=output,
            reader=reader,
            cores=fixture.plan.cores,
            events=count,
            bare_seconds=median(run[0] for run in bare),
            bare_cpu_seconds=median(run[1] for run in bare),
            seconds=median(run[0] for run in runs),
            jvm_seconds=median(run[1] for run in runs),
            python_seconds=median(run[2] for run in runs),
        )


def run_bare(loaded: LoadedSet, files: list[Path], shape: Shape, size: int) -> tuple[float, float]:
    """In this process: seconds and CPU seconds an event."""
    fields, nested = _fields(shape)
    started, cpu, rows = time.perf_counter(), time.process_time(), 0
    for file in files:
        for batch in read_groups(file, range(pq.read_metadata(file).num_row_groups), shape.names, size):
            rows += batch.num_rows
            made = match_record_batch(loaded, batch, shape.event_form, fields, "fail", nested=nested)
            deque(made, maxlen=0)
    return (time.perf_counter() - started) / rows, (time.process_time() - cpu) / rows


def read_groups(file: Path, groups: range, names: frozenset[str], size: int) -> Iterator[pa.RecordBatch]:
    """The columns that filters name, and the envelope, in batches of the size that Spark makes."""
    with pq.ParquetFile(file) as parquet:
        columns = [name for name in parquet.schema_arrow.names if name in names or name in ("id", "time", "event")]
        yield from parquet.iter_batches(size, list(groups), columns, use_threads=False)


def _fields(shape: Shape) -> tuple[tuple[str, ...], tuple[str, ...]]:
    schema = output_schema(shape.events, include_event=False, include_constraints=False, expiry=False, rejected=False)
    schema, nested = nest_schema(schema, shape.output)
    return tuple(schema.names), nested
