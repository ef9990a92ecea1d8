"""Part one: Recado on Spark against what a Spark user would write, at several numbers of subscriptions.

*mix* has no attribute that all subscriptions ask for, so Spark can only join it in a nested loop. *stock* is added for
honesty: all its subscriptions name a symbol, which is a key for Spark's hash join, and there the join does well.

All sides must give the same pairs on a sample before any is timed. The sample has events of the workload and events
made to match a subscription.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from benchmarks.oracle import DisagreementError, sample_events
from benchmarks.pipeline.data import with_envelope, write_files
from benchmarks.pipeline.records import HASH_JOIN, LOOP_JOIN, RECADO, RULES, Side, Step
from benchmarks.pipeline.rivals import as_table, by_rules, has_key, joined
from benchmarks.pipeline.stage import Stage, Way
from benchmarks.workloads import Mix, Stock, Workload
from recado.pipeline.match import match

HUGE_METHODS = "spark.sql.codegen.hugeMethodLimit"


def compare(stage: Stage) -> Iterator[Side | Step]:
    """The rate of each side on each workload."""
    stage.spark.conf.set(HUGE_METHODS, "8000")  # the nested-loop join is faster without what HotSpot does not compile
    try:
        yield from _sides(stage)
    finally:
        stage.spark.conf.unset(HUGE_METHODS)


def _sides(stage: Stage) -> Iterator[Side | Step]:
    plan = stage.plan
    for workload in (*(Mix(size=size) for size in plan.compare_sizes), Stock(size=plan.keyed_size)):
        yield Step(f"compare: {workload.title}, same pairs on a sample")
        sides = ways(stage, workload)
        checked = check(stage, workload, sides)
        for name, way in sides.items():
            yield Step(f"compare: {workload.title}, {name}")
            first = stage.data.block(workload) // 4 if name == RECADO else 2 * plan.sample_events
            events, rate = stage.rate(workload, way, first, plan.seconds)
            yield Side(workload.name, workload.size, name, plan.cores, checked, events, rate)


def ways(stage: Stage, workload: Workload) -> dict[str, Way]:
    """How each side gets from events to pairs."""
    subscription_set = stage.data.subscriptions(workload)
    table = as_table(workload.subscriptions(), workload.events(1).schema)
    path = stage.data.folder / "tables" / f"{workload.name}-{workload.size}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path)
    rows = stage.spark.read.parquet(str(path))
    return {
        RECADO: lambda events: match(events, subscription_set),
        HASH_JOIN if has_key(table) else LOOP_JOIN: lambda events: joined(events, table, rows),
        RULES: lambda events: by_rules(events, workload),
    }


def check(stage: Stage, workload: Workload, sides: dict[str, Way]) -> int:
    """How many pairs the sides agree on; a DisagreementError if they do not."""
    subscriptions = list(islice(workload.subscriptions(), 10_000))
    folder = stage.data.folder / "samples" / f"{workload.name}-{workload.size}"
    folder.mkdir(parents=True)
    write_files(folder, with_envelope(sample_events(workload, subscriptions, stage.plan.sample_events)))
    events = stage.spark.read.parquet(str(folder))
    digests = {name: digest(way(events)) for name, way in sides.items()}
    if len(set(digests.values())) > 1:
        told = "; ".join(f"{name}: {pairs:,} pairs, digest {sum}" for name, (pairs, sum) in digests.items())
        raise DisagreementError(f"{workload.title} on Spark: not all sides give the same pairs: {told}")
    return digests[RECADO][0]


def digest(pairs: DataFrame) -> tuple[int, int]:
    """The number of pairs, and a sum over their hashes, whatever their order."""
    hashed = pairs.select(sql.xxhash64("event_id", "subscription_id").cast("decimal(20, 0)").alias("hash"))
    row = hashed.agg(sql.count("hash"), sql.coalesce(sql.sum("hash"), sql.lit(0))).collect()[0]
    return int(row[0]), int(row[1])
