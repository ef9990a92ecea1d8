"""Verification: what the kernels could not decide about an event, decided by the plain evaluator, for a price.

The little that most events need is done at once, on the loop. The rest is done in a thread, one event at a time, so
that connections are served meanwhile: a single regular expression may take a third of a second, and gives the
interpreter free for it. Events behind the one in hand wait, since a subscription gets its events in order.

That is why users have budgets (``recado.server.verification``). As long as nothing waits, nearly everything is decided,
whatever it takes. When events have waited for ``PATIENCE_SECONDS``, or before a step that is long and cannot be cut,
filters whose owners are all over their budgets are refused, in the middle of their evaluation if need be; nobody learns
whether they matched, and the owners are told so.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, perf_counter
from typing import Any

from recado.filters.evaluate import Steps, Work
from recado.matching.undecided import Undecided
from recado.server.metrics import Metrics
from recado.server.permissions import Busy

# --- Budgets of matching time: what the filters of one user may take of the plain evaluator when others wait for it
#
# Most filters are decided by the kernels of the index and cost their owner nothing here. What the kernels leave to the
# evaluator is charged to the owners of the filter, in seconds as others waited for it. A user's account drains at
# ``share`` seconds a second; whoever has more than ``burst_seconds`` in it is over the budget. All users together are
# given ``all_share``: the more of them have something in their accounts, the slower these drain and the less they
# hold, so a hundred users get no more than the few who would use all of it.
#
# Being over the budget means nothing as long as nobody waits; see ``recado.server.verification``. No clock is read
# here.


LEAK_SECONDS = 0.005
"""Accounts are not drained more often than that."""


class Budgets:
    def __init__(self, *, share: float, burst_seconds: float, all_share: float) -> None:
        self._share, self._burst, self._all_share = share, burst_seconds, all_share
        self._used: dict[str, float] = {}
        self._at = 0.0
        self._over: set[str] = set()

    def charge(self, user: str, seconds: float, now: float) -> None:
        """The user's filters took so long."""
        self._leak(now)
        self._used[user] = self._used.get(user, 0.0) + seconds

    def is_over(self, user: str, now: float) -> bool:
        """Whoever is over the budget stays so until half of it is there again."""
        self._leak(now)
        most = self._burst * self._scale()
        used = self._used.get(user, 0.0)
        if used > most:
            self._over.add(user)
        elif used < most / 2:
            self._over.discard(user)
        return user in self._over

    def over(self, now: float) -> list[str]:
        """Who is over the budget."""
        return [user for user in {*self._used, *self._over} if self.is_over(user, now)]

    def _scale(self) -> float:
        """How much of its own share each of those who use some can have."""
        return min(1.0, self._all_share / (self._share * max(len(self._used), 1)))

    def _leak(self, now: float) -> None:
        passed = now - self._at
        if passed < LEAK_SECONDS:
            return
        self._at = now
        drained = passed * self._share * self._scale()
        self._used = {user: used - drained for user, used in self._used.items() if used > drained}


# --- Verification: what the kernels could not decide about an event, decided by the plain evaluator, for a price

QUICK_STEPS = 8_192
"""So many steps of a group of events, about two milliseconds, are done on the loop."""
FILTER_STEPS = 8
"""What it costs to look at a filter at all."""
PATIENCE_SECONDS = 0.1
LONG_STEPS = 100_000
"""What may take so many steps, about 25 milliseconds, and cannot be cut is not begun for those over their budgets."""
LOG_SECONDS = 60.0
"""A user who is refused is named in the log so often."""
_log = logging.getLogger("recado.server")


class Verdict:
    """Of one event: the ids of subscriptions that match; those that were refused, and those that failed."""

    __slots__ = ("failed", "matched", "refused")

    def __init__(self) -> None:
        self.matched: list[str] = []
        self.refused: list[str] = []
        self.failed: list[str] = []


class Case:
    """The undecided filters of one event, perhaps in the middle of being decided.

    ``barred`` are the owners who have been refused: they are not asked for again, since there may be many filters.
    """

    __slots__ = ("barred", "begun", "cost", "ids", "left", "verdict", "work")

    def __init__(self, undecided: Iterable[Undecided]) -> None:
        self.left = _each(undecided)
        self.ids: list[str] = []
        self.begun: Steps | None = None  # the evaluation of the filter in hand, which these subscriptions have
        self.cost = 0  # of its next step
        self.work = Work()
        self.verdict = Verdict()
        self.barred: frozenset[str] = frozenset()

    def take(self) -> bool:
        """Take the next filter in hand, unless there is one; False if there is none left."""
        if self.begun is None:
            one = next(self.left, None)
            if one is None:
                return False
            self.ids, filter, steps = one
            self.begun, self.cost = steps(filter, self.work), 0
        return True

    def end(self, ids: list[str]) -> None:
        """The filter in hand is settled: its subscriptions go where they belong."""
        ids += self.ids
        self.begun = None


def _each(undecided: Iterable[Undecided]) -> Iterator[tuple[list[str], Any, Callable[[Any, Work], Steps]]]:
    for group in undecided:
        for ids, filter in zip(group.ids, group.filters, strict=True):
            yield ids, filter, group.steps


