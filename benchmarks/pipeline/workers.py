"""What Spark's Python workers hold, asked from inside: how often they opened an index, and in which memory it lies.

Spark keeps idle workers for the next job, so a small job with a few tasks for each core finds the ones that ran the job
before. ``smaps`` tells a process's own pages from those that it shares; only Linux has it, and elsewhere bytes are 0.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from recado.pipeline import worker

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
