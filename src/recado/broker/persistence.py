"""What a broker keeps over restarts, declared once: ``KINDS``.

A ``Kind`` says for one sort of thing which row it becomes, how changed ones are found and how a row is put back. Stores
make a table for each kind and read and write its rows without knowing what they mean. So a new thing to remember over
restarts is a row type, a member of ``Changes`` and an entry here.

Notifications are apart, for there are many: they share the texts of their events, and have columns of their own in a
store.

Everything is derived from the log and from what is stored: a ``Batch`` has the position up to which it accounts for the
log, and what lies beyond is dispatched again after a crash, at the instants at which it was accepted, which gives the
same nids. Instants are microseconds since 1970 in UTC.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import msgspec

from recado.broker.constraints import Constraints, read_constraints
from recado.broker.consumers import mailbox_of
from recado.broker.notices import add_gap
from recado.broker.state import (
    NEVER,
    ORDINAL_BITS,
    WAITING,
    Changes,
    Device,
    Mailbox,
    Notice,
    QueuedNotification,
    State,
    SubscriptionState,
    User,
)
from recado.broker.stimuli import Out
from recado.broker.subscriptions import enter, forget_closed
from recado.errors import RecadoError
from recado.filters.records import KnownFilters, read_subscription
from recado.model.memory import Memo
from recado.model.subscription import Subscription
from recado.model.values import EPOCH, microseconds

SLICE = 2_000
"""Things that are put back before others have their turn."""
Key: TypeAlias = int | tuple[str, ...]
Pairs: TypeAlias = list[tuple[SubscriptionState, Subscription]]
"""Subscriptions as the broker and as a matcher have them; for the matcher their id is the serial."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


# -- rows


class Row(msgspec.Struct, array_like=True, gc=False):
    """A row is stored as an array: members are only ever added at the end, with a default."""


class SubscriptionRow(Row):
    """``until`` is None while it is active; ``record`` is JSON."""

    serial: int
    user: str
    id: str
    ordinal: int
    device: str
    scope: str
    record: bytes
    expires_at: int
    since: int
    until: int | None = None
    last_notified: int | None = None
    ended_at: int | None = None
    reason: str = ""
    notified: int = 0


class NoticeRow(Row):
    """``nids`` are 64-bit integers in the machine's order; ``at`` is when its age began."""

    id: int
    user: str
    device: str
    reason: str
    after: int
    sub_ids: tuple[str, ...]
    count: int
    nids: bytes
    at: int | None = None


class DeviceRow(Row):
    user: str
    device: str
    seen_at: int
    connected: bool
    beyond: int = -1


class MailboxRow(Row):
    number: int
    user: str
    device: str


class NotificationRow(NamedTuple):
    nid: int
    mailbox: int
    at: int
    sub_id: str


class Batch(msgspec.Struct):
    """What one transaction writes. ``dispatched``: the events before this position have got their notifications."""

    dispatched: int | None = None
    rows: dict[str, list[Row]] = {}  # by table
    forgotten: dict[str, list[Key]] = {}  # by table
    notifications: list[NotificationRow] = []
    events: dict[int, bytes] = {}  # their texts, by position
    gone: list[tuple[int, int]] = []  # notifications: nid and mailbox
    values: dict[tuple[str, str], bytes | None] = {}  # of other parts of a service, by space and key


class Loaded(msgspec.Struct):
    """Everything that is stored, but for ``values``. Without its mark, what was dispatched is not known, and
    ``dispatched`` is None. ``notifications`` are in the order of nids.
    """

    dispatched: int | None
    rows: dict[str, list[Any]]  # by table
    notifications: list[NotificationRow]
    events: dict[int, bytes]
    damage: list[str]
    unreadable: list[tuple[int, int]]  # notifications whose row or event is damaged: nid and mailbox

    def of(self, kind: Kind) -> list[Any]:
        return self.rows.get(kind.table, [])


# -- what is kept


