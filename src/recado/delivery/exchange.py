"""Legs and mailboxes: who is attached, what goes to them and what they are told (sections 6, 10 and 11).

A leg is given at most ``window`` notes that it has not acknowledged, so a long mailbox is drained in slices of a
window, each when the one before is acknowledged, and between two slices everybody else is served.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from recado.delivery.boxes import Boxes
from recado.delivery.mailbox import DELIVERED, DROPPED, WAITING, Bounds, Box, Feed, Link, Note
from recado.delivery.notices import UNCONFIRMED
from recado.delivery.sessions import Close, Device, Push, Tell, User
from recado.errors import LimitError

NEVER = 2**62


class Exchange(Boxes):
    """Who is attached; ``holding`` while mailboxes are being loaded, when nothing may go out."""

    def __init__(
        self, bounds: Bounds, *, per_device: bool = False, devices_per_user: int = 64, next_notice: int = 1
    ) -> None:
        super().__init__(bounds, next_notice)
        self.per_device = per_device
        self.devices_per_user = devices_per_user
        self.links: dict[Any, Link] = {}
        self.oldest_acked: datetime | None = None  # when the first note of the last acknowledgement was generated
        self.holding = False

    def box(self, user: User, device: str) -> Box:
        """The box of a device, or with "" the one that all devices share; a new one reaches the links of now."""
        found = user.boxes.get(device)
        if found is None:
            found = user.boxes[device] = Box(user, device)
            for link in user.links.values():
                if device in ("", link.device):
                    self._join(link, found)
        return found

    # -- legs ----------------------------------------------------------------------------------------------------------

    def attach(self, name: str, device: str, key: Any, *, window: int, now: datetime, seen: int | None = None) -> Link:
        """The device is CONNECTED by this leg. One that it had before is let go; notices and the mailbox follow."""
        user = self.user(name)
        self._check_devices(user, device)
        if device in user.links:
            old = user.links[device]
            self._detach(old)
            self.effects.append(Close(old.key, "taken over"))
        link = self.links[key] = user.links[device] = Link(key, user, device, window, now)
        self._device(user, device, now).link = link
        for name_of in ("", device):
            if name_of in user.boxes:
                self._join(link, user.boxes[name_of])
        link.seen = -1 if seen is None else seen
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
        self._join(link, self.box(user, device))
        self._start(link, now)
        return link

    def _join(self, link: Link, box: Box) -> None:
        feed = Feed(link, box)
        link.feeds.append(feed)
        box.feeds.append(feed)

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
        for feed in link.feeds:
            if link.seen >= 0:
                for note in feed.box.waiting():
                    if note.nid <= link.seen:
                        self._done(note)
            self.drop(feed.box, feed.box.aged(self.bounds, now), "age")
        self.pump(link)

    def release(self, now: datetime) -> None:
        """All mailboxes are here: deliver from now on."""
        self.holding = False
        for user in self.users.values():
            user.was_connected = False
            for box in user.boxes.values():
                self.bound(box)  # bounds may have changed
        for link in list(self.links.values()):
            self._start(link, now)

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

    def forget_device(self, user: User, device: str) -> None:
        if user.devices.pop(device, None):
            self.changes.devices[user.name, device] = None

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

    # -- what goes out -------------------------------------------------------------------------------------------------

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

    def sweep_boxes(self, now: datetime, device_age: timedelta) -> None:
        """Drop what is too old, forget devices that have been away for too long and users of whom nothing is left."""
        for user in list(self.users.values()):
            for box in user.boxes.values():
                if box.length:
                    self.drop(box, box.aged(self.bounds, now), "age")
            for device in [d for d in user.devices.values() if d.link is None and now - d.seen_at > device_age]:
                self.forget_device(user, device.id)
            for box in [b for b in user.boxes.values() if b.device and not (b.length or b.feeds)]:
                self.forget_box(box)
            if not (
                user.devices
                or user.alone
                or user.ordinals
                or user.notices
                or any(b.length for b in user.boxes.values())
            ):
                for box in list(user.boxes.values()):
                    self.forget_box(box)
                del self.users[user.name]
