"""What happens to a broker (stimuli) and what it wants done (effects), as frozen values.

``consumer`` is always the key under which the caller attached a consumer. ``now`` comes beside a stimulus; that of
``Dispatch`` and ``PassOver`` is the instant at which the events were accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from recado.broker.constraints import Constraints
from recado.broker.state import NEVER, Consumer, DropReason, Notice, QueuedNotification, SubscriptionState

# -- stimuli: consumers


class Attach(msgspec.Struct, frozen=True, gc=False):
    """A consumer connects a device. ``seen`` is the greatest nid that the device has; all nids that were ever given are
    below ``end``.
    """

    user: str
    device: str
    consumer: Any
    window: int
    seen: int | None = None
    end: int = NEVER


class AttachWebhook(msgspec.Struct, frozen=True, gc=False):
    """A consumer that is no device of the user: it reads one mailbox, and does not make its user CONNECTED."""

    user: str
    device: str
    consumer: Any
    window: int


class Resize(msgspec.Struct, frozen=True, gc=False):
    """The consumer takes ``window`` unacknowledged notifications from now on."""

    consumer: Any
    window: int


class ConsumerLost(msgspec.Struct, frozen=True, gc=False):
    """The connection failed."""

    consumer: Any


class SessionEnded(msgspec.Struct, frozen=True, gc=False):
    """The device ended its session; subscriptions and mailboxes stay. With ``forget`` it does not come back."""

    consumer: Any
    forget: bool = False


class ForgetDevice(msgspec.Struct, frozen=True, gc=False):
    """The device, which is not connected, does not come back; with ``empty`` what waits for it alone goes, too."""

    user: str
    device: str
    empty: bool = True


class Acknowledge(msgspec.Struct, frozen=True, gc=False):
    """The consumer has everything that was given to it up to a nid."""

    consumer: Any
    upto: int


class AcknowledgeOne(msgspec.Struct, frozen=True, gc=False):
    """The consumer has this one, whatever came before it."""

    consumer: Any
    nid: int


class AcknowledgeSome(msgspec.Struct, frozen=True, gc=False):
    """The consumer has these, but not all that came before them."""

    consumer: Any
    nids: Collection[int]


class Repeated(msgspec.Struct, frozen=True, gc=False):
    """So many notifications were sent to the device once more, without the broker having given them again."""

    consumer: Any
    count: int


class ConfirmNotices(msgspec.Struct, frozen=True, gc=False):
    consumer: Any
    notices: Sequence[int]


# -- stimuli: subscriptions and mailboxes


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """A subscription to the events from ``position`` on; it replaces the one with its id, if there is one."""

    user: str
    id: str
    position: int
    expires_at: datetime
    device: str = ""
    scope: str = ""
    constraints: Constraints = ()
    record: Mapping[str, Any] | None = None


class Renew(msgspec.Struct, frozen=True, gc=False):
    """Extend it; one that has expired goes on under its id, from ``position`` on."""

    subscription: SubscriptionState
    expires_at: datetime
    position: int


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """Its owner wants it no more or, with a ``reason``, somebody else has ended it and the owner is told so."""

    subscription: SubscriptionState
    position: int
    reason: str = ""


class Discard(msgspec.Struct, frozen=True, gc=False):
    """Cancel the user's subscriptions, but for those of other devices, and empty their mailboxes."""

    user: str
    device: str
    position: int


class Purge(msgspec.Struct, frozen=True, gc=False):
    """Empty the mailboxes of a user, or that of one device; with ``tell`` the owner is told of a gap."""

    user: str
    device: str | None = None
    tell: bool = True


# -- stimuli: events and time

Matches: TypeAlias = tuple[int, bytes, list[SubscriptionState]]
"""The position of an event, its text, and the subscriptions that it matched."""


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """Events, in the order of the log, that were accepted at one instant."""

    events: Sequence[Matches]


class PassOver(msgspec.Struct, frozen=True, gc=False):
    """The event was not matched with these: their owners are told of a gap."""

    position: int
    subscriptions: Sequence[SubscriptionState]
    reason: DropReason = "budget"


class Expire(msgspec.Struct, frozen=True, gc=False):
    """End the subscriptions whose time has come, and forget those whose grace is over.

    With ``most``, so many of them are looked at; ``SweepUnfinished`` asks for the next part.
    """

    position: int
    most: int = NEVER


class Sweep(msgspec.Struct, frozen=True, gc=False):
    """The same, and look for what is too old to keep.

    With ``most``, so many subscriptions or users are looked at; ``SweepUnfinished`` asks for the next part.
    """

    position: int
    device_age: timedelta
    most: int = NEVER


class Release(msgspec.Struct, frozen=True, gc=False):
    """All mailboxes are loaded: deliver from now on."""


class Recovered(msgspec.Struct, frozen=True, gc=False):
    """What was accepted before the restart is dispatched: who was connected then counts no longer."""


Stimulus: TypeAlias = (
    Attach
    | AttachWebhook
    | Resize
    | ConsumerLost
    | SessionEnded
    | ForgetDevice
    | Acknowledge
    | AcknowledgeOne
    | AcknowledgeSome
    | Repeated
    | ConfirmNotices
    | Subscribe
    | Renew
    | Cancel
    | Discard
    | Purge
    | Dispatch
    | PassOver
    | Expire
    | Sweep
    | Release
    | Recovered
)


# -- effects


class Push(msgspec.Struct, frozen=True, gc=False):
    """Send these, in this order; those from the nid ``fresh`` on did not wait."""

    consumer: Any
    notifications: list[QueuedNotification]
    fresh: int


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Send these notices."""

    consumer: Any
    notices: list[Notice]


class Close(msgspec.Struct, frozen=True, gc=False):
    """Close the connection; the broker has detached the consumer already."""

    consumer: Any
    reason: str


class Attached(msgspec.Struct, frozen=True, gc=False):
    consumer: Consumer


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """So many were acknowledged; the first of them was generated at ``generated_at``."""

    count: int
    generated_at: datetime


class Subscribed(msgspec.Struct, frozen=True, gc=False):
    """The subscription is active, or extended."""

    subscription: SubscriptionState


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The subscription wants no events from ``until`` on, so the matcher may forget it when those are dispatched."""

    subscription: SubscriptionState


class Removed(msgspec.Struct, frozen=True, gc=False):
    """So many subscriptions (``Discard``) or notifications (``Purge``) are gone."""

    count: int


class Notified(msgspec.Struct, frozen=True, gc=False):
    """The dispatched events gave so many notifications."""

    count: int


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """So many notifications will not come; their owners are told."""

    count: int
    reason: DropReason


class DispatchFailed(msgspec.Struct, frozen=True, gc=False):
    """The event could not be given to this subscription, whose owner is told of a gap; all others have it."""

    subscription: SubscriptionState
    position: int
    error: Exception


class SweepUnfinished(msgspec.Struct, frozen=True, gc=False):
    """Give the broker another one."""


Effect: TypeAlias = (
    Push
    | Tell
    | Close
    | Attached
    | Acknowledged
    | Subscribed
    | Ended
    | Removed
    | Notified
    | Dropped
    | DispatchFailed
    | SweepUnfinished
)
Out: TypeAlias = list[Effect]
"""Where handlers put their effects."""