class Kind(NamedTuple):
    """``changed`` gives the rows of things that changed and the keys of those that are gone; ``restore`` puts what
    ``read`` makes of a row into a state. ``column`` is the name of the key in a table; a key of texts is one value.
    """

    table: str
    column: str
    row: type[Row]
    key_of: Callable[[Any], Key]
    changed: Callable[[State, Changes], tuple[list[Row], list[Key]]]
    restore: Callable[[State, Any], None]


def instant(count: int) -> datetime:
    return EPOCH + timedelta(microseconds=count)


def _count(at: datetime | None) -> int | None:
    return None if at is None else microseconds(at)


def _changed_mailboxes(state: State, changes: Changes) -> tuple[list[Row], list[Key]]:
    """Those that are stored for the first time get their numbers here."""
    new = {n.mailbox: None for n in changes.notifications if not n.mailbox.number}
    for mailbox in new:
        state.last_mailbox += 1
        mailbox.number = state.last_mailbox
    return [MailboxRow(one.number, one.user.name, one.device) for one in new], list(changes.mailboxes)


def _restore_mailbox(state: State, row: MailboxRow) -> None:
    mailbox_of(state, state.user(row.user), row.device).number = row.number
    state.last_mailbox = max(state.last_mailbox, row.number)


def _changed_devices(_: State, changes: Changes) -> tuple[list[Row], list[Key]]:
    rows: list[Row] = [
        DeviceRow(user, device.id, microseconds(device.seen_at), device.consumer is not None, device.beyond)
        for (user, _), device in changes.devices.items()
        if device is not None
    ]
    return rows, [key for key, device in changes.devices.items() if device is None]


def _restore_device(state: State, row: DeviceRow) -> None:
    user = state.user(row.user)
    user.was_connected |= row.connected
    device = user.devices.setdefault(row.device, Device(row.device, instant(row.seen_at)))
    device.beyond = max(device.beyond, row.beyond)


def _changed_notices(_: State, changes: Changes) -> tuple[list[Row], list[Key]]:
    rows: list[Row] = [
        NoticeRow(
            notice.id,
            user.name,
            notice.device,
            notice.reason,
            notice.after,
            notice.sub_ids,
            notice.count,
            notice.nids.tobytes(),
            _count(notice.at),
        )
        for user, notice in changes.notices.values()
        if notice is not None
    ]
    return rows, [number for number, (_, notice) in changes.notices.items() if notice is None]


def _restore_notice(state: State, row: NoticeRow) -> None:
    notice = Notice(row.id, row.device, row.reason, row.after, row.sub_ids)
    notice.count, notice.nids = row.count, array("q", row.nids)
    notice.open = False
    notice.at = None if row.at is None else instant(row.at)
    user = state.user(row.user)
    user.notices[notice.id] = notice
    user.remembered += len(notice.nids)


def _changed_subscriptions(_: State, changes: Changes) -> tuple[list[Row], list[Key]]:
    rows: list[Row] = [
        SubscriptionRow(
            serial=one.serial,
            user=one.user.name,
            id=one.id,
            ordinal=one.ordinal,
            device=one.device,
            scope=one.scope,
            record=_encode(one.record),
            expires_at=microseconds(one.expires_at),
            since=one.since,
            until=None if one.active else one.until,
            last_notified=_count(one.last_notified),
            ended_at=_count(one.ended_at),
            reason=one.reason,
            notified=one.notified,
        )
        for one in changes.subscriptions.values()
        if one is not None
    ]
    return rows, [serial for serial, one in changes.subscriptions.items() if one is None]


def _restore_subscription(state: State, subscription: SubscriptionState) -> None:
    """``read_subscriptions`` has made it, perhaps in another thread, with a user that is none of this state's."""
    subscription.user = state.user(subscription.user.name)
    enter(state, subscription)


