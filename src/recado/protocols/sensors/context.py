"""What the layers of a node share: who it is, what time it is, its chance, what it wants done, and what it counts."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeVar

from recado.protocols.machine import Broadcast, CancelTimer, Effect, Rng, Send, SetTimer, TimerKey
from recado.protocols.sensors.messages import Name
from recado.protocols.sensors.settings import SensorSettings

BOOT = 1 << 20
"""Numbers of a node that has started again begin so much higher, so that nobody takes them for the old ones."""

K = TypeVar("K")


class Context:
    """``now``, ``rng`` and ``out`` are those of the step that is being taken."""

    __slots__ = ("boots", "counts", "me", "now", "out", "rng", "settings")

    def __init__(self, me: Name, settings: SensorSettings) -> None:
        self.me, self.settings = me, settings
        self.now = 0.0
        self.rng: Rng
        self.out: list[Effect] = []
        self.counts: dict[str, int] = {}
        self.boots = 0

    def count(self, what: str, by: int = 1) -> None:
        if by:
            self.counts[what] = self.counts.get(what, 0) + by

    def broadcast(self, message: Any, why: str) -> None:
        self.out.append(Broadcast(message, why))

    def send(self, receiver: Name, message: Any, why: str) -> None:
        self.out.append(Send(receiver, message, why))

    def set_timer(self, timer: TimerKey, after_seconds: float) -> None:
        self.out.append(SetTimer(timer, max(after_seconds, 0.0)))

    def cancel_timer(self, timer: TimerKey) -> None:
        self.out.append(CancelTimer(timer))


def trim(table: MutableMapping[K, Any], most: int) -> int:
    """Forget the oldest entries of a table that is too long; how many."""
    excess = len(table) - most
    for _ in range(excess):
        del table[next(iter(table))]
    return max(excess, 0)
