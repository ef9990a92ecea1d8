"""The one writer of a log: appends, sealing and retention.

Each step leaves the folder in a state from which every position can be read exactly once:

- *append*: one SQLite transaction with the rows and the next position. Its commit returns after the fsync.
- *seal*: write a segment, fsync, rename, fsync the folder; put it into the manifest, which is replaced in the same way;
  only then delete its rows from the tail. Readers look at the manifest first, so rows that are in both places count
  once, and what a crash leaves behind is removed when the log is next opened (``recado.store.log.writer``).
- *expire*: take the oldest segments out of the manifest, then remove their files.

Appends may come from several threads, and go on while another thread seals.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from threading import Condition, Lock
from typing import NoReturn

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from recado import files
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.values import microseconds
from recado.store.log import manifest as manifests
from recado.store.log.manifest import FORMAT, LOCK, MANIFEST, SEGMENTS, TAIL, TAIL_WAL, Manifest, SegmentEntry
from recado.store.log.reader import LogReader, tail_pieces
from recado.store.log.rows import Entry, Row, instant_of, prepare, stored
from recado.store.log.segments import write_segment
from recado.store.log.settings import DEFAULTS, BusyError, Damage, LogError, LogSettings, OnDamage, Segment
from recado.store.log.tail import State, Tail
from recado.store.wal import wal_damage

# --- Opening a log for writing: make a new one, or take up an old one where a crash may have left it -----------------
#
# A new log gets its tail first and its manifest last, so a folder with a tail that counts from 0 and nothing else is a
# log whose making was interrupted. Anything else without a manifest, or with parts that do not fit, is refused: to go
# on would be to lose positions or to give them twice. Only when everything fits is removed what a crash left behind.


_REPAIR = "`recado log repair` keeps what can be read"


def open_parts(folder: Path, settings: LogSettings) -> tuple[Tail, Manifest]:
    """The tail and the manifest, which fit together. The caller holds the folder's lock."""
    had_manifest, had_tail = (folder / MANIFEST).exists(), (folder / TAIL).exists()
    had_segments = any((folder / SEGMENTS).glob("*.parquet"))
    if not had_tail and (had_manifest or had_segments):
        raise LogError(f"{folder / TAIL} is missing, but other files of the log are there; {_REPAIR}")
    manifest = manifests.load(folder) if had_manifest or had_segments else None
    if damage := wal_damage(folder / TAIL_WAL):  # before SQLite replays it
        raise LogError(f"{damage}; {_REPAIR} and sets the file aside")
    tail = Tail(folder / TAIL, writable=True, busy_seconds=settings.busy_seconds)
    try:
        if manifest is None:
            return tail, _begin(folder, tail)
        check_fit(tail, manifest)
        remove_remains(folder, tail, manifest)
    except BaseException:
        tail.close()
        raise
    return tail, manifest


def _begin(folder: Path, tail: Tail) -> Manifest:
    """The manifest of a new log, or of one whose making was interrupted."""
    if tail.is_empty_file():
        tail.create(uuid.uuid4().hex, 0)
    state = tail.state()
    if state.next != 0:
        manifests.load(folder)  # says that it is missing
    manifest = Manifest(FORMAT, state.log)
    manifests.store(folder, manifest, before=None)
    return manifest


def check_fit(tail: Tail, manifest: Manifest) -> int:
    """The log's end. A tail that does not go on where the segments end is refused."""
    end = tail.end(manifest.log, manifest.sealed)
    if end > manifest.sealed and not tail.has(manifest.sealed):
        raise LogError(
            f"{tail.path} does not have the position {manifest.sealed:,}, with which it should go on after the "
            f"segments: it is damaged, or the manifest is an older copy; {_REPAIR}"
        )
    return end


def remove_remains(folder: Path, tail: Tail, manifest: Manifest) -> None:
    """Remove what a crash left behind: drafts, segments that no manifest names, rows that are sealed."""
    named = {entry.file for entry in manifest.segments}
    for path in (folder / SEGMENTS).iterdir():
        if path.name not in named and path.suffix in (".parquet", files.DRAFT):
            files.remove(path)
    for path in folder.glob("*" + files.DRAFT):
        files.remove(path)
    while tail.delete_before(manifest.sealed):
        pass


