"""A request to subscribe, read and checked: what the owner sent becomes what the broker and the matcher need.

The record is that of ``recado.filters.records`` with ``ttl`` (seconds, instead of ``expires_at``), ``scope`` (``all``
or ``this device``) and ``webhook`` more, and with ``id`` optional: the service then chooses one. A lifetime beyond the
configured maximum is shortened to it. A subscription with a webhook is for the device that stands for the webhook.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import uuid4

import msgspec

from recado.broker.constraints import Constraints, read_constraints
from recado.broker.persistence import read_record
from recado.broker.state import Consumer, Device, Mailbox, SubscriptionState, User
from recado.errors import SubscriptionError
from recado.model.decoding import explain
from recado.model.flat import refuse_repeats
from recado.model.limits import LIMITS
from recado.model.subscription import Subscription
from recado.model.values import format_time
from recado.server.config import Subscriptions
from recado.server.permissions import WEBHOOK_DEVICES

# --- What the engine shows of its subscriptions, sessions and mailboxes: plain values, taken at one moment -----------


ALL, THIS_DEVICE = "all", "this device"


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """A subscription; ``record`` is what its owner sent, without ``id``, ``ttl`` and ``expires_at``.

    ``unmatched`` counts the events that were not matched with it since the service started (its owner's budget).
    """

    id: str
    user: str
    ordinal: int
    record: dict[str, Any]
    expires_at: datetime
    scope: str
    device: str
    since: int
    active: bool
    last_notified: datetime | None
    notified: int
    unmatched: int = 0

    @property
    def expires_text(self) -> str:
        return format_time(self.expires_at)

    def members(self) -> dict[str, Any]:
        """As SUBS lists it."""
        shown = {"id": self.id, **self.record, "expires_at": self.expires_text, "scope": self.scope}
        if self.scope == THIS_DEVICE:
            shown["device"] = self.device
        if self.unmatched:
            shown["unmatched"] = self.unmatched
        return shown


def describe(subscription: SubscriptionState) -> SubscriptionInfo:
    """The subscription as it is now."""
    return SubscriptionInfo(
        id=subscription.id,
        user=subscription.user.name,
        ordinal=subscription.ordinal,
        record=dict(subscription.record),
        expires_at=subscription.expires_at,
        scope=THIS_DEVICE if subscription.scope else ALL,
        device=subscription.scope or subscription.device,
        since=subscription.since,
        active=subscription.active,
        last_notified=subscription.last_notified,
        notified=subscription.notified,
        unmatched=subscription.unmatched,
    )


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a user; the last six are empty while it is not connected. ``at`` is when that began.

    ``redelivered`` counts what it was given and had been given before, since it connected.
    """

    user: str
    device: str
    connected: bool
    at: datetime
    kind: str = ""
    address: str = ""
    window: int = 0
    unacknowledged: int = 0
    redelivered: int = 0


def sessions_of(user: User) -> list[SessionInfo]:
    return [describe_session(user, device) for device in user.devices.values()]


def describe_session(user: User, device: Device) -> SessionInfo:
    consumer = device.consumer
    if consumer is None:
        return SessionInfo(user=user.name, device=device.id, connected=False, at=device.seen_at)
    return SessionInfo(
        user=user.name,
        device=device.id,
        connected=True,
        at=consumer.since,
        kind=consumer.key.kind,
        address=consumer.key.address,
        window=consumer.window,
        unacknowledged=len(consumer.in_flight),
        redelivered=consumer.redelivered,
    )


class ConsumerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer that reads a mailbox: how many it may be given before it acknowledges some, and how many it has."""

    device: str
    kind: str
    window: int
    in_flight: int
    redelivered: int


class MailboxInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox; ``device`` is empty for the one that all devices of the user share. Counts are of the user.

    ``lag_seconds`` is for how long the oldest notification has waited, 0 if there is none.
    """

    user: str
    device: str
    length: int
    bytes: int
    oldest: datetime | None
    delivered: int
    delivered_late: int
    dropped: dict[str, int]
    notices: int
    lag_seconds: float
    consumers: list[ConsumerInfo]


def mailboxes_of(user: User, now: datetime) -> list[MailboxInfo]:
    return [describe_mailbox(mailbox, now) for mailbox in user.mailboxes.values()]


def describe_mailbox(mailbox: Mailbox, now: datetime) -> MailboxInfo:
    user = mailbox.user
    waiting = mailbox.first_waiting()
    return MailboxInfo(
        user=user.name,
        device=mailbox.device,
        length=mailbox.length,
        bytes=mailbox.bytes,
        oldest=None if waiting is None else waiting.at,
        delivered=user.delivered,
        delivered_late=user.delivered_late,
        dropped=dict(user.dropped),
        notices=len(user.notices),
        lag_seconds=lag_seconds(None if waiting is None else waiting.at, now),
        consumers=[_describe_consumer(cursor.consumer) for cursor in mailbox.cursors],
    )


def _describe_consumer(consumer: Consumer) -> ConsumerInfo:
    return ConsumerInfo(
        device=consumer.device,
        kind=consumer.key.kind,
        window=consumer.window,
        in_flight=len(consumer.in_flight),
        redelivered=consumer.redelivered,
    )


class Lag(msgspec.Struct, frozen=True):
    """What waits in the mailboxes of a class: how many notifications, and for how long the oldest of them."""

    notifications: int
    seconds: float


def lag_seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)


