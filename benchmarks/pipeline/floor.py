"""What Spark itself costs: the job of part two, built up step by step around a matcher that does nothing.

- *read*: the columns that filters name are read from Parquet, and that is all;
- *sent*: they travel to a Python function that counts them;
- *exchange*: the function also gives back as many notifications as matching would, made beforehand;
- *whole*: the job itself.

What lies between *exchange* and *whole* is ours; the rest is the price of Spark's Python exchange, and no matcher in
Python can be faster on Spark than *exchange*.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.pipeline.cpu import Cpu, spark_cpu
from benchmarks.pipeline.data import Form
from benchmarks.pipeline.records import EXCHANGE, READ, SENT, WHOLE, Cost
from benchmarks.pipeline.stage import Stage, Way
from benchmarks.pipeline.timing import seconds_of
from benchmarks.records import Rate
from benchmarks.workloads import Workload
from recado.pipeline.match import finished, needed, output_schema


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

    stage: Stage
    workload: Workload
    form: Form
    size: int

    def events(self) -> DataFrame:
        """With the columns that travel."""
        stage, workload = self.stage, self.workload
        events = stage.data.events(stage.spark, workload, self.size, self.form)
        if self.form == "JSON":
            return events
        return events.select(*needed(events, stage.data.subscriptions(workload).current()))


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
        rate, cpu = _measured(way(events), job.size, job.stage.plan.runs)
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
