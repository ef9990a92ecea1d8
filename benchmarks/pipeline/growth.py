"""Part three: more subscriptions, more events, more cores; and how the index reaches the workers.

The workload keeps 200 subscriptions a symbol whatever their number, so an event matches as many of a million as of ten
thousand, and what grows is the index's own cost. Each point is a whole job after one that warmed up the workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import SparkSession

from benchmarks.pipeline.plan import Plan
from benchmarks.pipeline.records import Growth, Loading, Step
from benchmarks.pipeline.stage import Stage
from benchmarks.pipeline.workers import WorkerState, workers
from benchmarks.workloads import growth as growth_workload
from recado.pipeline.match import match
from recado.pipeline.sets import INDEX

GROUP = "recado-bench-growth"


def prepare(stage: Stage) -> Iterator[Step]:
    """Build the sets before, so that no worker is idle for so long that Spark ends it."""
    for size in stage.plan.growth_sizes:
        yield Step(f"growth: {size:,} subscriptions, index")
        stage.data.subscriptions(growth_workload(size))


def growth(stage: Stage) -> Iterator[Growth | Loading | Step]:
    """One curve for each number of subscriptions, on the cores of the session."""
    yield from prepare(stage)
    largest = index_file(stage, stage.plan.growth_sizes[-1])
    before = workers(stage.spark, stage.plan.cores, largest)
    stage.spark.sparkContext.setJobGroup(GROUP, "growth")
    for size in stage.plan.growth_sizes:
        yield from curve(stage, size)
    tasks = tasks_of(stage.spark, GROUP)
    stage.spark.sparkContext.setJobGroup("", "")
    after = workers(stage.spark, stage.plan.cores, largest)
    yield loading(stage.plan, largest.stat().st_size, tasks, since(before, after))


def index_file(stage: Stage, size: int) -> Path:
    subscription_set = stage.data.subscriptions(growth_workload(size))
    return subscription_set.path(subscription_set.current().number) / INDEX


def since(before: Mapping[int, WorkerState], after: Mapping[int, WorkerState]) -> list[WorkerState]:
    """The workers as they are, with the loads that are new."""
    blank = WorkerState(0, 0, 0.0, 0, 0, 0)
    changed = [(one, before.get(pid, blank)) for pid, one in after.items()]
    return [replace(one, loads=one.loads - was.loads, seconds=one.seconds - was.seconds) for one, was in changed]


def curve(stage: Stage, size: int) -> Iterator[Growth | Step]:
    """More and more events against so many subscriptions."""
    workload = growth_workload(size)
    way = partial(match, subscriptions=stage.data.subscriptions(workload))
    counts = [stage.data.fit(workload, count) for count in stage.plan.growth_events]
    stage.seconds(workload, way, counts[0])
    for count in counts:
        yield Step(f"growth: {stage.plan.cores} cores, {size:,} subscriptions, {count:,} events")
        yield Growth(stage.plan.cores, size, count, stage.seconds(workload, way, count))


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
