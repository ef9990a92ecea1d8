"""Part four: delivery constraints on a stream, where every subscription has a frequency and so a memory.

Each micro-batch is a file with so many notifications for every subscription, a minute's worth; a subscription wants one
every 50 seconds, so all state is read and written in every micro-batch: the hardest case. The first micro-batch makes
the state, the others are the figure. Sizes are Spark's own account of its state, and what lies in the checkpoint.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.harness import DisagreementError, Step
from benchmarks.pipeline import Plan, StatePlan, WaysPlan
from benchmarks.pipeline.fixture import START_MICROS, Fixture, size_on_disk, spark_cpu
from benchmarks.pipeline.report import PACKED, State, StateWay
from recado.broker.constraints import satisfied
from recado.pipeline.constraints import constrain, read_rule

EVERY = '[{"kind": "frequency", "amount": 50, "unit": "seconds"}]'
BATCH_MICROS = 60_000_000
INSTANT = pa.timestamp("us", "UTC")


def state(fixture: Fixture) -> Iterator[State | Step]:
    plan, folder = fixture.plan.state, fixture.data.folder / "notifications"
    yield Step(f"state: {plan.keys:,} keys")
    folder.mkdir()
    for number in range(plan.batches):
        pq.write_table(micro_batch(plan, number), folder / f"{number:03d}.parquet")
    checkpoint = fixture.data.folder / "checkpoint"
    yield summary(fixture.plan, run_stream(fixture.spark, folder, checkpoint), size_on_disk(checkpoint / "state"))


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


# --- ways to keep the state -------------------------------------------------------------------------------------------
#
# A frequency applied to a stream in five ways, and the same rows sent through without constraints (``free``). All get
# the same notifications, two files a micro-batch, and must let the same number through. A run before the others and the
# first micro-batch of each warm up and are not counted.

RULE = '[{"kind":"frequency","amount":5,"unit":"minutes"}]'
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FREE = "free"
Last = dict[str, int]


def is_allowed(micros: int, last: int | None) -> bool:
    """The same policy for all."""
    now = EPOCH + timedelta(microseconds=micros)
    before = None if last is None else EPOCH + timedelta(microseconds=last)
    return satisfied(read_rule(RULE, "UTC").constraints, now, now, before, True)


def choose(subscriptions: Iterable[str], times: Iterable[int], last: Last) -> list[int]:
    """The places of the rows that are let through, in the order of time; ``last`` is brought up to date."""
    wanted = []
    for place, (subscription, time) in enumerate(zip(subscriptions, times, strict=True)):
        if is_allowed(time, last.get(subscription)):
            last[subscription] = time
            wanted.append(place)
    return wanted


class Bucket(StatefulProcessor):
    """A packed value for each group, which is a bucket of subscriptions."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("packed", "packed binary")

    def load(self) -> Last:
        stored = self.state.get()
        return msgspec.msgpack.decode(bytes(stored[0])) if stored else {}

    def keep(self, last: Last) -> None:
        self.state.update((msgspec.msgpack.encode(last),))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803  # Spark's
        last = self.load()
        ordered = sorted(rows, key=lambda row: (row.event_time, row.event_id))
        times = (int(row.event_time.timestamp() * 1_000_000) for row in ordered)
        wanted = choose((row.subscription_id for row in ordered), times, last)
        self.keep(last)
        yield from (ordered[place] for place in wanted)

    def close(self) -> None:
        pass


class OneKey(Bucket):
    """A plain number for each group, which is one subscription."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("last", "subscription string, last long")

    def load(self) -> Last:
        stored = self.state.get()
        return {stored[0]: stored[1]} if stored else {}

    def keep(self, last: Last) -> None:
        for pair in last.items():
            self.state.update(pair)


class BucketInPandas(Bucket):
    """The same on pandas frames."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803  # Spark's
        last, frame = self.load(), pd.concat(list(rows)).sort_values(["event_time", "event_id"])
        times = frame.event_time.astype("datetime64[us]").astype("int64").tolist()
        wanted = choose(frame.subscription_id, times, last)
        self.keep(last)
        yield frame.iloc[wanted]


class OneKeyInPandas(OneKey, BucketInPandas):
    """A plain number for each subscription, on pandas frames."""

    handleInputRows = BucketInPandas.handleInputRows  # noqa: N815  # Spark's


def _in_buckets(rows: DataFrame, buckets: int) -> Any:
    return rows.withColumn("bucket", sql.pmod(sql.xxhash64("subscription_id"), sql.lit(buckets)).cast("int")).groupBy(
        "bucket"
    )


