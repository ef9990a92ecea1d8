"""Repair: a manifest from the segments, a tail without what cannot be read, and nothing destroyed."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from recado.store.log import LogError, LogReader, SqliteEventLog, repair
from recado.store.log.manifest import MANIFEST, PREVIOUS, TAIL, TAIL_WAL
from store.log.logs import SMALL, Ticking, contents, event, events, filled, image, positions


@pytest.fixture
def log(tmp_path):
    """Segments [0, 40) and [40, 50), rows 50 to 64 in the tail."""
    return filled(tmp_path / "log", 65, sealed=50)


def goes_on(path, end: int) -> None:
    with SqliteEventLog.open(path, SMALL, Ticking()) as log:
        assert log.append(events(end, end + 2)) == range(end, end + 2)


def test_a_sound_log_is_left_alone(log):
    before = {path: path.read_bytes() for path in log.rglob("*") if path.is_file() and path.suffix != ".lock"}
    result = repair(log)
    assert (result.rebuilt_manifest, result.replaced_tail, result.lost, result.end) == (False, False, (), 65)
    assert {path: path.read_bytes() for path in before} == before
    assert not (log / "damaged").exists()


@pytest.mark.parametrize("with_previous", [True, False])
def test_a_destroyed_manifest_is_rebuilt(log, with_previous):
    segments = LogReader(log).segments()
    (log / MANIFEST).write_bytes(b"\0" * 100)
    if not with_previous:
        (log / PREVIOUS).unlink()
    with pytest.raises(LogError, match="is damaged"):
        SqliteEventLog.open(log)
    result = repair(log)
    assert (result.rebuilt_manifest, result.replaced_tail, result.lost, result.end) == (True, False, (), 65)
    assert LogReader(log).segments() == segments
    assert LogReader(log).check() == []
    assert contents(log) == dict(enumerate(events(0, 65)))
    goes_on(log, 65)
    assert (log / "damaged" / "1" / MANIFEST).read_bytes() == b"\0" * 100


def test_a_missing_manifest_is_not_a_new_log(log):
    (log / MANIFEST).unlink()
    for attempt in (lambda: SqliteEventLog.open(log), lambda: LogReader(log)):
        with pytest.raises(LogError, match=r"manifest.json is missing, but other files of a log are there; .*repair"):
            attempt()
    repair(log)
    goes_on(log, 65)


def test_a_manifest_is_rebuilt_after_retention(log):
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        writer.retain(max_bytes=0)
    (log / MANIFEST).unlink()
    (log / PREVIOUS).unlink()
    assert repair(log).end == 65
    assert positions(log) == list(range(50, 65))
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        writer.seal(force=True)
        writer.retain(max_bytes=0)
    (log / MANIFEST).unlink()
    (log / PREVIOUS).unlink()
    assert repair(log).end == 65
    goes_on(log, 65)
    assert positions(log) == [65, 66]


def test_segments_that_cannot_be_understood_are_set_aside_and_lost(log):
    _, second = LogReader(log).segments()
    (log / MANIFEST).unlink()
    (log / PREVIOUS).unlink()
    second.path.write_bytes(b"nothing")
    result = repair(log)
    assert [(gap.first, gap.end) for gap in result.lost] == [(40, 50)]
    assert (log / "damaged" / "1" / second.path.name).read_bytes() == b"nothing"
    found = []
    assert positions(log, on_damage=found.append) == [*range(40), *range(50, 65)]
    assert [(damage.first, damage.end, damage.reason) for damage in found] == [
        (40, 50, "no segment has these positions")
    ]
    goes_on(log, 65)


def test_a_segment_that_was_sealed_again_with_other_bounds_is_not_read_twice(log, tmp_path):
    """What a crash after the first file and before its manifest leaves, if the next writer is killed as well."""
    with SqliteEventLog.open(image(log, tmp_path / "other"), SMALL, Ticking()) as other:
        other.append(events(65, 70))
        (longer,) = other.seal(force=True)
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        (shorter,) = writer.seal(force=True)
    shutil.copy(longer.path, shorter.path.with_name(longer.path.name))
    (log / MANIFEST).unlink()
    (log / PREVIOUS).unlink()
    assert repair(log).lost == ()
    assert positions(log) == list(range(70))


def test_files_of_two_logs_are_not_mixed(log, tmp_path):
    other = filled(tmp_path / "other", 100, sealed=80)
    shutil.copy(LogReader(other).segments()[1].path, log / "segments")
    (log / MANIFEST).unlink()
    with pytest.raises(LogError, match="its files belong to different logs"):
        repair(log)


def test_a_damaged_row_is_given_up_and_remembered(log):
    with sqlite3.connect(log / TAIL) as db:
        db.execute("UPDATE tail SET type = x'00' WHERE position IN (50, 55, 56, 64)")
    db.close()
    result = repair(log, SMALL)
    assert [(gap.first, gap.end) for gap in result.lost] == [(50, 51), (55, 57), (64, 65)]
    assert (result.replaced_tail, result.end) == (True, 65)
    assert sqlite3.connect(log / "damaged" / "1" / TAIL).execute("SELECT count(*) FROM tail").fetchone() == (15,)
    goes_on(log, 65)
    kept = [number for number in range(67) if number not in (50, 55, 56, 64)]
    found = []
    assert contents(log, on_damage=found.append) == {number: event(number) for number in kept}
    assert [(damage.first, damage.end) for damage in found] == [(50, 51), (55, 57), (64, 65)]
    assert found[1].reason == "lost from the tail: the row does not have its checksum"
    assert repair(log).replaced_tail is False


def test_a_lost_range_is_forgotten_with_what_is_around_it(log):
    with sqlite3.connect(log / TAIL) as db:
        db.execute("UPDATE tail SET type = x'00' WHERE position IN (50, 64)")
    db.close()
    repair(log, SMALL)
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        assert len(writer.retain(max_bytes=0)) == 3
        assert (writer.first, writer.end) == (65, 65)
    assert LogReader(log).check() == []


def test_a_tail_that_is_gone_goes_on_where_the_segments_end(log):
    (log / TAIL).unlink()
    with pytest.raises(LogError, match=r"tail.sqlite is missing, but other files of the log are there"):
        SqliteEventLog.open(log)
    assert repair(log).end == 50
    goes_on(log, 50)


def test_who_knows_the_end_can_say_so(log):
    (log / TAIL).write_bytes(b"")
    result = repair(log, end=65)
    assert [(gap.first, gap.end) for gap in result.lost] == [(50, 65)]
    goes_on(log, 65)
    assert repair(log, end=60).end == 67


def test_an_older_copy_of_the_tail_or_the_manifest_is_refused(log, tmp_path):
    older = image(log, tmp_path / "older")
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        writer.append(events(65, 70))
        writer.seal(force=True)
    shutil.copy(older / MANIFEST, log / MANIFEST)
    with pytest.raises(LogError, match=r"does not have the position 50, .* the manifest is an older copy"):
        SqliteEventLog.open(log)
    result = repair(log)
    assert (result.rebuilt_manifest, result.replaced_tail, result.lost, result.end) == (True, False, (), 70)
    shutil.copy(older / TAIL, log / TAIL)
    with pytest.raises(LogError, match="ends at position 65, but there is a later one, 69"):
        SqliteEventLog.open(log)
    result = repair(log)
    assert (result.rebuilt_manifest, result.replaced_tail, result.lost, result.end) == (False, True, (), 70)
    goes_on(log, 70)
    assert contents(log) == dict(enumerate(events(0, 72)))


def test_a_segment_that_no_manifest_names_is_kept_if_the_tail_is_gone(log):
    """A crash between the file and the manifest, and then the tail is lost as well."""
    before = (log / MANIFEST).read_bytes()
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        writer.seal(force=True)
    (log / MANIFEST).write_bytes(before)
    (log / TAIL).unlink()
    assert repair(log).lost == ()
    goes_on(log, 65)
    assert contents(log) == dict(enumerate(events(0, 67)))


def test_a_segment_that_is_missing_stays_in_the_manifest(log):
    segment = LogReader(log).segments()[0]
    raw = segment.path.read_bytes()
    segment.path.unlink()
    (log / TAIL).write_bytes(b"")
    assert repair(log, end=65).lost[0].first == 50
    segment.path.write_bytes(raw)  # from a backup
    assert positions(log, 0, 50) == list(range(50))


def test_a_tail_of_another_log_is_refused(log, tmp_path):
    other = filled(tmp_path / "other", 65, sealed=50)
    shutil.copy(other / TAIL, log / TAIL)
    with pytest.raises(LogError, match=r"belongs to the log .*, the manifest to the log"):
        SqliteEventLog.open(log)


def test_a_damaged_write_ahead_log_is_read_as_far_as_it_goes(tmp_path):
    with SqliteEventLog.open(tmp_path / "log", SMALL, Ticking()) as writer:
        for start in range(0, 40, 10):
            writer.append(events(start, start + 10))
        crashed = image(writer.path, tmp_path / "crashed")
    raw = bytearray((crashed / TAIL_WAL).read_bytes())
    raw[len(raw) // 2] ^= 1
    (crashed / TAIL_WAL).write_bytes(raw)
    result = repair(crashed, SMALL)
    assert result.replaced_tail
    assert 0 < result.end < 40
    assert (crashed / "damaged" / "1" / TAIL_WAL).read_bytes() == raw
    assert contents(crashed) == dict(enumerate(events(0, result.end)))
    goes_on(crashed, result.end)


def test_repair_needs_a_folder_and_the_lock(log, tmp_path):
    with pytest.raises(LogError, match="it is not a folder"):
        repair(tmp_path / "missing")
    with SqliteEventLog.open(log), pytest.raises(LogError, match="has a writer already"):
        repair(log)
    with pytest.raises(LogError, match="no segment, tail or previous manifest of a log can be read"):
        repair(tmp_path)
