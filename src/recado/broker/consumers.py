"""Consumers: who is attached, what goes out to them, and what they acknowledge (sections 6, 10 and 11).

A consumer is given at most ``window`` notifications that it has not acknowledged, so a long mailbox is drained in
slices of a window, each when the one before is acknowledged, and between two slices everybody else is served.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime

from recado.broker import stimuli as s
from recado.broker.notices import add_notice, drop_aged, enforce_bounds, forget_notice, tell_dropped
from recado.broker.state import (
    DELIVERED,
    DROPPED,
    NEVER,
    ORDINALS,
    UNCONFIRMED,
    WAITING,
    Consumer,
    Cursor,
    Device,
    Mailbox,
    Notice,
    QueuedNotification,
    State,
    User,
)
from recado.broker.stimuli import Acknowledged, Attached, Close, Out, Push, Removed, Tell
from recado.errors import LimitError

# -- mailboxes and what goes out of them


def mailbox_of(state: State, user: User, device: str) -> Mailbox:
    """The mailbox of a device, or with "" the one that all devices share; a new one reaches the consumers of now."""
    found = user.mailboxes.get(device)
    if found is None:
        found = user.mailboxes[device] = Mailbox(user, device, state.waiting.away)
        for consumer in user.consumers.values():
            if device in ("", consumer.device):
                _join(state, consumer, found)
    return found


def _join(state: State, consumer: Consumer, mailbox: Mailbox) -> None:
    cursor = Cursor(consumer, mailbox)
    consumer.cursors.append(cursor)
    mailbox.cursors.append(cursor)
    mailbox.move_to(state.waiting.of(mailbox))


def put(state: State, mailbox: Mailbox, notification: QueuedNotification, out: Out) -> None:
    """A new notification, with the greatest nid so far; ``pump`` of the consumers afterwards sends it."""
    mailbox.append(notification)
    state.changes.notifications.append(notification)
    bounds = state.bounds
    if mailbox.length > bounds.length or mailbox.bytes > bounds.bytes:
        for cursor in mailbox.cursors:  # what can go at once is not dropped
            pump(state, cursor.consumer, out, state.fresh)
        drop_aged(state, mailbox, notification.at, out)
        enforce_bounds(state, mailbox, out)
    if len(mailbox.notifications) > 2 * bounds.length:
        for consumer in mailbox.lagging(bounds):
            detach(state, consumer, out)
            if not consumer.is_webhook:
                _see_device(state, consumer.user, consumer.device, notification.at)
            out.append(Close(consumer.key, "too slow"))


def pump(state: State, consumer: Consumer, out: Out, fresh: int = NEVER) -> None:
    """Give the consumer what its window has room for."""
    if state.holding:
        return
    if consumer.has_notices:
        _tell_notices(consumer, out)
    room = consumer.window - len(consumer.in_flight)
    if room > 0:
        notifications = _next(consumer, room)
        if notifications:
            consumer.in_flight.extend(notifications)
            state.in_flight += len(notifications)
            if notifications[0].nid <= consumer.repeats:
                _count_repeats(state, consumer, sum(one.nid <= consumer.repeats for one in notifications))
            consumer.given = notifications[-1].nid
            out.append(Push(consumer.key, notifications, fresh))
            if fresh == NEVER:
                consumer.user.delivered_late += len(notifications)
            if consumer.has_notices:
                _tell_notices(consumer, out)


def _count_repeats(state: State, consumer: Consumer, count: int) -> None:
    consumer.redelivered += count
    state.redelivered += count


def repeat(state: State, event: s.Repeated, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(event.consumer)
    if consumer is not None:
        _count_repeats(state, consumer, event.count)


def pump_all(state: State, user: User, out: Out) -> None:
    for consumer in user.all_consumers():
        pump(state, consumer, out, state.fresh)


def _next(consumer: Consumer, room: int) -> list[QueuedNotification]:
    """The notifications with the least nids of all mailboxes that the consumer reads."""
    found: list[QueuedNotification] = []
    cursors = consumer.cursors
    if len(cursors) == 1:
        (cursor,) = cursors
        while len(found) < room and (notification := cursor.next()) is not None:
            cursor.at += 1
            found.append(notification)
        return found
    while len(found) < room:
        best, best_cursor = None, None
        for cursor in cursors:
            notification = cursor.next()
            if notification is not None and (best is None or notification.nid < best.nid):
                best, best_cursor = notification, cursor
        if best is None or best_cursor is None:
            break
        best_cursor.at += 1
        found.append(best)
    return found


def _tell_notices(consumer: Consumer, out: Out) -> None:
    """Notices whose place has come: the notifications before them have been given to the consumer."""
    room = UNCONFIRMED - len(consumer.told)
    if room <= 0:
        return
    ahead = [notification.nid for cursor in consumer.cursors if (notification := cursor.next()) is not None]
    first = min(ahead, default=NEVER)
    new = [
        notice
        for notice in consumer.user.notices.values()
        if notice.id not in consumer.told
        and (notice.device == consumer.device or not (notice.device or consumer.is_webhook))
    ]
    ready = [notice for notice in new if notice.after <= first][:room]
    consumer.has_notices = len(ready) < len(new)
    for notice in ready:
        consumer.told[notice.id] = None
        notice.open = False
    if ready:
        out.append(Tell(consumer.key, ready))


# -- attaching and detaching


def attach(state: State, wish: s.Attach, now: datetime, out: Out) -> None:
    """The device is CONNECTED. A consumer that it had before is closed; notices and the mailbox follow."""
    user, name = state.user(wish.user), wish.device
    _make_room(state, user, name)
    if name in user.consumers:
        _take_over(state, user.consumers[name], out)
    consumer = Consumer(wish.consumer, user, name, wish.window, now)
    state.consumers[wish.consumer] = user.consumers[name] = consumer
    device = _see_device(state, user, name, now)
    device.consumer = consumer
    consumer.repeats = device.given
    for mailbox in ("", name):
        if mailbox in user.mailboxes:
            _join(state, consumer, user.mailboxes[mailbox])
    consumer.seen = -1 if wish.seen is None else wish.seen
    if consumer.seen >= wish.end:
        device.beyond = max(device.beyond, consumer.seen)
    out.append(Attached(consumer))
    _begin_delivery(state, consumer, now, out)


def _make_room(state: State, user: User, device: str) -> None:
    """Beyond the limit, a new device takes the place of the one that has been away for longest."""
    if device in user.devices or len(user.devices) < state.settings.devices_per_user:
        return
    away = [one for one in user.devices.values() if one.consumer is None]
    if not away:
        most = len(user.devices)
        raise LimitError(f"user {user.name!r} has {most} connected devices, which is the limit; end one of them")
    lose_device(state, user, min(away, key=lambda one: one.seen_at).id)


def attach_webhook(state: State, wish: s.AttachWebhook, now: datetime, out: Out) -> None:
    user = state.user(wish.user)
    if wish.device in user.webhooks:
        _take_over(state, user.webhooks[wish.device], out)
    consumer = Consumer(wish.consumer, user, wish.device, wish.window, now)
    state.consumers[wish.consumer] = user.webhooks[wish.device] = consumer
    consumer.is_webhook = True
    _join(state, consumer, mailbox_of(state, user, wish.device))
    out.append(Attached(consumer))
    _begin_delivery(state, consumer, now, out)


def _take_over(state: State, old: Consumer, out: Out) -> None:
    detach(state, old, out)
    out.append(Close(old.key, "taken over"))


def _see_device(state: State, user: User, name: str, now: datetime) -> Device:
    device = user.devices.get(name)
    if device is None:
        device = user.devices[name] = Device(name, now)
    device.seen_at = now
    state.changes.devices[user.name, name] = device
    return device


def _begin_delivery(state: State, consumer: Consumer, now: datetime, out: Out) -> None:
    """What the device says it has seen is delivered; the rest goes out."""
    if state.holding:
        return
    believed = consumer.is_webhook or consumer.seen > consumer.user.devices[consumer.device].beyond
    for cursor in consumer.cursors:
        if believed and consumer.seen >= 0:
            for notification in cursor.mailbox.waiting():
                if notification.nid <= consumer.seen:
                    _mark_delivered(state, notification)
        drop_aged(state, cursor.mailbox, now, out)
    pump(state, consumer, out)


def release(state: State, _: s.Release, now: datetime, out: Out) -> None:
    state.holding = False
    for user in state.users.values():
        for mailbox in user.mailboxes.values():
            enforce_bounds(state, mailbox, out)  # bounds may have changed
    for consumer in list(state.consumers.values()):
        _begin_delivery(state, consumer, now, out)


def finish_recovery(state: State, _: s.Recovered, now: datetime, out: Out) -> None:  # a handler
    state.recovering = False
    for user in state.users.values():
        user.was_connected = False


def lose(state: State, event: s.ConsumerLost, now: datetime, out: Out) -> None:
    """The device is DISCONNECTED, and what was in flight waits again."""
    consumer = state.consumers.get(event.consumer)
    if consumer is not None:
        detach(state, consumer, out)
        if not consumer.is_webhook:
            _see_device(state, consumer.user, consumer.device, now)


def end_session(state: State, event: s.SessionEnded, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(event.consumer)
    if consumer is None:
        return
    detach(state, consumer, out)
    if event.forget:
        _give_up(state, consumer.user, consumer.device, now, out)
    elif state.settings.per_device:
        _see_device(state, consumer.user, consumer.device, now)  # its mailbox fills until it comes back
    else:
        drop_device(state, consumer.user, consumer.device)


def forget_device(state: State, wish: s.ForgetDevice, now: datetime, out: Out) -> None:  # a handler
    user = state.user(wish.user)
    if wish.empty:
        _give_up(state, user, wish.device, now, out)
    else:
        drop_device(state, user, wish.device)


def drop_device(state: State, user: User, device: str) -> None:
    if user.devices.pop(device, None):
        state.changes.devices[user.name, device] = None


def lose_device(state: State, user: User, device: str) -> None:
    """It has been away for so long that nothing is put by for it any more; if it comes back it is told of a gap."""
    drop_device(state, user, device)
    if state.settings.per_device:
        add_notice(state, user, Notice(state.next_notice, device, "age"))


def _give_up(state: State, user: User, device: str, now: datetime, out: Out) -> None:
    """The device does not come back, so what waits for it alone is for nobody.

    If it was the last one, its mailbox stood for the one that the next device reads: that gets what was for all.
    """
    drop_device(state, user, device)
    mailbox = user.mailboxes.get(device)
    if mailbox is None:
        return
    waiting = mailbox.waiting()
    for notification in waiting:
        mailbox.take_out(notification, DROPPED)
    state.changes.gone.extend(notification for notification in waiting if notification.stored)
    mailbox.trim()
    if state.settings.per_device and not user.devices:
        shared = mailbox_of(state, user, "")
        scoped = {ordinal for ordinal, one in user.ordinals.items() if one.scope}
        for one in waiting:
            if one.nid & ORDINALS not in scoped and one.nid > shared.last_nid:
                put(state, shared, QueuedNotification(one.nid, one.sub_id, one.event, one.at, shared), out)
        drop_aged(state, shared, now, out)


def detach(state: State, consumer: Consumer, out: Out) -> None:
    """The consumer is gone; what it did not acknowledge is still in the mailboxes."""
    user = consumer.user
    del state.consumers[consumer.key]
    if consumer.is_webhook:
        del user.webhooks[consumer.device]
    else:
        del user.consumers[consumer.device]
        device = user.devices[consumer.device]
        device.consumer, device.given = None, max(device.given, consumer.given)
    state.in_flight -= len(consumer.in_flight)
    for cursor in consumer.cursors:
        cursor.mailbox.cursors.remove(cursor)
        cursor.mailbox.move_to(state.waiting.of(cursor.mailbox))
        enforce_bounds(state, cursor.mailbox, out)
        cursor.mailbox.trim()
    consumer.cursors = []
    consumer.in_flight.clear()


# -- acknowledgements


def acknowledge(state: State, event: s.Acknowledge, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(event.consumer)
    if consumer is None:
        return
    in_flight, count, upto = consumer.in_flight, 0, event.upto
    generated_at = in_flight[0].at if in_flight else None
    while in_flight and in_flight[0].nid <= upto:
        notification = in_flight.popleft()
        count += 1
        if notification.state == WAITING:
            _mark_delivered(state, notification)
    if count and generated_at is not None:
        state.in_flight -= count
        out.append(Acknowledged(count, generated_at))
    _go_on(state, consumer, out)


def acknowledge_one(state: State, event: s.AcknowledgeOne, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(event.consumer)
    if consumer is None:
        return
    found = next((notification for notification in consumer.in_flight if notification.nid == event.nid), None)
    if found is not None:
        consumer.in_flight.remove(found)
        _accept(state, consumer, [found], out)


def acknowledge_some(state: State, event: s.AcknowledgeSome, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(event.consumer)
    if consumer is None:
        return
    nids = frozenset(event.nids)
    found = [notification for notification in consumer.in_flight if notification.nid in nids]
    consumer.in_flight = deque(notification for notification in consumer.in_flight if notification.nid not in nids)
    _accept(state, consumer, found, out)


def _accept(state: State, consumer: Consumer, notifications: list[QueuedNotification], out: Out) -> None:
    for notification in notifications:
        if notification.state == WAITING:
            _mark_delivered(state, notification)
    if notifications:
        state.in_flight -= len(notifications)
        out.append(Acknowledged(len(notifications), notifications[0].at))
    _go_on(state, consumer, out)


def _go_on(state: State, consumer: Consumer, out: Out) -> None:
    for cursor in consumer.cursors:
        cursor.mailbox.trim()
    pump(state, consumer, out)


def _mark_delivered(state: State, notification: QueuedNotification) -> None:
    """At least one consumer has acknowledged it."""
    mailbox = notification.mailbox
    mailbox.take_out(notification, DELIVERED)
    mailbox.user.delivered += 1
    if notification.stored:
        state.changes.gone.append(notification)


def resize(state: State, wish: s.Resize, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(wish.consumer)
    if consumer is not None:
        consumer.window = wish.window
        pump(state, consumer, out)


def confirm_notices(state: State, event: s.ConfirmNotices, now: datetime, out: Out) -> None:  # a handler
    consumer = state.consumers.get(event.consumer)
    if consumer is None:
        return
    for number in event.notices:
        forget_notice(state, consumer.user, number)
    if consumer.has_notices:
        pump(state, consumer, out)


# -- emptying


def purge(state: State, wish: s.Purge, now: datetime, out: Out) -> None:  # a handler
    user = state.user(wish.user)
    mailboxes = list(user.mailboxes.values()) if wish.device is None else [mailbox_of(state, user, wish.device)]
    out.append(Removed(empty(state, user, mailboxes, out, tell=wish.tell)))


def empty(state: State, user: User, mailboxes: Iterable[Mailbox], out: Out, *, tell: bool) -> int:
    """Take out all that waits; how many notifications that were."""
    count = 0
    for mailbox in mailboxes:
        waiting = mailbox.waiting()
        for notification in waiting:
            mailbox.take_out(notification, DROPPED)
        if tell:
            tell_dropped(state, mailbox, waiting, "purged", out)
        else:
            state.changes.gone.extend(notification for notification in waiting if notification.stored)
        mailbox.trim()
        count += len(waiting)
    for consumer in list(user.consumers.values()):
        pump(state, consumer, out)
    return count
