"""Reading a log, from any process, while it is written.

A position is in a segment if the manifest says so, and else in the tail. Sealing moves rows from one to the other: the
manifest names the segment before the tail gives up its rows. So a reader that looks in the manifest, does not find a
row in the tail and looks in the manifest again will find it there, or it is damage. Retention works the same way: the
manifest forgets a segment before its file is removed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa

from recado.model.filter import Filter
from recado.model.values import microseconds
from recado.store.log import manifest as manifests
from recado.store.log.errors import BusyError, Damage, LogError, OnDamage, refuse
from recado.store.log.manifest import TAIL, Manifest
from recado.store.log.pieces import Piece, end_of, segment_pieces, tail_pieces
from recado.store.log.segments import file_digest
from recado.store.log.settings import Extent, Segment
from recado.store.log.tail import Tail
from recado.store.log.where import choose, may_hold

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
                expired = Damage(position, min(end, manifest.first), _expired(manifest), str(self.path), expired=True)
                position = expired.end
                if start is not None:
                    report(expired)
                continue
            if where is not None and (after := self._pruned(manifest, position, where)):
                position = min(after, end)
                continue
            for piece in self._pieces(manifest, position, end, batch_rows):
                position = end_of(piece)
                if isinstance(piece, Damage):
                    report(piece)
                else:
                    yield from _sliced(piece if where is None else choose(piece, where), batch_rows)

    def _pruned(self, manifest: Manifest, position: int, where: Filter) -> int | None:
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


def _expired(manifest: Manifest) -> str:
    return f"retention removed them; the log begins at {manifest.first:,} now"


def _sliced(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
