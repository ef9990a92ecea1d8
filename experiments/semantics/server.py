"""The document's event server, plainly: all subscriptions, one after another, through Algorithm 1 for every event.

Sections 3.2 and 3.3 of the semantics document, its three monitoring points (4.4) included; no index and no compiled
alignment. It is what the work measured, so it is measured here beside it, and it is the oracle of ``grid``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from experiments.semantics.dataset import Item
from experiments.semantics.grid import PERFECT, Operator, Unmatched

Similarity = Callable[[str, str], float]
Callback = Callable[[str, Item], bool]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the monitoring log: ``event_done`` closes an event with the number of its matches."""

    t: int
    point: str
    event: str = ""
    subscription: str = ""
    matches: int | None = None


class Monitor(Protocol):
    """Where records go; it reads the clock."""

    def note(self, point: str, event: str = "", subscription: str = "", matches: int | None = None) -> None: ...


class Settings(msgspec.Struct, frozen=True):
    threshold: float
    value_threshold: float
    operator: Operator = "SM"
    unmatched: Unmatched = "ignore"


class EventService:
    """``subscribe`` and ``publish``; ``names`` and ``values`` are the sentence similarity of names and of values."""

    def __init__(
        self, settings: Settings, names: Similarity, values: Similarity, callback: Callback, monitor: Monitor
    ) -> None:
        self._settings, self._names, self._values = settings, names, values
        self._callback, self._monitor = callback, monitor
        self._subscriptions: list[Item] = []

    def subscribe(self, subscription: Item) -> None:
        self._monitor.note("subscription_in", subscription=subscription.id)
        self._subscriptions.append(subscription)

    def publish(self, event: Item) -> None:
        self._monitor.note("event_in", event.id)
        interested = [one for one in self._subscriptions if self.match(event, one)]
        for subscription in interested:
            if self._callback(subscription.id, event):
                self._monitor.note("event_out", event.id, subscription.id)
        self._monitor.note("event_done", event.id, matches=len(interested))

    def match(self, event: Item, subscription: Item) -> bool:
        """Algorithm 1, line by line."""
        pairs: list[tuple[str, str]] = []
        for name, wanted in subscription.pairs:
            chosen = self._choose(name, event.pairs)
            if chosen is not None:
                pairs.append((wanted, chosen))
            elif self._settings.unmatched == "fail":
                return False
        return bool(pairs) and all(self._holds(value, wanted) for wanted, value in pairs)

    def _choose(self, name: str, attributes: Sequence[tuple[str, str]]) -> str | None:
        """The value of the attribute that stands for a constraint."""
        best, chosen = 0.0, None
        for attribute, value in attributes:
            alike = self._names(name, attribute)
            if alike >= PERFECT:
                return value
            if alike > best and alike > self._settings.threshold:
                best, chosen = alike, value
        return chosen

    def _holds(self, value: str, wanted: str) -> bool:
        if self._settings.operator == "SM":
            alike = self._values(wanted, value)
            return alike > self._settings.value_threshold or alike >= PERFECT
        return self._settings.operator == "ANY" or value == wanted
