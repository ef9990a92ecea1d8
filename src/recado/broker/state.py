"""Users, their devices, and what is to be done or kept because of them (the mobility document, 6 and 11).

A user is CONNECTED while at least one leg is attached, else DISCONNECTED. A device is known from its first leg on,
until it ends its session or has been away for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from recado.broker.constraints import Constraints, frequency_of
from recado.broker.mailbox import WAITING, Box, Link, Note, Notice

# --- A subscription as the desk keeps it (the mobility document, 8) --------------------------------------------------
#
# ``since`` and ``until`` are positions of the log: it takes the events of ``[since, until)`` and no others, also when
# they are dispatched again after a crash. ``until`` is ENDLESS while it is active. ``ordinal`` numbers it at its owner
# and is part of every nid; ``serial`` numbers it among all. A subscription that is replaced, or renewed after its end,
# goes on as a new one with the same id.


ENDLESS = 2**62


class Standing:
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
        id: str,
        user: Any,
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
        self.id = id
        self.user = user
        self.ordinal = ordinal
        self.device = device  # that asked for it
        self.scope = scope  # the device that it is for, "" for all
        self.constraints = constraints
        self.record = record or {}
        self.expires_at = expires_at
        self.since = since
        self.until = ENDLESS
        self.last_notified: datetime | None = None
        self.remembers = frequency_of(constraints) is not None
        self.notified = 0
        self.unmatched = 0  # events that were not matched with it, since the start of the service
        self.ended_at: datetime | None = None
        self.reason = ""

    @property
    def active(self) -> bool:
        return self.until == ENDLESS


# --- Users, their devices, and what is to be done or kept because of them (the mobility document, 6 and 11) ----------


class Device:
    """A device that has been here; ``seen_at`` is when it came or, if it is away, when it was lost.

    ``beyond`` is the greatest nid that it claimed to have and that was never given, because an older copy of the log is
    in use. Up to there nids are given again, so what it claims is not believed until it claims more than that.
    """

    __slots__ = ("beyond", "id", "link", "seen_at")

    def __init__(self, id: str, seen_at: datetime) -> None:
        self.id = id
        self.seen_at = seen_at
        self.beyond = -1
        self.link: Link | None = None


class User:
    __slots__ = (
        "alone",
        "boxes",
        "delivered",
        "delivered_late",
        "devices",
        "dropped",
        "links",
        "name",
        "notices",
        "ordinals",
        "queued",
        "remembered",
        "standings",
        "was_connected",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.devices: dict[str, Device] = {}
        self.links: dict[str, Link] = {}  # by device
        self.alone: dict[str, Link] = {}  # of webhooks, by the device that each subscription is for
        self.boxes: dict[str, Box] = {}  # by device, "" for the one they share
        self.standings: dict[str, Standing] = {}  # by id; those that have ended stay for a while
        self.ordinals: dict[int, Standing] = {}
        self.notices: dict[int, Notice] = {}
        self.remembered = 0  # nids in notices
        self.was_connected = False  # before the restart from which the service recovers
        self.queued = self.delivered = self.delivered_late = 0
        self.dropped: dict[str, int] = {}  # by reason

    @property
    def connected(self) -> bool:
        return bool(self.links)


# -- effects


class Push(NamedTuple):
    """Send these notes, in this order; those from the nid ``fresh`` on did not wait."""

    leg: Any
    notes: list[Note]
    fresh: int


class Tell(NamedTuple):
    leg: Any
    notices: list[Notice]


class Close(NamedTuple):
    """The desk has let go of the leg already."""

    leg: Any
    reason: str


Effect: TypeAlias = Push | Tell | Close


class Changes:
    """What differs from what was kept last. A note that is acknowledged soon enough never gets here."""

    def __init__(self) -> None:
        self.notes: list[Note] = []  # new
        self.gone: list[Note] = []  # that were kept
        self.boxes: list[int] = []  # numbers of boxes that are forgotten
        self.notices: dict[int, tuple[User, Notice | None]] = {}  # None: confirmed
        self.standings: dict[int, Standing | None] = {}  # by serial; None: forgotten
        self.devices: dict[tuple[str, str], Device | None] = {}  # by user and id

    def __bool__(self) -> bool:
        return bool(self.notes or self.gone or self.boxes or self.notices or self.standings or self.devices)

    def settle(self) -> None:
        """Leave out notes that wait no longer; the others count as kept from here on."""
        self.notes = [note for note in self.notes if note.state == WAITING]
        for note in self.notes:
            note.kept = True
