"""Where bytes go to and come from, and how hosts are written (RFC 3261, section 25.1; brackets around IPv6)."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

from recado.protocols.sip.errors import SipError
from recado.protocols.sip.text import read_number, shown

TRANSPORTS = ("udp", "tcp")
DEFAULT_PORT = 5060
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*")


class Address(NamedTuple):
    """A transport (``udp`` or ``tcp``), a host without brackets, and a port."""

    transport: str
    host: str
    port: int

    @property
    def reliable(self) -> bool:
        return self.transport != "udp"

    def __str__(self) -> str:
        return f"{self.transport}:{bracketed(self.host)}:{self.port}"


def read_address(text: str) -> Address:
    """``udp:127.0.0.1:5060``, as people write it in a configuration; transport and port may be left out."""
    transport, rest = "udp", text.strip()
    for name in TRANSPORTS:
        if rest.lower().startswith(name + ":"):
            transport, rest = name, rest[len(name) + 1 :]
    host, port = read_host_port(rest)
    return Address(transport, host, DEFAULT_PORT if port is None else port)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def read_host_port(text: str) -> tuple[str, int | None]:
    """``host``, ``host:port`` or ``[ipv6]:port``; spaces around the colon are allowed in Via and harmless elsewhere."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or not _is_ipv6(host):
            raise SipError(f"{shown(text)} is not a host: an IPv6 address stands in brackets")
    else:
        host, colon, after = text.partition(":")
        host, rest = host.strip(), colon + after
        if len(host) > 255 or not _NAME.fullmatch(host):
            raise SipError(f"{shown(host)} is not a host name or address")
    rest = rest.strip()
    if not rest:
        return host, None
    if rest[0] != ":":
        raise SipError(f"{shown(text)} has something other than a port after the host")
    port = read_number(rest[1:].strip(), "a port", 65_535)
    if port == 0:
        raise SipError("a port is 0; it has to be between 1 and 65535")
    return host, port


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False


def is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
