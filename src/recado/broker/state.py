"""The state of a broker, apart from the handlers that change it (the mobility document, 6, 8, 10 and 11).

A ``Mailbox`` belongs to a user, or to one device of a user. Notifications are appended with growing nids and leave when
the first consumer has acknowledged them, or when a bound drops the oldest. Each attached consumer reads the mailbox
with a ``Cursor`` of its own that only moves forward: so a consumer sees growing nids, and an acknowledgement up to a
nid is never ambiguous. A consumer that fails needs to give nothing back, since what it did not acknowledge is still
here.

- A notification that some consumer has acknowledged is *delivered*: it no longer counts. It still goes to the other
  consumers that were attached when it came; one that attaches later does not get it.
- What has been given to a consumer that is still attached is in flight and is not dropped. So an attached consumer may
  hold up to its window more than the bounds say.

A user is CONNECTED while at least one consumer is attached, else DISCONNECTED. A device is known from its first
consumer on, until it is given up or has been away for long; where devices share a mailbox, until it ends its session.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Literal, TypeAlias

import msgspec

from recado.broker.constraints import Constraints, frequency_of

ORDINAL_BITS = 20
"""A nid is ``position << 20 | ordinal``: it grows along the log and is the same when an event is dispatched again."""
ORDINALS = (1 << ORDINAL_BITS) - 1
"""The bits of a nid that are the ordinal."""
NEVER = 2**62
"""Greater than every nid and every position."""
WAITING, DELIVERED, DROPPED = 0, 1, 2
NOTIFICATION_BYTES = 64
"""What a notification costs beside its event, for the bound in bytes."""
_COMPACT = 512
_FEW = 64
"""Names that are put into their places one by one."""


class Bounds(msgspec.Struct, frozen=True):
    """Of one mailbox. An age of None is none."""

    length: int = 100_000
    bytes: int = 64 * 2**20
    age: timedelta | None = timedelta(days=7)


WaitingClass: TypeAlias = Literal["connected", "away", "webhook"]
"""By who reads the mailbox: a connected device, nobody, or a webhook."""


class Totals:
    """What waits in all mailboxes of a class, and in which for longest.

    ``_mailboxes`` is a heap of mailboxes by the instant of their oldest waiting notification, as it was when they were
    put there: a mailbox enters when something begins to wait in it, and at most once. Whether an entry is still right
    is looked at only when somebody asks, from the oldest on. So counting costs nothing for each notification, and
    asking no more than what has changed since.
    """

    __slots__ = ("_forgotten", "_mailboxes", "_number", "bytes", "length")

    def __init__(self) -> None:
        self.length = self.bytes = self._forgotten = 0
        self._mailboxes: list[tuple[datetime, int, Mailbox]] = []
        self._number = 0

    def enter(self, mailbox: Mailbox, at: datetime) -> None:
        self._number += 1
        heappush(self._mailboxes, (at, self._number, mailbox))

    def forget(self, mailbox: Mailbox) -> None:
        """It is empty and will not be used again; its entry goes with many others, so that they do not pile up."""
        mailbox.entered.remove(self)
        self._forgotten += 1
        if self._forgotten > len(self._mailboxes) // 2 + _COMPACT:
            self._mailboxes = [entry for entry in self._mailboxes if self in entry[2].entered]
            heapify(self._mailboxes)
            self._forgotten = 0

    def settle(self, most: int = NEVER) -> bool:
        """Look at entries until the first one is right, at ``most`` so many; whether it is."""
        mailboxes = self._mailboxes
        while mailboxes:
            at, number, mailbox = mailboxes[0]
            oldest = mailbox.first_waiting() if mailbox.totals is self else None
            if oldest is not None and oldest.at == at:
                break
            if not most:
                return False
            most -= 1
            if oldest is None:
                heappop(mailboxes)
                if self in mailbox.entered:
                    mailbox.entered.remove(self)
                else:
                    self._forgotten -= 1
            else:
                heapreplace(mailboxes, (oldest.at, number, mailbox))
        return True

    def slowest(self, count: int) -> list[Mailbox]:
        """The mailboxes in which something waits for longest, the longest first."""
        found: list[tuple[datetime, int, Mailbox]] = []
        while len(found) < count and self.settle() and self._mailboxes:
            found.append(heappop(self._mailboxes))
        for entry in found:
            heappush(self._mailboxes, entry)
        return [mailbox for *_, mailbox in found]

    def oldest(self) -> datetime | None:
        """Since when something waits; assumes that ``settle`` came to its end just now."""
        return self._mailboxes[0][0] if self._mailboxes else None


class Waiting:
    """What waits in all mailboxes together, and by class."""

    __slots__ = ("away", "connected", "webhook")

    def __init__(self) -> None:
        self.connected, self.away, self.webhook = Totals(), Totals(), Totals()

    @property
    def length(self) -> int:
        return self.connected.length + self.away.length + self.webhook.length

    @property
    def bytes(self) -> int:
        return self.connected.bytes + self.away.bytes + self.webhook.bytes

    def classes(self) -> dict[WaitingClass, Totals]:
        return {"connected": self.connected, "away": self.away, "webhook": self.webhook}

    def of(self, mailbox: Mailbox) -> Totals:
        """Those of the class that the mailbox belongs to now."""
        if not mailbox.cursors:
            return self.away
        return self.webhook if mailbox.cursors[0].consumer.is_webhook else self.connected


class QueuedNotification:
    """One notification; the bytes of the event are shared by all notifications of it."""

    __slots__ = ("at", "event", "mailbox", "nid", "state", "stored", "sub_id")

    def __init__(self, nid: int, sub_id: str, event: bytes, at: datetime, mailbox: Mailbox) -> None:
        self.nid = nid
        self.sub_id = sub_id
        self.event = event
        self.at = at  # when it was generated
        self.mailbox = mailbox
        self.state = WAITING
        self.stored = False  # is there a row of it in the store?


class Consumer:
    """A connection that takes notifications; ``key`` is whatever the caller calls it."""

    __slots__ = (
        "cursors",
        "device",
        "given",
        "has_notices",
        "in_flight",
        "is_webhook",
        "key",
        "redelivered",
        "repeats",
        "seen",
        "since",
        "told",
        "user",
        "window",
    )

    def __init__(self, key: Any, user: User, device: str, window: int, since: datetime) -> None:
        self.key = key
        self.user = user
        self.device = device
        self.window = window
        self.since = since
        self.in_flight: deque[QueuedNotification] = deque()  # given to the consumer, not acknowledged by it; nids grow
        self.cursors: list[Cursor] = []
        self.told: dict[int, None] = {}  # notices
        self.has_notices = True  # may there be notices that it was not told?
        self.seen = -1
        self.given = self.repeats = -1  # the greatest nid that it was given; that its device was given before it
        self.redelivered = 0  # notifications that its device was given before
        self.is_webhook = False  # it stands for no device of the user, but for a webhook


class Cursor:
    """Where a consumer is in a mailbox. Of the notifications before ``joined`` it gets only those that nobody has
    acknowledged.
    """

    __slots__ = ("at", "consumer", "joined", "mailbox")

    def __init__(self, consumer: Consumer, mailbox: Mailbox) -> None:
        self.consumer = consumer
        self.mailbox = mailbox
        self.at = mailbox.base + mailbox.head
        self.joined = mailbox.end

    def next(self) -> QueuedNotification | None:
        """The next notification for this consumer; it is the next until ``at`` moves on."""
        mailbox = self.mailbox
        notifications, base = mailbox.notifications, mailbox.base
        at = self.at - base
        while at < len(notifications):
            notification = notifications[at]
            if notification.state == WAITING or (notification.state == DELIVERED and at + base >= self.joined):
                self.at = at + base
                return notification
            at += 1
        self.at = at + base
        return None


class Mailbox:
    """Notifications by nid. ``notifications[head:]`` are in memory; the first that ever was has the number 0."""

    __slots__ = (
        "base",
        "bytes",
        "cursors",
        "device",
        "entered",
        "first",
        "head",
        "length",
        "notifications",
        "number",
        "totals",
        "user",
    )

    def __init__(self, user: User, device: str, totals: Totals) -> None:
        self.user = user
        self.totals = totals
        self.entered: list[Totals] = []  # where it stands among the mailboxes by age
        self.first = 0  # everything before this number waits no more
        self.device = device  # "" for the mailbox that all devices of the user share
        self.notifications: list[QueuedNotification] = []
        self.head = self.base = 0
        self.length = self.bytes = 0  # of what waits
        self.cursors: list[Cursor] = []
        self.number = 0  # in the store; 0 if it has none yet

    @property
    def end(self) -> int:
        return self.base + len(self.notifications)

    @property
    def last_nid(self) -> int:
        """Of the newest that is in memory; -1 if there is none."""
        return self.notifications[-1].nid if self.notifications else -1

    def append(self, notification: QueuedNotification) -> None:
        """The caller sees to growing nids and to the bounds."""
        self.notifications.append(notification)
        size, totals = len(notification.event) + NOTIFICATION_BYTES, self.totals
        self.length += 1
        self.bytes += size
        totals.length += 1
        totals.bytes += size
        if self.length == 1 and totals not in self.entered:
            self._enter(totals, notification.at)

    def _enter(self, totals: Totals, at: datetime) -> None:
        self.entered.append(totals)
        totals.enter(self, at)

    def move_to(self, totals: Totals) -> None:
        """It belongs to another class from now on."""
        if totals is self.totals:
            return
        self.totals.length -= self.length
        self.totals.bytes -= self.bytes
        totals.length += self.length
        totals.bytes += self.bytes
        self.totals = totals
        oldest = self.first_waiting() if self.length else None
        if oldest is not None and totals not in self.entered:
            self._enter(totals, oldest.at)

    def take_out(self, notification: QueuedNotification, state: int) -> None:
        """The notification waits no longer."""
        notification.state = state
        size, totals = len(notification.event) + NOTIFICATION_BYTES, self.totals
        self.length -= 1
        self.bytes -= size
        totals.length -= 1
        totals.bytes -= size

    def waiting(self) -> list[QueuedNotification]:
        """All that nobody has acknowledged, oldest first."""
        return [notification for notification in self.notifications[self.head :] if notification.state == WAITING]

    def first_waiting(self) -> QueuedNotification | None:
        """The oldest that nobody has acknowledged."""
        notifications = self.notifications
        at = max(self.first - self.base, self.head)
        while at < len(notifications) and notifications[at].state != WAITING:
            at += 1
        self.first = self.base + at
        return notifications[at] if at < len(notifications) else None

    def oldest(self) -> QueuedNotification | None:
        """The oldest notification that is on its way to nobody."""
        found = self._oldest()
        return None if found is None else self.notifications[found]

    def _oldest(self) -> int | None:
        self.trim()
        at = self.head
        for cursor in self.cursors:
            at = max(at, cursor.at - self.base)
        while at < len(self.notifications):
            if self.notifications[at].state == WAITING:
                return at
            at += 1
        return None

    def drop_oldest(self) -> QueuedNotification | None:
        """Drop the oldest notification that is on its way to nobody; None if all are on their way."""
        at = self._oldest()
        if at is None:
            return None
        notification = self.notifications[at]
        self.take_out(notification, DROPPED)
        for cursor in self.cursors:
            if cursor.at == self.base + at:  # so that the next one is found at once
                cursor.at += 1
        return notification

    def drop_excess(self, bounds: Bounds) -> list[QueuedNotification]:
        """Drop the oldest until length and bytes are within their bounds."""
        dropped: list[QueuedNotification] = []
        while self.length > bounds.length or self.bytes > bounds.bytes:
            notification = self.drop_oldest()
            if notification is None:
                break
            dropped.append(notification)
        return dropped

    def drop_aged(self, bounds: Bounds, now: datetime) -> list[QueuedNotification]:
        """Drop what is older than the bound."""
        dropped: list[QueuedNotification] = []
        while bounds.age is not None:
            notification = self.oldest()
            if notification is None or now - notification.at <= bounds.age:
                break
            self.drop_oldest()
            dropped.append(notification)
        return dropped

    def lagging(self, bounds: Bounds) -> list[Consumer]:
        """Links for whose sake too much is stored that others have acknowledged long ago."""
        held = len(self.notifications) - self.head
        if held <= 2 * bounds.length + _COMPACT or not self.cursors:
            return []
        last = self.base + self.head + held // 2
        return [cursor.consumer for cursor in self.cursors if cursor.at < last]

    def trim(self) -> None:
        """Forget the oldest that neither wait nor are still to go to a consumer."""
        notifications, head = self.notifications, self.head
        stop = len(notifications)
        for cursor in self.cursors:
            stop = min(stop, cursor.at - self.base)
        while head < stop and notifications[head].state != WAITING:
            head += 1
        self.head = head
        if head > _COMPACT and head * 2 > len(notifications):
            del notifications[:head]
            self.base += head
            self.head = 0


# -- notices: what an owner must be told beside notifications (8.3 and 10.1)
#
# A gap names the notifications that were dropped; a cancellation the subscriptions that ended without being asked to. A
# notice is told to every device at its next contact, again at each further one, and forgotten when one of them confirms
# it. A cancellation has its place among the notifications: it is told after those that were generated before it.
#
# Drops come by thousands, so a gap stays open, and grows, until it is told or full. Nids beyond ``REMEMBERED_NIDS`` for
# one user are only counted, and of more than ``NOTICES`` notices for one user the oldest are forgotten. A notice that
# nobody has confirmed for ``NOTICE_AGE`` is forgotten, too: whoever stays away for so long does not come back.

GAP_NIDS = 4_096
REMEMBERED_NIDS = 1_000_000
NOTICES = 4_096
NOTICE_AGE = timedelta(days=30)
UNCONFIRMED = 1_024
"""Notices that a consumer is told before it confirms some: gaps grow meanwhile instead of becoming many."""

DropReason: TypeAlias = Literal["full", "age", "purged", "damaged", "budget"]
"""``budget``: the event was not matched, since the owner's filters took more than their share of time."""


