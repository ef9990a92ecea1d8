"""The data of a run on disk: subscription sets, and events as Parquet, both drawn from workloads with fixed seeds.

Every workload's events get an ``id`` and a ``time``, as real ones have. A block of events is written once; fewer are a
prefix of it in files of their own, more are the block read several times over. Events are typed columns, or one column
``event`` with each as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.workloads import Wide, Workload
from recado.pipeline.sets import SubscriptionSet

START_MICROS = 1_790_000_000_000_000  # an instant in 2026
Form = Literal["columns", "JSON"]

FILES = 8
"""Files of a block: enough for tasks of like size on a few cores."""


class Data:
    """A folder of sets and events, each made when it is first asked for."""

    def __init__(self, folder: Path, block: int) -> None:
        self.folder = folder
        self._block = block

    def subscriptions(self, workload: Workload) -> SubscriptionSet:
        found = SubscriptionSet(self.folder / "sets" / _file_name(workload))
        if not found.versions():
            found.publish(workload.subscriptions())
        return found

    def block(self, workload: Workload) -> int:
        """How many events are written; *wide* ones have ten times the columns."""
        return self._block // 8 if isinstance(workload, Wide) else self._block

    def fit(self, workload: Workload, count: int) -> int:
        """So many events or, where they are more than a block, enough for whole blocks."""
        block = self.block(workload)
        return count if count <= block else -(-count // block) * block

    def events(self, spark: SparkSession, workload: Workload, count: int, form: Form = "columns") -> DataFrame:
        """So many events; the count fits."""
        block = self.block(workload)
        folder = str(self.event_folder(workload, min(count, block), form))
        return spark.read.parquet(*[folder] * -(-count // block))

    def event_folder(self, workload: Workload, count: int, form: Form = "columns", files: int = FILES) -> Path:
        """The first events of a workload, at most a block, split into files."""
        folder = self.folder / "events" / _file_name(workload) / f"{count}-{form}-{files}"
        if not folder.exists():
            folder.mkdir(parents=True)
            table = with_envelope(workload.events(self.block(workload)).slice(0, count))
            write_files(folder, as_json(table) if form == "JSON" else table, files)
        return folder


def with_envelope(batch: pa.RecordBatch) -> pa.Table:
    """The batch with an id and a time for each row, a millisecond apart."""
    numbers = np.arange(len(batch))
    ids = pa.array(np.char.add("e", numbers.astype(str)))
    times = pa.array(START_MICROS + 1_000 * numbers).cast(pa.timestamp("us", "UTC"))
    return pa.table([ids, times, *batch.columns], names=["id", "time", *batch.schema.names])


def as_json(table: pa.Table) -> pa.Table:
    """The rows as JSON objects in one column; what a row lacks is left out."""
    return pa.table({"event": pa.array(_texts(table), pa.string())})


def _texts(table: pa.Table) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for batch in table.to_batches(1000):
        for row in batch.to_pylist():
            yield encoder.encode({name: value for name, value in row.items() if value is not None})


def write_files(folder: Path, table: pa.Table, files: int = FILES) -> None:
    """Files of like size, none of them empty."""
    parts = min(files, max(1, len(table)))
    edges = [len(table) * part // parts for part in range(parts + 1)]
    for number in range(parts):
        rows = table.slice(edges[number], edges[number + 1] - edges[number])
        pq.write_table(rows, folder / f"{number:02d}.parquet")


def _file_name(workload: Workload) -> str:
    return re.sub(r"\W+", "-", workload.title)
