"""Rows on their way through state, packed into Arrow chunks: one for each bucket instead of one for each row.

``transformWithState`` hands rows to Python one by one, cell by cell, which costs more than judging them. So rows are
packed before, in ``mapInArrow``, and unpacked behind it; no value changes its type on the way. What needs no memory is
decided while packing: rows without constraints and rows with intervals only travel in chunks that no bucket opens,
with negative numbers that spread them over the partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from recado.errors import RecadoError
from recado.pipeline.constraints.judge import Terms, judge, read_rule
from recado.pipeline.constraints.memory import Memory
from recado.pipeline.errors import PipelineError

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

BUCKET = "_bucket"
CHUNK = "chunk"
FREIGHT_SCHEMA = f"{BUCKET} int, {CHUNK} binary"
PASSING = 64
"""How many negative numbers there are."""

_ROWS = 65_536
_BYTES = 8_388_608


class Packer(msgspec.Struct, frozen=True):
    """What ``mapInArrow`` runs before the state."""

    terms: Terms

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        passing = count(context.partitionId() if context else 0)
        for table in gathered(batches):
            chunks = list(self.chunks(table, passing))
            numbers = pa.array([number for number, _ in chunks], pa.int32())
            payloads = pa.array([to_bytes(rows) for _, rows in chunks], pa.binary())
            yield pa.RecordBatch.from_arrays([numbers, payloads], [BUCKET, CHUNK])

    def chunks(self, table: pa.Table, passing: Iterator[int]) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each bucket that has some, and those that pass."""
        buckets, rows = table[BUCKET].to_numpy(), table.drop_columns([BUCKET])
        free = np.asarray(pc.or_(rows["constraints"].is_null(), rows["subscription_id"].is_null()))
        remembering = self._remembering(rows) & ~free
        passed = rows.filter(free)
        if not (free | remembering).all():
            timely = rows.filter(~free & ~remembering)
            passed = pa.concat_tables([passed, timely.take(judge(timely, Memory(0), self.terms))])
        if len(passed):
            yield -1 - next(passing) % PASSING, passed
        yield from _by_bucket(rows.filter(remembering), buckets[remembering])

    def _remembering(self, rows: pa.Table) -> Flags:
        """Which rows belong to subscriptions with a frequency. Few texts serve many rows, so each is read once."""
        encoded = rows["constraints"].combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        flags = np.array([*(self._has_frequency(text, rows) for text in texts), False])
        chosen: Flags = flags[encoded.indices.fill_null(len(texts)).to_numpy()]
        return chosen

    def _has_frequency(self, text: str, rows: pa.Table) -> bool:
        try:
            return read_rule(text, self.terms.tz).period is not None
        except RecadoError as error:
            row = pc.index(rows["constraints"], text).as_py()
            raise PipelineError(f"subscription {rows['subscription_id'][row].as_py()!r}: {error}") from None


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` runs behind the state: the rows again, in batches of a fair size."""
    rows = (
        found
        for batch in batches
        for chunk in batch.column(CHUNK)
        for found in from_bytes(chunk.as_buffer()).to_batches()
    )
    for table in gathered(rows):
        yield from table.to_batches()


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches joined, up to a number of rows and bytes; empty ones are left out."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def from_bytes(chunk: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(chunk).read_all()


def _by_bucket(rows: pa.Table, buckets: Numbers) -> Iterator[tuple[int, pa.Table]]:
    order = np.argsort(buckets, kind="stable")
    in_order, sorted_rows = buckets[order], rows.take(order)
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(order)]):
        yield int(in_order[start]), sorted_rows.slice(start, end - start)
