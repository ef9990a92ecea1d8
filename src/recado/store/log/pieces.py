"""What a stretch of positions holds: rows that are proven intact, and damage where there are none.

A stretch is read from one place, a segment or the tail, into *pieces*: dense batches and damage, in ascending order and
without a gap between them. Whatever was asked for and not found is damage, for whatever reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from recado.store.log.errors import Damage
from recado.store.log.manifest import Lost
from recado.store.log.rows import to_batch
from recado.store.log.segments import UNREADABLE, SegmentFile
from recado.store.log.settings import Segment
from recado.store.log.tail import Found

Piece: TypeAlias = "pa.RecordBatch | Damage"
Explained = tuple[str, int]
"""Why a position has no row, and up to which position the same is true at least."""
Explain = Callable[[int], Explained]


def end_of(piece: Piece) -> int:
    """The position after a piece."""
    return piece.end if isinstance(piece, Damage) else int(piece.column("position")[-1].as_py()) + 1


def tail_pieces(found: Found, start: int, place: str) -> Iterator[Piece]:
    """Positions from ``start`` to where the tail was searched."""
    reasons, batches = found.reasons, [to_batch(found.rows)] if found.rows else []
    known = sorted(reasons)

    def explain(position: int) -> Explained:
        if position in reasons:
            return reasons[position], position + 1
        after = bisect_right(known, position)
        return "the row is missing", known[after] if after < len(known) else found.reached

    return _fill(batches, start, found.reached, explain, place)


def segment_pieces(segment: Segment, start: int, end: int, lost: Sequence[Lost], whole: bool) -> Iterator[Piece]:
    """Positions ``[start, end)``, all of them inside the segment.

    ``whole`` says that the file has its digest. If not, its footer may lie about where rows are, so every group is
    looked at, and damage is reported even if no row that was asked for is lost.
    """
    failures = ["the segment does not have these rows"]
    place, harmed = str(segment.path), False

    def explain(position: int) -> Explained:
        for gap in lost:
            if position < gap.end:
                return (gap.reason, gap.end) if gap.first <= position else (failures[-1], gap.first)
        return failures[-1], end

    for piece in _fill(_groups(segment, start, end, whole, failures), start, end, explain, place):
        harmed = harmed or isinstance(piece, Damage)
        yield piece
    if not whole and not harmed:
        yield Damage(end, end, "the file does not have its digest, but the rows asked for are intact", place)


def _groups(segment: Segment, start: int, end: int, whole: bool, failures: list[str]) -> Iterator[pa.RecordBatch]:
    """The row groups that can be read; why others cannot is added to ``failures``."""
    try:
        with SegmentFile(segment.path) as file:
            for number, group in enumerate(file.footer.groups):
                if whole and not (group.first < end and start < group.end):
                    continue
                try:
                    yield file.read(number)
                except UNREADABLE as error:
                    failures.append(_sentence(error))
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        failures.append(_sentence(error))


def _fill(batches: Iterable[pa.RecordBatch], start: int, end: int, explain: Explain, place: str) -> Iterator[Piece]:
    position = start
    for batch in batches:
        for run in _runs(batch, position, end):
            yield from _gaps(position, int(run.column("position")[0].as_py()), explain, place)
            yield run
            position = end_of(run)
    yield from _gaps(position, end, explain, place)


def _runs(batch: pa.RecordBatch, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The rows inside ``[start, end)``, in batches without gaps."""
    positions = np.asarray(batch.column("position"))
    low, high = np.searchsorted(positions, (start, end))
    cuts = np.flatnonzero(np.diff(positions[low:high]) != 1) + low + 1
    bounds = [int(low), *map(int, cuts), int(high)]
    for first, after in pairwise(bounds):
        if after > first:
            yield batch.slice(first, after - first)


def _gaps(start: int, end: int, explain: Explain, place: str) -> Iterator[Damage]:
    """Damage from ``start`` to ``end``, one for each reason in a row."""
    while start < end:
        reason, until = explain(start)
        until = min(until, end)
        while until < end and explain(until)[0] == reason:
            until = min(explain(until)[1], end)
        yield Damage(start, until, reason, place)
        start = until


def _sentence(error: BaseException) -> str:
    return str(error).strip().replace("\n", " ")[:500] or type(error).__name__
