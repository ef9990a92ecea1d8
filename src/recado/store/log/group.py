"""Group commit: appends that come at the same time share one fsync.

A thread takes what is waiting, commits it as one transaction and tells each caller its positions. While it waits for
the disk the next appends gather, so the more callers there are, the more each fsync carries, and one alone waits for
no one. The queue is bounded in events and bytes: a caller waits for room, and is refused when that takes too long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from time import monotonic
from typing import NamedTuple

from recado.model.event import Event
from recado.store.log.rows import Entry, prepare
from recado.store.log.settings import MIB, BusyError, LogError
from recado.store.log.writer import EventLog


class _Waiting(NamedTuple):
    entries: list[Entry]
    bytes: int
    since: float
    future: Future[range]


class GroupCommit:
    """Joins concurrent appends. Close it before the log; what was submitted before is still committed."""

    def __init__(
        self,
        log: EventLog,
        *,
        queue_events: int = 10_000,
        queue_bytes: int = 64 * MIB,
        commit_events: int = 1_000,
        delay_seconds: float = 0.0,
    ) -> None:
        """``delay_seconds`` is how long an append may wait for company before its commit begins."""
        if min(queue_events, queue_bytes, commit_events) < 1 or delay_seconds < 0:
            raise LogError("queue_events, queue_bytes and commit_events must be at least 1, delay_seconds at least 0")
        self._log = log
        self._most_events, self._most_bytes = queue_events, queue_bytes
        self._commit_events, self._delay = commit_events, delay_seconds
        self._queue: deque[_Waiting] = deque()
        self._events = self._bytes = 0  # of what is waiting
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="recado-group-commit", daemon=True)
        self._thread.start()

    def __enter__(self) -> GroupCommit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, events: Sequence[Event], timeout: float = 10.0) -> Future[range]:
        """Put the events into the queue; the future has their positions when they are on stable storage.

        Bad events are refused here, and harm no other append. With the queue full for ``timeout`` seconds: BusyError.
        """
        entries = prepare(events, self._log.settings.limits)
        size = sum(len(entry[4]) for entry in entries)
        future: Future[range] = Future()
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._has_room(len(entries), size), timeout):
                raise BusyError(
                    f"the queue has been full for {timeout} s, with {self._events:,} events; try again later"
                )
            if self._closed:
                raise LogError("the group commit is closed")
            self._queue.append(_Waiting(entries, size, monotonic(), future))
            self._events += len(entries)
            self._bytes += size
            self._changed.notify_all()
        return future

    def close(self) -> None:
        """Commit what is waiting and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _has_room(self, events: int, size: int) -> bool:
        """An append that is larger than the whole queue may go alone."""
        return not self._queue or (
            self._events + events <= self._most_events and self._bytes + size <= self._most_bytes
        )

    def _run(self) -> None:
        while group := self._take():
            group = [waiting for waiting in group if waiting.future.set_running_or_notify_cancel()]
            try:
                ranges = self._log.commit([waiting.entries for waiting in group])
            except Exception as error:  # noqa: BLE001  # whatever it is, the callers must hear of it
                for waiting in group:
                    waiting.future.set_exception(error)
            else:
                for waiting, positions in zip(group, ranges, strict=True):
                    waiting.future.set_result(positions)

    def _take(self) -> list[_Waiting]:
        """The appends of the next commit, as soon as it is full or the first of them has waited long enough."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if self._queue and self._delay:
                patience = self._queue[0].since + self._delay - monotonic()
                self._changed.wait_for(lambda: self._closed or self._events >= self._commit_events, max(patience, 0))
            group: list[_Waiting] = []
            taken = 0
            while self._queue and (not group or taken + len(self._queue[0].entries) <= self._commit_events):
                group.append(self._queue.popleft())
                taken += len(group[-1].entries)
            self._events -= taken
            self._bytes -= sum(waiting.bytes for waiting in group)
            self._changed.notify_all()
            return group
