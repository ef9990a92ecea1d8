"""What the engine shows of its subscriptions, sessions and mailboxes: plain values, taken at one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from recado.delivery.sessions import Device, User
from recado.delivery.standing import Standing
from recado.model.values import format_time

ALL, THIS_DEVICE = "all", "this device"


class Held(msgspec.Struct, frozen=True):
    """A subscription; ``record`` is what its owner sent, without ``id``, ``ttl`` and ``expires_at``.

    ``unmatched`` counts the events that were not matched with it since the service started (its owner's budget).
    """

    id: str
    user: str
    ordinal: int
    record: dict[str, Any]
    expires_at: datetime
    scope: str
    device: str
    since: int
    active: bool
    last_notified: datetime | None
    notified: int
    unmatched: int = 0

    @property
    def expires_text(self) -> str:
        return format_time(self.expires_at)

    def members(self) -> dict[str, Any]:
        """As SUBS lists it."""
        shown = {"id": self.id, **self.record, "expires_at": self.expires_text, "scope": self.scope}
        if self.scope == THIS_DEVICE:
            shown["device"] = self.device
        if self.unmatched:
            shown["unmatched"] = self.unmatched
        return shown


def held(standing: Standing) -> Held:
    return Held(
        id=standing.id,
        user=standing.user.name,
        ordinal=standing.ordinal,
        record=dict(standing.record),
        expires_at=standing.expires_at,
        scope=THIS_DEVICE if standing.scope else ALL,
        device=standing.scope or standing.device,
        since=standing.since,
        active=standing.active,
        last_notified=standing.last_notified,
        notified=standing.notified,
        unmatched=standing.unmatched,
    )


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a user; the last five are empty while it is not connected. ``at`` is when that began."""

    user: str
    device: str
    connected: bool
    at: datetime
    kind: str = ""
    address: str = ""
    window: int = 0
    unacknowledged: int = 0


def sessions_of(user: User) -> list[SessionInfo]:
    return [_session(user, device) for device in user.devices.values()]


def _session(user: User, device: Device) -> SessionInfo:
    link = device.link
    if link is None:
        return SessionInfo(user=user.name, device=device.id, connected=False, at=device.seen_at)
    return SessionInfo(
        user=user.name,
        device=device.id,
        connected=True,
        at=link.since,
        kind=link.key.kind,
        address=link.key.address,
        window=link.window,
        unacknowledged=len(link.flying),
    )


class MailboxInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox; ``device`` is empty for the one that all devices of the user share. Counts are of the user."""

    user: str
    device: str
    length: int
    bytes: int
    oldest: datetime | None
    delivered: int
    delivered_late: int
    dropped: dict[str, int]
    notices: int


def mailboxes_of(user: User) -> list[MailboxInfo]:
    shown = []
    for box in user.boxes.values():
        waiting = next((note for note in box.notes[box.head :] if note.state == 0), None)
        shown.append(
            MailboxInfo(
                user=user.name,
                device=box.device,
                length=box.length,
                bytes=box.bytes,
                oldest=None if waiting is None else waiting.at,
                delivered=user.delivered,
                delivered_late=user.delivered_late,
                dropped=dict(user.dropped),
                notices=len(user.notices),
            )
        )
    return shown
