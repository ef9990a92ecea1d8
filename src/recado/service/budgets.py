"""Budgets of matching time: what the filters of one user may take of the plain evaluator when others wait for it.

Most filters are decided by the kernels of the index and cost their owner nothing here. What the kernels leave to the
evaluator is charged to the owners of the filter, in seconds as others waited for it. A user's account
drains at ``share`` seconds a second; whoever has more than ``burst_seconds`` in it is over the budget. All users
together are given ``all_share``: the more of them have something in their accounts, the slower these drain and the less
they hold, so a hundred users get no more than the few who would use all of it.

Being over the budget means nothing as long as nobody waits; see ``recado.service.verification``. No clock is read here.
"""

from __future__ import annotations

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