class Notice:
    """Either of the two: a gap has nids, a cancellation has subscriptions."""

    __slots__ = ("after", "at", "count", "device", "id", "nids", "open", "reason", "sub_ids")

    def __init__(self, number: int, device: str, reason: str, after: int = -1, sub_ids: tuple[str, ...] = ()) -> None:
        self.id = number
        self.device = device  # "" for all devices of the user
        self.reason = reason
        self.after = after  # it comes after the notifications with smaller nids
        self.sub_ids = sub_ids
        self.nids = array("q")
        self.count = 0
        self.open = not sub_ids
        self.at: datetime | None = None  # of the first sweep since it changed, from which its age is counted

    @property
    def is_gap(self) -> bool:
        return not self.sub_ids


# -- subscriptions


class SubscriptionState:
    """A subscription of a user.

    ``since`` and ``until`` are positions of the log: it takes the events of ``[since, until)`` and no others, also when
    they are dispatched again after a crash. ``until`` is NEVER while it is active. ``ordinal`` numbers it at its owner
    and is part of every nid; ``serial`` numbers it among all. A subscription that is replaced, or renewed after its
    end, goes on as a new one with the same id.
    """

    __slots__ = (
        "constraints",
        "device",
        "ended_at",
        "expires_at",
        "id",
        "last_notified",
        "notified",
        "ordinal",
        "reason",
        "record",
        "remembers",
        "scope",
        "serial",
        "since",
        "unmatched",
        "until",
        "user",
    )

    def __init__(
        self,
        serial: int,
        sub_id: str,
        user: User,
        ordinal: int,
        *,
        expires_at: datetime,
        since: int,
        device: str = "",
        scope: str = "",
        constraints: Constraints = (),
        record: Mapping[str, Any] | None = None,
    ) -> None:
        self.serial = serial
        self.id = sub_id
        self.user = user
        self.ordinal = ordinal
        self.device = device  # that asked for it
        self.scope = scope  # the device that it is for, "" for all
        self.constraints = constraints
        self.record = record or {}
        self.expires_at = expires_at
        self.since = since
        self.until = NEVER
        self.last_notified: datetime | None = None
        self.remembers = frequency_of(constraints) is not None
        self.notified = 0
        self.unmatched = 0  # events that were not matched with it, since the start of the broker
        self.ended_at: datetime | None = None
        self.reason = ""

    @property
    def active(self) -> bool:
        return self.until == NEVER


