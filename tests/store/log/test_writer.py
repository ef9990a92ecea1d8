"""Appending, sealing and retention, as a caller sees them."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from recado.errors import EventError, LimitError
from recado.model.event import Event
from recado.model.limits import Limits
from recado.store.log import BusyError, LogError, LogReader, LogSettings, SqliteEventLog
from recado.store.log.writer import LONGEST_REST
from store.log.logs import SMALL, START, Ticking, contents, event, events, filled, positions


def test_positions_are_dense_and_one_range_for_each_append(tmp_path):
    with SqliteEventLog.open(tmp_path / "log") as log:
        assert (log.first, log.end) == (0, 0)
        assert log.append(events(0, 3)) == range(3)
        assert log.append([]) == range(3, 3)
        assert log.append(events(3, 4)) == range(3, 4)
        assert log.end == 4
    assert contents(tmp_path / "log") == dict(enumerate(events(0, 4)))


def test_equal_ids_are_two_events(tmp_path):
    with SqliteEventLog.open(tmp_path / "log") as log:
        log.append([event(1), event(1)])
        log.append([event(1)])
    assert contents(tmp_path / "log") == {0: event(1), 1: event(1), 2: event(1)}


@pytest.mark.parametrize(
    "bad",
    [
        Event(""),
        Event(5),
        Event("e", time=datetime(2026, 1, 1)),
        Event("e", time="now"),
        Event("e", attributes={"id": 1}),
        Event("e", attributes={"specversion": "1"}),
        Event("e", attributes={"a": np.float64(1)}),
        Event("e", attributes={"a": None}),
        Event("e", attributes={"a": "\ud800"}),
    ],
    ids=repr,
)
def test_a_bad_event_is_named_and_none_of_its_append_is_stored(tmp_path, bad):
    with SqliteEventLog.open(tmp_path / "log") as log:
        with pytest.raises(EventError, match="event 1 of the append: "):
            log.append([event(0), bad, event(2)])
        assert log.append([event(3)]) == range(1)
    assert contents(tmp_path / "log") == {0: event(3)}


def test_an_event_and_an_append_have_limits(tmp_path):
    limits = Limits(event_bytes=300, batch_bytes=500)
    with SqliteEventLog.open(tmp_path / "log", LogSettings(limits=limits)) as log:
        with pytest.raises(LimitError, match=r"event 1 \('e-1'\) has 398 bytes; the limit is 300"):
            log.append([event(0), event(1, text="x" * 300)])
        with pytest.raises(LimitError, match=r"event \d+ \('e-\d+'\) brings the append above 500 bytes; append fewer"):
            log.append(events(0, 100))
        assert log.end == 0


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (LogSettings(segment_rows=0), "segment_rows is 0; it must be greater than 0"),
        (LogSettings(segment_age_seconds=-1), "segment_age_seconds is -1; it must be greater than 0"),
        (LogSettings(zstd_level=40), "zstd_level is 40; it must be from 1 to 22"),
        (LogSettings(busy_seconds=-1), "busy_seconds is -1; it must not be negative"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(tmp_path, settings, reason):
    with pytest.raises(LogError, match=reason):
        SqliteEventLog.open(tmp_path / "log", settings)
    assert not (tmp_path / "log").exists()


def test_a_second_writer_is_refused_and_told_who_holds_the_log(tmp_path):
    import os

    with (
        SqliteEventLog.open(tmp_path / "log"),
        pytest.raises(BusyError, match=f"has a writer already, the process {os.getpid()}"),
    ):
        SqliteEventLog.open(tmp_path / "log")
    SqliteEventLog.open(tmp_path / "log").close()


def test_a_closed_log_says_so_and_closes_again(tmp_path):
    log = SqliteEventLog.open(tmp_path / "log")
    log.close()
    log.close()
    for act in (lambda: log.append(events(0, 1)), log.seal, log.retain):
        with pytest.raises(LogError, match="is closed"):
            act()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="file/log cannot be opened as an event log: Not a directory"):
        SqliteEventLog.open(tmp_path / "file" / "log")


# -- seal --------------------------------------------------------------------------------------------------------------


def test_sealing_by_rows_leaves_the_rest_in_the_tail(tmp_path):
    with SqliteEventLog.open(tmp_path / "log", SMALL) as log:
        log.append(events(0, 39))
        assert log.seal() == []
        log.append(events(39, 95))
        assert [(s.first, s.end) for s in log.seal()] == [(0, 40), (40, 80)]
        assert log.seal() == []
    reader = LogReader(tmp_path / "log")
    assert (reader.extent().sealed, reader.extent().end) == (80, 95)
    assert contents(tmp_path / "log") == dict(enumerate(events(0, 95)))


def test_sealing_by_bytes(tmp_path):
    settings = LogSettings(segment_bytes=5_000, group_bytes=2_000)
    with SqliteEventLog.open(tmp_path / "log", settings) as log:
        log.append([event(number, text="x" * 900) for number in range(5)])
        assert log.seal() == []
        log.append([event(number, text="x" * 900) for number in range(5, 7)])
        assert [(s.first, s.end) for s in log.seal()] == [(0, 6)]  # whole row groups
        assert log.seal() == []


def test_sealing_by_age(tmp_path):
    clock = Ticking()
    with SqliteEventLog.open(tmp_path / "log", LogSettings(segment_age_seconds=60), clock) as log:
        log.append(events(0, 2))
        clock.now += timedelta(seconds=59)
        log.append(events(2, 3))
        assert log.seal() == []
        clock.now += timedelta(seconds=1)
        assert [(s.first, s.end) for s in log.seal()] == [(0, 3)]
        assert log.seal() == []


def test_a_segment_says_what_it_has(tmp_path):
    with SqliteEventLog.open(tmp_path / "log", SMALL, Ticking(1)) as log:
        log.append([event(1), event(4)])
        log.append([event(2)])
        (segment,) = log.seal(force=True)
    assert segment == LogReader(tmp_path / "log").segments()[0]
    assert (segment.first, segment.end, segment.bytes) == (0, 3, segment.path.stat().st_size)
    assert (segment.earliest, segment.latest) == (START + timedelta(seconds=1), START + timedelta(seconds=2))
    assert (segment.time_min, segment.time_max) == (START + timedelta(seconds=1), START + timedelta(seconds=4))
    assert (segment.type_min, segment.type_max) == ("alarm", "alarm")
    assert (segment.untimed, segment.untyped) == (False, True)


def test_the_next_position_goes_on_after_an_empty_tail(tmp_path):
    filled(tmp_path / "log", 30, sealed=30)
    with SqliteEventLog.open(tmp_path / "log", SMALL) as log:
        assert log.append(events(30, 31)) == range(30, 31)


def test_appends_go_on_while_another_thread_seals(tmp_path):
    with SqliteEventLog.open(tmp_path / "log", SMALL) as log:
        done = threading.Event()

        def keep_sealing():
            while not done.is_set():
                log.seal()

        thread = threading.Thread(target=keep_sealing)
        thread.start()
        for number in range(0, 1_000, 5):
            assert log.append(events(number, number + 5)) == range(number, number + 5)
        done.set()
        thread.join()
        log.seal(force=True)
    assert contents(tmp_path / "log") == dict(enumerate(events(0, 1_000)))


def test_acceptance_never_runs_backwards(tmp_path):
    clock = Ticking()
    with SqliteEventLog.open(tmp_path / "log", SMALL, clock) as log:
        log.append(events(0, 1))
        clock.now -= timedelta(hours=1)
        log.append(events(1, 2))
        log.seal(force=True)
    with SqliteEventLog.open(tmp_path / "log", SMALL, clock) as log:
        log.append(events(2, 3))
    rows = [row for batch in LogReader(tmp_path / "log").read() for row in batch.to_pylist()]
    assert [row["accepted_at"] for row in rows] == [START] * 3


# -- expire ------------------------------------------------------------------------------------------------------------


def test_retention_by_age_takes_whole_old_segments(tmp_path):
    clock = Ticking()
    with SqliteEventLog.open(tmp_path / "log", SMALL, clock) as log:
        for number in range(4):
            log.append(events(number * 10, number * 10 + 10))
            log.seal(force=True)
            clock.now += timedelta(hours=1)
        assert [s.first for s in log.retain(max_age=timedelta(hours=2))] == [0, 10]
        assert (log.first, log.end) == (20, 40)
        assert log.retain(max_age=timedelta(hours=2)) == []
    assert positions(tmp_path / "log") == list(range(20, 40))
    assert len(list((tmp_path / "log" / "segments").iterdir())) == 2


def test_retention_by_size_keeps_the_newest(tmp_path):
    with SqliteEventLog.open(filled(tmp_path / "log", 100), SMALL, Ticking()) as log:
        segments = log.seal()
        kept = segments[-1].bytes
        assert [s.first for s in log.retain(max_bytes=kept)] == [0]
        assert [s.first for s in log.retain(max_bytes=kept - 1)] == [40]
        assert (log.first, log.end) == (80, 100)
        assert log.retain(max_bytes=0) == []
    assert positions(tmp_path / "log") == list(range(80, 100))


def test_positions_go_on_when_everything_has_expired(tmp_path):
    with SqliteEventLog.open(filled(tmp_path / "log", 30, sealed=30), SMALL) as log:
        log.retain(max_bytes=0)
        assert (log.first, log.end) == (30, 30)
    with SqliteEventLog.open(tmp_path / "log", SMALL) as log:
        assert log.append(events(30, 31)) == range(30, 31)
    assert positions(tmp_path / "log") == [30]


@pytest.mark.parametrize(
    ("appended", "settings", "rests"),
    [
        (0, LogSettings(), []),
        (1, LogSettings(), [LONGEST_REST]),
        (5, LogSettings(segment_rows=1), []),
        (5, LogSettings(segment_bytes=1), []),
    ],
)
def test_sealing_rests_while_events_come_unless_it_is_far_behind(tmp_path, monkeypatch, appended, settings, rests):
    slept, clock = [], iter(range(0, 1_000, 10))
    with SqliteEventLog.open(tmp_path / "log", settings) as log:
        watched = SimpleNamespace(sleep=slept.append, perf_counter=clock.__next__, time=time.time)
        monkeypatch.setattr("recado.store.log.writer.time", watched)
        with log._gently():
            for number in range(appended):
                log.append([event(number)])
    assert slept == rests


def test_waiting_for_more_ends_with_the_commit_that_brings_it(tmp_path):
    with SqliteEventLog.open(tmp_path / "log") as log:
        assert not log.wait(0, timeout=0.01)
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(log.wait(1, timeout=30)))
        thread.start()
        log.append(events(0, 1))
        log.append(events(1, 2))
        thread.join(30)
        assert waiting == [True]
        assert log.wait(1, timeout=0)
        assert [row for batch in log.read(1) for row in batch.column("position").to_pylist()] == [1]
        assert log.position_at(START - timedelta(days=1)) == 0


def test_closing_ends_all_waiting(tmp_path):
    log = SqliteEventLog.open(tmp_path / "log")
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(log.wait(0, timeout=30)))
    thread.start()
    log.close()
    thread.join(30)
    assert waiting == [False]