# --- Requests to subscribe -------------------------------------------------------------------------------------------

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_NOT_KEPT = ("id", "ttl", "expires_at", "scope")


class SubscribeRequest(msgspec.Struct, frozen=True):
    """``scope`` is the device that it is for, or empty."""

    subscription: Subscription
    expires_at: datetime
    device: str
    scope: str
    constraints: Constraints
    record: dict[str, Any]


def read_request(raw: bytes, device: str, now: datetime, settings: Subscriptions) -> SubscribeRequest:
    """The subscription that a request asks for; a SubscriptionError names what is wrong with it."""
    members = _members(raw)
    if "owner" in members:
        raise SubscriptionError("$.owner: leave it out; a subscription belongs to whoever asks for it")
    members.setdefault("id", f"s-{uuid4().hex[:16]}")
    subscription = read_record(members)
    constraints = read_constraints(subscription.constraints, settings.time_zone)
    expires_at = expiry(subscription.expires_at, members.get("ttl"), now, settings)
    scope = members.get("scope", ALL)
    if scope not in (ALL, THIS_DEVICE):
        raise SubscriptionError(f"$.scope: must be {ALL!r} or {THIS_DEVICE!r}")
    target = device if scope == THIS_DEVICE else ""
    if "webhook" in members:
        target = webhook_device(subscription.id)
    record = {name: value for name, value in members.items() if name not in _NOT_KEPT}
    return SubscribeRequest(subscription, expires_at, device, target, constraints, record)


def read_filter(raw: bytes) -> Subscription:
    """A record of which only the filter counts; it needs no id."""
    return read_record({"id": "replay", **_members(raw)})


def webhook_device(sub_id: str) -> str:
    """The device that stands for the webhook of a subscription."""
    return f"{WEBHOOK_DEVICES}{blake2b(sub_id.encode(), digest_size=8).hexdigest()}"


def expiry(expires_at: datetime | None, ttl: Any, now: datetime, settings: Subscriptions) -> datetime:
    """When a subscription ends that asks for this."""
    longest = now + timedelta(seconds=settings.ttl_max_seconds)
    if ttl is not None:
        if expires_at is not None:
            raise SubscriptionError("$.ttl: give either ttl or expires_at, not both")
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < float("inf"):
            raise SubscriptionError("$.ttl: must be a number of seconds greater than 0")
        return now + timedelta(seconds=min(ttl, settings.ttl_max_seconds))
    if expires_at is None:
        return now + timedelta(seconds=min(settings.ttl_seconds, settings.ttl_max_seconds))
    if expires_at <= now:
        raise SubscriptionError("$.expires_at: lies in the past, so no event could be notified")
    return min(expires_at, longest)


def _members(raw: bytes) -> dict[str, Any]:
    if len(raw) > LIMITS.subscription_bytes:
        raise SubscriptionError(f"the record has {len(raw):,} bytes; the limit is {LIMITS.subscription_bytes:,}")
    try:
        members = _decode(raw)
    except msgspec.DecodeError as error:
        raise SubscriptionError(f"the subscription is no JSON object: {explain(error, None, raw)}") from None
    except UnicodeError:
        raise SubscriptionError("the text is not UTF-8") from None
    except RecursionError:
        raise SubscriptionError("the JSON is nested far too deep") from None
    refuse_repeats(raw, members, SubscriptionError)
    return members
