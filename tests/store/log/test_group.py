"""Group commit: who gets which positions, what waits for what, and what is refused."""

from __future__ import annotations

import threading

import pytest

from recado.errors import EventError
from recado.model.event import Event
from recado.store.log import BusyError, EventLog, GroupCommit, LogError, LogSettings
from store.log.logs import contents, event, events


class Commits(EventLog):
    """A log that keeps count of its commits, and that a test can hold up."""

    def __init__(self, path):
        self.sizes = []
        self.gate = threading.Event()
        self.gate.set()
        super().__init__(path, LogSettings(), lambda: event(1).time)

    def commit(self, appends):
        self.gate.wait()
        self.sizes.append([len(entries) for entries in appends])
        return super().commit(appends)


@pytest.fixture
def log(tmp_path):
    with Commits(tmp_path / "log") as log:
        yield log


def test_many_threads_get_what_they_appended(log):
    stored: dict[int, Event] = {}
    with GroupCommit(log) as commit:

        def work(worker):
            for number in range(30):
                mine = [event(worker * 1_000 + number), event(worker * 1_000 + number + 500)]
                positions = commit.submit(mine).result()
                stored.update(zip(positions, mine, strict=True))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert contents(log.path) == dict(sorted(stored.items()))
    assert len(stored) == 8 * 30 * 2
    assert len(log.sizes) < 8 * 30


def test_what_gathers_behind_a_commit_goes_together(log):
    with GroupCommit(log) as commit:
        log.gate.clear()
        futures = [commit.submit(events(number, number + 2)) for number in range(0, 12, 2)]
        log.gate.set()
        assert [future.result() for future in futures] == [range(number, number + 2) for number in range(0, 12, 2)]
    assert sum(map(sum, log.sizes)) == 12
    assert len(log.sizes) <= 2


def test_a_commit_is_no_larger_than_asked(log):
    with GroupCommit(log, commit_events=5, delay_seconds=30) as commit:
        log.gate.clear()
        futures = [commit.submit(events(0, count)) for count in (2, 2, 2, 9, 1)]
        log.gate.set()
    assert [len(future.result()) for future in futures] == [2, 2, 2, 9, 1]
    assert log.sizes == [[2, 2], [2], [9], [1]]


def test_a_bad_event_is_refused_at_once_and_harms_no_other(log):
    with GroupCommit(log) as commit:
        first = commit.submit(events(0, 1))
        with pytest.raises(EventError, match="event 0 of the append"):
            commit.submit([Event("")])
        assert first.result() == range(1)


def test_a_full_queue_refuses_after_the_timeout(log):
    with GroupCommit(log, queue_events=3) as commit:
        log.gate.clear()
        futures = [commit.submit(events(0, 1))]
        while commit._queue:
            pass
        futures += [commit.submit(events(0, 3))]
        with pytest.raises(BusyError, match=r"the queue has been full for 0.01 s, with 3 events; try again later"):
            commit.submit(events(0, 1), timeout=0.01)
        log.gate.set()
        assert [future.result() for future in futures] == [range(1), range(1, 4)]
        assert commit.submit(events(0, 1)).result() == range(4, 5)


def test_closing_commits_what_waits_and_refuses_more(log):
    commit = GroupCommit(log, delay_seconds=30)
    future = commit.submit(events(0, 2))
    commit.close()
    assert future.result(timeout=0) == range(2)
    with pytest.raises(LogError, match="the group commit is closed"):
        commit.submit(events(0, 1))


def test_a_cancelled_append_is_not_stored(log):
    with GroupCommit(log) as commit:
        log.gate.clear()
        commit.submit(events(0, 1))
        while commit._queue:
            pass
        cancelled = commit.submit(events(1, 2))
        assert cancelled.cancel()
        log.gate.set()
        assert commit.submit(events(2, 3)).result() == range(1, 2)
    assert [stored.id for stored in contents(log.path).values()] == ["e-0", "e-2"]


@pytest.mark.parametrize("options", [{"queue_events": 0}, {"commit_events": 0}, {"delay_seconds": -1}])
def test_bounds_are_checked(log, options):
    with pytest.raises(LogError, match="must be at least"):
        GroupCommit(log, **options)
