"""The desk: subscriptions, and what becomes of an event that matches them (the mobility document, 8, 9 and 11).

A notification's nid is ``position * 2**20 + ordinal``, so it grows along the log and is the same when the event is
dispatched again. An event is judged at ``at``, the instant at which it was accepted: a subscription that has expired by
then gets nothing and is removed, and its owner is told; constraints are judged after the filter, in their order; what
passes is put into the box of the user, or of the device that the subscription is for.

Matching is not done here: the caller says which subscriptions an event matched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

from recado.broker.constraints import Constraints, satisfied
from recado.broker.mailbox import (
    AGE,
    DELIVERED,
    DROPPED,
    GAP_NIDS,
    NOTICES,
    REMEMBERED,
    UNCONFIRMED,
    WAITING,
    Bounds,
    Box,
    Dropped,
    Feed,
    Link,
    Note,
    Notice,
    Totals,
)
from recado.broker.state import Changes, Close, Device, Effect, Push, Standing, Tell, User
from recado.errors import LimitError

# --- Users and what is dropped for them: bounds, gaps and notices, and the books in which effects and changes are
# noted
#
# Every method of the desk appends effects to ``effects`` and remembers what must be kept in ``changes``; the caller
# takes both. What a bound drops is remembered until its owner has been told.
#
# What nobody will ask for again goes with time: mail and notices by their age, devices that have been away for long,
# empty boxes of devices, and users of whom nothing is left.


class Boxes:
    """``next_notice`` is a number above those of all notices that were ever given out."""

    def __init__(self, bounds: Bounds, next_notice: int) -> None:
        self.bounds = bounds
        self.next_notice = next_notice
        self.users: dict[str, User] = {}
        self.waiting = Totals()
        self.effects: list[Effect] = []
        self.changes = Changes()
        self.dropped: dict[str, int] = {}  # by reason, since the caller last emptied it

    def user(self, name: str) -> User:
        found = self.users.get(name)
        if found is None:
            found = self.users[name] = User(name)
        return found

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def take_changes(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        changes.settle()
        return changes

    def bound(self, box: Box) -> None:
        """Drop what is too much."""
        self.drop(box, box.excess(self.bounds), "full")

    def drop(self, box: Box, notes: list[Note], reason: Dropped) -> None:
        """Remember what was dropped, to tell it."""
        if notes:
            self.changes.gone.extend(note for note in notes if note.kept)
            self.gap(box.user, box.device, [note.nid for note in notes], reason)

    def gap(self, user: User, device: str, nids: list[int], reason: Dropped) -> None:
        """These will not come."""
        for counts in (user.dropped, self.dropped):
            counts[reason] = counts.get(reason, 0) + len(nids)
        start = 0
        while start < len(nids):
            notice = self._open_gap(user, device, reason)
            room = min(GAP_NIDS - len(notice.nids), REMEMBERED - user.remembered)
            some = (
                nids[start : start + room] if room > 0 else nids[start:]
            )  # of the last ones only their number is kept
            if room > 0:
                notice.nids.extend(some)
                user.remembered += len(some)
            notice.count += len(some)
            notice.at = None
            self.changes.notices[notice.id] = user, notice
            start += len(some)

    def _open_gap(self, user: User, device: str, reason: Dropped) -> Notice:
        for notice in reversed(user.notices.values()):
            if notice.open and notice.device == device and notice.reason == reason:
                if len(notice.nids) < GAP_NIDS:
                    return notice
                notice.open = False
        return self.notice(user, Notice(self.next_notice, device, reason))

    def notice(self, user: User, notice: Notice) -> Notice:
        """Beyond ``NOTICES`` the oldest is forgotten: its owner has not been here for thousands of them."""
        self.next_notice += 1
        if len(user.notices) >= NOTICES:
            self.forget_notice(user, next(iter(user.notices)))
        user.notices[notice.id] = notice
        for link in (*user.links.values(), *user.alone.values()):
            link.news = True
        self.changes.notices[notice.id] = user, notice
        return notice

    def forget_notice(self, user: User, id: int) -> None:
        notice = user.notices.pop(id, None)
        if notice is not None:
            user.remembered -= len(notice.nids)
            self.changes.notices[id] = user, None
            for link in (*user.links.values(), *user.alone.values()):
                link.told.pop(id, None)

    def forget_box(self, box: Box) -> None:
        """It is empty, and nobody reads it."""
        del box.user.boxes[box.device]
        if box.number:
            self.changes.boxes.append(box.number)

    # -- with time -----------------------------------------------------------------------------------------------------

    def forget_device(self, user: User, device: str) -> None:
        if user.devices.pop(device, None):
            self.changes.devices[user.name, device] = None

    def tidy(self, user: User, now: datetime, device_age: timedelta) -> None:
        """Let go of what has become too old, and of the user if nothing is left."""
        for box in user.boxes.values():
            if box.length:
                self.drop(box, box.aged(self.bounds, now), "age")
        for device in [d for d in user.devices.values() if d.link is None and now - d.seen_at > device_age]:
            self.forget_device(user, device.id)
        for box in [b for b in user.boxes.values() if b.device and not (b.length or b.feeds)]:
            self.forget_box(box)
        if user.notices:
            self._tidy_notices(user, now)
        if not (
            user.devices or user.alone or user.ordinals or user.notices or any(b.length for b in user.boxes.values())
        ):
            for box in list(user.boxes.values()):
                self.forget_box(box)
            del self.users[user.name]

    def _tidy_notices(self, user: User, now: datetime) -> None:
        for notice in list(user.notices.values()):
            if notice.at is None:
                notice.at = now
                self.changes.notices[notice.id] = user, notice
            elif now - notice.at > AGE:
                self.forget_notice(user, notice.id)


# --- What goes out on a link: notices whose place has come, and notes in the order of their nids, by the link's
# window
#
# A link is given at most ``window`` notes that it has not acknowledged, so a long mailbox is drained in slices of a
# window, each when the one before is acknowledged, and between two slices everybody else is served.


NEVER = 2**62


class Outgoing(Boxes):
    """``holding`` while mailboxes are being loaded, when nothing may go out; ``recovering`` while events are dispatched
    that were accepted before a restart, and so have waited.
    """

    def __init__(self, bounds: Bounds, next_notice: int) -> None:
        super().__init__(bounds, next_notice)
        self.holding = self.recovering = False

    def box(self, user: User, device: str) -> Box:
        """The box of a device, or with "" the one that all devices share; a new one reaches the links of now."""
        found = user.boxes.get(device)
        if found is None:
            found = user.boxes[device] = Box(user, device, self.waiting)
            for link in user.links.values():
                if device in ("", link.device):
                    self.join(link, found)
        return found

    def join(self, link: Link, box: Box) -> None:
        feed = Feed(link, box)
        link.feeds.append(feed)
        box.feeds.append(feed)

    def pump(self, link: Link, fresh: int = NEVER) -> None:
        """Give the link what its window has room for."""
        if self.holding:
            return
        if link.news:
            self._tell(link)
        room = link.window - len(link.flying)
        if room > 0:
            notes = self._next(link, room)
            if notes:
                link.flying.extend(notes)
                self.effects.append(Push(link.key, notes, fresh))
                if fresh == NEVER:
                    link.user.delivered_late += len(notes)
                if link.news:
                    self._tell(link)

    def _next(self, link: Link, room: int) -> list[Note]:
        notes: list[Note] = []
        feeds = link.feeds
        while len(notes) < room:
            best, best_feed = None, None
            for feed in feeds:
                note = feed.next()
                if note is not None and (best is None or note.nid < best.nid):
                    best, best_feed = note, feed
            if best is None or best_feed is None:
                break
            best_feed.at += 1
            notes.append(best)
        return notes

    def _tell(self, link: Link) -> None:
        """Notices whose place has come: those before them have been given to the link."""
        room = UNCONFIRMED - len(link.told)
        if room <= 0:
            return
        ahead = [note.nid for feed in link.feeds if (note := feed.next()) is not None]
        first = min(ahead, default=NEVER)
        new = [
            notice
            for notice in link.user.notices.values()
            if notice.id not in link.told and (notice.device == link.device or not (notice.device or link.alone))
        ]
        ready = [notice for notice in new if notice.after <= first][:room]
        link.news = len(ready) < len(new)
        for notice in ready:
            link.told[notice.id] = None
            notice.open = False
        if ready:
            self.effects.append(Tell(link.key, ready))


# --- Legs and mailboxes: who is attached, what they acknowledge and what is put in for them (sections 6, 10 and 11)


class Exchange(Outgoing):
    """Who is attached."""

    def __init__(
        self, bounds: Bounds, *, per_device: bool = False, devices_per_user: int = 64, next_notice: int = 1
    ) -> None:
        super().__init__(bounds, next_notice)
        self.per_device = per_device
        self.devices_per_user = devices_per_user
        self.links: dict[Any, Link] = {}
        self.oldest_acked: datetime | None = None  # when the first note of the last acknowledgement was generated

    # -- legs ----------------------------------------------------------------------------------------------------------

    def attach(
        self,
        name: str,
        device: str,
        key: Any,
        *,
        window: int,
        now: datetime,
        seen: int | None = None,
        end: int = NEVER,
    ) -> Link:
        """The device is CONNECTED by this leg. One that it had before is let go; notices and the mailbox follow.

        ``seen`` is the greatest nid that the device has; all nids that were ever given are below ``end``.
        """
        user = self.user(name)
        self._check_devices(user, device)
        if device in user.links:
            old = user.links[device]
            self._detach(old)
            self.effects.append(Close(old.key, "taken over"))
        link = self.links[key] = user.links[device] = Link(key, user, device, window, now)
        known = self._device(user, device, now)
        known.link = link
        for name_of in ("", device):
            if name_of in user.boxes:
                self.join(link, user.boxes[name_of])
        link.seen = -1 if seen is None else seen
        if link.seen >= end:
            known.beyond = max(known.beyond, link.seen)
        self._start(link, now)
        return link

    def _check_devices(self, user: User, device: str) -> None:
        """Beyond the limit, a new device takes the place of the one that has been away for longest."""
        if device in user.devices or len(user.devices) < self.devices_per_user:
            return
        away = [one for one in user.devices.values() if one.link is None]
        if not away:
            most = len(user.devices)
            raise LimitError(f"user {user.name!r} has {most} connected devices, which is the limit; end one of them")
        self.forget_device(user, min(away, key=lambda one: one.seen_at).id)

    def attach_alone(self, name: str, device: str, key: Any, *, window: int, now: datetime) -> Link:
        """A leg that is no device of the user: it gets one box, and does not make its user CONNECTED."""
        user = self.user(name)
        if device in user.alone:
            old = user.alone[device]
            self._detach(old)
            self.effects.append(Close(old.key, "taken over"))
        link = self.links[key] = user.alone[device] = Link(key, user, device, window, now)
        link.alone = True
        self.join(link, self.box(user, device))
        self._start(link, now)
        return link

    def _device(self, user: User, id: str, now: datetime) -> Device:
        device = user.devices.get(id)
        if device is None:
            device = user.devices[id] = Device(id, now)
        device.seen_at = now
        self.changes.devices[user.name, id] = device
        return device

    def _start(self, link: Link, now: datetime) -> None:
        if self.holding:
            return
        believed = link.alone or link.seen > link.user.devices[link.device].beyond
        for feed in link.feeds:
            if believed and link.seen >= 0:
                for note in feed.box.waiting():
                    if note.nid <= link.seen:
                        self._done(note)
            self.drop(feed.box, feed.box.aged(self.bounds, now), "age")
        self.pump(link)

    def release(self, now: datetime) -> None:
        """All mailboxes are here: deliver from now on."""
        self.holding = False
        for user in self.users.values():
            for box in user.boxes.values():
                self.bound(box)  # bounds may have changed
        for link in list(self.links.values()):
            self._start(link, now)

    def recovered(self) -> None:
        """What was accepted before the restart is dispatched: who was connected then counts no longer."""
        self.recovering = False
        for user in self.users.values():
            user.was_connected = False

    def lost(self, key: Any, now: datetime) -> None:
        """The leg failed: the device is DISCONNECTED, and what was on its way waits again."""
        link = self.links.get(key)
        if link is not None:
            self._detach(link)
            if not link.alone:
                self._device(link.user, link.device, now)

    def ended(self, key: Any) -> None:
        """The device ended its session; subscriptions and mailboxes stay."""
        link = self.links.get(key)
        if link is not None:
            self._detach(link)
            self.forget_device(link.user, link.device)

    def _detach(self, link: Link) -> None:
        user = link.user
        del self.links[link.key]
        if link.alone:
            del user.alone[link.device]
        else:
            del user.links[link.device]
            user.devices[link.device].link = None
        for feed in link.feeds:
            feed.box.feeds.remove(feed)
            self.bound(feed.box)
            feed.box.trim()
        link.feeds = []
        link.flying.clear()

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def acked(self, key: Any, upto: int) -> int:
        """The leg has everything that was given to it up to a nid; how many that are."""
        link = self.links.get(key)
        if link is None:
            return 0
        flying, count = link.flying, 0
        if flying:
            self.oldest_acked = flying[0].at
        while flying and flying[0].nid <= upto:
            note = flying.popleft()
            count += 1
            if note.state == WAITING:
                self._done(note)
        self._settle(link)
        return count

    def acked_one(self, key: Any, nid: int) -> int:
        """The leg has this one, whatever came before it."""
        link = self.links.get(key)
        if link is None:
            return 0
        found = next((note for note in link.flying if note.nid == nid), None)
        if found is None:
            return 0
        self.oldest_acked = found.at
        link.flying.remove(found)
        if found.state == WAITING:
            self._done(found)
        self._settle(link)
        return 1

    def acked_apart(self, key: Any, nids: Collection[int]) -> int:
        """The leg has these, but not all that came before them."""
        link = self.links.get(key)
        if link is None:
            return 0
        wanted = frozenset(nids)
        found = [note for note in link.flying if note.nid in wanted]
        link.flying = deque(note for note in link.flying if note.nid not in wanted)
        if found:
            self.oldest_acked = found[0].at
        for note in found:
            if note.state == WAITING:
                self._done(note)
        self._settle(link)
        return len(found)

    def widen(self, key: Any, window: int) -> None:
        """The leg takes so many from now on without acknowledging them."""
        link = self.links.get(key)
        if link is not None:
            link.window = window
            self.pump(link)

    def _settle(self, link: Link) -> None:
        for feed in link.feeds:
            feed.box.trim()
        self.pump(link)

    def _done(self, note: Note) -> None:
        """Acknowledged by at least one leg: delivered."""
        note.box.done(note, DELIVERED)
        note.box.user.delivered += 1
        if note.kept:
            self.changes.gone.append(note)

    def noticed(self, key: Any, notices: list[int]) -> None:
        link = self.links.get(key)
        for id in notices if link else ():
            self.forget_notice(link.user, id)  # type: ignore[union-attr]  # there is a link
        if link is not None and link.news:
            self.pump(link)

    # -- what comes in -------------------------------------------------------------------------------------------------

    def put(self, box: Box, note: Note, fresh: int = NEVER) -> None:
        """A new note, with the greatest nid so far; whoever calls ``pump`` for its links afterwards sends it."""
        box.append(note)
        self.changes.notes.append(note)
        if box.length > self.bounds.length or box.bytes > self.bounds.bytes:
            for feed in box.feeds:  # what can go at once is not dropped
                self.pump(feed.link, fresh)
            self.drop(box, box.aged(self.bounds, note.at), "age")
            self.bound(box)
        if len(box.notes) > 2 * self.bounds.length:
            for link in box.lagging(self.bounds):
                self._detach(link)
                if not link.alone:
                    self._device(link.user, link.device, note.at)
                self.effects.append(Close(link.key, "too slow"))

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def purge(self, user: User, device: str | None = None, *, tell: bool = True) -> int:
        """Empty the user's boxes, or the box of a device; with ``tell`` the owner hears of it."""
        count = 0
        for box in list(user.boxes.values()) if device is None else [self.box(user, device)]:
            notes = box.waiting()
            for note in notes:
                box.done(note, DROPPED)
            if tell:
                self.drop(box, notes, "purged")
            else:
                self.changes.gone.extend(note for note in notes if note.kept)
            box.trim()
            count += len(notes)
        for link in list(user.links.values()):
            self.pump(link)
        return count


