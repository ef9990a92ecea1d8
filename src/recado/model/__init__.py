"""Frozen values that every other room speaks of: events, subscriptions, notifications."""

from recado.model.event import Event, expansions
from recado.model.limits import LIMITS, Limits
from recado.model.subscription import Notification, Subscription
from recado.model.values import Kind, Value, kind_of

__all__ = [
    "LIMITS",
    "Event",
    "Kind",
    "Limits",
    "Notification",
    "Subscription",
    "Value",
    "expansions",
    "kind_of",
]
