"""Has the device moved? The decision of the address monitor (mobility document, section 3.4).

Whoever drives it looks up the local address from time to time, or when the system tells of a change, and asks what
follows from it. A link that comes back is news even at the same address: the other side may have given the device up,
and a session update has to say that it can be reached again.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Moved(msgspec.Struct, frozen=True):
    """Rebind, REGISTER with the new and the old contact, and update every session."""

    host: str
    before: str


class LinkLost(msgspec.Struct, frozen=True):
    """There is no way to the home server."""


class LinkBack(msgspec.Struct, frozen=True):
    """There is one again, and the address is the same: update every session."""

    host: str


Change: TypeAlias = Moved | LinkLost | LinkBack


class AddressMonitor:
    def __init__(self, bound: str) -> None:
        self.bound = bound
        self.up = True

    def observe(self, host: str | None) -> Change | None:
        """``host`` is the local address on the way to the home server, or None if there is no way."""
        was_up, self.up = self.up, host is not None
        if host is None:
            return LinkLost() if was_up else None
        if host != self.bound:
            before, self.bound = self.bound, host
            return Moved(host, before)
        return None if was_up else LinkBack(host)
