"""Rates: how much one user, or one address, may do in a time.

A bucket holds as many tokens as one period allows and is filled steadily, so a burst is fine and a flood is not. The
buckets that nobody used for a while are full again, and are forgotten; their number is bounded whatever comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

_MOST = 100_000


class Rates:
    """One rate, counted apart for every key. ``per_second`` 0 means no bound."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_second, self._burst, self._clock = per_second, max(burst, 1.0), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> tokens, when

    def take(self, key: str, cost: float = 1.0) -> float:
        """0 if it is allowed, and counted; else how many seconds to wait."""
        if self._per_second <= 0:
            return 0.0
        tokens = self._tokens(key)
        if tokens < min(cost, self._burst):  # what is larger than the bucket passes when the bucket is full
            return (min(cost, self._burst) - tokens) / self._per_second
        self._buckets[key] = (tokens - cost, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0

    def _tokens(self, key: str) -> float:
        held = self._buckets.get(key)
        if held is None:
            return self._burst
        tokens, since = held
        return min(self._burst, tokens + (self._clock() - since) * self._per_second)
