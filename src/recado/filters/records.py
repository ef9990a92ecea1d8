"""Subscription records: one JSON object a line, as ``recado match`` and bulk loading read them.

``{"id": "s-1", "filter": "Price < 25", "type": "StockExchange", "owner": "user:ana@example.org"}``

- ``id`` is required: a string, or an integer that is read as its decimal text.
- ``filter`` is text in any syntax; ``syntax`` names it where the text alone does not tell (CESQL). Instead of
  ``filter`` there may be ``filters``, a list in the dialects of the CloudEvents Subscriptions API. With neither, the
  subscription takes every event of its type.
- ``type`` is an event type or a pattern of types with ``*`` and ``?``; ``owner`` is a URI.
- ``expires_at`` (RFC 3339), ``constraints`` (a list of objects) and ``semantic`` (an object) are carried along.

Any other member is an error, because a misspelt ``filter`` would match everything.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from recado.errors import FilterError, SubscriptionError
from recado.filters.cost import check_filter
from recado.filters.remembered import Remembered
from recado.filters.syntax import Syntax, parse_filter
from recado.model.filter import TRUE, Filter
from recado.model.limits import LIMITS, Limits
from recado.model.repeats import refuse_repeats_among
from recado.model.subscription import Subscription
from recado.model.times import parse_time


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    id: str | int
    filter: str | None = None
    filters: list[Any] | None = None
    syntax: Syntax = "auto"
    type: str | None = None
    owner: str | None = None
    expires_at: str | None = None
    constraints: list[dict[str, Any]] | None = None
    semantic: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Record).decode


KnownFilters = Remembered[tuple[str, str, str | None], Filter]
"""Filters that were read and checked, by text, syntax and event type: those that are written alike are read once."""


def read_subscription(line: bytes | str, limits: Limits = LIMITS, known: KnownFilters | None = None) -> Subscription:
    """The subscription that a JSON object describes; a SubscriptionError says what is wrong with it.

    ``known`` is for many that are read with the same limits.
    """
    if len(line) > limits.subscription_bytes:
        raise SubscriptionError(f"the record has {len(line):,} bytes; the limit is {limits.subscription_bytes:,}")
    record = _parse(line)
    _check_keys(line.encode() if isinstance(line, str) else line, record)
    id = _limited("id", str(record.id), limits.id_chars)
    if not id:
        raise SubscriptionError('$.id: the subscription has no id; give it one such as {"id": "s-1"}')
    filter = None
    if known is not None and record.filter is not None and record.filters is None:
        filter = known.get((record.filter, record.syntax, record.type))
    is_known = filter is not None
    subscription = Subscription(
        id=id,
        filter=_filter(record, limits) if filter is None else filter,
        type=_limited("type", record.type or "", limits.pattern_chars),
        owner=_limited("owner", record.owner or "", limits.owner_chars),
        expires_at=_instant(record.expires_at),
        constraints=tuple(record.constraints or ()),
        semantic=record.semantic,
    )
    if not is_known:
        _check(subscription, limits)
        if known is not None and record.filter is not None:
            known.put((record.filter, record.syntax, record.type), subscription.filter)
    return subscription


def _check(subscription: Subscription, limits: Limits) -> None:
    """The limits hold for the filter with the type joined in, which is what an engine evaluates."""
    try:
        check_filter(subscription.whole_filter(), limits)
    except FilterError as error:
        raise SubscriptionError(f"subscription {subscription.id!r}: {error}") from error


def _check_keys(line: bytes, record: _Record) -> None:
    members = structs.astuple(record)
    given = len(members) - members.count(None) - (record.syntax == "auto")  # which is the default, and rarely written
    refuse_repeats_among(line, members, given, SubscriptionError)


def _parse(line: bytes | str) -> _Record:
    try:
        return _decode(line)
    except msgspec.DecodeError as error:
        reason = str(error).replace("Object contains unknown field", "there is no member")
        reason = reason.replace("Object missing required field", "the subscription lacks the member")
        raise SubscriptionError(reason) from None
    except UnicodeError:
        raise SubscriptionError("the text is not UTF-8") from None
    except RecursionError:
        raise SubscriptionError("the JSON is nested far too deep") from None


def _filter(record: _Record, limits: Limits) -> Filter:
    if record.filter is not None and record.filters is not None:
        raise SubscriptionError("$.filters: give either filter or filters, not both")
    try:
        if record.filters is not None:
            from recado.filters import dialects  # noqa: PLC0415  # large, and most processes never meet it

            return dialects.parse(record.filters, limits)
        if record.filter is None:
            return TRUE
        return parse_filter(record.filter, record.syntax, limits)
    except FilterError as error:
        raise SubscriptionError(f"subscription {str(record.id)!r}: {error}") from error


def _limited(name: str, text: str, longest: int) -> str:
    if len(text) > longest:
        raise SubscriptionError(f"$.{name}: has {len(text):,} characters; the limit is {longest:,}")
    return text


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise SubscriptionError(f"$.expires_at: {error}") from None
