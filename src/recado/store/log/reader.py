"""Reading a log, from any process, while it is written.

A position is in a segment if the manifest says so, and else in the tail. Sealing moves rows from one to the other: the
manifest names the segment before the tail gives up its rows. So a reader that looks in the manifest, does not find a
row in the tail and looks in the manifest again will find it there, or it is damage. Retention works the same way: the
manifest forgets a segment before its file is removed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from recado.model.filter import Filter
from recado.model.values import microseconds
from recado.store.log import manifest as manifests
from recado.store.log.manifest import TAIL, Lost, Manifest
from recado.store.log.rows import to_batch
from recado.store.log.segments import UNREADABLE, SegmentFile, choose, file_digest, may_hold
from recado.store.log.settings import BusyError, Damage, Extent, LogError, OnDamage, Segment, refuse
from recado.store.log.tail import Found, Tail

# --- What a stretch of positions holds: rows that are proven intact, and damage where there are none -----------------
#
# A stretch is read from one place, a segment or the tail, into *pieces*: dense batches and damage, in ascending order
# and without a gap between them. Whatever was asked for and not found is damage, for whatever reason.


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


# --- Reading a log, from any process, while it is written ------------------------------------------------------------

BUSY_SECONDS = 10.0


class LogReader:
    """A view of a log folder. It keeps no file open and takes no lock between two batches."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._whole: set[tuple[str, str]] = set()  # segments whose digest was compared
        self._last: tuple[object, Manifest] | None = None
        self._manifest()

    def extent(self, on_damage: OnDamage | None = None) -> Extent:
        """Where the log begins, where its tail begins, and where it ends."""
        manifest = self._manifest()
        return Extent(manifest.first, manifest.sealed, self._end(manifest, on_damage or refuse))

    def segments(self) -> tuple[Segment, ...]:
        """The sealed segments, oldest first."""
        return tuple(entry.located(self.path) for entry in self._manifest().segments)

    def read(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        where: Filter | None = None,
        batch_rows: int = 8192,
        on_damage: OnDamage | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of ``[start, end)`` in ascending order, in batches of LOG_SCHEMA with at most ``batch_rows`` rows.

        Without ``start`` from the first position that is kept, without ``end`` up to the end at the time of the call.
        """
        if start is not None and start < 0:
            raise LogError(f"the start {start} is not a position; positions begin at 0")
        if batch_rows < 1:
            raise LogError(f"batch_rows is {batch_rows}; it must be at least 1")
        return self._read(start, end, where, batch_rows, on_damage or refuse)

    def position_at(self, instant: datetime, on_damage: OnDamage | None = None) -> int:
        """The first position that was accepted at or after the instant; the log's end if there is none.

        With ``on_damage``, the first that can be read.
        """
        manifest, wanted, report = self._manifest(), microseconds(instant), on_damage or refuse
        start = next((entry.first for entry in manifest.segments if entry.latest >= instant), manifest.sealed)
        end = self._end(manifest, report)
        for batch in self.read(start, end, on_damage=report):
            later = np.flatnonzero(np.asarray(batch.column("accepted_at").cast(pa.int64())) >= wanted)
            if len(later):
                return int(batch.column("position")[int(later[0])].as_py())
        return end

    def check(self) -> list[Damage]:
        """Read everything and list the damage."""
        found: list[Damage] = []
        for _ in self.read(on_damage=found.append):
            pass
        return found

    # -- inside --------------------------------------------------------------------------------------------------------

    def _manifest(self, again: bool = False) -> Manifest:
        """The current manifest; ``again`` reads it even if it looks like the one that was read last."""
        seen = manifests.seen(self.path)
        if again or self._last is None or self._last[0] != seen:
            self._last = seen, manifests.load(self.path)
        return self._last[1]

    def _tail(self) -> Tail:
        return Tail(self.path / TAIL, writable=False, busy_seconds=BUSY_SECONDS)

    def _end(self, manifest: Manifest, report: OnDamage) -> int:
        """The log's end. If the tail cannot tell, the end of what is known, and a report."""
        known = manifest.sealed
        try:
            with self._tail() as tail:
                last = tail.last()
                known = known if last is None else max(known, last[0] + 1)
                return tail.end(manifest.log, known)
        except BusyError:
            raise
        except LogError as error:
            report(Damage(known, known, f"{error}; later positions, if there were any, are lost", TAIL))
            return known

    def _read(
        self, start: int | None, end: int | None, where: Filter | None, batch_rows: int, report: OnDamage
    ) -> Iterator[pa.RecordBatch]:
        manifest = self._manifest()
        position = manifest.first if start is None else start
        known = self._end(manifest, report)
        end = known if end is None else min(end, known)
        while position < end:
            manifest = self._manifest()
            if position < manifest.first:
                expired = Damage(position, min(end, manifest.first), _expire(manifest), str(self.path), expired=True)
                position = expired.end
                if start is not None:
                    report(expired)
                continue
            if where is not None and (after := self._prune(manifest, position, where)):
                position = min(after, end)
                continue
            for piece in self._pieces(manifest, position, end, batch_rows):
                position = end_of(piece)
                if isinstance(piece, Damage):
                    report(piece)
                else:
                    yield from _slice(piece if where is None else choose(piece, where), batch_rows)

    def _prune(self, manifest: Manifest, position: int, where: Filter) -> int | None:
        """The end of the segment at the position, if none of its events can match."""
        segment = self._segment(manifest, position)
        return segment.end if segment is not None and not may_hold(segment, where) else None

    def _segment(self, manifest: Manifest, position: int) -> Segment | None:
        entries = manifest.segments
        at = bisect_right(entries, position, key=lambda entry: entry.first) - 1
        return entries[at].located(self.path) if at >= 0 and position < entries[at].end else None

    def _pieces(self, manifest: Manifest, position: int, end: int, batch_rows: int) -> Iterator[Piece]:
        """What is at a position and after it in the same place; nothing if it has just moved to another place."""
        if position >= manifest.sealed:
            yield from self._tail_pieces(position, end, batch_rows)
            return
        segment = self._segment(manifest, position)
        if segment is None:
            gap = next(gap for gap in manifest.lost if gap.first <= position < gap.end)
            yield Damage(position, min(end, gap.end), gap.reason, manifests.MANIFEST)
            return
        end = min(end, segment.end)
        try:
            yield from segment_pieces(segment, position, end, manifest.lost, self._is_whole(segment))
        except FileNotFoundError:
            if position >= self._manifest(again=True).first:
                yield Damage(position, end, "the file is missing", str(segment.path))

    def _tail_pieces(self, position: int, end: int, batch_rows: int) -> Iterator[Piece]:
        try:
            tail = self._tail()
        except LogError as error:
            yield Damage(position, end, str(error), TAIL)
            return
        with tail:
            found = tail.read(position, end, batch_rows)
        complete = len(found.rows) == found.reached - position
        if complete or self._manifest(again=True).sealed <= position:
            yield from tail_pieces(found, position, TAIL)

    def _is_whole(self, segment: Segment) -> bool:
        known = (segment.path.name, segment.digest)
        if known not in self._whole:
            if segment.path.stat().st_size != segment.bytes or file_digest(segment.path) != segment.digest:
                return False
            self._whole.add(known)
        return True


def _expire(manifest: Manifest) -> str:
    return f"retention removed them; the log begins at {manifest.first:,} now"


def _slice(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
