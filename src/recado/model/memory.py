"""Bounded memories: of keys that were met lately, and of what was worked out for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TRIAL = 8_192
PAUSE = 16 * TRIAL
WORTH = 16
"""One hit among so many is worth it."""


class RecentKeys(Generic[K]):
    """At most ``most`` keys, and always the latest half of that: two generations, so that forgetting costs nothing."""

    __slots__ = ("_half", "_new", "_old")

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._new: set[K] = set()
        self._old: set[K] = set()

    def add(self, key: K) -> bool:
        """Remember the key; False if it was known."""
        if key in self._new or key in self._old:
            return False
        if len(self._new) >= self._half:
            self._old, self._new = self._new, set()
        self._new.add(key)
        return True

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


class Memo(Generic[K, V]):
    """At most so many values by key; when there are more, all are forgotten.

    Loading subscriptions meets the same filters thousands of times, or never. In the second case remembering them
    costs more than it saves: what is held is cold memory. So after a trial with few hits it holds nothing for a while.
    """

    def __init__(self, most: int = 16_384) -> None:
        self._most = most
        self._held: dict[K, V] = {}
        self._asked = self._found = 0

    def get(self, key: K) -> V | None:
        """The value; None if there is none, or it was forgotten."""
        self._asked += 1
        found = self._held.get(key)
        if found is not None:
            self._found += 1
        return found

    def put(self, key: K, value: V) -> None:
        """Remember the value, unless remembering is not worth it now."""
        if self._asked > TRIAL and self._found * WORTH < self._asked:
            if self._asked < PAUSE:
                if self._held:
                    self._held = {}
                return
            self._asked = self._found = 0
        if len(self._held) >= self._most:
            self._held = {}
        self._held[key] = value
