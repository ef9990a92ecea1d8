"""Headers that have a structure of their own: Via (RFC 3261, 20.42, and 3581) and CSeq (20.16)."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from recado.protocols.sip.address import DEFAULT_PORT, Address, bracketed, read_host_port
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.text import (
    Params,
    is_token,
    param,
    read_number,
    read_params,
    shown,
    split,
    with_param,
    write_params,
)

COOKIE = "z9hG4bK"
_SENT_PROTOCOL = re.compile(r"SIP ?/ ?2\.0 ?/ ?([A-Za-z0-9.!%*_+`'~-]+) (.*)", re.IGNORECASE | re.DOTALL)
_SPACES = re.compile(r"[ \t]+")


class Via(msgspec.Struct, frozen=True):
    transport: str
    host: str
    port: int | None = None
    params: Params = ()

    def __str__(self) -> str:
        return f"SIP/2.0/{self.transport} {self.sent_by}{write_params(self.params)}"

    @property
    def sent_by(self) -> str:
        return bracketed(self.host) + ("" if self.port is None else f":{self.port}")

    @property
    def branch(self) -> str | None:
        """The name of the transaction; None for a sender that knows only RFC 2543, or that gave the cookie alone."""
        branch = param(self.params, "branch") or ""
        return branch if branch.lower().startswith(COOKIE.lower()) and len(branch) > len(COOKIE) else None

    def stamped(self, source: Address) -> Via:
        """With the address that the request really came from (18.2.1; RFC 3581, section 4)."""
        params = self.params
        if param(params, "rport") is not None:
            params = with_param(with_param(params, "rport", str(source.port)), "received", bracketed(source.host))
        elif self.host != source.host:
            params = with_param(params, "received", bracketed(source.host))
        return msgspec.structs.replace(self, params=params)

    @property
    def reply_to(self) -> Address:
        """Where a response goes to that has this Via on top (18.2.2)."""
        host = (param(self.params, "received") or self.host).strip("[]")
        rport = param(self.params, "rport")
        port = int(rport) if rport and rport.isascii() and rport.isdigit() and len(rport) < 6 else self.port
        return Address(self.transport.lower(), host, port or DEFAULT_PORT)


@lru_cache(512)  # one message is asked for its Via several times
def read_via(text: str) -> Via:
    first, *rest = split(text, ";")
    found = _SENT_PROTOCOL.fullmatch(_SPACES.sub(" ", first))
    if found is None:
        raise SipError(f"{shown(text)} is not a Via; it should look like SIP/2.0/UDP host:port;branch=...")
    host, port = read_host_port(found[2].strip())
    return Via(found[1].upper(), host, port, read_params(rest))


class CSeq(msgspec.Struct, frozen=True):
    number: int
    method: str


@lru_cache(512)
def read_cseq(text: str) -> CSeq:
    number, _, method = _SPACES.sub(" ", text).partition(" ")
    if not is_token(method):
        raise SipError(f"{shown(text)} is not a CSeq; it should be a number and a method")
    return CSeq(read_number(number, "the number in CSeq", 2**31 - 1), method)
