"""Subscription records on their way in and out, the same whichever way they came.

In: a record without an ``id`` gets one; the members of the semantics document's interface (3.8) are read as ours,
``subscription`` as ``filter`` and ``callback`` as the ``url`` of ``webhook``. A webhook is checked before it is kept.

Out: a webhook's secret is not shown again. What is shown instead is no secret when it comes back: it means the one that
is kept.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from recado.errors import LimitError, SubscriptionError
from recado.model.decoding import explain
from recado.model.flat import refuse_repeats
from recado.model.limits import LIMITS
from recado.model.values import parse_time
from recado.server.webhooks.targets import Webhook, read_webhook

_encode = msgspec.json.Encoder().encode
MASK = "..."
"""What is shown in place of a secret."""


def prepare(raw: bytes, *, private: bool) -> tuple[bytes, Webhook | None]:
    """The record as the engine takes it, and its webhook; ``private`` allows those to internal addresses."""
    if len(raw) > LIMITS.subscription_bytes:
        raise LimitError(f"the subscription has {len(raw):,} bytes; the limit is {LIMITS.subscription_bytes:,}")
    members = _members(raw)
    _translate(members)
    members.setdefault("id", f"s-{uuid4().hex[:16]}")
    webhook = members.get("webhook")
    if webhook is None:
        members.pop("webhook", None)
        return _encode(members), None
    return _encode(members), read_webhook(webhook, private)


def shown(members: dict[str, Any]) -> dict[str, Any]:
    """A subscription's members for its owner's eyes, without the secret."""
    webhook = members.get("webhook")
    if not isinstance(webhook, dict) or "secret" not in webhook:
        return members
    return {**members, "webhook": {**webhook, "secret": MASK}}


def unmask(record: bytes, kept: dict[str, Any] | None) -> bytes:
    """The record with the secret that ``kept``, the subscription of that id so far, has; its own is the mask."""
    secret = ((kept or {}).get("webhook") or {}).get("secret")
    if not secret:
        raise SubscriptionError(
            f"$.webhook.secret: {MASK!r} is only what is shown in its place, and there is none yet; write the secret"
        )
    members = msgspec.json.decode(record)
    members["webhook"]["secret"] = secret
    return _encode(members)


def instant(text: str | None, member: str) -> datetime | None:
    """The instant that a member names, if it is there."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise SubscriptionError(f"$.{member}: {error}") from None


def _members(raw: bytes) -> dict[str, Any]:
    try:
        members = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise SubscriptionError(explain(error, None, raw)) from None
    except UnicodeError:
        raise SubscriptionError("$: the text is not UTF-8") from None
    except RecursionError:
        raise SubscriptionError("$: the JSON is nested far too deep") from None
    if not isinstance(members, dict):
        raise SubscriptionError('$: a subscription is a JSON object such as {"filter": "Price < 25", "type": "Tick"}')
    refuse_repeats(raw, members, SubscriptionError)
    return members


def _translate(members: dict[str, Any]) -> None:
    if "subscription" in members:
        if "filter" in members:
            raise SubscriptionError("$.subscription: give either filter or subscription, which mean the same")
        members["filter"] = members.pop("subscription")
    if "callback" in members:
        if "webhook" in members:
            raise SubscriptionError("$.callback: give either webhook or callback, which mean the same")
        members["webhook"] = {"url": members.pop("callback")}
