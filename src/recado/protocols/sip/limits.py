"""Every limit and every timer of SIP, in one place. ``docs/sip.md`` has these tables, and a test compares them.

The timers are those of RFC 3261, section 17; the lab profile is for tests on one machine (mobility document, 3.6).
"""

from __future__ import annotations

import msgspec

from recado.protocols.sip.text import SipError


class SipLimits(msgspec.Struct, frozen=True, kw_only=True):
    message_bytes: int = 65_536
    line_bytes: int = 8_192
    headers: int = 128
    values: int = 64
    """Values in one header, such as the hops of Via or the contacts of one REGISTER."""
    sdp_bytes: int = 16_384
    sdp_media: int = 16
    transactions: int = 20_000
    calls: int = 10_000
    nonces: int = 10_000
    users: int = 100_000
    """Addresses of record that a registrar keeps."""
    contacts: int = 10
    """Contacts of one address of record."""


class SipTimers(msgspec.Struct, frozen=True, kw_only=True):
    t1: float = 0.5
    t2: float = 4.0
    t4: float = 5.0
    trying: float = 0.2
    """A request to open a session that is not answered by then gets 100."""
    ring: float = 180.0
    """How long an unanswered call may ring, on both sides."""
    register_retry: float = 5.0
    register_retry_most: float = 300.0
    update_retry: float = 1.0
    update_retry_most: float = 60.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise SipError(f"the SIP timer {name} is {getattr(self, name)}; it has to be more than 0 seconds")

    @property
    def patience(self) -> float:
        """Timers B, F, H, L and M: how long something is tried before it counts as lost."""
        return 64 * self.t1


LIMITS = SipLimits()
CLASSIC = SipTimers()
LAB = SipTimers(
    t1=0.05,
    t2=0.4,
    t4=0.5,
    trying=0.02,
    ring=18.0,
    register_retry=0.5,
    register_retry_most=30.0,
    update_retry=0.1,
    update_retry_most=6.0,
)
PROFILES = {"classic": CLASSIC, "lab": LAB}
