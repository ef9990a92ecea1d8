"""Part three: more subscriptions, more events, more cores; and how the index reaches the workers."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import SparkSession

from benchmarks.harness import Step
from benchmarks.pipeline import Plan
from benchmarks.pipeline.fixture import Fixture
from benchmarks.pipeline.kernel import check
from benchmarks.pipeline.report import Growth, Loading
from benchmarks.workloads import growth as growth_workload
from recado.pipeline import worker
from recado.pipeline.match import match
from recado.pipeline.sets import INDEX

# --- growth -----------------------------------------------------------------------------------------------------------
# Part three: more subscriptions, more events, more cores; and how the index reaches the workers.
#
# The workload keeps 200 subscriptions a symbol whatever their number, so an event matches as many of a million as of
# ten thousand, and what grows is the index's own cost. Each point is a whole job after one that warmed up the workers.


GROUP = "recado-bench-growth"


def prepare(fixture: Fixture) -> Iterator[Step]:
    """Build the sets before, so that no worker is idle for so long that Spark ends it."""
    for size in fixture.plan.growth_sizes:
        yield Step(f"growth: {size:,} subscriptions, index")
        fixture.data.subscriptions(growth_workload(size))


def growth(fixture: Fixture) -> Iterator[Growth | Loading | Step]:
    """One curve for each number of subscriptions, on the cores of the session."""
    yield from prepare(fixture)
    largest = index_file(fixture, fixture.plan.growth_sizes[-1])
    before = workers(fixture.spark, fixture.plan.cores, largest)
    fixture.spark.sparkContext.setJobGroup(GROUP, "growth")
    for size in fixture.plan.growth_sizes:
        yield from curve(fixture, size)
    tasks = tasks_of(fixture.spark, GROUP)
    fixture.spark.sparkContext.setJobGroup("", "")
    after = workers(fixture.spark, fixture.plan.cores, largest)
    yield loading(fixture.plan, largest.stat().st_size, tasks, since(before, after))


def index_file(fixture: Fixture, size: int) -> Path:
    subscription_set = fixture.data.subscriptions(growth_workload(size))
    return subscription_set.local_path(subscription_set.current().number) / INDEX


def since(before: Mapping[int, WorkerState], after: Mapping[int, WorkerState]) -> list[WorkerState]:
    """The workers as they are, with the loads that are new."""
    blank = WorkerState(0, 0, 0.0, 0, 0, 0)
    changed = [(one, before.get(pid, blank)) for pid, one in after.items()]
    return [replace(one, loads=one.loads - was.loads, seconds=one.seconds - was.seconds) for one, was in changed]


def curve(fixture: Fixture, size: int) -> Iterator[Growth | Step]:
    """More and more events against so many subscriptions."""
    workload = growth_workload(size)
    way = partial(match, subscriptions=fixture.data.subscriptions(workload))
    check(fixture, workload, "columns", {"Spark": way})
    counts = [fixture.data.fit(workload, count) for count in fixture.plan.growth_events]
    fixture.seconds(workload, way, counts[0])
    for count in counts:
        yield Step(f"growth: {fixture.plan.cores} cores, {size:,} subscriptions, {count:,} events")
        yield Growth(fixture.plan.cores, size, count, fixture.seconds(workload, way, count))


def tasks_of(spark: SparkSession, group: str) -> int:
    """How many tasks the jobs of a group had."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numTasks for stage in stages if stage)


def loading(plan: Plan, file_bytes: int, tasks: int, found: list[WorkerState]) -> Loading:
    """What the workers tell; the largest set was the last one they used."""
    loads = sum(one.loads for one in found)
    return Loading(
        cores=plan.cores,
        subscriptions=plan.growth_sizes[-1],
        tasks=tasks,
        workers=len(found),
        sets=len(plan.growth_sizes),
        loads=loads,
        most_loads=max((one.loads for one in found), default=0),
        seconds_per_load=sum(one.seconds for one in found) / max(1, loads),
        file_bytes=file_bytes,
        private_bytes=sum(one.private_bytes for one in found),
        mapped_bytes=sum(one.mapped_bytes for one in found),
        mapped_once_bytes=sum(one.mapped_share_bytes for one in found),
    )


# --- workers ----------------------------------------------------------------------------------------------------------
# What Spark's Python workers hold, asked from inside: how often they opened an index, and in which memory it lies.
#
# Spark keeps idle workers for the next job, so a small job with a few tasks for each core finds the ones that ran the
# job before. ``smaps`` tells a process's own pages from those that it shares; only Linux has it, and elsewhere bytes
# are 0.


SCHEMA = "pid long, loads long, seconds double, private_bytes long, mapped_bytes long, mapped_share_bytes long"
TASKS_PER_CORE = 4
_PAUSE_SECONDS = 0.3
"""Long enough that one worker does not take every task."""


class WorkerState(msgspec.Struct, frozen=True):
    """One worker.

    ``private_bytes`` are those it has written and nobody shares; ``mapped_bytes`` is what it has in memory of the
    index, ``mapped_share_bytes`` the same with each page divided among the processes that map it.
    """

    pid: int
    loads: int
    seconds: float
    private_bytes: int
    mapped_bytes: int
    mapped_share_bytes: int


def workers(spark: SparkSession, cores: int, index: Path) -> dict[int, WorkerState]:
    """The workers that have opened an index, by process; their mapped bytes are those of the given file."""
    tasks = cores * TASKS_PER_CORE
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(_looking(str(index)), SCHEMA).collect()
    return {row.pid: WorkerState(*row) for row in rows if row.loads}


def _looking(index: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            time.sleep(_PAUSE_SECONDS)
            yield pa.RecordBatch.from_pylist([msgspec.structs.asdict(state_here(index))])

    return look


def state_here(index: str) -> WorkerState:
    """Of this process."""
    known = list(mappings())
    of_index = [(name, amount) for name, path, amount in known if path == index]
    return WorkerState(
        pid=os.getpid(),
        loads=worker.loads.count,
        seconds=worker.loads.seconds,
        private_bytes=sum(amount for name, _, amount in known if name == "Private_Dirty"),
        mapped_bytes=sum(amount for name, amount in of_index if name == "Rss"),
        mapped_share_bytes=sum(amount for name, amount in of_index if name == "Pss"),
    )


_AMOUNT = re.compile(r"^(\w+):\s+(\d+) kB")
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)")


def mappings(smaps: str = "/proc/self/smaps") -> Iterator[tuple[str, str, int]]:
    """Name, file and bytes of every amount that the system keeps of a mapping."""
    path = ""
    for line in Path(smaps).read_text().splitlines() if Path(smaps).exists() else []:
        if amount := _AMOUNT.match(line):
            yield amount[1], path, int(amount[2]) * 1024
        elif mapping := _MAPPING.match(line):
            path = mapping[1]
