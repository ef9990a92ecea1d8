"""What a user agent wants done, and what it tells its application. The names are those of ``recado.protocols.sip``."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from recado.protocols.sip.address import Address
from recado.protocols.sip.sdp import Session


class Transmit(msgspec.Struct, frozen=True):
    """Send bytes. Over TCP: on the connection with that peer if there is one, or else on a new one."""

    data: bytes
    to: Address
    why: str = ""


class Registered(msgspec.Struct, frozen=True):
    """The registrar knows our contact for so many seconds; it is refreshed long before."""

    expires_seconds: float
    contacts: tuple[str, ...] = ()
    """All contacts of the user that the registrar told, of other devices too."""


class RegistrationFailed(msgspec.Struct, frozen=True):
    status: int
    reason: str
    retry_seconds: float | None
    """When it is tried again; None: never, since the answer would be the same."""


class Unregistered(msgspec.Struct, frozen=True):
    pass


class Incoming(msgspec.Struct, frozen=True):
    """Somebody wants a session: ``answer`` or ``reject`` it."""

    call: str
    user: str
    """The address of record that the caller claims; proven only if the user agent has a guard."""
    device: str | None
    remote: Session
    source: Address
    proven: bool = False


class Progress(msgspec.Struct, frozen=True):
    call: str
    status: int


class Established(msgspec.Struct, frozen=True):
    call: str
    local: Session
    remote: Session


class Updated(msgspec.Struct, frozen=True):
    """A re-INVITE of either side is complete: both count as connected, at the addresses of these descriptions."""

    call: str
    local: Session
    remote: Session


class UpdateFailed(msgspec.Struct, frozen=True):
    """Our re-INVITE was not accepted; the session is as it was."""

    call: str
    status: int
    reason: str
    retry_seconds: float | None


class Ended(msgspec.Struct, frozen=True):
    """A session, or an incoming call that was not answered yet, is over."""

    call: str
    reason: str


class Failed(msgspec.Struct, frozen=True):
    """Our call was not established. 408 with the reason ``no answer`` is our own timer."""

    call: str
    status: int
    reason: str


class OptionsAnswered(msgspec.Struct, frozen=True):
    request: str
    status: int
    """408 if nobody answered."""


Event: TypeAlias = (
    Registered
    | RegistrationFailed
    | Unregistered
    | Incoming
    | Progress
    | Established
    | Updated
    | UpdateFailed
    | Ended
    | Failed
    | OptionsAnswered
)


class Report(msgspec.Struct, frozen=True):
    fact: Event


Effect: TypeAlias = Transmit | Report