# --- One writer a folder: an advisory lock on a file. The system takes it back when the process ends, however it ends


class FolderLock:
    """Held from its making until ``release``; the file has the process id of the holder, for people to read."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, files.PRIVATE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise BusyError(
                    f"{folder} has a writer already, the process {holder}; a log has one at a time"
                ) from None
            raise LogError(f"{path} cannot be locked: {error.strerror}") from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def writer_of(folder: Path) -> str | None:
    """The process id of the writer that has the log now; None if there is none."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return None


# --- The one writer of a log: appends, sealing and retention ---------------------------------------------------------

Clock = Callable[[], datetime]
GENTLE_ROWS = 256
"""Sealing reads so many rows at a time."""
REST, LONGEST_REST = 8, 0.1
"""So much longer than it works it rests, while events come; at most so many seconds after each part."""
FAR_BEHIND = 4
"""With enough for so many segments in the tail, sealing rests no more."""


def wall_clock() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


class SqliteEventLog:
    """The writer of a log folder, a ``recado.store.protocols.EventLog``; a second one is refused while it is open."""

    def __init__(self, path: str | PathLike[str], settings: LogSettings, clock: Clock) -> None:
        """Use ``open``, which reads better."""
        settings.check()
        self.path, self.settings = Path(path), settings
        self._clock = clock
        self._closed = False
        self._next = self._accepted_at = self._bytes = 0  # the log's end, the last instant, the tail's size
        self._doubtful = True  # whether these are what is stored
        self._sealing = Lock()  # held by seal and expire, and always taken before _lock
        self._lock = Lock()  # guards the connection and the counts
        self._grown = Condition(self._lock)  # told whenever there is more to read
        with _explain(f"{self.path} cannot be opened as an event log"):
            _make_folders(self.path)
            self._folder_lock = FolderLock(self.path)
        try:
            self._tail, self._manifest = open_parts(self.path, settings)
            self._take_up()
            self._reader = LogReader(self.path)
        except BaseException:
            self._folder_lock.release()
            raise

    @classmethod
    def open(
        cls, path: str | PathLike[str], settings: LogSettings = DEFAULTS, clock: Clock = wall_clock
    ) -> SqliteEventLog:
        """Open the log in a folder for writing; a new one, if the folder has none."""
        return cls(path, settings, clock)

    def __enter__(self) -> SqliteEventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the log back. Closing twice does no harm."""
        with self._sealing, self._lock:
            if not self._closed:
                self._closed = True
                self._grown.notify_all()
                self._tail.close()
                self._folder_lock.release()

    @property
    def identity(self) -> str:
        """The log's own name; it never changes, and copies have it, too."""
        return self._manifest.log

    @property
    def epoch(self) -> int:
        """Always the same: the lock of the folder sees to it that no other writer takes over while this one is open."""
        return 1

    @property
    def first(self) -> int:
        """The oldest position that is kept."""
        return self._manifest.first

    @property
    def end(self) -> int:
        """The position that the next event will get."""
        return self._next

    @property
    def latest(self) -> datetime:
        """When the last event was accepted."""
        return instant_of(self._accepted_at)

    # -- append --------------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event]) -> range:
        """Store the events and return their positions, when they are on stable storage: all of them, or an error."""
        return self.commit([prepare(events, self.settings.limits)])[0]

    def commit(self, appends: Sequence[Sequence[Entry]]) -> list[range]:
        """Several appends, prepared, in one transaction; none of them, to see whether there can be one."""
        with self._lock:
            self._check_open()
            if self._doubtful:
                self._take_up()
            rows, ranges = self._number(appends)
            if not appends:
                self._tail.append((), State(self._manifest.log, self._next))
            if rows:
                self._doubtful = True  # until it is known whether they are stored
                self._tail.append(rows, State(self._manifest.log, ranges[-1].stop))
                self._doubtful = False
                self._next, self._accepted_at = ranges[-1].stop, rows[-1][1]
                self._bytes += sum(len(row[6]) for row in rows)
                self._grown.notify_all()
            return ranges

    def _number(self, appends: Sequence[Sequence[Entry]]) -> tuple[list[Row], list[range]]:
        accepted_at = max(microseconds(self._clock()), self._accepted_at)  # it never runs backwards along the log
        rows: list[Row] = []
        ranges = []
        for entries in appends:
            start = self._next + len(rows)
            rows += [stored(start + offset, accepted_at, entry) for offset, entry in enumerate(entries)]
            ranges.append(range(start, start + len(entries)))
        return rows, ranges

    def _take_up(self) -> None:
        """Learn the counts from the files: at first, and after an error that leaves open what was stored."""
        self._next = check_fit(self._tail, self._manifest)
        last, segments = self._tail.last(), self._manifest.segments
        known = [microseconds(segments[-1].latest)] if segments else []
        self._accepted_at = max(
            known + ([last[1]] if last else []), default=microseconds(datetime.min.replace(tzinfo=UTC))
        )
        self._bytes = self._tail.bytes_from(self._manifest.sealed)
        self._doubtful = False

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"the log {self.path} is closed")

    # -- read ----------------------------------------------------------------------------------------------------------

    def read(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        where: Filter | None = None,
        batch_rows: int = 8192,
        on_damage: OnDamage | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The events of ``[start, end)`` in batches, as ``LogReader.read`` has them."""
        return self._reader.read(start, end, where=where, batch_rows=batch_rows, on_damage=on_damage)

    def position_at(self, instant: datetime, on_damage: OnDamage | None = None) -> int:
        """The first position that was accepted at or after the instant; the log's end if there is none."""
        return self._reader.position_at(instant, on_damage)

    def wait(self, position: int, timeout: float | None = None) -> bool:
        """Wait until there is an event at a position; False if ``timeout`` seconds pass, or the log is closed."""
        with self._grown:
            self._grown.wait_for(lambda: self._closed or self._next > position, timeout)
            return self._next > position

    # -- seal ----------------------------------------------------------------------------------------------------------

    def seal(self, force: bool = False) -> list[Segment]:
        """Move rows from the tail to segments if rows, bytes or age make it due; with ``force`` all there are now."""
        with self._sealing:
            self._check_open()
            target, sealed = self._next, []
            while self._manifest.sealed < target and (force or self._due()):
                sealed.append(self._seal(target).located(self.path))
            self._drop_sealed_rows()
            return sealed

    def _due(self) -> bool:
        settings, manifest = self.settings, self._manifest
        if self._next - manifest.sealed >= settings.segment_rows or self._bytes >= settings.segment_bytes:
            return True
        with self._reading() as tail:
            oldest = tail.read(manifest.sealed, manifest.sealed + 1, 1).rows
        age = timedelta(seconds=settings.segment_age_seconds)
        return bool(oldest) and oldest[0][1] <= microseconds(self._clock() - age)

    def _seal(self, target: int) -> SegmentEntry:
        before = self._manifest
        with _explain("the tail cannot be sealed, and keeps its rows"):
            entry = write_segment(self.path, before.log, self._groups(before.sealed, target), self.settings)
            after = msgspec.structs.replace(before, sealed=entry.end, segments=(*before.segments, entry))
            manifests.store(self.path, after, before)
        with self._lock:
            self._manifest = after
            self._bytes = self._tail.bytes_from(entry.end)
        return entry

    def _groups(self, position: int, target: int) -> Iterator[pa.RecordBatch]:
        """The rows of the next segment, by row groups, read without keeping appends waiting."""
        settings, stop, size = self.settings, min(target, position + self.settings.segment_rows), 0
        with self._reading() as tail:
            while position < stop and size < settings.segment_bytes:
                group = self._group(tail, position, min(stop, position + settings.group_rows))
                yield group
                position += group.num_rows
                size += pc.sum(pc.binary_length(group.column("event"))).as_py()
                self._checkpoint()

    def _group(self, tail: Tail, start: int, stop: int) -> pa.RecordBatch:
        """The rows of ``[start, stop)``, fewer if they have too many bytes, read a few at a time."""
        batches: list[pa.RecordBatch] = []
        position, room = start, self.settings.group_bytes
        while position < stop and room > 0:
            with self._gently():
                found = tail.read(position, stop, GENTLE_ROWS, room)
                for piece in tail_pieces(found, position, TAIL):
                    if isinstance(piece, Damage):
                        _refuse_to_seal(piece)
                    batches.append(piece)
            position = found.reached
            room -= sum(len(row[6]) for row in found.rows)
        return pa.concat_batches(batches)

    def _drop_sealed_rows(self) -> None:
        more = True
        while more:
            with self._gently(), self._lock:
                more = self._tail.delete_before(self._manifest.sealed)

    @contextmanager
    def _gently(self) -> Iterator[None]:
        """A small part of a long work, with a rest if events were appended at the same time: they come first."""
        end, began = self._next, time.perf_counter()
        yield
        if self._next != end and not self._is_far_behind():
            time.sleep(min(REST * (time.perf_counter() - began), LONGEST_REST))

    def _is_far_behind(self) -> bool:
        rows, settings = self._next - self._manifest.sealed, self.settings
        return rows > FAR_BEHIND * settings.segment_rows or self._bytes > FAR_BEHIND * settings.segment_bytes

    def _reading(self) -> Tail:
        return Tail(self.path / TAIL, writable=False, busy_seconds=self.settings.busy_seconds)

    # -- retain --------------------------------------------------------------------------------------------------------

    def retain(self, max_age: timedelta | None = None, max_bytes: int | None = None) -> list[Segment]:
        """Remove the oldest segments: those accepted longer ago than ``max_age``, and as many as ``max_bytes`` asks.

        Only whole segments go, so up to a segment more than asked for is kept, and the tail always is.
        """
        with self._sealing:
            self._check_open()
            before = self._manifest
            count = _expire(before.segments, self._clock() - max_age if max_age is not None else None, max_bytes)
            if count == 0:
                return []
            gone, kept = before.segments[:count], before.segments[count:]
            first = kept[0].first if kept else before.sealed
            lost = tuple(gap for gap in before.lost if gap.end > first)
            after = msgspec.structs.replace(before, first=first, segments=kept, lost=lost)
            with _explain("old segments cannot be removed"):
                manifests.store(self.path, after, before)
                self._manifest = after
                for entry in gone:
                    files.remove(self.path / SEGMENTS / entry.file)
            return [entry.located(self.path) for entry in gone]

    def maintain(self) -> None:
        """Checkpoint, and seal what is due."""
        self.checkpoint()
        self.seal()

    def checkpoint(self) -> None:
        """Spare commits the work on the tail that can be done beside them; any thread may call it, now and then."""
        with self._sealing:
            self._check_open()
            self._checkpoint()

    def _checkpoint(self) -> None:
        with Tail(self.path / TAIL, writable=True, busy_seconds=self.settings.busy_seconds) as tail:
            tail.checkpoint()

    # -- copy ----------------------------------------------------------------------------------------------------------

    def copy(self, target: Path) -> None:
        """A copy of the log in a new folder, with everything that is stored now; appends go on meanwhile."""
        with self._sealing:
            self._check_open()
            with _explain(f"the log cannot be copied to {target}"):
                _make_folders(target)
                for entry in self._manifest.segments:
                    files.copy(self.path / SEGMENTS / entry.file, target / SEGMENTS / entry.file, files.PRIVATE)
                with self._reading() as tail:
                    tail.copy(target / TAIL)
                files.sync_folder(target / SEGMENTS)
                manifests.store(target, self._manifest, before=None)


def _expire(segments: Sequence[SegmentEntry], before: datetime | None, max_bytes: int | None) -> int:
    """How many of the oldest segments have to go."""
    by_age = 0
    while before is not None and by_age < len(segments) and segments[by_age].latest < before:
        by_age += 1
    by_size, kept = 0, sum(entry.bytes for entry in segments)
    while max_bytes is not None and kept > max_bytes:
        kept -= segments[by_size].bytes
        by_size += 1
    return max(by_age, by_size)


def _refuse_to_seal(damage: Damage) -> NoReturn:
    raise LogError(
        f"the tail cannot be sealed, and keeps its rows: {damage}; `recado log repair` seals what can be read",
        damage,
    )


def _make_folders(path: Path) -> None:
    path.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
    (path / SEGMENTS).mkdir(mode=files.PRIVATE_FOLDER, exist_ok=True)
    files.sync_folder(path)
    files.sync_folder(path.parent)


@contextmanager
def _explain(what: str) -> Iterator[None]:
    """Errors of the system as ours."""
    try:
        yield
    except OSError as error:
        raise LogError(f"{what}: {error.strerror or error}") from error
