"""Gap notices and cancellations: what is remembered for owners until they confirm it."""

from __future__ import annotations

from datetime import datetime

from recado.broker.state import (
    GAP_NIDS,
    NOTICE_AGE,
    NOTICES,
    REMEMBERED_NIDS,
    DropReason,
    Mailbox,
    Notice,
    QueuedNotification,
    State,
    User,
)
from recado.broker.stimuli import Dropped, Out


def enforce_bounds(state: State, mailbox: Mailbox, out: Out) -> None:
    """Drop what is too much, and remember it to tell it."""
    tell_dropped(state, mailbox, mailbox.drop_excess(state.bounds), "full", out)


def drop_aged(state: State, mailbox: Mailbox, now: datetime, out: Out) -> None:
    """Drop what is too old, and remember it to tell it."""
    if dropped := mailbox.drop_aged(state.bounds, now):
        tell_dropped(state, mailbox, dropped, "age", out)


def tell_dropped(
    state: State, mailbox: Mailbox, dropped: list[QueuedNotification], reason: DropReason, out: Out
) -> None:
    """These were taken out of the mailbox; the owner is to be told."""
    if dropped:
        state.changes.gone.extend(notification for notification in dropped if notification.stored)
        nids = [notification.nid for notification in dropped]
        add_gap(state, mailbox.user, nids, out, device=mailbox.device, reason=reason)


def add_gap(state: State, user: User, nids: list[int], out: Out, *, device: str, reason: DropReason) -> None:
    """Remember that these will not come."""
    if device in user.webhooks:  # which have no place for notices: the owner's devices are told
        device = ""
    user.dropped[reason] = user.dropped.get(reason, 0) + len(nids)
    out.append(Dropped(len(nids), reason))
    start = 0
    while start < len(nids):
        notice = _open_gap(state, user, device, reason)
        room = min(GAP_NIDS - len(notice.nids), REMEMBERED_NIDS - user.remembered)
        some = nids[start : start + room] if room > 0 else nids[start:]  # of the last ones only their number is kept
        if room > 0:
            notice.nids.extend(some)
            user.remembered += len(some)
        notice.count += len(some)
        notice.at = None
        state.changes.notices[notice.id] = user, notice
        start += len(some)


def _open_gap(state: State, user: User, device: str, reason: DropReason) -> Notice:
    """The gap that grows, or a new one."""
    for notice in reversed(user.notices.values()):
        if notice.open and notice.device == device and notice.reason == reason:
            if len(notice.nids) < GAP_NIDS:
                return notice
            notice.open = False
    return add_notice(state, user, Notice(state.next_notice, device, reason))


def add_notice(state: State, user: User, notice: Notice) -> Notice:
    """A notice with the number ``state.next_notice``.

    Beyond ``NOTICES`` the oldest is forgotten: its owner has not been here for thousands of them.
    """
    state.next_notice += 1
    if len(user.notices) >= NOTICES:
        forget_notice(state, user, next(iter(user.notices)))
    user.notices[notice.id] = notice
    for consumer in user.all_consumers():
        consumer.has_notices = True
    state.changes.notices[notice.id] = user, notice
    return notice


def forget_notice(state: State, user: User, number: int) -> None:
    """It is confirmed, or too old; an unknown number does nothing."""
    notice = user.notices.pop(number, None)
    if notice is not None:
        user.remembered -= len(notice.nids)
        state.changes.notices[number] = user, None
        for consumer in user.all_consumers():
            consumer.told.pop(number, None)


def tidy_notices(state: State, user: User, now: datetime) -> None:
    """Forget those that nobody has confirmed for long; the age of the others begins, if it has not."""
    for notice in list(user.notices.values()):
        if notice.at is None:
            notice.at = now
            state.changes.notices[notice.id] = user, notice
        elif now - notice.at > NOTICE_AGE:
            forget_notice(state, user, notice.id)
