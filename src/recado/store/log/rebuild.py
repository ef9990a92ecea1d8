"""A manifest from the segments themselves, for a log whose own is damaged, gone, or an older copy.

Every segment says in its footer which positions it has. The manifest there is, or else the previous one, still knows
the digests of older files. Files that overlap (a crash can leave a segment that was sealed again with other bounds) are
taken from the oldest position on, the longest first; what is then covered twice is left out. Positions that no file has
are lost ranges.
"""

from __future__ import annotations

from pathlib import Path

from recado.store.log import manifest as manifests
from recado.store.log.errors import LogError
from recado.store.log.manifest import FORMAT, PREVIOUS, SEGMENTS, Lost, Manifest, SegmentEntry
from recado.store.log.segments import UNREADABLE, SegmentFile, Statistics, file_digest

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
        described = None if path.name in {entry.file for entry in known} else _described(path)
        if described is not None:
            found.append(described[0])
            names.add(described[1])
    if len(names) != 1:
        raise LogError(f"the manifest of {folder} cannot be rebuilt: {_why_not(names)}")
    return _joined(str(names.pop()), found, previous)


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


def _described(path: Path) -> tuple[SegmentEntry, str] | None:
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


def _joined(log: str, found: list[SegmentEntry], previous: Manifest | None) -> Manifest:
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
