"""Publications that wait because their users have used up their share of matching time.

An event with many array elements or long strings takes the kernels as long as hundreds of others. Its publisher pays
for that time (``recado.service.budgets``), and whoever is over the budget while events wait to be dispatched is slowed:
such events, and what the same user publishes after them, are stored only when that is over, and their publisher waits
for the acknowledgement. What may wait is bounded; more is refused.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable

from recado.service.permissions import Busy

LOOK_SECONDS = 0.02


class Slowed:
    """All methods are called on the thread of the loop. ``must_wait`` says whether a user has to, still."""

    def __init__(
        self, loop: AbstractEventLoop, must_wait: Callable[[str], bool], *, user_bytes: int, all_bytes: int
    ) -> None:
        self._loop, self._must_wait = loop, must_wait
        self._user_bytes, self._all_bytes = user_bytes, all_bytes
        self._waiting: dict[str, deque[tuple[int, Callable[[], None]]]] = {}
        self._bytes: dict[str, int] = {}
        self._timer: TimerHandle | None = None

    def holds(self, user: str) -> bool:
        """Do publications of the user wait here?"""
        return user in self._waiting

    def put(self, user: str, size: int, then: Callable[[], None]) -> None:
        """Call when the user need not wait any more; Busy if too much waits already."""
        if self._bytes.get(user, 0) > self._user_bytes or sum(self._bytes.values()) > self._all_bytes:
            raise Busy(
                "your filters, and your events with many array elements or long strings, take more than your share of "
                "matching time while events wait, and too many of your events wait for that; try again in some seconds"
            )
        self._waiting.setdefault(user, deque()).append((size, then))
        self._bytes[user] = self._bytes.get(user, 0) + size
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        for user in list(self._waiting):
            while user in self._waiting and not self._must_wait(user):
                self._release(user)
        if self._waiting:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _release(self, user: str) -> None:
        size, then = self._waiting[user].popleft()
        self._bytes[user] -= size
        if not self._waiting[user]:
            del self._waiting[user], self._bytes[user]
        then()

    def close(self) -> None:
        """Let go of all at once: whoever stops the service refuses them."""
        if self._timer is not None:
            self._timer.cancel()
        for user in list(self._waiting):
            while user in self._waiting:
                self._release(user)
