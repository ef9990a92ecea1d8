"""What a user agent is told when it is made, what it can be asked, and what it reports.

Requests are given to its ``handle`` in Asked, events come back in Report (``recado.protocols.machine``). A request that
makes no sense, such as one for an unknown call, raises SipError and changes nothing.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from recado.protocols.machine import CancelTimer, Effect, Report, Rng, Send, SetTimer
from recado.protocols.sip.digest import Credentials
from recado.protocols.sip.limits import CLASSIC, LIMITS, SipLimits, SipTimers
from recado.protocols.sip.messages import COOKIE, Via
from recado.protocols.sip.sdp import RUDP, Media, Session
from recado.protocols.sip.text import SipError, shown
from recado.protocols.sip.uri import Address, add_brackets, address_of_record, read_sip_uri

# --- Settings (mobility document, sections 3.1 and 13) ---------------------------------------------------------------

_DEVICE = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    """The address of record, such as ``sip:user1@lac.example``."""
    device: str
    """Stable for an installation; it names the contact (``+sip.instance``)."""
    home: Address | None = None
    """The registrar and proxy of the user's domain; None: requests go straight to the host in their URI."""
    credentials: Credentials | None = None
    register_expires: int = 300
    refresh_ratio: float = 0.5
    protocols: tuple[str, ...] = (RUDP,)
    """The protocols of media lines that are accepted, the best first."""
    timers: SipTimers = CLASSIC
    limits: SipLimits = LIMITS

    def __post_init__(self) -> None:
        if read_sip_uri(self.user).user is None:
            raise SipError(f"the user {shown(self.user)} has to be a URI with a name, such as sip:user1@lac.example")
        if not _DEVICE.fullmatch(self.device):
            raise SipError(f"the device {shown(self.device)} has to be 1 to 128 letters, digits or any of . _ : -")
        if self.register_expires < 1 or not 0 < self.refresh_ratio < 1:
            raise SipError("register_expires has to be at least 1 second, refresh_ratio between 0 and 1")

    @property
    def aor(self) -> str:
        return address_of_record(read_sip_uri(self.user))

    @property
    def name(self) -> str:
        return read_sip_uri(self.user).user or ""


# --- Requests --------------------------------------------------------------------------------------------------------


class Register(msgspec.Struct, frozen=True):
    """Register this device, and refresh that until Unregister."""


class Unregister(msgspec.Struct, frozen=True):
    """Take the device's own contacts away at the registrar."""


class MoveTo(msgspec.Struct, frozen=True):
    """The device is at another address: REGISTER with the new and the old contact. Sessions follow by Reinvite."""

    local: Address


class Invite(msgspec.Struct, frozen=True):
    """Open a session. ``call`` names it in all that follows; it is drawn with ``new_name``."""

    call: str
    uri: str
    media: Media


class Answer(msgspec.Struct, frozen=True):
    """Accept a call that was reported by Incoming."""

    call: str
    media: Media


class Reject(msgspec.Struct, frozen=True):
    call: str
    status: int
    reason: str | None = None


class Reinvite(msgspec.Struct, frozen=True):
    """Hand-over, or "I can be reached again"."""

    call: str
    media: Media


class Bye(msgspec.Struct, frozen=True):
    """End a session; before it is established: CANCEL."""

    call: str


class QueryOptions(msgspec.Struct, frozen=True):
    """Is anybody there? OptionsAnswered says so; ``name`` is drawn with ``new_name``."""

    name: str
    uri: str


def new_name(rng: Rng) -> str:
    """A name that nobody guesses: 64 random bits."""
    return f"{rng.randrange(2**64):016x}"


# --- Events ----------------------------------------------------------------------------------------------------------


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
    """Somebody wants a session: Answer or Reject it."""

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


# --- What the parts of a SIP machine share: the clock and the chance of this step, and its effects so far ------------

TimerKey: TypeAlias = tuple[str, ...]


class Step:
    """The machine calls ``begin`` when it is told something, and ``take`` at the end."""

    def __init__(self, local: Address) -> None:
        self.local = local
        self.timers: dict[TimerKey, None] = {}
        """Those that are set."""
        self.now = 0.0
        self.rng: Rng
        self._effects: list[Effect] = []

    def begin(self, now: float, rng: Rng) -> None:
        self.now, self.rng = now, rng

    def take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def transmit(self, data: bytes, to: Address, why: str) -> None:
        self._effects.append(Send(to, data, why))

    def report(self, fact: Event) -> None:
        self._effects.append(Report(fact))

    def set_timer(self, key: TimerKey, seconds: float) -> None:
        self.timers[key] = None
        self._effects.append(SetTimer(key, seconds))

    def cancel_timer(self, key: TimerKey) -> None:
        if key in self.timers:
            del self.timers[key]
            self._effects.append(CancelTimer(key))

    def new_name(self) -> str:
        return new_name(self.rng)

    def new_via(self, transport: str) -> Via:
        """For a request of ours; ``rport`` asks for the answer at the address that the request is seen to come from."""
        params = (("branch", COOKIE + self.new_name()), ("rport", None))
        return Via(transport.upper(), self.local.host, self.local.port, params)

    def contact_host(self) -> str:
        return f"{add_brackets(self.local.host)}:{self.local.port}"
