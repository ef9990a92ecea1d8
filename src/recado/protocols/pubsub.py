"""What applications ask of any overlay, and what they get: the same for trees and for what they are compared with.

Names are of the node's own application; identifiers of subscriptions are unique in the whole overlay and tell nothing
of the node that made them.
"""

from __future__ import annotations

import msgspec

from recado.model.event import Event
from recado.model.subscription import Subscription

# -- requests: the values of ``Asked``


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    subscription: Subscription


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    id: str


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Only events of a type that this node publishes: see ``BecomePublisher``."""

    event: Event


class BecomePublisher(msgspec.Struct, frozen=True, gc=False):
    type: str


class BecomeBroker(msgspec.Struct, frozen=True, gc=False):
    """Stop publishing a type; the node still relays."""

    type: str


# -- notifications and facts: the values of ``Deliver`` and ``Report``


class Notified(msgspec.Struct, frozen=True, gc=False):
    """An event for this node's application, once, with all of its subscriptions that match."""

    event: Event
    subscriptions: tuple[str, ...]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A subscription has heard from all neighbours; ``published`` tells whether any publisher was found."""

    subscription: str
    published: bool


class Unpublished(msgspec.Struct, frozen=True, gc=False):
    """The last publisher that this subscription was connected with is gone."""

    subscription: str
