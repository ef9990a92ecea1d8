"""Repair: make a damaged log writable again, without destroying anything that might still be read.

- A manifest that is damaged, gone or older than the segments is rebuilt (``recado.store.log.repair``).
- A tail that is damaged is sealed as far as it can be read. The positions that cannot are written into the manifest as
  lost, so every later reader is told; the tail's files are set aside in the folder ``damaged``, and a new tail goes on.
- A damaged segment stays as it is: reading gives its intact row groups and reports the others.

Whenever it is interrupted, running it again goes on from there. It needs the writer's lock.
"""

from __future__ import annotations

from itertools import count
from os import PathLike
from pathlib import Path

import msgspec
import pyarrow as pa

from recado import files
from recado.store.log import manifest as manifests
from recado.store.log.manifest import FORMAT, PREVIOUS, SEGMENTS, TAIL, TAIL_SHM, TAIL_WAL, Lost, Manifest, SegmentEntry
from recado.store.log.reader import tail_pieces
from recado.store.log.segments import UNREADABLE, SegmentFile, Statistics, file_digest, write_segment
from recado.store.log.settings import DEFAULTS, BusyError, Damage, LogError, LogSettings
from recado.store.log.tail import Tail
from recado.store.log.writer import FolderLock, check_fit
from recado.store.wal import wal_damage

# --- A manifest from the segments themselves, for a log whose own is damaged, gone, or an older copy -----------------
#
# Every segment says in its footer which positions it has. The manifest there is, or else the previous one, still knows
# the digests of older files. Files that overlap (a crash can leave a segment that was sealed again with other bounds)
# are taken from the oldest position on, the longest first; what is then covered twice is left out. Positions that no
# file has are lost ranges.


NO_SEGMENT = "no segment has these positions"


def rebuild(folder: Path, current: Manifest | None, log: str | None) -> Manifest:
    """The manifest that the files in the folder call for.

    ``current`` is the manifest there is, if that can be read: then all it names is kept. ``log`` is the identity of the
    tail, if that can be read.
    """
    previous = current or _previous(folder)
    known = previous.segments if previous else ()
    found = [entry for entry in known if current or (folder / SEGMENTS / entry.file).exists()]
    names = {log, previous.log if previous else None} - {None}
    for path in sorted((folder / SEGMENTS).glob("*.parquet")):
        described = None if path.name in {entry.file for entry in known} else _describe(path)
        if described is not None:
            found.append(described[0])
            names.add(described[1])
    if len(names) != 1:
        raise LogError(f"the manifest of {folder} cannot be rebuilt: {_why_not(names)}")
    return _join(str(names.pop()), found, previous)


def _previous(folder: Path) -> Manifest | None:
    path = folder / PREVIOUS
    try:
        return manifests.decode(path.read_bytes(), path)
    except (LogError, OSError):
        return None


def _why_not(names: set[str | None]) -> str:
    if not names:
        return "no segment, tail or previous manifest of a log can be read"
    return (
        f"its files belong to different logs ({', '.join(sorted(map(str, names)))}); take away those that are foreign"
    )


def _describe(path: Path) -> tuple[SegmentEntry, str] | None:
    """A segment by its own account, and the log it belongs to; None if it cannot be understood."""
    statistics = Statistics()
    try:
        with SegmentFile(path) as file:
            footer = file.footer
            for number in range(len(footer.groups)):
                try:
                    statistics.add(file.read(number))
                except UNREADABLE:  # reading will report it
                    continue
        size, digest = path.stat().st_size, file_digest(path)
        return statistics.entry(path.name, footer.first, footer.end, size, digest), footer.log
    except (*UNREADABLE, KeyError):  # no footer, or no group that can be read
        return None


def _join(log: str, found: list[SegmentEntry], previous: Manifest | None) -> Manifest:
    """Segments without overlap, and the gaps between them."""
    first = previous.first if previous else min((entry.first for entry in found), default=0)
    position, segments = first, []
    lost: list[Lost] = []
    for entry in sorted(found, key=lambda entry: (entry.first, -entry.end)):
        if entry.first < position:
            continue
        if entry.first > position:
            lost.append(Lost(position, entry.first, NO_SEGMENT))
        segments.append(entry)
        position = entry.end
    sealed = max(position, previous.sealed if previous else 0)
    if sealed > position:
        lost.append(Lost(position, sealed, NO_SEGMENT))
    for gap in previous.lost if previous else ():
        if not any(other.first <= gap.first and gap.end <= other.end for other in lost):
            lost.append(gap)
    return Manifest(FORMAT, log, first, sealed, tuple(segments), tuple(sorted(lost, key=lambda gap: gap.first)))


# --- Repair: make a damaged log writable again, without destroying anything that might still be read -----------------

DAMAGED = "damaged"


class Repaired(msgspec.Struct, frozen=True):
    """What was done. ``lost`` has every range that the log has lost, now or earlier; ``end`` is where it goes on."""

    rebuilt_manifest: bool
    replaced_tail: bool
    lost: tuple[Lost, ...]
    end: int


