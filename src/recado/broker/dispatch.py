"""What becomes of an event that matches subscriptions (the mobility document, 8, 9 and 11).

An event is judged at the instant at which it was accepted: a subscription that has expired by then gets nothing and
ends, and its owner is told; constraints are judged after the filter, in their order; what passes is put into the
mailbox of the user, or of the device that the subscription is for.

Matching is not done here: the caller says which subscriptions an event matched.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter

from recado.broker import stimuli as s
from recado.broker.constraints import satisfied
from recado.broker.consumers import mailbox_of, pump, pump_all, put
from recado.broker.notices import add_gap, drop_aged
from recado.broker.state import NEVER, ORDINAL_BITS, Mailbox, QueuedNotification, State, SubscriptionState, User
from recado.broker.stimuli import DispatchFailed, Notified, Out
from recado.broker.subscriptions import expire

_by_ordinal = attrgetter("ordinal")


def dispatch(state: State, stimulus: s.Dispatch, now: datetime, out: Out) -> None:
    """Notifications are put into all mailboxes, and then sent together."""
    touched: dict[Mailbox, None] = {}
    count = 0
    if stimulus.events and not state.recovering:
        state.fresh = stimulus.events[0][0] << ORDINAL_BITS
    try:
        for position, event, subscriptions in stimulus.events:
            if len(subscriptions) > 1:
                subscriptions.sort(key=_by_ordinal)  # nids of one user grow
            for subscription in subscriptions:
                try:
                    count += notify(state, subscription, position, event, now, touched, out)
                except Exception as error:  # noqa: BLE001  # one subscription's fault must not become everybody's
                    out.append(DispatchFailed(subscription, position, error))
                    nid = position << ORDINAL_BITS | subscription.ordinal
                    add_gap(state, subscription.user, [nid], out, device=subscription.scope, reason="damaged")
        if count:
            out.append(Notified(count))
        aged = state.bounds.age is not None
        for mailbox in touched:
            if aged:
                drop_aged(state, mailbox, now, out)
            for cursor in mailbox.cursors:
                pump(state, cursor.consumer, out, state.fresh)
            if mailbox.device in mailbox.user.webhooks:
                _tell_owner(state, mailbox.user, out)
    finally:
        state.fresh = NEVER


def _tell_owner(state: State, user: User, out: Out) -> None:
    """What the mailbox of a webhook dropped is told to the owner's devices, which read other mailboxes."""
    for consumer in user.consumers.values():
        if consumer.has_notices:
            pump(state, consumer, out, state.fresh)


def notify(  # noqa: PLR0917  # once for each notification: keywords would cost
    state: State,
    subscription: SubscriptionState,
    position: int,
    event: bytes,
    now: datetime,
    touched: dict[Mailbox, None],
    out: Out,
) -> bool:
    """Put the event into the mailboxes of one subscription that it matched; whether it gives a notification."""
    if not subscription.since <= position < subscription.until:
        return False
    if subscription.expires_at <= now:
        if subscription.active:  # else its end was told, or asked for
            expire(state, subscription, position, now, out)
        return False
    user = subscription.user
    if subscription.constraints:
        connected = bool(user.consumers) or user.was_connected
        if not satisfied(subscription.constraints, now, now, subscription.last_notified, connected):
            return False
        if subscription.remembers:
            state.changes.subscriptions[subscription.serial] = subscription
    subscription.last_notified = now
    subscription.notified += 1
    if not user.consumers:
        user.queued += 1
    nid = position << ORDINAL_BITS | subscription.ordinal
    for mailbox in _mailboxes_for(state, subscription):
        put(state, mailbox, QueuedNotification(nid, subscription.id, event, now, mailbox), out)
        touched[mailbox] = None
    return True


def _mailboxes_for(state: State, subscription: SubscriptionState) -> Iterable[Mailbox]:
    user = subscription.user
    if subscription.scope or not state.settings.per_device or not user.devices:
        found = user.mailboxes.get(subscription.scope)
        return (found if found is not None else mailbox_of(state, user, subscription.scope),)
    return [mailbox_of(state, user, device) for device in user.devices]


def pass_over(state: State, stimulus: s.PassOver, now: datetime, out: Out) -> None:
    """Of those that wanted the event, the owners are told of a gap."""
    position = stimulus.position
    nids: dict[tuple[str, str], list[int]] = {}
    for subscription in sorted(stimulus.subscriptions, key=_by_ordinal):
        if subscription.since <= position < subscription.until and subscription.expires_at > now:
            subscription.unmatched += 1
            whose = subscription.user.name, subscription.scope
            nids.setdefault(whose, []).append(position << ORDINAL_BITS | subscription.ordinal)
    for (name, scope), some in nids.items():
        user = state.user(name)
        add_gap(state, user, some, out, device=scope, reason=stimulus.reason)
        pump_all(state, user, out)
