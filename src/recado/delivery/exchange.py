"""Legs and mailboxes: who is attached, what they acknowledge and what is put in for them (sections 6, 10 and 11)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from datetime import datetime
from typing import Any

from recado.delivery.mailbox import DELIVERED, DROPPED, WAITING, Bounds, Box, Link, Note
from recado.delivery.outgoing import NEVER, Outgoing
from recado.delivery.sessions import Close, Device, User
from recado.errors import LimitError


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