# --- The desk: subscriptions, and what becomes of an event that matches them (the mobility document, 8, 9 and 11)

ORDINAL_BITS = 20
SWEPT = 500
"""Subscriptions or users that one step of a sweep looks at."""
_LAST_ORDINAL = 2**ORDINAL_BITS - 1
_by_ordinal = attrgetter("ordinal")
Faults: TypeAlias = list[tuple[Standing, Exception]]


class Desk(Exchange):
    """``leaving`` collects the subscriptions that the matcher should forget."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        per_device: bool = False,
        devices_per_user: int = 64,
        next_notice: int = 1,
        next_serial: int = 1,
        grace: timedelta = timedelta(hours=1),
        per_user: int = 100_000,
        in_all: int = 2_000_000,
    ) -> None:
        super().__init__(bounds, per_device=per_device, devices_per_user=devices_per_user, next_notice=next_notice)
        self.grace = grace
        self.per_user, self.in_all = per_user, in_all
        self.next_serial = next_serial
        self.standings: dict[int, Standing] = {}  # by serial
        self.active = 0
        self.leaving: list[Standing] = []
        self._expiries: list[tuple[datetime, int]] = []
        self._closed: list[Standing] = []  # ended, and not needed for a renewal
        self._touched: dict[Box, None] = {}
        self._gapped: dict[User, None] = {}
        self._fresh = NEVER

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        name: str,
        id: str,
        *,
        position: int,
        now: datetime,
        expires_at: datetime,
        device: str = "",
        scope: str = "",
        constraints: Constraints = (),
        record: Mapping[str, Any] | None = None,
    ) -> Standing:
        """A new subscription for the events from ``position`` on; it replaces the one with its id, if there is one."""
        user = self.user(name)
        before = user.standings.get(id)
        if before is None or not before.active:
            self._check_room(user)
        if before is not None:
            self._leave(before, position, now, "replaced")
            self._close(before)
        standing = Standing(
            self.next_serial,
            id,
            user,
            self._ordinal(user),
            expires_at=expires_at,
            since=position,
            device=device,
            scope=scope,
            constraints=constraints,
            record=record,
        )
        self.enter(standing)
        self.changes.standings[standing.serial] = standing
        return standing

    def enter(self, standing: Standing) -> None:
        """Take in a subscription that is numbered already, as those of the store are."""
        user = standing.user
        self.next_serial = max(self.next_serial, standing.serial + 1)
        self.standings[standing.serial] = standing
        user.ordinals[standing.ordinal] = standing
        known = user.standings.get(standing.id)
        if known is None or known.serial < standing.serial:
            user.standings[standing.id] = standing
        if standing.active:
            self.active += 1
        elif standing.reason != "expired" or user.standings[standing.id] is not standing:
            self._close(standing)
            return
        heappush(self._expiries, (standing.expires_at, standing.serial))

    def _check_room(self, user: User) -> None:
        if len(user.standings) >= self.per_user:
            raise LimitError(f"user {user.name!r} has {len(user.standings):,} subscriptions, which is the limit")
        if self.active >= self.in_all:
            raise LimitError(f"the service has {self.active:,} subscriptions, which is the limit")

    def _ordinal(self, user: User) -> int:
        """The next number after the last one that none of the user's subscriptions has; after the greatest comes 1."""
        last = next(reversed(user.ordinals), 0)
        following = chain(range(last + 1, _LAST_ORDINAL + 1), range(1, last + 1))
        return next(number for number in following if number not in user.ordinals)

    def renew(self, standing: Standing, expires_at: datetime, *, position: int, now: datetime) -> Standing:
        """Extend it; one that expired within the grace goes on under its id."""
        if not standing.active or standing.expires_at <= now:
            return self.subscribe(
                standing.user.name,
                standing.id,
                position=position,
                now=now,
                expires_at=expires_at,
                device=standing.device,
                scope=standing.scope,
                constraints=standing.constraints,
                record=standing.record,
            )
        if expires_at < standing.expires_at:
            heappush(self._expiries, (expires_at, standing.serial))
        standing.expires_at = expires_at
        self.changes.standings[standing.serial] = standing
        return standing

    def cancel(self, standing: Standing, *, position: int, now: datetime, tell: bool = False) -> None:
        """Its owner wants it no more or, with ``tell``, somebody else has ended it and the owner is told so."""
        self._leave(standing, position, now, "cancelled")
        if tell:
            self._tell_end(standing, position, "cancelled")
        self._close(standing)

    def discard(self, name: str, device: str, *, position: int, now: datetime) -> list[Standing]:
        """Cancel the user's subscriptions, but for those of other devices, and empty their mailboxes."""
        user = self.user(name)
        mine = [s for s in user.standings.values() if s.scope in ("", device)]
        for standing in mine:
            self.cancel(standing, position=position, now=now)
        for box in [box for box in user.boxes.values() if box.device in ("", device)]:
            self.purge(user, box.device, tell=False)
        return mine

    def _leave(self, standing: Standing, position: int, now: datetime, reason: str) -> None:
        if standing.active:
            standing.until, standing.ended_at, standing.reason = position, now, reason
            self.active -= 1
            self.leaving.append(standing)
        else:
            standing.reason = reason
        self.changes.standings[standing.serial] = standing

    def _close(self, standing: Standing) -> None:
        """It cannot be renewed any more; its record goes when all events before its end are dispatched for good."""
        if standing.user.standings.get(standing.id) is standing:
            del standing.user.standings[standing.id]
        self._closed.append(standing)

    def _expire(self, standing: Standing, position: int, now: datetime) -> None:
        self._leave(standing, position, now, "expired")
        self._tell_end(standing, position, "expired")

    def _tell_end(self, standing: Standing, position: int, reason: str) -> None:
        user = standing.user
        notice = Notice(self.next_notice, standing.scope, reason, position << ORDINAL_BITS, (standing.id,))
        self.notice(user, notice)
        for link in (*user.links.values(), *user.alone.values()):
            self.pump(link, self._fresh)

    def forget_closed(self, dispatched: int) -> None:
        """Everything before ``dispatched`` is being kept as dispatched: records that ended by then have no more use."""
        left = []
        for standing in self._closed:
            if standing.until > dispatched:
                left.append(standing)
                continue
            self.standings.pop(standing.serial, None)
            if standing.user.ordinals.get(standing.ordinal) is standing:
                del standing.user.ordinals[standing.ordinal]
            self.changes.standings[standing.serial] = None
        self._closed = left

    # -- events --------------------------------------------------------------------------------------------------------

    def publish(
        self, position: int, event: bytes, at: datetime, found: list[Standing], faults: Faults | None = None
    ) -> int:
        """The event matched these subscriptions; how many notifications it gives. ``flush`` sends them.

        With ``faults``, an error at one subscription is noted there, its owner is told of a gap, and the others go on.
        """
        if len(found) > 1:
            found.sort(key=_by_ordinal)  # nids of one user grow
        count = 0
        if not self.recovering:
            self._fresh = min(self._fresh, position << ORDINAL_BITS)
        for standing in found:
            try:
                count += self._notify(standing, position, event, at)
            except Exception as error:  # one subscription's fault must not become everybody's
                if faults is None:
                    raise
                faults.append((standing, error))
                self.gap(standing.user, standing.scope, [position << ORDINAL_BITS | standing.ordinal], "damaged")
        return count

    def _notify(self, standing: Standing, position: int, event: bytes, at: datetime) -> bool:
        if not standing.since <= position < standing.until:
            return False
        if standing.expires_at <= at:
            if standing.active:  # else its end was told, or asked for
                self._expire(standing, position, at)
            return False
        user = standing.user
        if standing.constraints:
            connected = bool(user.links) or user.was_connected
            if not satisfied(standing.constraints, at, at, standing.last_notified, connected):
                return False
            if standing.remembers:
                self.changes.standings[standing.serial] = standing
        standing.last_notified = at
        standing.notified += 1
        if not user.links:
            user.queued += 1
        nid = position << ORDINAL_BITS | standing.ordinal
        for box in self._boxes(standing):
            self.put(box, Note(nid, standing.id, event, at, box), self._fresh)
            self._touched[box] = None
        return True

    def pass_over(self, position: int, at: datetime, standings: Iterable[Standing], reason: Dropped = "budget") -> int:
        """The event was not matched with these: their owners are told of a gap. How many wanted it."""
        nids: dict[tuple[str, str], list[int]] = {}
        for standing in sorted(standings, key=_by_ordinal):
            if standing.since <= position < standing.until and standing.expires_at > at:
                standing.unmatched += 1
                whose = standing.user.name, standing.scope
                nids.setdefault(whose, []).append(position << ORDINAL_BITS | standing.ordinal)
        for (name, scope), some in nids.items():
            user = self.user(name)
            self.gap(user, scope, some, reason)
            self._gapped[user] = None
        return sum(map(len, nids.values()))

    def _boxes(self, standing: Standing) -> Iterable[Box]:
        user = standing.user
        if standing.scope or not self.per_device or not user.devices:
            found = user.boxes.get(standing.scope)
            return (found if found is not None else self.box(user, standing.scope),)
        return [self.box(user, device) for device in user.devices]

    def flush(self, now: datetime) -> None:
        """Send what was published since the last call."""
        touched, self._touched = self._touched, {}
        fresh, self._fresh = self._fresh, NEVER
        for box in touched:
            self.drop(box, box.aged(self.bounds, now), "age")
            for feed in box.feeds:
                self.pump(feed.link, fresh)
        gapped, self._gapped = self._gapped, {}
        for user in gapped:
            for link in (*user.links.values(), *user.alone.values()):
                self.pump(link, fresh)

    # -- time ----------------------------------------------------------------------------------------------------------

    def sweep(self, position: int, now: datetime, device_age: timedelta) -> None:
        """What lazy checks have not met: expired subscriptions, graces that are over, and what is too old to keep."""
        for _ in self.sweeping(position, now, device_age):
            pass

    def sweeping(self, position: int, now: datetime, device_age: timedelta) -> Iterator[None]:
        """The same, some at a time: with many users it takes long, and anything may happen between two steps."""
        while self._expiries and self._expiries[0][0] <= now:
            for _ in range(SWEPT):
                if self._expiries and self._expiries[0][0] <= now:
                    self._look_at(heappop(self._expiries)[1], position, now)
            yield
        users = list(self.users.values())
        for start in range(0, len(users), SWEPT):
            for user in users[start : start + SWEPT]:
                if self.users.get(user.name) is user:
                    self.tidy(user, now, device_age)
            yield
        self.flush(now)

    def _look_at(self, serial: int, position: int, now: datetime) -> None:
        """The time has come at which this subscription was to end, or its grace."""
        standing = self.standings.get(serial)
        if standing is None:
            return
        if standing.active and standing.expires_at > now:  # it was renewed
            heappush(self._expiries, (standing.expires_at, serial))
            return
        if standing.active:
            self._expire(standing, position, now)
        if standing.reason == "expired":
            self._grace(standing, now)

    def _grace(self, standing: Standing, now: datetime) -> None:
        """Look at it again when its grace is over, and then forget it."""
        over = standing.expires_at + self.grace
        if over > now:
            heappush(self._expiries, (over, standing.serial))
        elif standing.user.standings.get(standing.id) is standing:
            self._close(standing)
