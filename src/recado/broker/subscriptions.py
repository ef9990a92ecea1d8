"""Subscriptions: their beginning, renewal and end, and what goes with time (the mobility document, 8).

What nobody will ask for again goes with time: notifications and notices by their age, devices that have been away for
long, empty mailboxes of devices, and users of whom nothing is left.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import chain

from recado.broker import stimuli as s
from recado.broker.consumers import empty, lose_device, pump_all
from recado.broker.notices import add_notice, drop_aged, tidy_notices
from recado.broker.state import ORDINAL_BITS, Mailbox, Notice, State, SubscriptionState, User
from recado.broker.stimuli import Ended, Out, Removed, Subscribed, SweepUnfinished
from recado.errors import LimitError

_LAST_ORDINAL = 2**ORDINAL_BITS - 1


def subscribe(state: State, wish: s.Subscribe, now: datetime, out: Out) -> None:
    user = state.user(wish.user)
    before = user.subscriptions.get(wish.id)
    if before is None or not before.active:
        _check_room(state, user)
    if before is not None:
        _end(state, before, out, position=wish.position, now=now, reason="replaced")
        _close(state, before)
    subscription = SubscriptionState(
        state.next_serial,
        wish.id,
        user,
        _next_ordinal(user),
        expires_at=wish.expires_at,
        since=wish.position,
        device=wish.device,
        scope=wish.scope,
        constraints=wish.constraints,
        record=wish.record,
    )
    enter(state, subscription)
    state.changes.subscriptions[subscription.serial] = subscription
    out.append(Subscribed(subscription))


def enter(state: State, subscription: SubscriptionState) -> None:
    """Take in a subscription that is numbered already, as those of the store are."""
    user = subscription.user
    state.next_serial = max(state.next_serial, subscription.serial + 1)
    state.subscriptions[subscription.serial] = subscription
    user.ordinals[subscription.ordinal] = subscription
    known = user.subscriptions.get(subscription.id)
    if known is None or known.serial < subscription.serial:
        user.subscriptions[subscription.id] = subscription
    if subscription.active:
        state.active += 1
    elif subscription.reason != "expired" or user.subscriptions[subscription.id] is not subscription:
        _close(state, subscription)
        return
    heappush(state.expiries, (subscription.expires_at, subscription.serial))


def _check_room(state: State, user: User) -> None:
    if len(user.subscriptions) >= state.settings.subscriptions_per_user:
        raise LimitError(f"user {user.name!r} has {len(user.subscriptions):,} subscriptions, which is the limit")
    if state.active >= state.settings.subscriptions_in_all:
        raise LimitError(f"the service has {state.active:,} subscriptions, which is the limit")


def _next_ordinal(user: User) -> int:
    """The next number after the last one that none of the user's subscriptions has; after the greatest comes 1."""
    last = next(reversed(user.ordinals), 0)
    following = chain(range(last + 1, _LAST_ORDINAL + 1), range(1, last + 1))
    return next(number for number in following if number not in user.ordinals)


def renew(state: State, wish: s.Renew, now: datetime, out: Out) -> None:
    subscription = wish.subscription
    if not subscription.active or subscription.expires_at <= now:
        again = s.Subscribe(
            subscription.user.name,
            subscription.id,
            wish.position,
            wish.expires_at,
            subscription.device,
            subscription.scope,
            subscription.constraints,
            subscription.record,
        )
        subscribe(state, again, now, out)
        return
    if wish.expires_at < subscription.expires_at:
        heappush(state.expiries, (wish.expires_at, subscription.serial))
    subscription.expires_at = wish.expires_at
    state.changes.subscriptions[subscription.serial] = subscription
    out.append(Subscribed(subscription))


def cancel(state: State, wish: s.Cancel, now: datetime, out: Out) -> None:
    subscription = wish.subscription
    _end(state, subscription, out, position=wish.position, now=now, reason="cancelled")
    if wish.reason:
        _tell_end(state, subscription, wish.position, wish.reason, out)
    _close(state, subscription)


def discard(state: State, wish: s.Discard, now: datetime, out: Out) -> None:
    user = state.user(wish.user)
    mine = [one for one in user.subscriptions.values() if one.scope in ("", wish.device)]
    for subscription in mine:
        cancel(state, s.Cancel(subscription, wish.position), now, out)
    mailboxes = [mailbox for mailbox in user.mailboxes.values() if mailbox.device in ("", wish.device)]
    empty(state, user, mailboxes, out, tell=False)
    out.append(Removed(len(mine)))


def expire(state: State, subscription: SubscriptionState, position: int, now: datetime, out: Out) -> None:
    """It has reached its end at a position; the owner is told."""
    _end(state, subscription, out, position=position, now=now, reason="expired")
    _tell_end(state, subscription, position, "expired", out)


