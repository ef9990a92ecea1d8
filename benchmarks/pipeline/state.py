"""Part four: delivery constraints on a stream, where every subscription has a frequency and so a memory.

Each micro-batch is a file with so many notifications for every subscription, a minute's worth; a subscription wants one
every 50 seconds, so all state is read and written in every micro-batch: the hardest case. The first micro-batch makes
the state, the others are the figure. Sizes are Spark's own account of its state, and what lies in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from benchmarks.pipeline.data import START_MICROS
from benchmarks.pipeline.plan import Plan, StatePlan
from benchmarks.pipeline.records import State, Step
from benchmarks.pipeline.stage import Stage
from recado.pipeline.constraints import constrain

EVERY = '[{"kind": "frequency", "amount": 50, "unit": "seconds"}]'
BATCH_MICROS = 60_000_000
INSTANT = pa.timestamp("us", "UTC")


def state(stage: Stage) -> Iterator[State | Step]:
    plan, folder = stage.plan.state, stage.data.folder / "notifications"
    yield Step(f"state: {plan.keys:,} keys")
    folder.mkdir()
    for number in range(plan.batches):
        pq.write_table(micro_batch(plan, number), folder / f"{number:03d}.parquet")
    checkpoint = stage.data.folder / "checkpoint"
    yield summary(stage.plan, run_stream(stage.spark, folder, checkpoint), size_on_disk(checkpoint / "state"))


def micro_batch(plan: StatePlan, number: int) -> pa.Table:
    """The notifications of one minute; those of a subscription are evenly apart, in random order."""
    count = plan.keys * plan.rows_per_key
    places = np.random.default_rng([7, number]).permutation(count)
    rounds, keys = np.divmod(places, plan.keys)
    times = START_MICROS + number * BATCH_MICROS + (rounds * BATCH_MICROS + keys) // plan.rows_per_key
    return pa.table(
        {
            "event_id": pa.array(np.char.add(f"e{number}-", places.astype(str))),
            "subscription_id": pa.array(np.char.add("s", keys.astype(str))),
            "owner": pa.array(np.char.add("user", (keys % 1000).astype(str))),
            "event_time": pa.array(times).cast(INSTANT),
            "matched_at": pa.array(times + 1_000_000).cast(INSTANT),
            "constraints": pa.array([EVERY] * count),
        }
    )


def run_stream(spark: SparkSession, folder: Path, checkpoint: Path) -> list[dict[str, Any]]:
    """Judge one file in each micro-batch until none is left; Spark's account of each."""
    files = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    judged = constrain(files.parquet(str(folder))).observe("delivered", sql.count(sql.lit(1)).alias("rows"))
    writer = judged.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return [progress for one in query.recentProgress if (progress := _as_dict(one))["numInputRows"]]


def _as_dict(progress: Any) -> dict[str, Any]:
    """Spark gives a value of its own that reads like a dict, from 4.0 on."""
    return {
        "numInputRows": progress["numInputRows"],
        "seconds": progress["durationMs"]["triggerExecution"] / 1000,
        "delivered": progress["observedMetrics"]["delivered"]["rows"],
        "state": progress["stateOperators"][0],
    }


def summary(plan: Plan, batches: list[dict[str, Any]], disk_bytes: int) -> State:
    """The micro-batches as one record."""
    first, later = batches[0], batches[1:]
    seconds = sum(batch["seconds"] for batch in later)
    return State(
        cores=plan.cores,
        keys=plan.state.keys,
        batches=len(batches),
        notifications=sum(batch["numInputRows"] for batch in batches),
        delivered=sum(batch["delivered"] for batch in batches),
        rate=sum(batch["numInputRows"] for batch in later) / seconds,
        first_batch_seconds=first["seconds"],
        batch_seconds=seconds / len(later),
        state_rows=batches[-1]["state"]["numRowsTotal"],
        memory_bytes=batches[-1]["state"]["memoryUsedBytes"],
        disk_bytes=disk_bytes,
    )


def size_on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