MAILBOXES = Kind("boxes", "number", MailboxRow, lambda row: row.number, _changed_mailboxes, _restore_mailbox)
DEVICES = Kind("devices", "key", DeviceRow, lambda row: (row.user, row.device), _changed_devices, _restore_device)
NOTICES = Kind("notices", "id", NoticeRow, lambda row: row.id, _changed_notices, _restore_notice)
SUBSCRIPTIONS = Kind(
    "subscriptions", "serial", SubscriptionRow, lambda row: row.serial, _changed_subscriptions, _restore_subscription
)
KINDS = (MAILBOXES, DEVICES, NOTICES, SUBSCRIPTIONS)
"""In the order in which they are put back."""


# -- from the state to rows


def take_batch(state: State, dispatched: int) -> tuple[Batch, Changes]:
    """What differs from what was stored last, as of this moment; it counts as stored from here on.

    The broker accounts for all events before ``dispatched``, as wholes. ``add_notifications`` makes the batch complete;
    it may run in another thread.
    """
    forget_closed(state, dispatched)
    changes, state.changes = state.changes, Changes()
    changes.notifications = [one for one in changes.notifications if one.state == WAITING]
    for notification in changes.notifications:
        notification.stored = True
    batch = Batch(dispatched=dispatched)
    for kind in KINDS:
        rows, keys = kind.changed(state, changes)
        if rows:
            batch.rows[kind.table] = rows
        if keys:
            batch.forgotten[kind.table] = keys
    return batch, changes


def add_notifications(batch: Batch, changes: Changes) -> None:
    """New notifications, the events that they need, and those that are gone."""
    at, count = None, 0
    for one in changes.notifications:
        if one.at is not at:
            at, count = one.at, microseconds(one.at)
        batch.notifications.append(NotificationRow(one.nid, one.mailbox.number, count, one.sub_id))
        batch.events[one.nid >> ORDINAL_BITS] = one.event
    batch.gone = [(one.nid, one.mailbox.number) for one in changes.gone]


# -- and back


def restore(state: State, loaded: Loaded) -> Iterator[None]:
    """Put back everything but subscriptions, some at a time."""
    for kind in KINDS:
        if kind is not SUBSCRIPTIONS:
            for row in loaded.of(kind):
                kind.restore(state, row)
    yield
    numbered = _number(state)
    count, at, events = 0, EPOCH, loaded.events
    for number, row in enumerate(loaded.notifications, 1):
        if row.at != count:
            count, at = row.at, instant(row.at)  # those that were generated together share it
        mailbox = numbered[row.mailbox]
        notification = QueuedNotification(row.nid, row.sub_id, events[row.nid >> ORDINAL_BITS], at, mailbox)
        notification.stored = True
        mailbox.append(notification)
        if number % SLICE == 0:
            yield


def _number(state: State) -> dict[int, Mailbox]:
    """The mailboxes that the store knows."""
    return {one.number: one for user in state.users.values() for one in user.mailboxes.values() if one.number}


def tell_unreadable(state: State, loaded: Loaded, out: Out) -> None:
    """Owners of notifications that cannot be read are told of a gap."""
    numbered = _number(state) if loaded.unreadable else {}
    for nid, place in loaded.unreadable:
        if place in numbered:
            mailbox = numbered[place]
            add_gap(state, mailbox.user, [nid], out, device=mailbox.device, reason="damaged")


def read_subscriptions(loaded: Loaded, time_zone: str = "UTC") -> Pairs:
    """The subscriptions in the rows; those that cannot be used are named in ``loaded.damage``. It touches no state, so
    it may run in another thread. Times without a zone are of ``time_zone``.
    """
    pairs: Pairs = []
    reader = _RecordReader(time_zone)
    for row in loaded.of(SUBSCRIPTIONS):
        try:
            pairs.append(_read_subscription(row, reader))
        except RecadoError as error:
            loaded.damage.append(f"subscription {row.id!r} of user {row.user!r} cannot be used: {error}")
    return pairs


def restore_subscriptions(state: State, pairs: Pairs) -> Iterator[None]:
    """Put them back, some at a time."""
    for number, (subscription, _) in enumerate(pairs, 1):
        SUBSCRIPTIONS.restore(state, subscription)
        if number % SLICE == 0:
            yield


