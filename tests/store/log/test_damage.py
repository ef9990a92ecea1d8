"""Changed bytes anywhere: noticed, reported with positions and place, and the rest is read.

A byte of a small log is changed, the log is read, and the byte is put back. Whatever the byte was, the rows that come
out are those that went in, and any that do not come out are named. Bytes that hold nothing (free space in the tail)
may change unnoticed, since then everything is read.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import contextmanager
from pathlib import Path

import pytest

from recado.store.log import Damage, LogError, LogReader, SqliteEventLog
from recado.store.log.manifest import MANIFEST, TAIL, TAIL_SHM, TAIL_WAL
from store.log.logs import SMALL, Ticking, contents, event, events, filled, image, positions

COUNT, SEALED = 65, 50


@pytest.fixture
def log(tmp_path):
    return filled(tmp_path / "log", COUNT, sealed=SEALED)


@contextmanager
def changed(path: Path, at: int, mask: int = 0xFF):
    """One byte of a file is another; everything is as before afterwards, also what SQLite puts beside its file."""
    raw = path.read_bytes()
    try:
        path.write_bytes(raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :])
        yield
    finally:
        path.write_bytes(raw)
        for beside in (TAIL_WAL, TAIL_SHM):
            path.with_name(beside).unlink(missing_ok=True)


def read_all(path: Path) -> tuple[dict[int, object], list[Damage]]:
    """Rows and damage, after checking that both together account for every position and that no row is wrong."""
    found: list[Damage] = []
    rows = contents(path, on_damage=found.append)
    assert rows == {position: event(position) for position in rows}
    named = [position for damage in found for position in range(damage.first, damage.end)]
    assert len(named) == len(set(named))
    assert not set(named) & set(rows)
    reached = len(rows) + len(named)
    assert sorted([*rows, *named]) == list(range(reached))
    cut_short = any(damage.first == damage.end and damage.place == TAIL for damage in found)
    assert reached == COUNT or cut_short
    if found:
        with pytest.raises(LogError) as caught:
            positions(path)
        assert caught.value.damage == found[0]
    return rows, found


def places(size: int, count: int, seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    return [(at, rng.choice((0xFF, 1 << rng.randrange(8)))) for at in sorted(rng.sample(range(size), min(count, size)))]


def check_segment(log: Path, count: int) -> None:
    segment = LogReader(log).segments()[0]
    intact_elsewhere = set(range(segment.end, COUNT))
    for at, mask in places(segment.bytes, count, seed=1):
        with changed(segment.path, at, mask):
            rows, found = read_all(log)
            assert found, at
            assert all(damage.place == str(segment.path) for damage in found)
            assert intact_elsewhere <= set(rows)


def check_tail(log: Path, sealed: int, count: int) -> int:
    noticed = 0
    for at, mask in places((log / TAIL).stat().st_size, count, seed=2):
        with changed(log / TAIL, at, mask):
            rows, found = read_all(log)
            assert found or len(rows) == COUNT, at
            assert set(range(sealed)) <= set(rows)
            noticed += bool(found)
    return noticed


def check_manifest(log: Path, count: int) -> None:
    for at, mask in places((log / MANIFEST).stat().st_size, count, seed=3):
        with changed(log / MANIFEST, at, mask):
            with pytest.raises(
                LogError, match=r"manifest.json is damaged: .*`recado log repair` rebuilds it|has the format"
            ):
                LogReader(log)
            with pytest.raises(
                LogError, match=r"manifest.json is damaged: .*`recado log repair` rebuilds it|has the format"
            ):
                SqliteEventLog.open(log)


def test_a_changed_byte_of_a_segment_is_noticed(log):
    check_segment(log, 60)


def test_a_changed_byte_of_the_tail_is_noticed_or_harmless(tmp_path):
    assert check_tail(filled(tmp_path / "log", COUNT), 0, 150) > 30


def test_a_changed_byte_of_the_manifest_is_noticed(log):
    check_manifest(log, 60)


@pytest.mark.long
def test_every_byte(log, tmp_path):
    check_segment(log, 10**9)
    check_tail(log, SEALED, 5_000)
    check_tail(filled(tmp_path / "unsealed", COUNT), 0, 10**9)
    check_manifest(log, 10**9)


def test_every_field_of_every_row_of_the_tail_is_covered(log):
    """Through SQLite, so that the file stays sound and only the content is wrong."""
    changes = {
        "accepted_at": "accepted_at + 1",
        "time": "ifnull(time, 0) + 1",
        "id": "id || 'x'",
        "type": "cast('other' as blob)",
        "source": "NULL",
        "event": "cast(replace(event, 'level', 'lever') as blob)",
        "checksum": "zeroblob(8)",
    }
    for number, (column, value) in enumerate(changes.items()):
        position = SEALED + number
        with sqlite3.connect(log / TAIL) as db:
            db.execute("PRAGMA ignore_check_constraints = 1")
            value = "zeroblob(3)" if value == "NULL" else value
            db.execute(f"UPDATE tail SET {column} = {value} WHERE position = {position}")
        db.close()
    _, found = read_all(log)
    assert [(damage.first, damage.end) for damage in found] == [(SEALED, SEALED + len(changes))]
    assert found[0].reason == "the row does not have its checksum"


def test_rows_that_changed_places_or_vanished_are_noticed(log):
    with sqlite3.connect(log / TAIL) as db:
        db.execute("UPDATE tail SET position = 1000 WHERE position = 52")
        db.execute("UPDATE tail SET position = 52 WHERE position = 53")
        db.execute("DELETE FROM tail WHERE position >= 60")
    db.close()
    _, found = read_all(log)
    assert [(damage.first, damage.end, damage.reason) for damage in found] == [
        (52, 53, "the row does not have its checksum"),
        (53, 54, "the row is missing"),
        (60, 65, "the row is missing"),
    ]


def test_damage_in_one_row_group_leaves_the_others(log):
    segment = LogReader(log).segments()[0]
    with changed(segment.path, 6):  # in the first page, of the first row group
        rows, found = read_all(log)
    assert [(damage.first, damage.end) for damage in found] == [(0, 8)]
    assert set(rows) == set(range(8, COUNT))


def test_a_missing_segment(log):
    LogReader(log).segments()[0].path.unlink()
    _, found = read_all(log)
    assert [(damage.first, damage.end, damage.reason) for damage in found] == [(0, 40, "the file is missing")]


def test_a_segment_that_was_cut_short(log):
    segment = LogReader(log).segments()[1]
    segment.path.write_bytes(segment.path.read_bytes()[:-100])
    _, found = read_all(log)
    assert [(damage.first, damage.end) for damage in found] == [(40, 50)]


def test_a_tail_that_is_no_database(log):
    (log / TAIL).write_bytes(b"nothing of the kind" * 1000)
    rows, found = read_all(log)
    assert set(rows) == set(range(SEALED))
    assert [(damage.first, damage.end) for damage in found] == [(SEALED, SEALED)]
    assert "file is not a database; later positions, if there were any, are lost" in found[0].reason
    with pytest.raises(LogError, match="file is not a database"):
        SqliteEventLog.open(log)


def test_the_writer_appends_beside_damage_but_does_not_seal_it_away(log):
    with sqlite3.connect(log / TAIL) as db:
        db.execute("UPDATE tail SET type = x'00' WHERE position = 55")
    db.close()
    with SqliteEventLog.open(log, SMALL, Ticking()) as writer:
        assert writer.append(events(COUNT, COUNT + 1)) == range(COUNT, COUNT + 1)
        with pytest.raises(
            LogError, match=r"keeps its rows: position 55 cannot be read: .*`recado log repair` seals what can"
        ) as caught:
            writer.seal(force=True)
        assert (caught.value.damage.first, caught.value.damage.end) == (55, 56)
        assert writer.append(events(COUNT + 1, COUNT + 2)) == range(COUNT + 1, COUNT + 2)
    found = LogReader(log).check()
    assert [(damage.first, damage.end) for damage in found] == [(55, 56)]


def test_a_damaged_write_ahead_log_is_refused_unless_only_its_last_commit_is_hit(tmp_path):
    with SqliteEventLog.open(tmp_path / "log", SMALL, Ticking()) as log:
        for start in range(0, 40, 10):
            log.append(events(start, start + 10))
        crashed = image(log.path, tmp_path / "crashed")
    raw = (crashed / TAIL_WAL).read_bytes()
    refused = 0
    for at, mask in places(len(raw), 60, seed=4):
        copy = image(crashed, tmp_path / "copy")
        (copy / TAIL_WAL).write_bytes(raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :])
        try:
            with SqliteEventLog.open(copy, SMALL, Ticking()) as log:
                assert log.end in (30, 40), at
        except LogError as error:
            refused += 1
            assert "tail.sqlite-wal is damaged" in str(error)
            assert "`recado log repair` keeps what can be read" in str(error)
        else:
            assert contents(copy) == dict(enumerate(events(0, log.end)))
    assert refused > 30
