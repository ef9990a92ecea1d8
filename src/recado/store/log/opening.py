"""Opening a log for writing: make a new one, or take up an old one where a crash may have left it.

A new log gets its tail first and its manifest last, so a folder with a tail that counts from 0 and nothing else is a
log whose making was interrupted. Anything else without a manifest, or with parts that do not fit, is refused: to go on
would be to lose positions or to give them twice. Only when everything fits is removed what a crash left behind.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from recado.store.log import files
from recado.store.log import manifest as manifests
from recado.store.log.errors import LogError
from recado.store.log.manifest import FORMAT, MANIFEST, SEGMENTS, TAIL, TAIL_WAL, Manifest
from recado.store.log.settings import LogSettings
from recado.store.log.tail import Tail
from recado.store.log.wal import check_wal

_REPAIR = "`recado log repair` keeps what can be read"


def open_parts(folder: Path, settings: LogSettings) -> tuple[Tail, Manifest]:
    """The tail and the manifest, which fit together. The caller holds the folder's lock."""
    had_manifest, had_tail = (folder / MANIFEST).exists(), (folder / TAIL).exists()
    had_segments = any((folder / SEGMENTS).glob("*.parquet"))
    if not had_tail and (had_manifest or had_segments):
        raise LogError(f"{folder / TAIL} is missing, but other files of the log are there; {_REPAIR}")
    manifest = manifests.load(folder) if had_manifest or had_segments else None
    check_wal(folder / TAIL_WAL)  # before SQLite replays it
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
