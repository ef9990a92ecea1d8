"""Where notifications wait in the client: one queue for each subscription that the application iterates over.

What no subscription asks for is held, unacknowledged, until one does (``follow``): the service gives at most a window
of it, and takes it back when the session ends. So nothing is lost, but a client that never looks at its user's other
subscriptions stands still when they have filled the window; ``unclaimed`` counts them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from recado.protocols.session.messages import Notify

if TYPE_CHECKING:
    from recado.client.subscription import Subscription


class Inboxes:
    def __init__(self, took: Callable[[int], bool]) -> None:
        self._took = took
        self._by_id: dict[str, Subscription] = {}
        self._rest: Subscription | None = None
        self._held: dict[str, deque[Notify]] = {}

    @property
    def unclaimed(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._by_id.values())

    def put(self, notify: Notify) -> None:
        subscription = self._by_id.get(notify.sub_id) or self._rest
        if subscription is not None:
            subscription.put(notify)
        else:
            self._held.setdefault(notify.sub_id, deque()).append(notify)

    def add(self, subscription: Subscription) -> None:
        """A subscription takes over what is held for it; the one without an id takes all that nobody asks for."""
        if not subscription.id:
            self._rest = subscription
            names = list(self._held)
        else:
            self._by_id[subscription.id] = subscription
            names = [subscription.id]
        held = [notify for name in names for notify in self._held.pop(name, ())]
        for notify in sorted(held, key=lambda one: one.nid):
            subscription.put(notify)

    def ephemeral(self) -> list[str]:
        return [name for name, one in self._by_id.items() if not one.durable]

    def finish(self) -> None:
        """Acknowledge what loops have in hand."""
        for one in self._everyone():
            one.finish()

    def cancelled(self, sub_id: str, reason: str) -> None:
        subscription = self._by_id.get(sub_id)
        if subscription is not None:
            subscription.cancelled = reason
            subscription.end()

    def end(self, sub_id: str) -> None:
        subscription = self._by_id.pop(sub_id, None)
        if subscription is not None:
            subscription.end()

    def end_all(self, error: Exception | None) -> None:
        for one in self._everyone():
            one.end(error)

    def _everyone(self) -> list[Subscription]:
        return [*self._by_id.values(), *([self._rest] if self._rest is not None else [])]
