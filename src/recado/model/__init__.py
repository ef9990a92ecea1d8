"""Frozen values that every other room speaks of: events, subscriptions, values."""

from recado.model.event import Event, expansions
from recado.model.limits import LIMITS, Limits
from recado.model.subscription import Subscription
from recado.model.values import Kind, Value, kind_of

__all__ = [
    "LIMITS",
    "Event",
    "Kind",
    "Limits",
    "Subscription",
    "Value",
    "expansions",
    "kind_of",
]
