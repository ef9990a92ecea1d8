"""One index against partitions: memory of a Python worker and events a second, on the same subscriptions and events.

    python benchmarks/partitioned_matching.py --sizes 100000,1000000 --partitions 8

Subscriptions and events are drawn once and lie in Parquet. Each way gets a Spark application of its own, so that its
workers hold nothing else: it matches a few events to open what it needs, then all of them, with the result thrown away;
then /proc tells what its Python workers hold. "own" is memory that a worker has for itself, "mapped" also counts the
files it has mapped, which all workers of a host share.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recado.bench.workloads.stock import Stock
from recado.bench.workloads.wide import Wide
from recado.filters import expression
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.partitioned.folder import load_router
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.subscriptions import read_subscriptions

WORKLOADS = {"stock": Stock, "wide": Wide}
CHUNK = 25_000
COLUMNS = ("subscriptions", "way", "build s", "files MB", "mapped MB", "own MB", "visits", "events/s", "notifications")


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
            rows = spark.read.parquet(str(folder / "subscriptions"))
            started = time.perf_counter()
            files, run, visits = way(rows, folder, asked)
            build = time.perf_counter() - started
        with application(asked) as spark:
            events = spark.read.parquet(str(folder / "events.parquet"))
            warm = run(events.limit(2_000))
            warm.write.format("noop").mode("overwrite").save()
            started = time.perf_counter()
            run(events).write.format("noop").mode("overwrite").save()
            seconds = time.perf_counter() - started
            mapped, own = worker_memory()
            count = run(events).count()
        size = sum(path.stat().st_size for path in files.rglob("*") if path.is_file()) / 1e6
        shutil.rmtree(files)
        title = f"{workload.name} {workload.size:,}"
        rate = asked.events / seconds
        print_row((title, way.__name__, build, size, mapped, own, visits, rate, count))


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
                ids, filters = [s.id for s in drawn], [expression.format(s.filter) for s in drawn]
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


def worker_memory():
    """Megabytes of the largest Python worker below this process: mapped and own together, and its own."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    sizes = [memory_of(pid) for pid in parents if is_worker(pid, parents)]
    return max((size[0] for size in sizes), default=0), max((size[1] for size in sizes), default=0)


def is_worker(pid, parents):
    try:
        if b"pyspark" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
    except OSError:
        return False
    above = pid
    while above in parents and above != os.getpid():
        above = parents[above]
    return above == os.getpid() and pid != os.getpid()


def memory_of(pid):
    held = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        held[name] = int(value.split()[0]) / 1024
    return held["Rss"], held["Private_Dirty"]


if __name__ == "__main__":
    main()
