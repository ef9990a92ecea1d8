"""One index against partitions: memory of a Python worker and events a second, on the same subscriptions and events.

Subscriptions and events are drawn once and lie in Parquet. Each way gets a Spark application of its own, so that its
workers hold nothing else: it matches some of the events to open what it needs, then all of them, with the result thrown
away. Both must find as many notifications.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from benchmarks.harness import DisagreementError, Step
from benchmarks.pipeline import Plan
from benchmarks.pipeline.fixture import Fixture, Way, size_on_disk, spark_cpu, spark_processes, with_envelope
from benchmarks.pipeline.report import PARTITIONED, SINGLE, Partitioning
from benchmarks.workloads import Stock, Wide, Workload
from recado.filters import expression
from recado.matching.batch import match_batch
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.session import start_session
from recado.pipeline.sets import SubscriptionSet, read_subscriptions

CHUNK = 25_000
PARTITIONS, KEPT_OPEN = 8, 2
Built = tuple[Path, Way, float]
"""The files of a way, how it matches, and how many partitions an event visits."""


def partitions(fixture: Fixture) -> Iterator[Partitioning | Step]:
    """Both ways on both workloads at each size; the session of the fixture makes room for theirs."""
    fixture.spark.stop()
    plan = fixture.plan
    for size in plan.partition_sizes:
        for workload in (Stock(size=size), Wide(size=size)):
            yield Step(f"partitions: {workload.title}")
            yield from compare(plan, workload, fixture.data.folder / f"partitions-{workload.name}-{size}")


def compare(plan: Plan, workload: Workload, folder: Path) -> list[Partitioning]:
    with application(plan) as spark:
        write_subscriptions(spark, workload, folder / "subscriptions")
    events = with_envelope(workload.events(plan.partition_events))
    pq.write_table(events, folder / "events.parquet", row_group_size=max(len(events) // 16, 1))
    found = [_measure(plan, workload, folder, way, WAYS[way]) for way in (SINGLE, PARTITIONED)]
    if found[0].notifications != found[1].notifications:
        counts = ", ".join(f"{one.way}: {one.notifications:,}" for one in found)
        raise DisagreementError(f"{workload.title}: one index and partitions find other notifications ({counts})")
    return found


def _measure(
    plan: Plan, workload: Workload, folder: Path, name: str, build: Callable[[DataFrame, Path], Built]
) -> Partitioning:
    with application(plan) as spark:
        before = sum(spark_cpu())
        files, way, visits = build(spark.read.parquet(str(folder / "subscriptions")), folder)
        build_cpu = sum(spark_cpu()) - before
    with application(plan) as spark:
        events = spark.read.parquet(str(folder / "events.parquet"))
        count_rows(way(events.sample(fraction=0.02, seed=1)))
        before, started = sum(spark_cpu()), time.perf_counter()
        notifications = count_rows(way(events))
        seconds, cpu = time.perf_counter() - started, sum(spark_cpu()) - before
        mapped, own = worker_memory()
    return Partitioning(
        workload.name, workload.size, name, plan.partition_events, build_cpu, size_on_disk(files), mapped, own, visits,
        seconds, cpu, notifications,
    )  # fmt: skip


@contextmanager
def application(plan: Plan) -> Iterator[SparkSession]:
    conf = {"spark.sql.files.openCostInBytes": "0"}
    spark = start_session("recado-bench-partitions", f"local[{plan.cores}]", conf)
    try:
        yield spark
    finally:
        spark.stop()


def count_rows(found: DataFrame) -> int:
    """Run the job for nothing but its number of rows."""
    seen = Observation()
    found.observe(seen, sql.count(sql.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def _single(rows: DataFrame, folder: Path) -> Built:
    one = SubscriptionSet(folder / "single")
    one.publish(read_subscriptions(rows))
    return folder / "single", lambda events: match(events, one), 1.0


def _partitioned(rows: DataFrame, folder: Path) -> Built:
    held = build_partitions(rows, folder / "partitioned", partitions=PARTITIONS)
    batch = pq.read_table(folder / "events.parquet").slice(0, 8_192).combine_chunks().to_batches()[0]
    router = held.load_router()
    visits = len(router.visits(match_batch(router.index, batch))[0]) / batch.num_rows
    return folder / "partitioned", lambda events: match_partitioned(events, held, keep_open=KEPT_OPEN), visits


WAYS: dict[str, Callable[[DataFrame, Path], Built]] = {SINGLE: _single, PARTITIONED: _partitioned}


def write_subscriptions(spark: SparkSession, workload: Workload, path: Path) -> None:
    """Drawn in executors, chunk by chunk."""

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                drawn = list(workload.subscriptions(chunk * CHUNK, min(CHUNK, workload.size - chunk * CHUNK)))
                filters = [expression.format_expression(one.filter) for one in drawn]
                yield pa.RecordBatch.from_pydict({"id": [one.id for one in drawn], "filter": filters})

    chunks = -(-workload.size // CHUNK)
    numbers = spark.range(0, chunks, numPartitions=min(chunks, 16))
    numbers.mapInArrow(draw, "id string, filter string").write.parquet(str(path))


def worker_memory() -> tuple[int, int]:
    """Of the largest Python worker: all bytes that it has mapped, and those that it has for itself."""
    sizes = [(0, 0)]
    for pid in spark_processes():
        rollup = Path(f"/proc/{pid}/smaps_rollup")
        if b"recado.pipeline.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
            lines = [line.split(":") for line in rollup.read_text().splitlines()[1:]]
            held = {name: int(value.split()[0]) * 1024 for name, value in lines}
            sizes.append((held["Rss"], held["Private_Dirty"]))
    return max(size[0] for size in sizes), max(size[1] for size in sizes)
