"""What waits for someone: notifications in the order of their nids (the mobility document, 10).

A ``Box`` belongs to a user, or to one device of a user. Notes are appended with growing nids and leave when the first
leg has acknowledged them, or when a bound drops the oldest. Each leg that is attached reads the box with a cursor of
its own, a ``Feed``, that only moves forward: so a leg sees growing nids, and an acknowledgement up to a nid is never
ambiguous. A leg that fails needs to give nothing back, since what it did not acknowledge is still here.

- A note that some leg has acknowledged is *delivered*: it no longer counts. It still goes to the other legs that were
  attached when it came; one that attaches later does not get it.
- What has been given to a leg that is still attached is on its way and is not dropped. So an attached leg may hold
  up to its window more than the bounds say.
"""

from __future__ import annotations

from array import array
from collections import deque
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec

WAITING, DELIVERED, DROPPED = 0, 1, 2
NOTE_BYTES = 64
"""What a note costs beside its event, for the bound in bytes."""
_COMPACT = 512


class Bounds(msgspec.Struct, frozen=True):
    """Of one box. An age of None is none."""

    length: int = 100_000
    bytes: int = 64 * 2**20
    age: timedelta | None = timedelta(days=7)


class Totals:
    """What waits in all boxes together."""

    __slots__ = ("bytes", "length")

    def __init__(self) -> None:
        self.length = self.bytes = 0


class Note:
    """One notification; the bytes of the event are shared by all notes of it."""

    __slots__ = ("at", "box", "event", "kept", "nid", "state", "sub_id")

    def __init__(self, nid: int, sub_id: str, event: bytes, at: datetime, box: Box) -> None:
        self.nid = nid
        self.sub_id = sub_id
        self.event = event
        self.at = at  # when it was generated
        self.box = box
        self.state = WAITING
        self.kept = False  # is there a row of it in the store?


class Link:
    """A leg as the desk knows it; ``key`` is whatever the caller calls it."""

    __slots__ = ("alone", "device", "feeds", "flying", "key", "news", "seen", "since", "told", "user", "window")

    def __init__(self, key: Any, user: Any, device: str, window: int, since: datetime) -> None:
        self.key = key
        self.user = user
        self.device = device
        self.window = window
        self.since = since
        self.flying: deque[Note] = deque()  # given to the leg, not acknowledged by it; nids grow
        self.feeds: list[Feed] = []
        self.told: dict[int, None] = {}  # notices
        self.news = True  # may there be notices that it was not told?
        self.seen = -1
        self.alone = False  # it stands for no device of the user, but for a webhook


class Feed:
    """Where a link is in a box. Of notes before ``joined`` it gets only those that nobody has acknowledged."""

    __slots__ = ("at", "box", "joined", "link")

    def __init__(self, link: Link, box: Box) -> None:
        self.link = link
        self.box = box
        self.at = box.base + box.head
        self.joined = box.end

    def next(self) -> Note | None:
        """The next note for this link; it is the next until ``at`` moves on."""
        box = self.box
        notes, base = box.notes, box.base
        at = self.at - base
        while at < len(notes):
            note = notes[at]
            if note.state == WAITING or (note.state == DELIVERED and at + base >= self.joined):
                self.at = at + base
                return note
            at += 1
        self.at = at + base
        return None


