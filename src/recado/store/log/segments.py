"""Sealed segments: Parquet files that any reader understands, and that show when a byte of them has changed.

Written with zstd, page checksums and small row groups. The manifest has a digest of the whole file; the file's
footer has a digest of the values of every row group and what else ``repair`` needs to rebuild a manifest. So a
changed byte anywhere is noticed by the file's digest, and the groups' digests then tell which rows are still good.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from recado import files
from recado.filters.covering import overlaps
from recado.filters.evaluate import evaluate, matches, names_of, walk
from recado.model.codec import read_event
from recado.model.event import ENVELOPE
from recado.model.filter import And, Between, Compare, Exists, Filter, Not, Or, Sql
from recado.model.flat import SCALARS
from recado.model.limits import Limits
from recado.store.log.manifest import FORMAT, SEGMENTS, SegmentEntry
from recado.store.log.rows import LOG_SCHEMA, content_digest, instant_of
from recado.store.log.settings import LogSettings, Segment

FOOTER_KEY = b"recado.log"
DIGEST_CHUNK = 1 << 20
TYPE_CHARS = 128
"""A longer type is a long bound: the lower one is cut to this, the upper one left open."""

UNREADABLE = (OSError, pa.ArrowException, ValueError, MemoryError, OverflowError, msgspec.DecodeError)
"""What damaged Parquet raises, depending on where the damage is."""


class Group(msgspec.Struct, frozen=True):
    """A row group: its first and last position + 1, and the digest of its values."""

    first: int
    end: int
    digest: str


class Footer(msgspec.Struct, frozen=True):
    """What a segment says about itself."""

    format: int
    log: str
    first: int
    end: int
    groups: tuple[Group, ...]


class Statistics:
    """Bounds of what was accepted, over the groups of a segment."""

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._untimed = self._untyped = False

    def add(self, batch: pa.RecordBatch) -> None:
        typed = pc.filter(batch.column("type"), pc.not_equal(batch.column("type"), ""))
        self._untyped |= len(typed) < batch.num_rows
        self._untimed |= batch.column("time").null_count > 0
        self._widen("accepted_at", batch.column("accepted_at"))
        self._widen("time", batch.column("time"))
        self._widen("type", typed)

    def _widen(self, name: str, column: pa.Array) -> None:
        bounds = pc.min_max(column if pa.types.is_string(column.type) else column.cast(pa.int64())).as_py()
        low, high = bounds["min"], bounds["max"]
        if low is not None:
            before = self._bounds.get(name, (low, high))
            self._bounds[name] = min(low, before[0]), max(high, before[1])

    def entry(self, file: str, first: int, end: int, size: int, digest: str) -> SegmentEntry:
        """The segment as the manifest lists it."""
        earliest, latest = map(instant_of, self._bounds["accepted_at"])
        entry = SegmentEntry(
            file, first, end, size, digest, earliest, latest, untimed=self._untimed, untyped=self._untyped
        )
        if "time" in self._bounds:
            low, high = map(instant_of, self._bounds["time"])
            entry = replace(entry, time_min=low, time_max=high)
        if "type" in self._bounds:
            least, most = self._bounds["type"]
            entry = replace(entry, type_min=least[:TYPE_CHARS], type_max=most if len(most) <= TYPE_CHARS else None)
        return entry


def write_segment(folder: Path, log: str, groups: Iterable[pa.RecordBatch], settings: LogSettings) -> SegmentEntry:
    """Write rows, a batch for each row group, to a file that is durable under its name when this returns."""
    draft = folder / SEGMENTS / f"next{files.DRAFT}"
    try:
        with files.create(draft, files.PRIVATE) as file:
            footer, statistics = _write_groups(file, log, groups, settings)
            files.sync(file)
        size, digest = draft.stat().st_size, file_digest(draft)
        path = draft.with_name(f"{footer.first:020}-{footer.end:020}.parquet")
        files.rename(draft, path)
    except Exception:
        files.remove(draft)
        raise
    files.sync_folder(path.parent)
    return statistics.entry(path.name, footer.first, footer.end, size, digest)


def _write_groups(
    file: BinaryIO, log: str, groups: Iterable[pa.RecordBatch], settings: LogSettings
) -> tuple[Footer, Statistics]:
    statistics = Statistics()
    written: list[Group] = []
    with pq.ParquetWriter(
        file,
        LOG_SCHEMA,
        compression="zstd",
        compression_level=settings.zstd_level,
        use_dictionary=["type", "source", "accepted_at"],
        write_page_checksum=True,
    ) as writer:
        for batch in groups:
            writer.write_batch(batch, row_group_size=batch.num_rows)
            positions = batch.column("position")
            written.append(Group(positions[0].as_py(), positions[-1].as_py() + 1, content_digest(batch)))
            statistics.add(batch)
        footer = Footer(FORMAT, log, written[0].first, written[-1].end, tuple(written))
        writer.add_key_value_metadata({FOOTER_KEY: msgspec.json.encode(footer)})
    return footer, statistics


def bytes_digest(content: bytes | pa.Buffer) -> str:
    """The digest of a segment file whose content is in memory."""
    return blake2b(content, digest_size=16, person=b"recado segment").hexdigest()


def file_digest(path: Path) -> str:
    digest = blake2b(digest_size=16, person=b"recado segment")
    with path.open("rb") as file:
        while chunk := file.read(DIGEST_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class SegmentFile:
    """An open segment, read group by group; each group is checked before it is handed out."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path, page_checksum_verification=True)
        self.footer = _footer(self._file)

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, number: int) -> pa.RecordBatch:
        """A group's rows; one of UNREADABLE if they are not what was written."""
        table = self._file.read_row_group(number, columns=LOG_SCHEMA.names, use_threads=False).combine_chunks()
        batches = table.cast(LOG_SCHEMA).to_batches()
        batch = batches[0] if len(batches) == 1 else None
        if batch is None or content_digest(batch) != self.footer.groups[number].digest:
            raise ValueError("the values of the row group do not have their digest")
        return batch.replace_schema_metadata(None)


