"""Users and what is dropped for them: bounds, gaps and notices, and the books in which effects and changes are noted.

Every method of the desk appends effects to ``effects`` and remembers what must be kept in ``changes``; the caller takes
both. What a bound drops is remembered until its owner has been told.

What nobody will ask for again goes with time: mail and notices by their age, devices that have been away for long,
empty boxes of devices, and users of whom nothing is left.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recado.delivery.mailbox import Bounds, Box, Note, Totals
from recado.delivery.notices import AGE, GAP_NIDS, NOTICES, REMEMBERED, Dropped, Notice
from recado.delivery.sessions import Changes, Effect, User


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
