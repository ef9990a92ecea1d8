"""A manifest that somebody else wrote, with the right digest: it reaches nothing outside its folder."""

from datetime import UTC, datetime

import pytest

from recado.store.log import SqliteEventLog
from recado.store.log import manifest as manifests
from recado.store.log.manifest import MANIFEST, Manifest, SegmentEntry, encode
from recado.store.log.settings import LogError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(file, **more):
    fields = {"first": 0, "end": 5, "bytes": 3, "digest": "0" * 32, "earliest": NOW, "latest": NOW, **more}
    return SegmentEntry(file=file, **fields)


@pytest.mark.parametrize(
    "file",
    ["../../victim.parquet", "/tmp/victim.parquet", "..", ".", "", "a/b.parquet", ".hidden.parquet", "x", "a\0.parquet",
     "a\n.parquet", "a..parquet/../../victim.parquet"],
)  # fmt: skip
def test_names_of_other_folders_are_refused(tmp_path, file):
    """Expiry removed what a manifest named, and a copy wrote there."""
    victim = tmp_path / "victim.parquet"
    victim.write_bytes(b"precious")
    folder = tmp_path / "data" / "log"
    SqliteEventLog.open(folder).close()
    known = manifests.load(folder)
    crafted = Manifest(known.format, known.log, 0, 5, (entry(file),))
    (folder / MANIFEST).write_bytes(encode(crafted))
    with pytest.raises(LogError, match="no name of a segment"):
        SqliteEventLog.open(folder)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "segments",
    [
        (entry("a.parquet", first=-1),),
        (entry("a.parquet", first=5),),
        (entry("a.parquet", bytes=-1),),
        (entry("a.parquet"), entry("a.parquet", first=5, end=9)),
    ],
)
def test_positions_that_make_no_sense_are_refused(tmp_path, segments):
    with pytest.raises(LogError, match="is damaged"):
        manifests.decode(encode(Manifest(1, "x", 0, 9, segments)), tmp_path)
    with pytest.raises(LogError, match="begins behind its end"):
        manifests.decode(encode(Manifest(1, "x", 9, 5)), tmp_path)
