"""The state writer stores what the broker changed, in the background and in order.

``flush`` returns when everything changed before the call is on stable storage; calls that come while a transaction runs
share the next one. Without anybody waiting, notifications are written ``SOON`` after they came, so what is acknowledged
sooner never touches the disk, and the mark of what is dispatched at least every ``LATER``.

A transaction that fails is tried again, before all newer ones, until it succeeds. Meanwhile nothing is lost: the log
has the events, and whoever waits for ``flush`` is refused. One that is refused as fenced is not tried again: somebody
else has taken the state over.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from recado.broker.core import Broker
from recado.broker.persistence import Batch, add_notifications
from recado.broker.state import Changes
from recado.errors import RecadoError
from recado.server.permissions import Busy
from recado.store.protocols import FencedError, StateStore

SHORTLY, SOON, LATER, RETRY = 0.005, 0.1, 1.0, 1.0
_log = logging.getLogger("recado.server")


class StateWriter:
    """``dispatched`` is the position up to which the broker accounts for the log; it does so only while ``whole``."""

    def __init__(
        self,
        store: StateStore,
        broker: Broker,
        loop: AbstractEventLoop,
        dispatched: Callable[[], int],
        whole: Callable[[], bool] = lambda: True,
        *,
        check_files: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._broker, self._loop, self._dispatched = store, broker, loop, dispatched
        self._whole, self._check_files = whole, check_files
        self._thread = ThreadPoolExecutor(1, "recado-state")
        self._timer: TimerHandle | None = None
        self._due = 0.0
        self._busy = False
        self._open = False  # before everything is loaded, nothing may be overwritten
        self._failing: tuple[Batch, Changes] | None = None
        self._fenced = False
        self._waiting: list[Future[None]] = []
        self._values: dict[tuple[str, str], bytes | None] = {}
        self._marked = -1
        self.trouble = ""

    def close(self) -> None:
        """Call it after ``flush``."""
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown()
        self._store.close()

    def begin(self) -> None:
        """Everything is loaded: write from now on."""
        self._open = True
        self._schedule(0)

    def mark_changed(self) -> None:
        """Something is to be stored, or more is dispatched."""
        self._schedule(SOON if self._broker.state.changes or self._values else LATER)

    def put(self, space: str, key: str, value: bytes | None) -> None:
        """A value that another part of the service wants stored; None forgets it."""
        self._values[space, key] = value
        self._schedule(SOON)

    async def values(self, space: str) -> dict[str, bytes]:
        """What was stored in a space, before this start or since."""
        await self.flush()
        return await self._loop.run_in_executor(self._thread, self._store.values, space)

    def check(self) -> None:
        """Raise Busy while nothing can be written; what has to be durable is best not begun then."""
        if self.trouble and self._failing is not None:
            raise Busy(f"{self.trouble}; nothing new is promised, try again later")

    async def flush(self) -> None:
        """Everything up to now is on stable storage when this returns; Busy if it cannot be written."""
        self.check()
        future: Future[None] = self._loop.create_future()
        self._waiting.append(future)
        self._schedule(0)
        await future

    def _schedule(self, delay: float) -> None:
        if self._busy or not self._open or self._fenced:
            return  # what comes next is scheduled when it is done
        due = self._loop.time() + delay
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(delay, self._begin) if delay else self._loop.call_at(due, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._busy:
            return
        if not self._whole():
            self._schedule(SHORTLY)
            return
        waiting, self._waiting = self._waiting, []
        if self._failing is None:
            batch, changes = self._take()
        else:
            batch, changes = self._failing
        if not waiting and not changes and not batch.values and batch.dispatched == self._marked:
            return
        self._busy = True
        self._thread.submit(self._write, batch, changes, waiting)

    def _take(self) -> tuple[Batch, Changes]:
        """What is to be written, as of this moment."""
        batch, changes = self._broker.take_batch(self._dispatched())
        batch.values, self._values = self._values, {}
        return batch, changes

    def _write(self, batch: Batch, changes: Changes, waiting: list[Future[None]]) -> None:
        """In the store's thread."""
        try:
            if not batch.notifications:
                add_notifications(batch, changes)
            self._check_files()
            self._store.write(batch)
        except Exception as error:  # noqa: BLE001  # whatever it is, it must be tried again and told
            self._loop.call_soon_threadsafe(self._fail, batch, changes, waiting, error)
        else:
            self._loop.call_soon_threadsafe(self._complete, batch, waiting)

    def _complete(self, batch: Batch, waiting: list[Future[None]]) -> None:
        self._busy = False
        was_failing, self._failing = self._failing is not None, None
        self.trouble = ""
        self._marked = batch.dispatched if batch.dispatched is not None else self._marked
        if was_failing:
            _log.warning("the state is written again")
            self._waiting[:0] = waiting  # their changes come with the next one
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        if self._waiting or was_failing:
            self._schedule(0)
        else:
            self.mark_changed()

    def _fail(self, batch: Batch, changes: Changes, waiting: list[Future[None]], error: Exception) -> None:
        self._busy = False
        self._failing = batch, changes
        self._fenced = isinstance(error, FencedError)
        before, self.trouble = self.trouble, f"the state cannot be written: {error}"
        if self.trouble != before:
            _log.error("%s; %s", self.trouble, "it is not tried again" if self._fenced else "it is tried again")
        waiting, self._waiting = waiting + self._waiting, []
        for future in waiting:
            if not future.done():
                reason = error if isinstance(error, RecadoError) else type(error).__name__
                future.set_exception(Busy(f"the state cannot be written: {reason}; try again later"))
        self._schedule(RETRY)
