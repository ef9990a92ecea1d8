"""Where notifications wait in the client: one queue for each subscription that the application iterates over.

What no subscription asks for is held, unacknowledged, until one does (``follow``): the service gives at most a window
of it, or some more if there are other subscriptions (``recado.protocols.session.agent_inbox``), and takes it back when
the session ends. So nothing is lost; ``unclaimed`` counts them. Only what is left of a subscription without an id,
which ended with its iterator or with an earlier run, is for nobody.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from recado.protocols.session.messages import Notify

if TYPE_CHECKING:
    from recado.client.subscription import Subscription


class Inboxes:
    """``ephemeral_prefix`` begins the names of this device's subscriptions without an id."""

    def __init__(self, ephemeral_prefix: str) -> None:
        self.ephemeral_prefix = ephemeral_prefix
        self._by_id: dict[str, Subscription] = {}
        self._rest: Subscription | None = None
        self._held: dict[str, deque[Notify]] = {}

    @property
    def unclaimed(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._by_id.values())

    def put(self, notify: Notify) -> bool:
        """Is it for anybody, now or later?"""
        subscription = self._by_id.get(notify.sub_id) or self._rest
        if subscription is not None:
            subscription.put(notify)
        elif notify.sub_id.startswith(self.ephemeral_prefix):
            return False
        else:
            self._held.setdefault(notify.sub_id, deque()).append(notify)
        return True

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
