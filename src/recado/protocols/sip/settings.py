"""What a user agent is told when it is made (mobility document, sections 3.1 and 13)."""

from __future__ import annotations

import re

import msgspec

from recado.protocols.sip.digest import Credentials
from recado.protocols.sip.limits import CLASSIC, LIMITS, SipLimits, SipTimers
from recado.protocols.sip.sdp import RUDP
from recado.protocols.sip.text import SipError, shown
from recado.protocols.sip.uri import Address, address_of_record, read_sip_uri

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
