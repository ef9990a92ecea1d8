"""A full disk: an append fails as a whole, the log can still be read, and goes on when there is room again."""

from __future__ import annotations

import resource
from contextlib import contextmanager

import pytest

from recado.store.log import LogError, SqliteEventLog
from store.log.logs import SMALL, Ticking, contents, event, events, filled


@contextmanager
def no_file_larger_than(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def large(number):
    return event(number, text="x" * 3_000)


def test_an_append_without_room_acknowledges_nothing_and_the_log_goes_on(tmp_path):
    with SqliteEventLog.open(tmp_path / "log") as log:
        acknowledged = 0
        with no_file_larger_than(300_000):
            for number in range(0, 1_000, 10):
                try:
                    acknowledged = log.append([large(n) for n in range(number, number + 10)]).stop
                except LogError as error:
                    assert "tail.sqlite cannot be written: " in str(error)
                    break
            for _ in range(3):
                with pytest.raises(LogError, match="cannot be written"):
                    log.append([large(n) for n in range(acknowledged, acknowledged + 200)])
            assert 0 < acknowledged < 1_000
            assert log.end == acknowledged
            assert len(contents(log.path)) == acknowledged
        assert log.append([large(acknowledged)]) == range(acknowledged, acknowledged + 1)
    assert contents(tmp_path / "log") == {number: large(number) for number in range(acknowledged + 1)}


def test_a_full_database_fails_the_append_and_the_log_goes_on(tmp_path):
    with SqliteEventLog.open(filled(tmp_path / "log", 20), SMALL, Ticking()) as log:
        pages = log._tail._db.execute("PRAGMA page_count").fetchone()[0]
        log._tail._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(LogError, match="database or disk is full"):
            log.append([large(number) for number in range(20, 60)])
        log._tail._db.execute("PRAGMA max_page_count = 1000000")
        assert log.append(events(20, 30)) == range(20, 30)
    assert contents(tmp_path / "log") == dict(enumerate(events(0, 30)))


def test_a_segment_without_room_leaves_the_rows_in_the_tail(tmp_path):
    with SqliteEventLog.open(filled(tmp_path / "log", 60), SMALL, Ticking()) as log:
        with (
            no_file_larger_than(1_000),
            pytest.raises(LogError, match="cannot be sealed, and keeps its rows: File too"),
        ):
            log.seal(force=True)
        assert list((log.path / "segments").iterdir()) == []
        assert contents(log.path) == dict(enumerate(events(0, 60)))
        assert [(s.first, s.end) for s in log.seal(force=True)] == [(0, 40), (40, 60)]
    assert contents(tmp_path / "log") == dict(enumerate(events(0, 60)))
