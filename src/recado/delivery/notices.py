"""Notices: what an owner must be told beside notifications (the mobility document, 8.3 and 10.1).

A GAP names the notifications that were dropped; SUB_CANCELLED the subscriptions that ended without being asked to. A
notice is told to every device at its next contact, again at each further one, and forgotten when one of them confirms
it. A SUB_CANCELLED has its place among the notifications: it is told after those that were generated before it.

Drops come by thousands, so a gap stays open, and grows, until it is told or full. Nids beyond ``REMEMBERED`` for one
user are only counted, and of more than ``NOTICES`` notices for one user the oldest are forgotten. A notice that nobody
has confirmed for ``AGE`` is forgotten, too: whoever stays away for so long does not come back.
"""

from __future__ import annotations

from array import array
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

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
