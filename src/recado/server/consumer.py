"""A consumer: one live connection that takes notifications and gives back acknowledgements.

Every way in makes its own kind: a WebSocket, a SIP session with RUDP, a long poll, a webhook. The engine calls
``push`` and ``close``; the consumer calls ``Engine.acknowledge`` and ``Engine.lose``. ``push`` never waits and never
fails: the engine gives a consumer at most ``window`` notifications that are not acknowledged, and one that cannot send
says so later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from recado.protocols.session.messages import FromService, Gap, SubCancelled

_encode = msgspec.json.Encoder().encode
REVOKED = "revoked"
"""Why a consumer is closed whose token is gone."""


class OutgoingNotification:
    """A notification on its way: the same encoded event serves everyone who gets it."""

    __slots__ = ("event", "generated_at", "nid", "queued", "sub_id", "why")

    def __init__(
        self, nid: int, sub_id: str, event: bytes, generated_at: str, queued: bool, *, why: bytes = b""
    ) -> None:
        self.nid = nid
        self.sub_id = sub_id
        self.event = event  # JSON, in the flat form
        self.generated_at = generated_at
        self.queued = queued
        self.why = why  # JSON, or nothing

    def message(self) -> bytes:
        """The NOTIFY as JSON, put together from its parts: the event was encoded once for all."""
        more = b',"queued":true' if self.queued else b""
        if self.why:
            more += b',"why":' + self.why
        return b'{"type":"NOTIFY","nid":%d,"sub_id":%b,"event":%b,"generated_at":"%b"%b}' % (
            self.nid,
            _encode(self.sub_id),
            self.event,
            self.generated_at.encode(),
            more,
        )


class Consumer(Protocol):
    """What the engine asks of a connection."""

    kind: str  # websocket, rudp, poll, webhook
    address: str
    window: int

    def push(self, notifications: Sequence[OutgoingNotification]) -> None:
        """Send these, in this order. Each is later acknowledged, or the consumer is lost."""
        ...

    def notice(self, notices: Sequence[Gap | SubCancelled]) -> None:
        """Send these notices, in order with everything else."""
        ...

    def say(self, messages: Sequence[FromService]) -> None:
        """Send answers, in order with everything else."""
        ...

    def close(self, reason: str) -> None:
        """The engine is done with this consumer: taken over, ended, draining, too slow."""
        ...