class Verifier:
    """``owner`` names the user of a subscription, None if it is gone; ``waiting`` tells how long events have waited,
    in seconds, or that nobody is to be refused, by a number below 0.
    """

    def __init__(
        self,
        budgets: Budgets,
        metrics: Metrics,
        *,
        owner: Callable[[str], str | None],
        waiting: Callable[[], float],
        now: Callable[[], float] = monotonic,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self.budgets, self._metrics = budgets, metrics
        self._owner, self._waiting, self._now, self._timer = owner, waiting, now, timer
        self._thread = ThreadPoolExecutor(1, "recado-verify")
        self._steps = 0  # that may still be done on the loop
        self._named: dict[str, float] = {}
        self._strict: set[str] = set()  # who was refused, and is over the budget since

    def close(self) -> None:
        self._thread.shutdown()

    def charge(self, user: str, seconds: float) -> None:
        """The user kept the dispatcher busy for so long."""
        self.budgets.charge(user, seconds, self._now())

    def is_over(self, user: str) -> bool:
        return self.budgets.is_over(user, self._now())

    def over(self) -> list[str]:
        """The users who are over their budgets."""
        return self.budgets.over(self._now())

    def begin(self) -> None:
        """A new group of events."""
        self._steps = QUICK_STEPS

    def decide_quickly(self, case: Case) -> bool:
        """Decide what is undecided about one event, on the loop; False if the rest would take too long."""
        done = self._run(case, quickly=True)
        if done:
            self._name_refused(case.verdict.refused)
        return done

    async def decide(self, case: Case) -> None:
        """The same in the thread, whatever it takes."""
        begun = self._now()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._run, case)
        self._metrics.verify_seconds.observe(self._now() - begun)
        self._name_refused(case.verdict.refused)

    def _run(self, case: Case, quickly: bool = False) -> bool:
        """Decide all that is left; ``quickly`` stops before it is too much for the loop, and returns False then."""
        while case.take():
            if quickly and not self._afford(FILTER_STEPS):
                return False
            owners = {owner for owner in map(self._owner, case.ids) if owner is not None}
            if owners <= case.barred:
                case.end(case.verdict.refused)
                continue
            if self._decide(case, owners, quickly):
                return False
            self._metrics.verified += 1
        return True

    def _decide(self, case: Case, owners: set[str], quickly: bool) -> bool:
        """The filter in hand; True if it must wait for the thread."""
        steps, verdict = case.begun, case.verdict
        assert steps is not None
        try:
            while not self._refuses(owners, case.cost):
                case.cost = self._step(steps, owners)
                if quickly and not self._afford(case.cost):
                    return True
            steps.close()
        except StopIteration as end:
            case.end(verdict.matched if end.value else [])
        except Exception:  # noqa: BLE001  # one filter's fault must not become everybody's
            _log.exception("a filter of %s could not be evaluated", ", ".join(sorted(owners)))
            case.end(verdict.failed)
        else:
            case.end(verdict.refused)
            case.barred |= owners
            self._strict |= owners
        return False

    def _afford(self, steps: int) -> bool:
        """May so many more be done on the loop?"""
        self._steps -= steps
        return self._steps >= 0

    def _step(self, steps: Steps, owners: Collection[str]) -> int:
        """One step, at the owners' expense; what the next one costs.

        Nobody is charged while nobody may be refused. Else those whose simple filters were all evaluated here, since
        there were no kernels yet, would be over their budgets in the moment in which there are.
        """
        if self._waiting() < 0:
            return next(steps)
        begun = self._timer()
        try:
            return next(steps)
        finally:
            took, now = (self._timer() - begun) / len(owners), self._now()
            for owner in owners:
                self.budgets.charge(owner, took, now)

    def _refuses(self, owners: set[str], cost: int) -> bool:
        """Has nobody a budget for these filters, while others wait for them or might have to for a long step?

        For those who were refused before, and are over their budgets still, nobody waits at all.
        """
        waiting = self._waiting()
        if waiting <= 0 and (waiting < 0 or cost < LONG_STEPS):
            return False
        now = self._now()
        if not all(self.budgets.is_over(owner, now) for owner in owners):
            self._strict -= owners
            return False
        return cost >= LONG_STEPS or waiting >= PATIENCE_SECONDS or owners <= self._strict

    def _name_refused(self, ids: Collection[str]) -> None:
        now = self._now()
        for user in {owner for owner in map(self._owner, ids) if owner is not None}:
            if now - self._named.get(user, -LOG_SECONDS) >= LOG_SECONDS:
                self._named = {name: at for name, at in self._named.items() if now - at < LOG_SECONDS} | {user: now}
                _log.warning(
                    "the filters of user %r take more than their share of matching time while others wait; events are "
                    "not matched with some of its subscriptions, and it is told which",
                    user,
                )


# --- Publications that wait because their users have used up their share of matching time ----------------------------
#
# An event with many array elements or long strings takes the kernels as long as hundreds of others. Its publisher pays
# for that time (``recado.server.verification``), and whoever is over the budget while events wait to be dispatched is
# slowed: such events, and what the same user publishes after them, are stored only when that is over, and their
# publisher waits for the acknowledgement. What may wait is bounded; more is refused.


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