class Box:
    """Notes by nid. ``notes[head:]`` are kept in memory, and the first of all that ever were has the number 0."""

    __slots__ = ("base", "bytes", "device", "feeds", "head", "length", "notes", "number", "totals", "user")

    def __init__(self, user: Any, device: str, totals: Totals) -> None:
        self.user = user
        self.totals = totals
        self.device = device  # "" for the box that all devices of the user share
        self.notes: list[Note] = []
        self.head = self.base = 0
        self.length = self.bytes = 0  # of what waits
        self.feeds: list[Feed] = []
        self.number = 0  # in the store; 0 if it has none yet

    @property
    def end(self) -> int:
        return self.base + len(self.notes)

    def append(self, note: Note) -> None:
        """The caller sees to growing nids and to the bounds."""
        self.notes.append(note)
        size, totals = len(note.event) + NOTE_BYTES, self.totals
        self.length += 1
        self.bytes += size
        totals.length += 1
        totals.bytes += size

    def done(self, note: Note, state: int) -> None:
        """The note waits no longer."""
        note.state = state
        size, totals = len(note.event) + NOTE_BYTES, self.totals
        self.length -= 1
        self.bytes -= size
        totals.length -= 1
        totals.bytes -= size

    def waiting(self) -> list[Note]:
        """All that nobody has acknowledged, oldest first."""
        return [note for note in self.notes[self.head :] if note.state == WAITING]

    def oldest(self) -> Note | None:
        """The oldest note that is on its way to nobody."""
        found = self._oldest()
        return None if found is None else self.notes[found]

    def _oldest(self) -> int | None:
        self.trim()
        at = max([self.head, *(feed.at - self.base for feed in self.feeds)])
        while at < len(self.notes):
            if self.notes[at].state == WAITING:
                return at
            at += 1
        return None

    def drop_oldest(self) -> Note | None:
        """Drop the oldest note that is on its way to nobody; None if all are on their way."""
        at = self._oldest()
        if at is None:
            return None
        note = self.notes[at]
        self.done(note, DROPPED)
        for feed in self.feeds:
            if feed.at == self.base + at:  # so that the next one is found at once
                feed.at += 1
        return note

    def excess(self, bounds: Bounds) -> list[Note]:
        """Drop the oldest until length and bytes are within their bounds."""
        dropped: list[Note] = []
        while self.length > bounds.length or self.bytes > bounds.bytes:
            note = self.drop_oldest()
            if note is None:
                break
            dropped.append(note)
        return dropped

    def aged(self, bounds: Bounds, now: datetime) -> list[Note]:
        """Drop what is older than the bound."""
        dropped: list[Note] = []
        while bounds.age is not None:
            note = self.oldest()
            if note is None or now - note.at <= bounds.age:
                break
            self.drop_oldest()
            dropped.append(note)
        return dropped

    def lagging(self, bounds: Bounds) -> list[Link]:
        """Links for whose sake too much is kept that others have acknowledged long ago."""
        held = len(self.notes) - self.head
        if held <= 2 * bounds.length + _COMPACT or not self.feeds:
            return []
        last = self.base + self.head + held // 2
        return [feed.link for feed in self.feeds if feed.at < last]

    def trim(self) -> None:
        """Forget the oldest that neither wait nor are still to go to a link."""
        notes, head = self.notes, self.head
        stop = min([len(notes), *(feed.at - self.base for feed in self.feeds)])
        while head < stop and notes[head].state != WAITING:
            head += 1
        self.head = head
        if head > _COMPACT and head * 2 > len(notes):
            del notes[:head]
            self.base += head
            self.head = 0


# --- Notices: what an owner must be told beside notifications (the mobility document, 8.3 and 10.1) ------------------
#
# A GAP names the notifications that were dropped; SUB_CANCELLED the subscriptions that ended without being asked to. A
# notice is told to every device at its next contact, again at each further one, and forgotten when one of them confirms
# it. A SUB_CANCELLED has its place among the notifications: it is told after those that were generated before it.
#
# Drops come by thousands, so a gap stays open, and grows, until it is told or full. Nids beyond ``REMEMBERED`` for one
# user are only counted, and of more than ``NOTICES`` notices for one user the oldest are forgotten. A notice that
# nobody has confirmed for ``AGE`` is forgotten, too: whoever stays away for so long does not come back.


GAP_NIDS = 4_096
REMEMBERED = 1_000_000
NOTICES = 4_096
AGE = timedelta(days=30)
UNCONFIRMED = 1_024
"""Notices that a leg is told before it confirms some: gaps grow meanwhile instead of becoming many."""

Dropped: TypeAlias = Literal["full", "age", "purged", "damaged", "budget"]
"""Why; ``budget``: the event was not matched, since the owner's filters took more than their share of time."""


class Notice:
    """Either of the two: a gap has nids, a cancellation has subscriptions."""

    __slots__ = ("after", "at", "count", "device", "id", "nids", "open", "reason", "sub_ids")

    def __init__(self, id: int, device: str, reason: str, after: int = -1, sub_ids: tuple[str, ...] = ()) -> None:
        self.id = id
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
