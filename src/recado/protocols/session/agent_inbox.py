"""Which notifications came, which the application has done with, and up to where that may be confirmed.

A notification is handed over once: its nid is remembered, as one of the last ``remembered``. The service repeats only
what it does not know to be confirmed, which is at most a window, and after a crash of the service also what was
confirmed in its last moments; so the memory need not reach far. Nothing is concluded from a nid being lower than
another, because the mailbox of a device and that of its user may be emptied one after the other.

ACK confirms everything up to a nid: the highest one below every notification of this connection that the application
still has in hand. When many were finished behind such a one, ACK names them one by one.

A subscription that nobody reads must not hold up the others. So what one holds beyond a quarter of the window is added
to the window that the service is granted, up to ``WIDEST`` times the window and ``HELD_BYTES``; there it ends, and the
session stands still.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from recado.protocols.session.messages import WIDEST, Notify

HELD_BYTES = 64 * 2**20
"""Events in hand, before the window grows no more."""


class Remembered:
    """At least the last half of ``most`` numbers, in two generations: no cost per number for forgetting."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, number: int) -> bool:
        """Was it new?"""
        if number in self._young or number in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(number)
        return True


class Inbox:
    """``open`` are the notifications of this connection that are not confirmed, sorted; ``held`` those handed over
    that the application is not done with. ``log`` is the service's log that all these numbers are of.
    """

    def __init__(self, remembered: int, kept: int) -> None:
        self.handed = 0
        self.repeated = 0
        self.seen: int | None = None
        self.log = ""
        self.held: dict[int, Notify] = {}
        self.open: deque[int] = deque()
        self.unconfirmed = 0
        self.notices: list[int] = []
        self._remembered = remembered
        self._nids = Remembered(remembered)
        self._notices = Remembered(remembered)
        self._kept: deque[int] = deque(maxlen=kept)

    def restore(self, saved: dict[str, Any]) -> None:
        self.seen, self.log = saved.get("seen"), saved.get("log", "")
        for nid in saved.get("nids", ()):
            self._nids.add(nid)
            self._kept.append(nid)

    def saved(self) -> dict[str, Any]:
        return {"seen": self.seen, "nids": list(self._kept), "log": self.log}

    def connected(self) -> None:
        """A new connection has nothing open; what the application holds may come again on it."""
        self.open.clear()
        self.unconfirmed = 0
        self.notices.clear()

    def begin_anew(self) -> None:
        """The numbers are of another log: forget them. What the application has in hand is its own."""
        self.seen = None
        self.held.clear()
        self._nids, self._notices = Remembered(self._remembered), Remembered(self._remembered)
        self._kept.clear()

    def came(self, notify: Notify) -> bool:
        """Note a notification; is it for the application?"""
        nid, opened = notify.nid, self.open
        if not opened or nid > opened[-1]:
            opened.append(nid)
        elif nid not in opened:
            opened.append(nid)
            self.open = deque(sorted(opened))
        if not self._nids.add(nid):
            self.repeated += 1
            return False
        self.held[nid] = notify
        self.handed += 1
        return True

    def noticed(self, notice: int) -> bool:
        """Note a notice, to be confirmed; is it new?"""
        self.notices.append(notice)
        return self._notices.add(notice)

    def took(self, nids: Iterable[int]) -> None:
        held, kept = self.held, self._kept
        for nid in nids:
            if nid in held:
                del held[nid]
                kept.append(nid)

    def advance(self) -> None:
        """Count what may be confirmed now and was not before."""
        opened, held = self.open, self.held
        last = None
        while opened and opened[0] not in held:
            last = opened.popleft()
            self.unconfirmed += 1
        if last is not None and (self.seen is None or last > self.seen):
            self.seen = last

    def confirm(self) -> tuple[int | None, tuple[int, ...]]:
        """What an ACK says now; None and nothing if there is nothing to confirm."""
        notices = tuple(self.notices)
        self.notices.clear()
        late = bool(self.open) and self.seen is not None and self.open[0] < self.seen
        if late or not self.unconfirmed:  # a lower one came late and is in hand: an ACK would speak for it, too
            return None, notices
        self.unconfirmed = 0
        return self.seen, notices

    # -- beside a subscription that nobody reads

    @property
    def apart(self) -> int:
        """How many are done though an earlier one is in hand, at least."""
        return len(self.open) - len(self.held)

    def confirm_apart(self) -> tuple[int, ...]:
        """Those are confirmed, too."""
        held, opened = self.held, self.open
        self.open = deque(nid for nid in opened if nid in held)
        return tuple(nid for nid in opened if nid not in held)

    def holding(self) -> Counter[str]:
        """How many the application has in hand, by subscription."""
        return Counter(notify.sub_id for notify in self.held.values())

    def wanted_window(self, window: int, granted: int) -> int:
        """The window that lets every subscription go on; ``granted`` is what it is now."""
        share = window // 4
        parked = sum(count - share for count in self.holding().values() if count > share)
        wanted = min(window + parked, WIDEST * window)
        if wanted > granted and sum(len(notify.event) for notify in self.held.values()) > HELD_BYTES:
            return granted
        return wanted
