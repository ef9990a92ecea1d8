"""What will happen, in the order of time and then of the numbers that entries were given.

A heap of all entries would do. In large runs it is what costs most: with 20,000 entries every one of them is compared
with a dozen others that are anywhere in memory. So time is cut into stretches: an entry of a later stretch is only put
on the list of its stretch (``far``), and a stretch is sorted when its time comes (``near``, the next entry last). What
is scheduled for the stretch that is going on goes into a small heap (``late``). Where all happens in one stretch, that
is the plain heap again; when a stretch gets crowded, all are made shorter.

The kernel takes entries from ``near`` and ``late`` and puts them in itself, since a call costs as much as the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

Entry = tuple[float, int, Any, Any, int, Any, Any]
"""Time and number; the rest is the kernel's."""

CROWD = 4096
USUAL = 64
"""So many entries in a stretch are worth sorting at once; it matters little whether they are 8 or 500."""

LATEST = 1e150
"""No entry is later, and no stretch is shorter than its inverse, so that every stretch has a finite number."""


class Agenda:
    """``edge`` is the stretch that is going on: later ones are in ``far``, and ``order`` is a heap of their numbers."""

    __slots__ = ("crowd", "edge", "far", "late", "near", "order", "scale")

    def __init__(self) -> None:
        self.near: list[Entry] = []
        self.late: list[Entry] = []
        self.far: dict[int, list[Entry]] = {}
        self.order: list[int] = []
        self.edge = -1
        self.scale = 1.0
        self.crowd = CROWD

    def __len__(self) -> int:
        return len(self.near) + len(self.late) + sum(map(len, self.far.values()))

    def __iter__(self) -> Iterator[Entry]:
        yield from self.near
        yield from self.late
        for stretch in self.far.values():
            yield from stretch

    def put(self, entry: Entry) -> None:
        stretch = int(entry[0] * self.scale)
        if stretch <= self.edge:
            heappush(self.late, entry)
        elif stretch in self.far:
            self.far[stretch].append(entry)
        else:
            self.far[stretch] = [entry]
            heappush(self.order, stretch)

    def next_time(self) -> float:
        """When something happens next; infinity if nothing does."""
        while not self.near and not self.late and self.order:
            self.open()
        return min(self.near[-1][0] if self.near else math.inf, self.late[0][0] if self.late else math.inf)

    def open(self) -> None:
        """The next stretch begins; the one before must be done."""
        self.edge = heappop(self.order)
        self.near += self.far.pop(self.edge)
        if len(self.near) > self.crowd:
            self.shorten()
        self.near.sort(reverse=True)

    def shorten(self) -> None:
        """Make stretches so short that few of the entries that crowd this one share one; none is open after that.

        Where the crowd is spread over many stretches already (it was scheduled after a later one was opened), it only
        has to be put there.
        """
        times = [entry[0] for entry in (*self.near, *self.late)]
        first, last = min(times), max(times)
        scale = min(len(times) / USUAL / (last - first), LATEST) if last > first else 0.0
        if scale <= self.scale and int(first * self.scale) == int(last * self.scale):  # nothing would part them
            self.crowd = 2 * len(times)
            return
        scale = max(scale, self.scale)
        entries = list(self)
        for part in (self.near, self.late, self.far, self.order):
            part.clear()
        self.edge, self.scale = -1, scale
        for entry in entries:
            self.put(entry)

    def take_out(self, unwanted: Callable[[Entry], bool]) -> list[Entry]:
        """Remove entries; they come back in the order of their numbers."""
        out = [entry for entry in self if unwanted(entry)]
        if out:
            numbers = {entry[1] for entry in out}
            for part in (self.near, self.late, *self.far.values()):
                part[:] = [entry for entry in part if entry[1] not in numbers]
            heapify(self.late)
        return sorted(out, key=lambda entry: entry[1])