def repair(path: str | PathLike[str], settings: LogSettings = DEFAULTS, *, end: int | None = None) -> Repaired:
    """Make the log in a folder writable again, and say what was lost.

    If the tail cannot tell how far the log went, numbering goes on after the last row that can be read. Who knows
    better, from a reader's offset perhaps, says so with ``end``: positions before it are lost, and not given again.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise LogError(f"there is no event log in {folder}: it is not a folder")
    lock = FolderLock(folder)
    try:
        return _Repair(folder, settings).run(end)
    except OSError as error:
        raise LogError(f"{folder} cannot be repaired: {error.strerror or error}") from error
    finally:
        lock.release()


class _Repair:
    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self.folder, self.settings = folder, settings
        self.aside: Path | None = None

    def run(self, end: int | None) -> Repaired:
        manifest, rebuilt = self.manifest()
        known = self.end_of_good_tail(manifest)
        if known is not None and (end is None or end <= known):
            return Repaired(rebuilt, False, manifest.lost, known)
        manifest = self.salvaged(manifest, end)
        for name in (TAIL, TAIL_WAL, TAIL_SHM):
            self.set_aside(self.folder / name)
        with Tail(self.folder / TAIL, writable=True, busy_seconds=self.settings.busy_seconds) as tail:
            tail.create(manifest.log, manifest.sealed)
        files.sync_folder(self.folder)
        return Repaired(rebuilt, True, manifest.lost, manifest.sealed)

    def manifest(self) -> tuple[Manifest, bool]:
        """The manifest, and whether it was rebuilt: also if the tail does not fit it, since segments may be unnamed."""
        try:
            current = manifests.load(self.folder)
        except LogError:
            return self.rebuilt(None), True
        if self.end_of_good_tail(current) is not None:
            return current, False
        manifest = self.rebuilt(current)
        return manifest, manifest != current

    def rebuilt(self, current: Manifest | None) -> Manifest:
        """A manifest from what is there, stored; segments that it does not name are set aside."""
        log, first = None, None
        try:
            with self.tail() as tail:
                first = tail.first()
                log, following = tail.state()
                first = following if first is None else first
        except BusyError:
            raise
        except LogError:  # a damaged tail is looked at later
            pass
        manifest = rebuild(self.folder, current, log)
        if current is None and first is not None and first > manifest.sealed:
            begins = not manifest.segments and not manifest.lost  # a log whose older segments may all have expired
            manifest = _move(manifest, first) if begins else _reaching(manifest, first)
        named = {entry.file for entry in manifest.segments}
        for path in sorted((self.folder / SEGMENTS).glob("*.parquet")):
            if path.name not in named:
                self.set_aside(path)
        if manifest != current:
            if current is None:
                self.set_aside(self.folder / manifests.MANIFEST)
            manifests.store(self.folder, manifest, before=current)
        return manifest

    def end_of_good_tail(self, manifest: Manifest) -> int | None:
        """The log's end if the tail is intact and fits; None if it has to be replaced."""
        if wal_damage(self.folder / TAIL_WAL):
            return None
        try:
            with self.tail() as tail:
                end = check_fit(tail, manifest)
        except BusyError:
            raise
        except LogError:
            return None
        _, lost = self.rows(manifest.sealed, end, keep=False)
        return end if not lost else None

    def salvaged(self, manifest: Manifest, end: int | None) -> Manifest:
        """The manifest with what the tail still has, sealed, and with what it has lost."""
        reach = self.reach(manifest)
        before, position = manifest, manifest.sealed
        segments, lost = list(manifest.segments), list(manifest.lost)
        while position < reach:
            stop = min(reach, position + self.settings.segment_rows)
            batches, gaps = self.rows(position, stop)
            if batches:
                segments.append(write_segment(self.folder, manifest.log, batches, self.settings))
            lost += gaps
            position = stop
        manifest = msgspec.structs.replace(before, sealed=reach, segments=tuple(segments), lost=tuple(lost))
        if end is not None and end > reach:
            manifest = _reaching(manifest, end)
        if manifest != before:
            manifests.store(self.folder, manifest, before)
        return manifest

    def reach(self, manifest: Manifest) -> int:
        """How far the log went, as far as the tail can tell."""
        known = manifest.sealed
        try:
            with self.tail() as tail:
                last = tail.last()
                known = known if last is None else max(known, last[0] + 1)
                return tail.end(manifest.log, known)
        except BusyError:
            raise
        except LogError:
            return known

    def rows(self, position: int, end: int, keep: bool = True) -> tuple[list[pa.RecordBatch], list[Lost]]:
        """Intact rows of the tail, if they are to be kept, and the gaps between them."""
        batches: list[pa.RecordBatch] = []
        lost: list[Lost] = []
        if position >= end:
            return batches, lost
        with self.tail() as tail:
            while position < end:
                found = tail.read(position, end, self.settings.group_rows, self.settings.group_bytes)
                for piece in tail_pieces(found, position, TAIL):
                    if isinstance(piece, Damage):
                        lost.append(Lost(piece.first, piece.end, f"lost from the tail: {piece.reason}"))
                    elif keep:
                        batches.append(piece)
                position = found.reached
        return batches, lost

    def tail(self) -> Tail:
        """Open for reading only, so that nothing in it is overwritten."""
        return Tail(self.folder / TAIL, writable=False, busy_seconds=self.settings.busy_seconds)

    def set_aside(self, path: Path) -> None:
        """Move a file to a folder that this repair has for itself."""
        if path.exists():
            if self.aside is None:
                damaged = self.folder / DAMAGED
                self.aside = next(damaged / str(n) for n in count(1) if not (damaged / str(n)).exists())
                self.aside.mkdir(mode=files.PRIVATE_FOLDER, parents=True)
            files.rename(path, self.aside / path.name)


def _move(manifest: Manifest, first: int) -> Manifest:
    return msgspec.structs.replace(manifest, first=first, sealed=first)


def _reaching(manifest: Manifest, end: int) -> Manifest:
    """With the positions up to ``end`` written off."""
    lost = (*manifest.lost, Lost(manifest.sealed, end, NO_SEGMENT))
    return msgspec.structs.replace(manifest, sealed=end, lost=lost)
