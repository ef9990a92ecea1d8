"""One index against partitions: memory of a Python worker and events a second, on the same subscriptions and events.

    python -m benchmarks.partitioned_matching --sizes 100000,1000000 --partitions 8

Subscriptions and events are drawn once and lie in Parquet. Each way gets a Spark application of its own, so that its
workers hold nothing else: it matches some of the events to open what it needs, then all of them, with the result thrown
away; then /proc tells what its Python workers hold. "own" is memory that a worker has for itself, "mapped" also counts
the files it has mapped, which all workers of a host share. "cpu s" are processor seconds of the driver, the JVM and all
workers together; unlike the clock, they tell nearly the same on a busy machine.
"""

import argparse
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Observation
from pyspark.sql.functions import count, lit

from benchmarks.workloads.stock import Stock
from benchmarks.workloads.wide import Wide
from recado.filters import expression
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.partitioned.build import load_router
from recado.pipeline.sets import SubscriptionSet, read_subscriptions

WORKLOADS = {"stock": Stock, "wide": Wide}
CHUNK = 25_000
COLUMNS = ("subscriptions", "way", "build cpu s", "files MB", "mapped MB", "own MB", "visits", "events/s")
COLUMNS += ("events/cpu s", "notifications")


def main():
    asked = arguments()
    print(f"{asked.events:,} events, {asked.master}, {asked.partitions} partitions, {asked.keep_open} kept open")
    print_row(COLUMNS)
    for name in asked.workloads.split(","):
        for size in map(int, asked.sizes.split(",")):
            with tempfile.TemporaryDirectory(prefix="recado-bench-") as folder:
                compare(WORKLOADS[name](size=size), asked, Path(folder))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workloads", default="stock,wide")
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--keep-open", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    return parser.parse_args()


def compare(workload, asked, folder):
    with application(asked) as spark:
        write_subscriptions(spark, workload, str(folder / "subscriptions"))
    write_events(workload, asked.events, folder / "events.parquet")
    for way in (single, partitioned):
        with application(asked) as spark:
            before = processor_seconds()
            files, run, visits = way(spark.read.parquet(str(folder / "subscriptions")), folder, asked)
            build = processor_seconds() - before
        with application(asked) as spark:
            events = spark.read.parquet(str(folder / "events.parquet"))
            throw_away(run(events.sample(fraction=0.02, seed=1)))
            before, started = processor_seconds(), time.perf_counter()
            rows = throw_away(run(events))
            seconds, processor = time.perf_counter() - started, processor_seconds() - before
            mapped, own = worker_memory()
        size = sum(path.stat().st_size for path in files.rglob("*") if path.is_file()) / 1e6
        shutil.rmtree(files)
        title = f"{workload.name} {workload.size:,}"
        rates = (asked.events / seconds, asked.events / processor)
        print_row((title, way.__name__, build, size, mapped, own, visits, *rates, rows))


def throw_away(found):
    """Run the job for nothing but its number of rows."""
    seen = Observation()
    found.observe(seen, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return seen.get["rows"]


def print_row(values):
    texts = list(map(shown, values))
    print(f"| {texts[0]:<16} | {texts[1]:<11} | " + " | ".join(f"{text:>13}" for text in texts[2:]) + " |", flush=True)


def shown(value):
    if isinstance(value, str):
        return value
    return f"{value:,.2f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}"


# -- the two ways


def single(rows, folder, asked):
    one = SubscriptionSet(folder / "single")
    one.publish(read_subscriptions(rows))
    return one.folder, lambda events: match(events, one), 1.0


def partitioned(rows, folder, asked):
    held = build_partitions(rows, folder / "partitioned", partitions=asked.partitions)
    return held.folder, lambda events: match_partitioned(events, held, keep_open=asked.keep_open), visits(held, folder)


def visits(held, folder):
    """How many partitions an event visits in the mean."""
    from recado.matching.batch import match_batch

    batch = pq.read_table(folder / "events.parquet").slice(0, 8_192).combine_chunks().to_batches()[0]
    router = load_router(held.folder)
    return len(router.visits(match_batch(router.index, batch))[0]) / batch.num_rows


# -- data


def write_subscriptions(spark, workload, path):
    """Drawn in executors, chunk by chunk."""

    def draw(batches):
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                drawn = list(workload.subscriptions(chunk * CHUNK, min(CHUNK, workload.size - chunk * CHUNK)))
                ids, filters = [s.id for s in drawn], [expression.format_expression(s.filter) for s in drawn]
                yield pa.RecordBatch.from_pydict({"id": ids, "filter": filters})

    chunks = -(-workload.size // CHUNK)
    numbers = spark.range(0, chunks, numPartitions=min(chunks, 16))
    numbers.mapInArrow(draw, "id string, filter string").write.parquet(path)


def write_events(workload, count, path):
    batch = workload.events(count)
    ids = pc.binary_join_element_wise("e", pa.array(range(count)).cast(pa.string()), "")
    pq.write_table(pa.Table.from_batches([batch]).append_column("id", ids), path, row_group_size=max(count // 16, 1))


# -- Spark and its workers


class application:  # noqa: N801  # a context manager
    def __init__(self, asked):
        self.master = asked.master

    def __enter__(self):
        from recado.pipeline.session import start_session

        self.spark = start_session("partitioned-matching", self.master, {"spark.sql.files.openCostInBytes": "0"})
        return self.spark

    def __exit__(self, *_):
        self.spark.stop()


def below():
    """The processes that this one started, and those that they started."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return [pid for pid in parents if pid != os.getpid() and _descends(pid, parents)]


def _descends(pid, parents):
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def processor_seconds():
    """What this process, the JVM and the Python workers have used so far, those that ended included."""
    ticks = 0
    for pid in [os.getpid(), *below()]:
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def worker_memory():
    """Megabytes of the largest Python worker: all that it has mapped, and what it has for itself."""
    sizes = []
    for pid in below():
        with suppress(OSError):
            if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                sizes.append(memory_of(pid))
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


def memory_of(pid):
    held = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        held[name] = int(value.split()[0]) / 1024
    return held["Rss"], held["Private_Dirty"]


if __name__ == "__main__":
    main()
