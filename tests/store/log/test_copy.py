"""A copy of a log that is in use, and work on the tail beside commits."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from recado.model.event import Event
from recado.store.log import LogError, LogReader, LogSettings, SqliteEventLog

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def ids(path):
    return [id for batch in LogReader(path).read() for id in batch.column("id").to_pylist()]


def test_a_copy_has_everything_and_goes_on(tmp_path):
    with SqliteEventLog.open(tmp_path / "a", LogSettings(segment_rows=10), lambda: NOW) as log:
        log.append([Event(str(number)) for number in range(25)])
        log.seal()
        log.append([Event("25")])
        assert log.latest == NOW
        log.copy(tmp_path / "b")
        log.append([Event("later")])
    assert ids(tmp_path / "b") == [str(number) for number in range(26)]
    assert LogReader(tmp_path / "b").check() == []
    with SqliteEventLog.open(tmp_path / "b") as copy:
        assert copy.append([Event("new")]) == range(26, 27)


def test_a_copy_that_has_no_place(tmp_path):
    (tmp_path / "file").write_text("")
    with SqliteEventLog.open(tmp_path / "a") as log, pytest.raises(LogError, match="cannot be copied"):
        log.copy(tmp_path / "file" / "b")


def test_a_checkpoint_empties_the_write_ahead_log_into_the_database(tmp_path):
    with SqliteEventLog.open(tmp_path) as log:
        before = (tmp_path / "tail.sqlite").stat().st_size
        log.append([Event("1", attributes={"text": "x" * 60_000})])
        log.checkpoint()
        assert (tmp_path / "tail.sqlite").stat().st_size > before + 60_000
        wal = Path(tmp_path / "tail.sqlite-wal").stat().st_size
        log.append([Event("2")])
        assert Path(tmp_path / "tail.sqlite-wal").stat().st_size == wal  # it is used again from its beginning
    assert ids(tmp_path) == ["1", "2"]
    with pytest.raises(LogError, match="closed"):
        log.checkpoint()
