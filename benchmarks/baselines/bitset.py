"""What a baseline is, and the plain NumPy bitset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, Filter, In
from recado.model.subscription import Subscription

# What a baseline is: another way to match, given the same subscriptions and the same events as our engines.
#
# There are two kinds. A *batch* baseline takes an Arrow record batch and gives pairs (event number, subscription
# number); an *event* baseline takes one ``Event`` and gives subscription numbers. Numbers count subscriptions in the
# order they were given. Every conversion that a baseline needs, such as a dictionary code for a string, is part of its
# matching and so of its time, as it is for our engines.


Numbers = npt.NDArray[np.integer]


class UnsuitableError(RecadoError):
    """The baseline cannot take this workload; the message says why."""


class EventBaseline(Protocol):
    """Matches event by event."""

    name: ClassVar[str]
    package: ClassVar[str]

    def build(self, subscriptions: Iterable[Subscription]) -> None: ...

    def match(self, event: Event) -> Sequence[int]: ...


class BatchBaseline(Protocol):
    """Matches a record batch at a time; ``batch_size`` is the one that suits it best, None if any does."""

    name: ClassVar[str]
    package: ClassVar[str]
    batch_size: ClassVar[int | None]

    def build(self, subscriptions: Iterable[Subscription]) -> None: ...

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]: ...

    def bytes_used(self) -> int: ...


Baseline = EventBaseline | BatchBaseline


# --- conjunctions -----------------------------------------------------------------------------------------------------
# Conjunctions as flat columns: the form that the bitset and the counting joins are built from.
#
# For each attribute there are *points* (subscription, value: an equality, or each value of a set) and *ranges*
# (subscription, low, high, both included). ``needed`` counts a subscription's predicates. Attributes have to differ
# within a subscription, which all conjunctive workloads respect.


class Column:
    """The predicates on one attribute."""

    def __init__(self) -> None:
        self.point_owners: list[int] = []
        self.point_values: list[Any] = []
        self.range_owners: list[int] = []
        self.range_lows: list[Any] = []
        self.range_highs: list[Any] = []

    def owners(self) -> set[int]:
        """The subscriptions that ask something of this attribute."""
        return {*self.point_owners, *self.range_owners}

    def add(self, owner: int, predicate: Filter) -> None:
        match predicate:
            case Compare(_, "==", value):
                self._add_points(owner, (value,))
            case In(_, values):
                self._add_points(owner, values)
            case Between(_, low, high) if not isinstance(low, str):
                self.range_owners.append(owner)
                self.range_lows.append(low)
                self.range_highs.append(high)
            case _:
                raise UnsuitableError("takes equality, sets and ranges of numbers only")

    def _add_points(self, owner: int, values: Iterable[Any]) -> None:
        different = list(dict.fromkeys(values))
        self.point_owners += [owner] * len(different)
        self.point_values += different


class Conjunctions:
    """All predicates of a set of subscriptions, by attribute."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self.columns: dict[str, Column] = {}
        self.needed: list[int] = []
        for owner, subscription in enumerate(subscriptions):
            parts = list(_parts(subscription.whole_filter()))
            if len({name for name, _ in parts}) < len(parts):
                raise UnsuitableError("takes one predicate an attribute")
            for name, part in parts:
                self.columns.setdefault(name, Column()).add(owner, part)
            self.needed.append(len(parts))


def _parts(condition: Filter) -> Iterator[tuple[str, Filter]]:
    parts = condition.parts if isinstance(condition, And) else (condition,)
    for part in parts:
        if not isinstance(part, (Compare, In, Between)):
            raise UnsuitableError(f"takes conjunctions of equality, sets and ranges, not {type(part).__name__}")
        yield part.name, part


# --- numpy bitset -----------------------------------------------------------------------------------------------------
# The plain NumPy bitset: for every value of every attribute a row of bits, one bit a subscription.
#
# A bit is set if the subscription asks nothing of the attribute or its predicate holds for the value. The rows of an
# event's values, joined with *and*, are its matches: no candidate is ever looked at, so dense workloads suit it, and it
# beats tree engines there. The price is memory: attributes x values x subscriptions / 8 bytes.
#
# ``NumpyBitset`` joins a whole record batch at a time, as one would write it first. ``BlockedBitset`` is the same in
# blocks of events whose rows stay in the processor's cache: one more line, and up to twice as fast.
#
# Numbers are cut at the ends of all ranges and points, so that values between two cuts share a row. The rows are built
# by toggling: a bit changes where a range begins and just behind its end, and an exclusive-or running down the rows
# fills in the rest.


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
