"""What the parts of a run stand on: a Spark session, the data on disk, how a job is timed, CPU time of Spark."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import Rate
from benchmarks.pipeline import Plan
from benchmarks.workloads import Wide, Workload
from recado.pipeline.sets import SubscriptionSet

# --- the fixture ------------------------------------------------------------------------------------------------------


Way = Callable[[DataFrame], DataFrame]
"""From events to pairs of an event and a subscription."""


class Fixture(NamedTuple):
    spark: SparkSession
    plan: Plan
    data: Data

    def seconds(self, workload: Workload, way: Way, count: int, form: Form = "columns") -> float:
        """How long it takes to match so many events."""
        return seconds_of(way(self.data.events(self.spark, workload, count, form)))

    def rate(
        self, workload: Workload, way: Way, first: int, seconds: float, form: Form = "columns"
    ) -> tuple[int, Rate]:
        """How many events fill about ``seconds``, and their rate; ``first`` is the number to begin with."""
        return rate_of(
            lambda count: self.seconds(workload, way, count, form),
            first,
            seconds,
            self.plan.runs,
            lambda count: self.data.fit(workload, count),
        )


# --- data -------------------------------------------------------------------------------------------------------------
# The data of a run on disk: subscription sets, and events as Parquet, both drawn from workloads with fixed seeds.
#
# Every workload's events get an ``id`` and a ``time``, as real ones have. A block of events is written once; fewer are
# a prefix of it in files of their own, more are the block read several times over. Events are typed columns, or one
# column ``event`` with each as JSON.


START_MICROS = 1_790_000_000_000_000  # an instant in 2026
Form = Literal["columns", "JSON"]

FILES = 8
"""Files of a block: enough for tasks of like size on a few cores."""


class Data:
    """A folder of sets and events, each made when it is first asked for."""

    def __init__(self, folder: Path, block: int) -> None:
        self.folder = folder
        self._block = block

    def subscriptions(self, workload: Workload) -> SubscriptionSet:
        found = SubscriptionSet(self.folder / "sets" / _file_name(workload))
        if not found.versions():
            found.publish(workload.subscriptions())
        return found

    def block(self, workload: Workload) -> int:
        """How many events are written; *wide* ones have ten times the columns."""
        return self._block // 8 if isinstance(workload, Wide) else self._block

    def fit(self, workload: Workload, count: int) -> int:
        """So many events or, where they are more than a block, enough for whole blocks."""
        block = self.block(workload)
        return count if count <= block else -(-count // block) * block

    def events(self, spark: SparkSession, workload: Workload, count: int, form: Form = "columns") -> DataFrame:
        """So many events; the count fits."""
        block = self.block(workload)
        folder = str(self.event_folder(workload, min(count, block), form))
        return spark.read.parquet(*[folder] * -(-count // block))

    def event_folder(self, workload: Workload, count: int, form: Form = "columns", files: int = FILES) -> Path:
        """The first events of a workload, at most a block, split into files."""
        folder = self.folder / "events" / _file_name(workload) / f"{count}-{form}-{files}"
        if not folder.exists():
            folder.mkdir(parents=True)
            table = with_envelope(workload.events(self.block(workload)).slice(0, count))
            write_files(folder, as_json(table) if form == "JSON" else table, files)
        return folder


def with_envelope(batch: pa.RecordBatch) -> pa.Table:
    """The batch with an id and a time for each row, a millisecond apart."""
    numbers = np.arange(len(batch))
    ids = pa.array(np.char.add("e", numbers.astype(str)))
    times = pa.array(START_MICROS + 1_000 * numbers).cast(pa.timestamp("us", "UTC"))
    return pa.table([ids, times, *batch.columns], names=["id", "time", *batch.schema.names])


def as_json(table: pa.Table) -> pa.Table:
    """The rows as JSON objects in one column; what a row lacks is left out."""
    return pa.table({"event": pa.array(_texts(table), pa.string())})


def _texts(table: pa.Table) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for batch in table.to_batches(1000):
        for row in batch.to_pylist():
            yield encoder.encode({name: value for name, value in row.items() if value is not None})


def write_files(folder: Path, table: pa.Table, files: int = FILES) -> None:
    """Files of like size, none of them empty."""
    parts = min(files, max(1, len(table)))
    edges = [len(table) * part // parts for part in range(parts + 1)]
    for number in range(parts):
        rows = table.slice(edges[number], edges[number + 1] - edges[number])
        pq.write_table(rows, folder / f"{number:02d}.parquet")


def _file_name(workload: Workload) -> str:
    return re.sub(r"\W+", "-", workload.title)


# --- timing -----------------------------------------------------------------------------------------------------------
# How a Spark job is timed: once to warm up, then so many events that a run takes long enough, then several runs.
#
# Nothing is subtracted: scheduling and start of the job are part of the figure, as they are for whoever runs it.


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


# --- cpu --------------------------------------------------------------------------------------------------------------
# CPU time of Spark, told apart: the JVM, and the Python processes that it started.
#
# CPU time says where a job's work is done, and unlike the clock it moves little when the machine has other work. It is
# read from ``/proc``; only Linux has that, and elsewhere all is 0.


JVM = "java"


class Cpu(NamedTuple):
    """Seconds of user and system time."""

    jvm: float
    python: float

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.jvm - before.jvm, self.python - before.python)


class _Process(NamedTuple):
    pid: int
    name: str
    parent: int
    own: float
    ended: float
    """Of its children that have ended."""


def spark_cpu(proc: Path = Path("/proc"), parent: int | None = None) -> Cpu:
    """So far, of the JVM that a process (this one, unless another is named) has started, and of all below the JVM."""
    jvms, below = _family(proc, parent)
    return Cpu(sum(one.own for one in jvms), sum(one.own + one.ended for one in below))


def spark_processes(proc: Path = Path("/proc"), parent: int | None = None) -> list[int]:
    """The processes below the JVM: Spark's Python daemon and its workers."""
    return [one.pid for one in _family(proc, parent)[1]]


def _family(proc: Path, parent: int | None) -> tuple[list[_Process], list[_Process]]:
    processes = list(_processes(proc))
    jvms = [one for one in processes if one.name == JVM and one.parent == (parent or os.getpid())]
    below, found = {one.pid for one in jvms}, list[_Process]()
    while new := [one for one in processes if one.parent in below and one not in found]:
        found += new
        below.update(one.pid for one in new)
    return jvms, found


def _processes(proc: Path) -> list[_Process]:
    found = []
    for stat in proc.glob("[0-9]*/stat"):
        try:
            found.append(_process(stat.read_text()))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _process(stat: str) -> _Process:
    """A name may hold blanks and brackets, so fields are counted from its last bracket."""
    start, _, rest = stat.rpartition(")")
    pid, _, name = start.partition(" (")
    fields = rest.split()
    user, system, ended_user, ended_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return _Process(int(pid), name, int(fields[1]), user + system, ended_user + ended_system)


def size_on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