WAYS: dict[str, Callable[[DataFrame, int], DataFrame]] = {
    PACKED: lambda rows, buckets: constrain(rows, buckets=buckets),
    FREE: lambda rows, buckets: constrain(
        rows.withColumn("constraints", sql.lit(None).cast("string")), buckets=buckets
    ),
    "bucket, pandas": lambda rows, buckets: _in_buckets(rows, buckets).transformWithStateInPandas(
        BucketInPandas(), rows.schema, "append", "None"
    ),
    "bucket, rows": lambda rows, buckets: _in_buckets(rows, buckets).transformWithState(
        Bucket(), rows.schema, "append", "None"
    ),
    "key, rows": lambda rows, buckets: rows.groupBy("subscription_id").transformWithState(
        OneKey(), rows.schema, "append", "None"
    ),
    "key, pandas": lambda rows, buckets: rows.groupBy("subscription_id").transformWithStateInPandas(
        OneKeyInPandas(), rows.schema, "append", "None"
    ),
}


def ways(fixture: Fixture) -> Iterator[StateWay | Step]:
    """Every way; ours with several numbers of buckets. A DisagreementError if one lets something else through."""
    plan, source = fixture.plan.ways, fixture.data.folder / "ways"
    write_notifications(source, plan)
    run_way(fixture, source, PACKED, plan.buckets[0])
    delivered = 0
    for way in WAYS:
        for buckets in plan.buckets if way == PACKED else plan.buckets[:1]:
            yield Step(f"ways: {way}, {buckets} buckets")
            found = run_way(fixture, source, way, 0 if way.startswith("key") else buckets)
            delivered = delivered or found.delivered
            if way != FREE and found.delivered != delivered:
                raise DisagreementError(f"{way} lets {found.delivered:,} notifications through, packed {delivered:,}")
            yield found


def write_notifications(folder: Path, plan: WaysPlan) -> None:
    """An hour's notifications for each micro-batch, in two files, with the events they carry."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    for batch in range(plan.batches):
        numbers = rng.integers(0, plan.keys, plan.rows)
        seconds = np.sort(rng.random(plan.rows)) * 3600 + batch * 3600
        times = pa.array(START_MICROS + (seconds * 1e6).astype(np.int64)).cast(INSTANT)
        values = {f"value{place}": rng.random(plan.rows) for place in range(6)}
        table = pa.table(
            {
                "event_id": [f"e-{batch}-{row}" for row in range(plan.rows)],
                "subscription_id": [f"s-{number}" for number in numbers],
                "owner": [f"user:{number}@example.org" for number in numbers],
                "event_time": times,
                "matched_at": times,
                "constraints": [RULE] * plan.rows,
                "event": pa.StructArray.from_arrays([pa.array(column) for column in values.values()], list(values)),
            }
        )
        for half in range(2):
            path = folder / f"{batch}-{half}.parquet"
            pq.write_table(table.slice(half * plan.rows // 2, plan.rows // 2), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # the order in which Spark takes them


def run_way(fixture: Fixture, source: Path, way: str, buckets: int) -> StateWay:
    checkpoint = fixture.data.folder / "ways-checkpoint"
    counts: list[int] = []
    used: list[float] = []

    def count(found: DataFrame, _: int) -> None:
        counts.append(found.count())
        used.append(sum(spark_cpu()))

    spark = fixture.spark
    reader = spark.readStream.schema(spark.read.parquet(str(source)).schema).option("maxFilesPerTrigger", 2)
    wanted = WAYS[way](reader.parquet(str(source)), buckets)
    query = wanted.writeStream.foreachBatch(count).option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
        progress = [one for one in query.recentProgress if one["numInputRows"]]
    finally:
        query.stop()
    disk_bytes = size_on_disk(checkpoint / "state") if (checkpoint / "state").exists() else 0
    shutil.rmtree(checkpoint)
    return StateWay(
        way=way,
        buckets=buckets,
        cores=fixture.plan.cores,
        notifications=fixture.plan.ways.rows,
        cpu_seconds=median(np.diff(used).tolist()),
        seconds=median(one["durationMs"]["addBatch"] / 1000 for one in progress[1:]),
        delivered=sum(counts),
        keys=sum(one["numRowsTotal"] for one in progress[-1]["stateOperators"]),
        disk_bytes=disk_bytes,
    )
