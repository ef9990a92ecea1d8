"""A subscription as the desk keeps it (the mobility document, 8).

``since`` and ``until`` are positions of the log: it takes the events of ``[since, until)`` and no others, also when
they are dispatched again after a crash. ``until`` is ENDLESS while it is active. ``ordinal`` numbers it at its owner
and is part of every nid; ``serial`` numbers it among all. A subscription that is replaced, or renewed after its end,
goes on as a new one with the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recado.delivery.constraints import Constraints, frequency_of

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
