"""Work on meaning ahead of events: what a measure must be asked about new names and values, off the event loop.

Matching an event whose names and compared values are known asks no measure. An event with others waits *before* it is
stored, and its publisher for the acknowledgement: events are dispatched in the order of the log, so one that waited
there would hold up everybody's. A user's events stay in order: what a user publishes after such an event waits behind
it. No event is matched otherwise because of this, so one that is dispatched again after a crash matches what it did.

One thread does the work, in short turns, for one user after another, and rests so that it works at most ``share`` of
the time. What may wait is bounded for each user and for all together; more is refused until some of it is done.
Subscriptions that are checked and replays by meaning take their turns here, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, thread_time
from typing import Any, TypeVar

from recado.kernels import Build, prepare
from recado.matching.kernels.cache import can_write, is_prepared
from recado.server.matching import Matcher
from recado.server.permissions import Busy

T = TypeVar("T")
TURN_SECONDS = 0.02
"""A turn ends with the first step that ends after this."""
SHORTEST_REST, LONGEST_REST = 0.005, 1.0
"""Seconds; loading a lexicon is one long step, and need not be followed by as long a rest."""
_END: Any = object()
_log = logging.getLogger("recado.server")


class _Job:
    """Steps to be done in the thread; ``done`` is called on the loop, with what went wrong. ``size`` is of events."""

    __slots__ = ("done", "size", "steps")

    def __init__(self, steps: Iterator[Any], done: Callable[[Exception | None], None], size: int = 0) -> None:
        self.steps, self.done, self.size = steps, done, size


class SimilarityPrefetcher:
    """All methods are called on the thread of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, share: float, user_bytes: int, all_bytes: int) -> None:
        self._loop, self._share = loop, share
        self._user_bytes, self._all_bytes = user_bytes, all_bytes
        self._turns: dict[str, deque[_Job]] = {}  # the first has the next turn
        self._waiting: dict[str, int] = {}  # the bytes of events
        self._debt = 0.0  # seconds of rest that are due
        self._busy = self._closed = False
        self._thread = ThreadPoolExecutor(1, "recado-meaning")

    def holds(self, user: str) -> bool:
        """Do events of the user wait here?"""
        return user in self._waiting

    def put(self, user: str, size: int, steps: Iterator[None], then: Callable[[], None]) -> None:
        """Do the steps for events of a user, of this size, and then call; Busy if too much waits already."""
        if self._waiting.get(user, 0) > self._user_bytes:
            raise Busy(
                "your events have names or values that the service has not met before, and so many of them wait until "
                "it has compared these with the names of subscriptions; try again in a moment"
            )
        if sum(self._waiting.values()) > self._all_bytes:
            raise Busy("more events with new names wait than the service may hold; try again in a moment")
        self._waiting[user] = self._waiting.get(user, 0) + size

        def done(error: Exception | None) -> None:
            self._waiting[user] -= size
            if not self._waiting[user]:
                del self._waiting[user]
            if error is not None and not self._closed:
                _log.error("similarities could not be worked out ahead: %s", error)
            then()

        self._add(user, _Job(steps, done, size))

    async def run(self, user: str, steps: Iterator[T]) -> list[T]:
        """Do the steps for a user, in turns with everybody; what they gave."""
        future: asyncio.Future[None] = self._loop.create_future()
        gathered: list[T] = []

        def gathering() -> Iterator[None]:
            for one in steps:
                gathered.append(one)
                yield

        def done(error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._add(user, _Job(gathering(), done))
        await future
        return gathered

    async def close(self) -> None:
        """Leave undone what waits; none of it was promised to anybody."""
        self._closed = True
        waiting, self._turns = self._turns, {}
        for jobs in waiting.values():
            for job in jobs:
                job.done(Busy("the service is stopping; try again in a moment"))
        await asyncio.to_thread(self._thread.shutdown)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _add(self, user: str, job: _Job) -> None:
        if self._closed:
            raise Busy("the service is stopping; try again in a moment")
        self._turns.setdefault(user, deque()).append(job)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._turns) and not self._closed
        if self._busy:
            user, jobs = next(iter(self._turns.items()))
            self._thread.submit(self._work, user, jobs[0])

    def _work(self, user: str, job: _Job) -> None:
        """In the thread."""
        begun, before = perf_counter(), thread_time()
        error: Exception | None = None
        try:
            while (more := next(job.steps, _END) is not _END) and perf_counter() - begun < TURN_SECONDS:
                pass
        except Exception as caught:  # noqa: BLE001  # whoever waits hears of it
            more, error = False, caught
        self._loop.call_soon_threadsafe(self._worked, user, job, more, error, thread_time() - before)

    def _worked(self, user: str, job: _Job, more: bool, error: Exception | None, took: float) -> None:
        if self._closed:  # all have heard of it
            return
        jobs = self._turns.pop(user)
        if not more:
            jobs.popleft()
        if jobs:
            self._turns[user] = jobs
        self._debt += took * (1 / self._share - 1)
        if self._debt < SHORTEST_REST:
            self._next()
        else:
            self._loop.call_later(min(self._debt, LONGEST_REST), self._next)
            self._debt = 0.0
        if not more:
            job.done(error)


# --- The compiled kernels of a service that has begun without them ---------------------------------------------------
#
# A service matches by evaluating filters one by one at first: so it serves its first subscription at once, on a machine
# that has never compiled anything, too. Meanwhile the kernels are compiled, if they are not on disk, in another process
# that lets this one go first; then they are loaded in a thread, and the matcher takes them.
#
# Where many subscriptions are stored, evaluating them one by one would take longer than compiling; such a service
# loads, and is not ready, until the kernels are there.


PLAIN_SUBSCRIPTIONS = 1_000
"""More stored subscriptions than these wait for the kernels."""
FIRST_ANSWERS_SECONDS = 1.0
"""The first answers of a service that has just begun go before the kernels."""
POLL_SECONDS = 0.1


async def take_kernels(matcher: Matcher) -> None:
    """Have the kernels compiled and loaded while the service runs, and let the matcher take them."""
    if matcher.is_compiled:
        return
    try:
        await asyncio.sleep(FIRST_ANSWERS_SECONDS)
        seconds = 0.0 if is_prepared() or not can_write() else await _compiled()
        await asyncio.to_thread(matcher.load_kernels)
        matcher.compile()
    except Exception:  # noqa: BLE001  # matching goes on without them
        _log.exception("the kernels of the index cannot be used; filters are evaluated one by one, which is slower")
        return
    how = f"were compiled in {seconds:.0f} s" if seconds else "are loaded"
    _log.info("the kernels of the index %s, and match %d subscriptions from here on", how, len(matcher))


async def _compiled() -> float:
    """How many seconds it took."""
    _log.info("the kernels of the index are being compiled, once for this machine; filters are evaluated meanwhile")
    build = Build(background=True)
    try:
        while build.is_running:
            await asyncio.sleep(POLL_SECONDS)
        if build.fault:
            _log.warning("another process could not compile the kernels (%s); this one does", build.fault)
        return build.seconds
    finally:
        build.stop()


def wait_for_kernels(matcher: Matcher) -> None:
    """In a thread, before many subscriptions are added."""
    if not is_prepared() and can_write():
        _log.info("the kernels of the index are being compiled, once for this machine; the service waits for them")
        prepare()
    matcher.load_kernels()
    matcher.compile()
