"""How long to wait before dialling again: exponential, with jitter, so that many nodes do not return at once."""

from __future__ import annotations

from random import Random


class Backoff:
    """Waits of between half and all of a bound that doubles, up to ``most``; ``reset`` after a success."""

    def __init__(self, first: float, most: float, rng: Random) -> None:
        self._first, self._most, self._rng = first, most, rng
        self._failures = 0

    def next(self) -> float:
        bound = min(self._most, self._first * 2.0 ** min(self._failures, 63))
        self._failures += 1
        return bound * (0.5 + 0.5 * self._rng.random())

    def reset(self) -> None:
        self._failures = 0
