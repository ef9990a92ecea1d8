"""A notification as the application sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from recado.model.codec import read_event
from recado.model.event import Event
from recado.protocols.session.messages import ORDINAL_BITS, Notify

_decode = msgspec.json.Decoder().decode


class Notification:
    """One event for one subscription. The event is decoded when it is asked for.

    ``nid`` is the same if the service has to repeat the notification; ``position`` is the event's place in the log.
    ``queued`` tells that it waited in the mailbox.
    """

    __slots__ = ("_decoded", "_notify", "_took")

    def __init__(self, notify: Notify, took: Callable[[int], None]) -> None:
        self._notify, self._took = notify, took
        self._decoded: dict[str, Any] | None = None

    @property
    def nid(self) -> int:
        return self._notify.nid

    @property
    def subscription(self) -> str:
        return self._notify.sub_id

    @property
    def position(self) -> int:
        return self._notify.nid >> ORDINAL_BITS

    @property
    def generated_at(self) -> str:
        return self._notify.generated_at

    @property
    def queued(self) -> bool:
        return self._notify.queued

    @property
    def why(self) -> dict[str, Any] | None:
        """Which attribute stood for which name, if the subscription's ``semantic`` has ``explain``."""
        return self._notify.why

    @property
    def raw(self) -> bytes:
        """The event as JSON, in the flat form."""
        return bytes(self._notify.event)

    @property
    def members(self) -> dict[str, Any]:
        """The members of the event's flat form."""
        if self._decoded is None:
            self._decoded = _decode(self._notify.event)
        return self._decoded

    @property
    def event(self) -> Event:
        return read_event(self.members)

    @property
    def id(self) -> str:
        return str(self.members["id"])

    @property
    def type(self) -> str:
        return str(self.members.get("type", ""))

    def __getitem__(self, name: str) -> Any:
        return self.members[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.members.get(name, default)

    def ack(self) -> None:
        """The application is done with it: the service may forget it. A second time does nothing."""
        self._took(self._notify.nid)

    def __repr__(self) -> str:
        return f"<Notification {self.nid} of {self.subscription}: {self.raw.decode()}>"
