"""Subscriptions say what someone cares about."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from recado.errors import RecadoError, SubscriptionError
from recado.model.filter import TRUE, And, Compare, Exists, Filter, Text
from recado.model.limits import LIMITS, Limits
from recado.model.values import check_value


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """A standing interest that belongs to ``owner``, a user URI, and not to an address.

    ``type`` is an event type; with ``*`` or ``?`` in it, a pattern; empty, any type. ``constraints`` and ``semantic``
    are carried unread: delivery constraints and semantic matching give them their meaning.
    """

    id: str
    filter: Filter = TRUE
    type: str = ""
    owner: str = ""
    expires_at: datetime | None = None
    constraints: tuple[dict[str, Any], ...] = ()
    semantic: dict[str, Any] | None = None

    def whole_filter(self) -> Filter:
        """The filter with the event type joined in: what an engine evaluates."""
        if not self.type:
            return self.filter
        return And((type_filter(self.type), self.filter))


def check_id(subscription_id: str, limits: Limits = LIMITS) -> str:
    """The id itself; a SubscriptionError if no subscription can be called so."""
    if not subscription_id:
        raise SubscriptionError("the subscription has an empty id")
    if len(subscription_id) > limits.id_chars:
        chars = f"{len(subscription_id):,} characters; the limit is {limits.id_chars:,}"
        raise SubscriptionError(f"the subscription's id has {chars}")
    try:
        check_value(subscription_id, "the subscription's id", limits.id_chars)
    except RecadoError as error:
        raise SubscriptionError(str(error)) from None
    return subscription_id


def type_filter(pattern: str) -> Filter:
    """What an event type, or a pattern of types, asks of an event."""
    if pattern == "*":
        return Exists("type")
    if "*" in pattern or "?" in pattern:
        return Text("type", "like", pattern)
    return Compare("type", "==", pattern)