def _footer(file: pq.ParquetFile) -> Footer:
    metadata = file.metadata.metadata or {}
    if FOOTER_KEY not in metadata:
        raise ValueError("the file has no footer of a log segment")
    footer = msgspec.json.decode(metadata[FOOTER_KEY], type=Footer)
    if len(footer.groups) != file.metadata.num_row_groups:
        raise ValueError("the file's footer names another number of row groups than it has")
    return footer


# --- Choosing rows by a filter, and leaving out segments in which no row can be chosen -------------------------------
#
# A filter is evaluated on each event by the plain evaluator. If it asks only for the envelope, the columns of the log
# have all it needs and the event's JSON is not parsed. Otherwise it mostly asks for plain strings and numbers, which
# the flat form holds as they are; only an event with something else there (an array, an instant) is read as an event.


_ANY = 2**62
_decode = msgspec.json.Decoder().decode
TRUSTED = Limits(
    event_bytes=_ANY,
    attributes=_ANY,
    name_chars=_ANY,
    string_chars=_ANY,
    array_elements=_ANY,
    array_combinations=_ANY,
)
"""What is in the log was checked when it was appended, perhaps with other limits than the reader's."""


def choose(batch: pa.RecordBatch, where: Filter) -> pa.RecordBatch:
    """The rows whose event matches."""
    names = [name for name in ENVELOPE if name in names_of(where)]
    if names and len(names) == len(names_of(where)) and not _reads_time(where):
        columns = [batch.column(name).to_pylist() for name in names]
        kept = [evaluate(where, _view(names, row)) for row in zip(*columns, strict=True)]
    else:
        kept = [_matches(where, text) for text in batch.column("event").to_pylist()]
    return batch.filter(pa.array(np.array(kept, bool)))


def _reads_time(where: Filter) -> bool:
    """Does CESQL look at the time? Its text has the offset of the event, which the column has not."""
    return any(isinstance(node, Sql) and "time" in names_of(node) for node in walk(where))


def _matches(where: Filter, text: str) -> bool:
    members = _decode(text)
    view = {name: members[name] for name in names_of(where) if name in members}
    if "time" not in view and all(type(value) in SCALARS for value in view.values()):
        return evaluate(where, view)
    return matches(where, read_event(text, limits=TRUSTED))


def _view(names: list[str], row: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, row, strict=True) if value is not None and value != ""}


def may_hold(segment: Segment, where: Filter) -> bool:
    """Could an event of the segment match? A False is certain."""
    time = _within("time", segment.time_min, segment.time_max, segment.untimed)
    type_ = _within("type", segment.type_min, segment.type_max, segment.untyped)
    return overlaps(And((time, type_)), where)


def _within(name: str, low: Any, high: Any, some_absent: bool) -> Filter:
    """What is known of an attribute of all events."""
    if low is None:
        return Not(Exists(name))
    present = Compare(name, ">=", low) if high is None else Between(name, low, high)
    return Or((present, Not(Exists(name)))) if some_absent else present