class _RecordReader:
    """For many rows: records and filters that are written alike are read once."""

    def __init__(self, time_zone: str) -> None:
        self._time_zone = time_zone
        self._users: dict[str, User] = {}
        self._filters = KnownFilters()
        self._records: Memo[bytes, tuple[dict[str, Any], Subscription, Constraints]] = Memo()

    def user(self, name: str) -> User:
        found = self._users.get(name)
        if found is None:
            found = self._users[name] = User(name)
        return found

    def read(self, raw: bytes, sub_id: str) -> tuple[dict[str, Any], Subscription, Constraints]:
        """What a row's record says, which nobody may change, since others may share it."""
        found = self._records.get(raw)
        if found is not None:
            record, like, constraints = found
            return record, msgspec.structs.replace(like, id=sub_id), constraints
        record = _decode(raw)
        subscription = read_record({"id": sub_id, **record}, self._filters)
        constraints = read_constraints(subscription.constraints, self._time_zone)
        self._records.put(raw, (record, subscription, constraints))
        return record, subscription, constraints


def _read_subscription(row: SubscriptionRow, reader: _RecordReader) -> tuple[SubscriptionState, Subscription]:
    record, subscription, constraints = reader.read(row.record, str(row.serial))
    state = SubscriptionState(
        row.serial,
        row.id,
        reader.user(row.user),
        row.ordinal,
        expires_at=instant(row.expires_at),
        since=row.since,
        device=row.device,
        scope=row.scope,
        constraints=constraints,
        record=record,
    )
    state.until = NEVER if row.until is None else row.until
    state.last_notified = None if row.last_notified is None else instant(row.last_notified)
    state.ended_at = None if row.ended_at is None else instant(row.ended_at)
    state.reason, state.notified = row.reason, row.notified
    return state, subscription


def read_record(members: Mapping[str, Any], known: KnownFilters | None = None) -> Subscription:
    """The subscription in a record, without the members that only a service knows."""
    plain = {name: value for name, value in members.items() if name not in ("ttl", "scope", "webhook")}
    return read_subscription(msgspec.json.encode(plain), known=known)


def matchable(subscription: SubscriptionState) -> Subscription:
    """As a matcher takes it: its id is the serial."""
    return read_record({"id": str(subscription.serial), **subscription.record})


# -- where to go on


def start_position(loaded: Loaded, first: int, end: int) -> tuple[int, list[str]]:
    """The position from which on events are dispatched again, and what is wrong, in sentences.

    The log has the positions from ``first`` up to, and without, ``end``.
    """
    start = loaded.dispatched
    if start is None:
        return _safe_start(loaded, first, end)
    damage = []
    if start > end:
        damage.append(f"the state is ahead of the log, which ends at position {end:,}; the log is an older copy")
    elif start < first:
        damage.append(f"events {start:,} to {first - 1:,} left the log before they were dispatched")
    return min(max(start, first), end), damage


def _safe_start(loaded: Loaded, first: int, end: int) -> tuple[int, list[str]]:
    """Nobody knows what was dispatched. Notifications are stored together with that, so everything up to the newest one
    was; and no subscription wants what was stored before it. In between, some comes again, with the nids that it had.
    """
    subscriptions = loaded.of(SUBSCRIPTIONS)
    if not subscriptions:
        return end, []
    newest = loaded.notifications[-1].nid >> ORDINAL_BITS if loaded.notifications else -1
    start = min(max(min(row.since for row in subscriptions), newest + 1, first), end)
    text = f"it is not known which events were dispatched; those from position {start:,} on are dispatched again"
    return start, [f"{text}, and notifications that came before have the same nids"]


def wanted_from(pairs: Pairs, dispatched: int) -> list[Subscription]:
    """Those that still want an event from a position on: a matcher needs no others."""
    return [subscription for state, subscription in pairs if state.until > dispatched]