# -- users and devices


class Device:
    """A device that has been here; ``seen_at`` is when it came or, if it is away, when it was lost.

    ``beyond`` is the greatest nid that it claimed to have and that was never given, because an older copy of the log is
    in use. Up to there nids are given again, so what it claims is not believed until it claims more than that.
    """

    __slots__ = ("beyond", "consumer", "given", "id", "seen_at")

    def __init__(self, name: str, seen_at: datetime) -> None:
        self.id = name
        self.seen_at = seen_at
        self.beyond = -1
        self.given = -1  # the greatest nid that a consumer of it was given since the start of the broker
        self.consumer: Consumer | None = None


class User:
    __slots__ = (
        "consumers",
        "delivered",
        "delivered_late",
        "devices",
        "dropped",
        "mailboxes",
        "name",
        "notices",
        "ordinals",
        "queued",
        "remembered",
        "subscriptions",
        "was_connected",
        "webhooks",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.devices: dict[str, Device] = {}
        self.consumers: dict[str, Consumer] = {}  # by device
        self.webhooks: dict[str, Consumer] = {}  # by the device that each subscription is for
        self.mailboxes: dict[str, Mailbox] = {}  # by device, "" for the one they share
        self.subscriptions: dict[str, SubscriptionState] = {}  # by id; those that have ended stay for a while
        self.ordinals: dict[int, SubscriptionState] = {}
        self.notices: dict[int, Notice] = {}
        self.remembered = 0  # nids in notices
        self.was_connected = False  # before the restart from which the broker recovers
        self.queued = self.delivered = self.delivered_late = 0
        self.dropped: dict[str, int] = {}  # by reason

    @property
    def connected(self) -> bool:
        return bool(self.consumers)

    def all_consumers(self) -> tuple[Consumer, ...]:
        """Those of devices and those of webhooks."""
        return *self.consumers.values(), *self.webhooks.values()


# -- the whole


class NameOrder:
    """The names of users in order, for lists that are read in pages.

    A new name costs nothing until somebody reads; one that has gone stays until the next sorting, so a reader looks
    each of them up.
    """

    __slots__ = ("_names", "_new")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._new: list[str] = []

    def add(self, name: str) -> None:
        self._new.append(name)

    def read(self, first: str, users: Mapping[str, User]) -> Iterator[User]:
        """The users of these names, from ``first`` on; nobody may come or go while it is read."""
        if len(self._names) > 2 * len(users) + _COMPACT:
            self._names, self._new = sorted(users), []
        elif len(self._new) < _FEW:
            for name in self._new:
                insort(self._names, name)
        else:
            self._names += self._new
            self._names.sort()
        self._new = []
        before = None
        for number in range(bisect_left(self._names, first), len(self._names)):
            name = self._names[number]
            if name != before and (user := users.get(name)) is not None:
                yield user
            before = name


class Changes:
    """What differs from what was stored last. A notification that is acknowledged soon enough never gets here."""

    def __init__(self) -> None:
        self.notifications: list[QueuedNotification] = []  # new
        self.gone: list[QueuedNotification] = []  # that were stored
        self.mailboxes: list[int] = []  # numbers of mailboxes that are forgotten
        self.notices: dict[int, tuple[User, Notice | None]] = {}  # None: confirmed
        self.subscriptions: dict[int, SubscriptionState | None] = {}  # by serial; None: forgotten
        self.devices: dict[tuple[str, str], Device | None] = {}  # by user and id

    def __bool__(self) -> bool:
        return bool(
            self.notifications or self.gone or self.mailboxes or self.notices or self.subscriptions or self.devices
        )


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``grace`` is how long an expired subscription can be renewed under its id."""

    bounds: Bounds = Bounds()
    per_device: bool = False
    devices_per_user: int = 64
    grace: timedelta = timedelta(hours=1)
    subscriptions_per_user: int = 100_000
    subscriptions_in_all: int = 2_000_000


class State:
    """Everything that a broker knows.

    ``next_notice`` and ``next_serial`` are above all numbers that were ever given out. ``holding`` while mailboxes are
    being loaded, when nothing may go out; ``recovering`` while events are dispatched that were accepted before a
    restart, and so have waited.
    """

    def __init__(self, settings: BrokerSettings, next_notice: int = 1, next_serial: int = 1) -> None:
        self.settings = settings
        self.bounds = settings.bounds
        self.next_notice, self.next_serial = next_notice, next_serial
        self.users: dict[str, User] = {}
        self.names = NameOrder()
        self.consumers: dict[Any, Consumer] = {}  # by key
        self.subscriptions: dict[int, SubscriptionState] = {}  # by serial
        self.active = 0  # subscriptions
        self.waiting = Waiting()
        self.in_flight = 0  # given to consumers and not acknowledged by them
        self.redelivered = 0
        self.changes = Changes()
        self.holding = self.recovering = False
        self.last_mailbox = 0  # the greatest number of a mailbox in the store
        self.expiries: list[tuple[datetime, int]] = []  # a heap: when to look at which subscription
        self.closed: list[SubscriptionState] = []  # ended, and not needed for a renewal
        self.untidy: deque[User] | None = None  # users that the sweep under way has not looked at yet
        self.fresh = NEVER  # of what is being dispatched, the first nid that did not wait

    def user(self, name: str) -> User:
        """The user of that name, who is made if need be."""
        found = self.users.get(name)
        if found is None:
            found = self.users[name] = User(name)
            self.names.add(name)
        return found