def _end(state: State, subscription: SubscriptionState, out: Out, *, position: int, now: datetime, reason: str) -> None:
    if subscription.active:
        subscription.until, subscription.ended_at, subscription.reason = position, now, reason
        state.active -= 1
        out.append(Ended(subscription))
    else:
        subscription.reason = reason
    state.changes.subscriptions[subscription.serial] = subscription


def _close(state: State, subscription: SubscriptionState) -> None:
    """It cannot be renewed any more; its record goes when all events before its end are dispatched for good."""
    if subscription.user.subscriptions.get(subscription.id) is subscription:
        del subscription.user.subscriptions[subscription.id]
    state.closed.append(subscription)


def _tell_end(state: State, subscription: SubscriptionState, position: int, reason: str, out: Out) -> None:
    """A webhook has no place for notices, so its owner's devices are told."""
    user = subscription.user
    after = position << ORDINAL_BITS
    device = "" if "webhook" in subscription.record else subscription.scope
    add_notice(state, user, Notice(state.next_notice, device, reason, after, (subscription.id,)))
    pump_all(state, user, out)


def forget_closed(state: State, dispatched: int) -> None:
    """Everything before ``dispatched`` is being stored as dispatched: records that ended by then have no more use."""
    left = []
    for subscription in state.closed:
        if subscription.until > dispatched:
            left.append(subscription)
            continue
        state.subscriptions.pop(subscription.serial, None)
        if subscription.user.ordinals.get(subscription.ordinal) is subscription:
            del subscription.user.ordinals[subscription.ordinal]
        state.changes.subscriptions[subscription.serial] = None
    state.closed = left


# -- time


def expire_due(state: State, wish: s.Expire, now: datetime, out: Out) -> None:
    _expire_some(state, wish.position, wish.most, now, out)
    if state.expiries and state.expiries[0][0] <= now:
        out.append(SweepUnfinished())


def _expire_some(state: State, position: int, most: int, now: datetime, out: Out) -> int:
    """How many more may be looked at."""
    while most and state.expiries and state.expiries[0][0] <= now:
        _look_at(state, heappop(state.expiries)[1], position, now, out)
        most -= 1
    return most


def sweep(state: State, wish: s.Sweep, now: datetime, out: Out) -> None:
    left = _expire_some(state, wish.position, wish.most, now, out)
    if state.untidy is None:
        state.untidy = deque(state.users.values())
    while left and state.untidy:
        user = state.untidy.popleft()
        if state.users.get(user.name) is user:
            _tidy(state, user, now, wish.device_age, out)
        left -= 1
    if state.untidy:
        out.append(SweepUnfinished())
    else:
        state.untidy = None


def _look_at(state: State, serial: int, position: int, now: datetime, out: Out) -> None:
    """The time has come at which this subscription was to end, or its grace."""
    subscription = state.subscriptions.get(serial)
    if subscription is None:
        return
    if subscription.active and subscription.expires_at > now:  # it was renewed
        heappush(state.expiries, (subscription.expires_at, serial))
        return
    if subscription.active:
        expire(state, subscription, position, now, out)
    if subscription.reason == "expired":
        over = subscription.expires_at + state.settings.grace
        if over > now:
            heappush(state.expiries, (over, serial))
        elif subscription.user.subscriptions.get(subscription.id) is subscription:
            _close(state, subscription)


def _tidy(state: State, user: User, now: datetime, device_age: timedelta, out: Out) -> None:
    """Drop what has become too old, and forget the user if nothing is left."""
    for mailbox in user.mailboxes.values():
        if mailbox.length:
            drop_aged(state, mailbox, now, out)
    for device in [d for d in user.devices.values() if d.consumer is None and now - d.seen_at > device_age]:
        lose_device(state, user, device.id)
    for mailbox in [m for m in user.mailboxes.values() if m.device and not (m.length or m.cursors)]:
        _forget_mailbox(state, mailbox)
    if user.notices:
        tidy_notices(state, user, now)
    waits = any(mailbox.length for mailbox in user.mailboxes.values())
    if not (user.devices or user.webhooks or user.ordinals or user.notices or waits):
        for mailbox in list(user.mailboxes.values()):
            _forget_mailbox(state, mailbox)
        del state.users[user.name]


def _forget_mailbox(state: State, mailbox: Mailbox) -> None:
    """It is empty, and nobody reads it."""
    del mailbox.user.mailboxes[mailbox.device]
    for totals in tuple(mailbox.entered):
        totals.forget(mailbox)
    if mailbox.number:
        state.changes.mailboxes.append(mailbox.number)
