"""The plain NumPy bitset: for every value of every attribute a row of bits, one bit a subscription.

A bit is set if the subscription asks nothing of the attribute or its predicate holds for the value. The rows of an
event's values, joined with *and*, are its matches: no candidate is ever looked at, so dense workloads suit it, and it
beats tree engines there. The price is memory: attributes x values x subscriptions / 8 bytes.

``NumpyBitset`` joins a whole record batch at a time, as one would write it first. ``BlockedBitset`` is the same in
blocks of events whose rows stay in the processor's cache: one more line, and up to twice as fast.

Numbers are cut at the ends of all ranges and points, so that values between two cuts share a row. The rows are built
by toggling: a bit changes where a range begins and just behind its end, and an exclusive-or running down the rows
fills in the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.yardsticks.base import Numbers, UnsuitableError
from benchmarks.yardsticks.conjunctions import Column, Conjunctions
from recado.model.subscription import Subscription

Rows = npt.NDArray[np.uint64]
MEMORY_BYTES = 4 << 30


class NumpyBitset:
    name: ClassVar[str] = "numpy bitset"
    package: ClassVar[str] = "numpy"
    batch_size: ClassVar[int | None] = None
    block_words: ClassVar[int] = 1 << 62

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        table = Conjunctions(subscriptions)
        self._count = len(table.needed)
        self._words = -(-self._count // 64)
        self._cuts = {name: _cuts(column) for name, column in table.columns.items()}
        rows = sum(len(cuts) + 2 for cuts in self._cuts.values())
        if rows * self._words * 8 > MEMORY_BYTES:
            raise UnsuitableError(f"{rows:,} rows of bits would take {rows * self._words * 8 / 1e9:,.0f} GB")
        self._rows = {name: self._fill(column, self._cuts[name]) for name, column in table.columns.items()}

    def bytes_used(self) -> int:
        return sum(rows.nbytes for rows in self._rows.values())

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        picked = [(self._rows[name], _row_numbers(batch, name, cuts)) for name, cuts in self._cuts.items()]
        block = max(1, self.block_words // self._words)
        found = [self._match_block(picked, at, min(at + block, len(batch))) for at in range(0, len(batch), block)]
        return np.concatenate([events for events, _ in found]), np.concatenate([owners for _, owners in found])

    def _match_block(self, picked: list[tuple[Rows, Numbers]], start: int, stop: int) -> tuple[Numbers, Numbers]:
        joined, rows = np.full((2, stop - start, self._words), ~np.uint64(0))
        for table, numbers in picked:
            joined &= np.take(table, numbers[start:stop], axis=0, out=rows, mode="clip")
        flat = joined.reshape(-1)
        words = np.flatnonzero(flat)
        at, bits = np.unpackbits(flat[words].view(np.uint8), bitorder="little").reshape(-1, 64).nonzero()
        events, places = np.divmod(words[at], self._words)
        return events + start, places * 64 + bits

    def _fill(self, column: Column, cuts: npt.NDArray[Any]) -> Rows:
        """Row 0 is for values before the first cut, row ``k`` for those from cut ``k - 1`` on, the last for null."""
        rows = np.zeros((len(cuts) + 2, self._words), np.uint64)
        asked = np.zeros(self._words * 64, bool)
        asked[list(column.owners())] = True
        rows[0] = np.packbits(~asked & (np.arange(asked.size) < self._count), bitorder="little").view(np.uint64)
        free = rows[0].copy()
        for owners, begins, ends in _intervals(column):
            for edges in (begins, ends):
                places = np.searchsorted(cuts, edges) + 1
                np.bitwise_xor.at(rows, (places, owners // 64), np.uint64(1) << (owners % 64).astype(np.uint64))
        np.bitwise_xor.accumulate(rows, axis=0, out=rows)
        rows[-1] = free
        return rows


class BlockedBitset(NumpyBitset):
    name: ClassVar[str] = "blocked bitset"
    block_words: ClassVar[int] = 1 << 15


def _intervals(column: Column) -> list[tuple[Numbers, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Points and ranges as (subscriptions, beginnings, ends), the end no longer part of it."""
    points, lows, highs = (np.array(v) for v in (column.point_values, column.range_lows, column.range_highs))
    pairs = ((column.point_owners, points, points), (column.range_owners, lows, highs))
    return [(np.array(owners), begins, _behind(ends)) for owners, begins, ends in pairs if len(owners)]


def _behind(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The next value of the type; for a string one that no event has, since strings are looked up, not ordered."""
    if values.dtype.kind == "U":
        return np.strings.add(values, "\x01")
    return np.nextafter(values, np.inf) if values.dtype.kind == "f" else values + 1


def _cuts(column: Column) -> npt.NDArray[Any]:
    edges = [edge for _, begins, ends in _intervals(column) for edge in (begins, ends)]
    return np.unique(np.concatenate(edges))


def _row_numbers(batch: pa.RecordBatch, name: str, cuts: npt.NDArray[Any]) -> Numbers:
    """The row of each event's value."""
    column = batch.column(name)
    if pa.types.is_string(column.type):
        codes = pc.index_in(column, value_set=pa.array(cuts.tolist(), column.type))
        return np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)) + 1
    rows = np.searchsorted(cuts, pc.fill_null(column, 0).to_numpy(zero_copy_only=False), side="right")
    return np.where(column.is_null().to_numpy(zero_copy_only=False), len(cuts) + 1, rows)
