"""``recado log``: what is told about a log, sound and damaged; the repairing itself is tested in tests/store/log."""

import sqlite3

import pytest

from recado.store.log import LogReader, SqliteEventLog
from recado.store.log.manifest import MANIFEST, TAIL, TAIL_SHM, TAIL_WAL
from store.log.logs import SMALL, Ticking, events, filled


@pytest.fixture
def data(tmp_path):
    """The data folder of a service: segments [0, 40) and [40, 50), rows 50 to 64 in the tail."""
    filled(tmp_path / "log", 65, sealed=50)
    return tmp_path


def spoil_row(folder, position):
    """Change one row of the tail, as a bad disk would, behind the back of its checksum."""
    with sqlite3.connect(folder / TAIL) as db:
        db.execute("update tail set event = 'x' where position = ?", (position,))
    db.close()


def image(folder):
    """What the files hold; SQLite itself may leave an empty write-ahead log behind when it reads."""
    passing = ("writer.lock", TAIL_WAL, TAIL_SHM)
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name not in passing}


def test_info(recado, data):
    (found,) = recado("log", "info", "--data", str(data)).records
    assert found == recado("log", "info", str(data / "log")).records[0]
    assert [found[name] for name in ("first", "sealed", "end", "events", "writer", "lost")] == [0, 50, 65, 65, None, []]
    assert [(one["first"], one["end"]) for one in found["segments"]] == [(0, 40), (40, 50)]
    assert found["oldest"] < found["newest"]
    shown = recado("log", "info", str(data), terminal=True).out
    assert "events     65: positions 0 to 64\n" in shown
    assert "40 to 49" in shown
    assert "writer     none" in shown


def test_an_empty_log_and_none_at_all(recado, tmp_path):
    filled(tmp_path / "log", 0)
    assert "none; next comes 0" in recado("log", "info", str(tmp_path), terminal=True).out
    assert recado("log", "check", str(tmp_path)).records == [{"events": 0, "damaged": 0, "written_off": 0}]
    run = recado("log", "info", str(tmp_path / "nowhere"))
    assert (run.code, run.out) == (2, "")
    assert "there is no event log in" in run.err


def test_a_sound_log(recado, data):
    before = image(data)
    run = recado("log", "check", str(data), terminal=True)
    assert (run.code, run.out, run.err) == (0, "65 events read; no damage\n", "")
    run = recado("log", "repair", str(data), terminal=True)
    assert run.out == "there is nothing to repair: manifest and tail are sound\nthe log goes on with position 65\n"
    assert image(data) == before


def test_while_a_writer_has_it(recado, data):
    with SqliteEventLog.open(data / "log", SMALL, Ticking()) as log:
        log.append(events(65, 70))
        assert recado("log", "check", str(data)).records == [{"events": 70, "damaged": 0, "written_off": 0}]
        assert "writer     process " in recado("log", "info", str(data), terminal=True).out
        for more in ([], ["--dry-run"]):
            run = recado("log", "repair", str(data), *more)
            assert run.code == 2
            assert "has a writer already, the process" in run.err
        assert log.append(events(70, 71)) == range(70, 71)


def test_a_damaged_row_is_named_and_written_off(recado, data):
    spoil_row(data / "log", 60)
    run = recado("log", "check", str(data), terminal=True)
    assert run.code == 1
    assert run.out.startswith("position 60 cannot be read: ")
    assert run.out.endswith("64 events read; 1 damaged place\n")
    assert "recado log repair" in run.err
    before = image(data)
    tried = recado("log", "repair", str(data), "--dry-run", terminal=True).out
    assert image(data) == before
    assert "the tail would be replaced" in tried
    assert "position 60: lost from the tail" in tried
    done = recado("log", "repair", str(data)).records[0]
    assert (done["replaced_tail"], done["end"], [gap["first"] for gap in done["lost"]]) == (True, 65, [60])
    run = recado("log", "check", str(data))
    assert run.code == 0
    assert run.records[0]["written_off"]
    assert run.records[-1] == {"events": 64, "damaged": 0, "written_off": 1}
    assert "lost       position 60: " in recado("log", "info", str(data), terminal=True).out


def test_a_damaged_segment(recado, data):
    path = LogReader(data / "log").segments()[0].path
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    run = recado("log", "check", str(data))
    assert run.code == 1
    assert all(0 <= one["first"] <= one["end"] <= 40 for one in run.records[:-1])
    assert run.records[-1]["damaged"] == len(run.records) - 1 > 0


def test_a_damaged_manifest(recado, data):
    (data / "log" / MANIFEST).write_bytes(b"{}")
    assert recado("log", "info", str(data)).code == 2
    run = recado("log", "check", str(data), terminal=True)
    assert run.code == 1
    assert "manifest.json is damaged" in run.out
    assert "the manifest would be made again" in recado("log", "repair", str(data), "--dry-run", terminal=True).out
    assert recado("log", "repair", str(data)).code == recado("log", "check", str(data)).code == 0


def test_a_damaged_write_ahead_log(recado, data):
    """As a crash and a bad disk leave it: the first of many commits is spoilt, and SQLite would forget the others."""
    with SqliteEventLog.open(data / "log", SMALL, Ticking()) as log:
        for start in range(65, 75):
            log.append(events(start, start + 1))
        wal = (data / "log" / TAIL_WAL).read_bytes()
        tail = (data / "log" / TAIL).read_bytes()
    (data / "log" / TAIL).write_bytes(tail)
    (data / "log" / TAIL_WAL).write_bytes(wal[:100] + bytes([wal[100] ^ 1]) + wal[101:])
    run = recado("log", "check", str(data))
    assert run.code == 1
    assert any("commits cannot be read" in one.get("reason", "") for one in run.records)
