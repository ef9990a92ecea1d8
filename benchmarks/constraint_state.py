# ruff: noqa: N802, N803, N812  # Spark names these
"""What constraint processing costs, and where its state should lie: five ways to apply a frequency in a stream.

    python -m benchmarks.constraint_state                       # 100,000 subscriptions, 200,000 notifications a batch
    python -m benchmarks.constraint_state --ways packed --buckets 16 64 256 1024

All ways get the same notifications (file source, one micro-batch for each pair of files) and must let the same number
through. A run before the others and the first micro-batch of each warm up and are not counted. ``free`` sends the same
rows through without constraints. CPU time is that of the driver, the JVM and all Python workers; unlike the time on the
clock, it does not grow much with what else the machine does.
"""

import argparse
import os
import shutil
import statistics
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from recado.broker.constraints import satisfied
from recado.pipeline.constraints import constrain, read_rule
from recado.pipeline.session import start_session

TEXT = '[{"kind":"frequency","amount":5,"unit":"minutes"}]'
HEADINGS = (
    "way",
    "buckets",
    "CPU s a micro-batch",
    "notifications/CPU s",
    "seconds a micro-batch",
    "let through",
    "state keys",
    "state on disk",
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")


def allowed(time, last):
    """The same policy for all, on microseconds."""
    now = EPOCH + timedelta(microseconds=time)
    before = None if last is None else EPOCH + timedelta(microseconds=last)
    return satisfied(read_rule(TEXT, "UTC").constraints, now, now, before, True)


class OneKeyRows(StatefulProcessor):
    """A key for each subscription, row by row."""

    def init(self, handle):
        self.state = handle.getValueState("last", "last long")

    def handleInputRows(self, key, rows, timerValues):
        stored = self.state.get()
        last, wanted = stored[0] if stored else None, []
        for row in sorted(rows, key=lambda row: (row.event_time, row.event_id)):
            time = int(row.event_time.timestamp() * 1_000_000)
            if allowed(time, last):
                last = time
                wanted.append(row)
        self.state.update((last,))
        return iter(wanted)

    def close(self):
        pass


class OneKeyPandas(OneKeyRows):
    """A key for each subscription, in pandas."""

    def handleInputRows(self, key, rows, timerValues):
        stored = self.state.get()
        last, wanted = stored[0] if stored else None, []
        frame = pd.concat(list(rows)).sort_values(["event_time", "event_id"])
        for row, time in enumerate(micros(frame)):
            if allowed(time, last):
                last = time
                wanted.append(row)
        self.state.update((last,))
        yield frame.iloc[wanted]


class BucketRows(StatefulProcessor):
    """A packed value for each bucket, row by row."""

    def init(self, handle):
        self.state = handle.getValueState("packed", "packed binary")

    def load(self):
        stored = self.state.get()
        return msgspec.msgpack.decode(bytes(stored[0])) if stored else {}

    def handleInputRows(self, key, rows, timerValues):
        last, wanted = self.load(), []
        for row in sorted(rows, key=lambda row: (row.event_time, row.event_id)):
            time = int(row.event_time.timestamp() * 1_000_000)
            if allowed(time, last.get(row.subscription_id)):
                last[row.subscription_id] = time
                wanted.append(row)
        self.state.update((msgspec.msgpack.encode(last),))
        return iter(wanted)

    def close(self):
        pass


class BucketPandas(BucketRows):
    """A packed value for each bucket, in pandas."""

    def handleInputRows(self, key, rows, timerValues):
        last, wanted = self.load(), []
        frame = pd.concat(list(rows)).sort_values(["event_time", "event_id"])
        for row, (time, subscription) in enumerate(zip(micros(frame), frame.subscription_id, strict=True)):
            if allowed(time, last.get(subscription)):
                last[subscription] = time
                wanted.append(row)
        self.state.update((msgspec.msgpack.encode(last),))
        yield frame.iloc[wanted]


def micros(frame):
    return frame.event_time.astype("datetime64[us]").astype("int64").tolist()


def bucketed(rows, buckets):
    return rows.withColumn("bucket", F.pmod(F.xxhash64("subscription_id"), F.lit(buckets)).cast("int")).groupBy(
        "bucket"
    )


WAYS = {
    "packed": lambda rows, buckets: constrain(rows, buckets=buckets),
    "free": lambda rows, buckets: constrain(
        rows.withColumn("constraints", F.lit(None).cast("string")), buckets=buckets
    ),
    "bucket, pandas": lambda rows, buckets: bucketed(rows, buckets).transformWithStateInPandas(
        BucketPandas(), rows.schema, "append", "None"
    ),
    "bucket, rows": lambda rows, buckets: bucketed(rows, buckets).transformWithState(
        BucketRows(), rows.schema, "append", "None"
    ),
    "key, rows": lambda rows, buckets: rows.groupBy("subscription_id").transformWithState(
        OneKeyRows(), rows.schema, "append", "None"
    ),
    "key, pandas": lambda rows, buckets: rows.groupBy("subscription_id").transformWithStateInPandas(
        OneKeyPandas(), rows.schema, "append", "None"
    ),
}


def write_input(folder, keys, rows, batches, event):
    rng = np.random.default_rng(1)
    folder.mkdir()
    for batch in range(batches):
        subscriptions = rng.integers(0, keys, rows)
        times = pa.array(1_700_000_000_000_000 + (batch * 3600 + rng.random(rows) * 3600) * 1e6, pa.float64())
        table = pa.table(
            {
                "event_id": [f"e-{batch}-{row}" for row in range(rows)],
                "subscription_id": [f"s-{number}" for number in subscriptions],
                "owner": [f"user:{number}@example.org" for number in subscriptions],
                "event_time": times.cast(pa.int64(), safe=False).cast(INSTANT),
                "matched_at": times.cast(pa.int64(), safe=False).cast(INSTANT),
                "constraints": [TEXT] * rows,
            }
        )
        if event:
            numbers = [rng.random(rows) for _ in range(6)]
            words = [pa.array([f"{name}-{row % 97}" for row in range(rows)]) for name in ("type", "stock")]
            names = ["type", "stock", *(f"value{number}" for number in range(6))]
            table = table.append_column("event", pa.StructArray.from_arrays([*words, *numbers], names))
        for half in range(2):
            path = folder / f"{batch}-{half}.parquet"
            pq.write_table(table.slice(half * rows // 2, rows // 2), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def cpu_seconds():
    """What this process, its descendants and those of them that have ended have used."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        stats[int(path.parent.name)] = (int(fields[1]), sum(int(ticks) for ticks in fields[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return sum(stats[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")


def measure(spark, source, way, buckets, scratch):
    """Seconds of each micro-batch, CPU seconds, notifications, keys of state, bytes of all kept state on disk."""
    checkpoint, counts, used = scratch / "checkpoint", [], []

    def sink(found, _):
        counts.append(found.count())
        used.append(cpu_seconds())

    reader = spark.readStream.schema(spark.read.parquet(str(source)).schema).option("maxFilesPerTrigger", 2)
    wanted = WAYS[way](reader.parquet(str(source)), buckets)
    writer = wanted.writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
        progress = [one for one in query.recentProgress if one["numInputRows"]]
    finally:
        query.stop()
    operators = progress[-1]["stateOperators"]
    size = sum(path.stat().st_size for path in checkpoint.glob("state/**/*") if path.is_file())
    shutil.rmtree(checkpoint)
    seconds = [one["durationMs"]["addBatch"] / 1000 for one in progress]
    return seconds, np.diff(used).tolist(), counts, sum(one["numRowsTotal"] for one in operators), size


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--buckets", nargs="+", type=int, default=[256])
    parser.add_argument("--event", action="store_true", help="let the rows carry their event, a struct of eight")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    spark = start_session(master=f"local[{options.cores}]", conf={"spark.sql.shuffle.partitions": str(options.cores)})
    scratch = Path(tempfile.mkdtemp(prefix="recado-bench-"))
    try:
        write_input(scratch / "in", options.keys, options.rows, options.batches, options.event)
        print(f"{options.keys:,} subscriptions, micro-batches of {options.rows:,} notifications, {options.cores} cores")
        print(f"| {' | '.join(HEADINGS)} |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        measure(spark, scratch / "in", "packed", options.buckets[0], scratch)
        for way in options.ways:
            for buckets in options.buckets if "key" not in way else [0]:
                seconds, used, counts, keys, size = measure(spark, scratch / "in", way, buckets, scratch)
                cpu = statistics.median(used)
                cells = [way, buckets or "", f"{cpu:.1f}", f"{options.rows / cpu:,.0f}"]
                cells += [
                    f"{statistics.median(seconds[1:]):.1f}",
                    f"{sum(counts):,}",
                    f"{keys:,}",
                    f"{size / 1e6:.1f} MB",
                ]
                print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
