"""The obvious matcher: evaluate every filter on every event. Slow, and the oracle for everything faster."""

from __future__ import annotations

from recado.filters.evaluate import matches
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.subscription import Subscription


class NaiveMatcher:
    """The same interface as the index, without any cleverness."""

    def __init__(self) -> None:
        self._filters: dict[str, Filter] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, subscription: Subscription) -> None:
        """Add a subscription, or replace the one that has its id."""
        self._filters[subscription.id] = subscription.whole_filter()

    def remove(self, subscription_id: str) -> bool:
        """Remove a subscription; False if there is none with this id."""
        return self._filters.pop(subscription_id, None) is not None

    def match(self, event: Event) -> list[str]:
        """The ids of the matching subscriptions, sorted."""
        return sorted(id for id, filter in self._filters.items() if matches(filter, event))
