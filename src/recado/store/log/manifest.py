"""The manifest: which segments a log has, in one small file that is replaced as a whole.

It is JSON, ``{"digest": "…", "manifest": {…}}``, where the digest is BLAKE2b-128 of the second member's bytes. The
whole text must be what its content would be written as, so a change of any byte is noticed. The one before it stays
beside it as ``manifest.previous.json``, for ``repair``.

Every name in it is a plain file name, so a manifest from elsewhere reaches nothing outside its folder.

Segments and lost ranges account for every position in ``[first, sealed)``; a lost range may lie inside a segment.
"""

from __future__ import annotations

import re
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import msgspec

from recado import files
from recado.store.log.settings import LogError, Segment

FORMAT = 1
MANIFEST = "manifest.json"
PREVIOUS = "manifest.previous.json"
SEGMENTS = "segments"
TAIL = "tail.sqlite"
TAIL_WAL = "tail.sqlite-wal"
TAIL_SHM = "tail.sqlite-shm"
LOCK = "writer.lock"
_FILE = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*\.parquet")


class SegmentEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A segment as the manifest writes it; the fields are those of ``Segment``, with a file name instead of a path."""

    file: str
    first: int
    end: int
    bytes: int
    digest: str
    earliest: datetime
    latest: datetime
    time_min: datetime | None = None
    time_max: datetime | None = None
    untimed: bool = True
    type_min: str | None = None
    type_max: str | None = None
    untyped: bool = True

    def located(self, folder: Path) -> Segment:
        """With the path of its file; ``folder`` is the log's."""
        fields = msgspec.structs.asdict(self)
        return Segment(path=folder / SEGMENTS / fields.pop("file"), **fields)


class Lost(msgspec.Struct, frozen=True):
    """Positions that ``repair`` gave up, and why."""

    first: int
    end: int
    reason: str


class Manifest(msgspec.Struct, frozen=True):
    format: int
    log: str  # the log's identity; its tail and segments carry the same
    first: int = 0
    sealed: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    lost: tuple[Lost, ...] = ()


class _Sealed(msgspec.Struct):
    digest: str
    manifest: msgspec.Raw


def encode(manifest: Manifest) -> bytes:
    body = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Sealed(_digest(body), msgspec.Raw(body)))


def decode(raw: bytes, place: object) -> Manifest:
    """The manifest in the bytes of a file; a LogError that names its ``place`` if any of them was changed."""
    try:
        outer = msgspec.json.decode(raw, type=_Sealed)
        if _digest(bytes(outer.manifest)) != outer.digest:
            raise LogError(f"{place} is damaged: its digest does not fit its content; {_REPAIR}")
        manifest = msgspec.json.decode(outer.manifest, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError(f"{place} is damaged: {error}; {_REPAIR}") from None
    if encode(manifest) != raw:
        raise LogError(f"{place} is damaged: it has bytes that do not belong to it; {_REPAIR}")
    if manifest.format != FORMAT:
        raise LogError(f"{place} has the format {manifest.format}; this version of Recado reads the format {FORMAT}")
    _check(manifest, place)
    return manifest


def _check(manifest: Manifest, place: object) -> None:
    """A manifest names files that are read, copied and removed: those of its own folder, and no others."""
    for entry in manifest.segments:
        if not _FILE.fullmatch(entry.file):
            raise LogError(f"{place} is damaged: {entry.file!r} is no name of a segment; {_REPAIR}")
        if not 0 <= entry.first < entry.end or entry.bytes < 0:
            raise LogError(f"{place} is damaged: the segment {entry.file} has no positions; {_REPAIR}")
    if len({entry.file for entry in manifest.segments}) != len(manifest.segments):
        raise LogError(f"{place} is damaged: it names a segment twice; {_REPAIR}")
    if not 0 <= manifest.first <= manifest.sealed < 1 << 62:
        raise LogError(f"{place} is damaged: it begins behind its end; {_REPAIR}")


_REPAIR = "`recado log repair` rebuilds it from the segments"


def seen(folder: Path) -> object:
    """A value that changes when the manifest is replaced, but for a replacement at the very same moment."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def load(folder: Path) -> Manifest:
    """The current manifest of a log."""
    path = folder / MANIFEST
    try:
        return decode(path.read_bytes(), path)
    except FileNotFoundError:
        raise LogError(_missing(folder)) from None
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from error


def store(folder: Path, manifest: Manifest, before: Manifest | None) -> None:
    """Replace the manifest durably, keeping the one before."""
    if before is not None:
        files.replace(folder / PREVIOUS, encode(before), files.PRIVATE)
    files.replace(folder / MANIFEST, encode(manifest), files.PRIVATE)


def _missing(folder: Path) -> str:
    if any((folder / SEGMENTS).glob("*.parquet")) or (folder / TAIL).exists():
        return f"{folder / MANIFEST} is missing, but other files of a log are there; {_REPAIR}"
    return f"there is no event log in {folder}: it has no {MANIFEST}"


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16, person=b"recado manifest").hexdigest()
