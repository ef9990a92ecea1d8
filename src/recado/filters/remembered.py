"""A memory for what is worked out again and again, which looks away while nothing comes again.

Loading subscriptions meets the same filters thousands of times, or never. In the second case remembering them costs
more than it saves: what is held is cold memory. So after a trial with few hits it holds nothing for a while.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TRIAL = 8_192
PAUSE = 16 * TRIAL
WORTH = 16
"""One hit among so many is worth it."""


class Remembered(Generic[K, V]):
    """At most so many values by key; when there are more, all are forgotten."""

    def __init__(self, most: int = 16_384) -> None:
        self._most = most
        self._held: dict[K, V] = {}
        self._asked = self._found = 0

    def get(self, key: K) -> V | None:
        self._asked += 1
        found = self._held.get(key)
        if found is not None:
            self._found += 1
        return found

    def put(self, key: K, value: V) -> None:
        if self._asked > TRIAL and self._found * WORTH < self._asked:
            if self._asked < PAUSE:
                if self._held:
                    self._held = {}
                return
            self._asked = self._found = 0
        if len(self._held) >= self._most:
            self._held = {}
        self._held[key] = value
