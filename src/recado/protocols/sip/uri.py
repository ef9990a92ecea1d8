"""SIP URIs and the name-addr form that holds them (RFC 3261, sections 19.1 and 20.10).

A URI keeps its parts as they were written, so that writing it gives the same text again; ``address_of_record`` and
``same_uri`` compare in the way of section 19.1.4. URIs of other schemes are kept as opaque text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import quote as escape
from urllib.parse import unquote as unescape
from urllib.parse import unquote_to_bytes as unescape_to_bytes

import msgspec

from recado.protocols.sip.text import (
    Params,
    SipError,
    is_quoted,
    is_token,
    param,
    read_number,
    read_params,
    shown,
    split,
    unquote,
    write_params,
)

# --- Where bytes go to and come from, and how hosts are written (RFC 3261, section 25.1; brackets around IPv6) -------


TRANSPORTS = ("udp", "tcp", "tls")
DEFAULT_PORT = 5060
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*")


class Address(NamedTuple):
    """A transport (``udp``, ``tcp`` or ``tls``), a host without brackets, and a port."""

    transport: str
    host: str
    port: int

    @property
    def reliable(self) -> bool:
        return self.transport != "udp"

    def __str__(self) -> str:
        return f"{self.transport}:{add_brackets(self.host)}:{self.port}"


def read_address(text: str) -> Address:
    """``udp:127.0.0.1:5060``, as people write it in a configuration; transport and port may be left out."""
    transport, rest = "udp", text.strip()
    for name in TRANSPORTS:
        if rest.lower().startswith(name + ":"):
            transport, rest = name, rest[len(name) + 1 :]
    host, port = read_host_port(rest)
    return Address(transport, host, DEFAULT_PORT if port is None else port)


def add_brackets(host: str) -> str:
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


# --- SIP URIs and the name-addr form that holds them (RFC 3261, sections 19.1 and 20.10) -----------------------------

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_UNRESERVED = r"-A-Za-z0-9_.!~*'()%"
_USER = re.compile(rf"[{_UNRESERVED}&=+$,;?/]+")
_PASSWORD = re.compile(rf"[{_UNRESERVED}&=+$,]*")
_PARAM = re.compile(rf"[{_UNRESERVED}\[\]/:&+$]+")
_HEADERS = re.compile(rf"[{_UNRESERVED}\[\]/?:+$&=;]+")
_OPAQUE = re.compile(r"[A-Za-z0-9_.!~*'()%;/?:@&=+$,#\[\]-]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_COMPARED = ("user", "ttl", "method", "maddr", "transport")  # missing in one means different (19.1.4)


class SipUri(msgspec.Struct, frozen=True):
    """``scheme:user:password@host:port;params?headers``; ``headers`` is kept as text."""

    host: str
    scheme: str = "sip"
    user: str | None = None
    password: str | None = None
    port: int | None = None
    params: Params = ()
    headers: str | None = None

    def __str__(self) -> str:
        who = self.user or ""
        who += "" if self.password is None else f":{self.password}"
        who += "" if self.user is None else "@"
        port = "" if self.port is None else f":{self.port}"
        headers = "" if self.headers is None else f"?{self.headers}"
        return f"{self.scheme}:{who}{add_brackets(self.host)}{port}{write_params(self.params)}{headers}"

    @property
    def address(self) -> Address:
        """Where a request for this URI goes. There is no look-up of SRV records: the port is 5060 if none is given."""
        transport = (param(self.params, "transport") or "udp").lower()
        if self.scheme == "sips" or transport not in TRANSPORTS:
            raise SipError(f"no way to reach {shown(str(self))}: only sip: over udp, tcp and tls is supported", 416)
        return Address(transport, self.host, DEFAULT_PORT if self.port is None else self.port)


class OpaqueUri(msgspec.Struct, frozen=True):
    """A URI of another scheme, such as ``tel:``."""

    scheme: str
    rest: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.rest}"


Uri = SipUri | OpaqueUri


@lru_cache(512)
def read_uri(text: str) -> Uri:
    scheme, colon, rest = text.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        raise SipError(f"{shown(text)} is not a URI; it should look like sip:user@host")
    if scheme.lower() not in ("sip", "sips"):
        if not _OPAQUE.fullmatch(rest):
            raise SipError(f"the URI {shown(text)} has a character that is not allowed")
        return OpaqueUri(scheme, rest)
    return _read_sip(scheme.lower(), rest, text)


def read_sip_uri(text: str) -> SipUri:
    uri = read_uri(text)
    if not isinstance(uri, SipUri):
        raise SipError(f"{shown(text)} has the scheme {uri.scheme}; only sip: is supported", 416)
    return uri


def _read_sip(scheme: str, rest: str, whole: str) -> SipUri:
    user = password = None
    who, at, after = rest.rpartition("@")
    if at:
        user, colon, secret = who.partition(":")
        password = secret if colon else None
        if not _USER.fullmatch(user) or not _PASSWORD.fullmatch(secret) or _BAD_ESCAPE.search(who):
            raise SipError(f"the user in {shown(whole)} has a character that is not allowed there")
    place, question, headers = after.partition("?")
    host_port, *params = place.split(";")
    host, port = read_host_port(host_port)
    if host_port != host_port.strip() or " " in host_port:
        raise SipError(f"{shown(whole)} has a space in it")
    if question and (not _HEADERS.fullmatch(headers) or _BAD_ESCAPE.search(headers)):
        raise SipError(f"the headers in {shown(whole)} are not well formed")
    return SipUri(host, scheme, user, password, port, _uri_params(params, whole), headers if question else None)


def _uri_params(parts: list[str], whole: str) -> Params:
    params = []
    for part in parts:
        name, equals, value = part.partition("=")
        if not _PARAM.fullmatch(name) or (equals and not _PARAM.fullmatch(value)) or _BAD_ESCAPE.search(part):
            raise SipError(f"{shown(part)} is not a parameter of the URI {shown(whole)}")
        params.append((name.lower(), value if equals else None))
    return tuple(params)


def address_of_record(uri: Uri) -> str:
    """The user that a URI means, whatever port or parameters it was written with, and however it was escaped.

    Two users have the same text only if they are the same: what cannot stand in a URI by itself is escaped in one way.
    """
    if isinstance(uri, OpaqueUri):
        return str(uri)
    who = "" if uri.user is None else escape(unescape_to_bytes(uri.user), safe="!~*'()&=+$,;?/") + "@"
    return f"sip:{who}{add_brackets(uri.host.lower())}"


def same_uri(one: Uri, other: Uri) -> bool:
    """RFC 3261, section 19.1.4."""
    if isinstance(one, OpaqueUri) or isinstance(other, OpaqueUri):
        return one == other
    ours, theirs = dict(one.params), dict(other.params)
    return (
        (one.scheme, one.host.lower(), one.port) == (other.scheme, other.host.lower(), other.port)
        and unescape(one.user or "") == unescape(other.user or "")
        and unescape(one.password or "") == unescape(other.password or "")
        and (one.headers or "") == (other.headers or "")
        and all((ours.get(name) or "").lower() == (theirs.get(name) or "").lower() for name in _COMPARED)
        and all((ours[name] or "").lower() == (theirs[name] or "").lower() for name in ours if name in theirs)
    )


class NameAddr(msgspec.Struct, frozen=True):
    """``"display" <uri>;params``, as in From, To, Contact, Route and Record-Route."""

    uri: Uri
    display: str = ""
    params: Params = ()

    def __str__(self) -> str:
        display = f"{self.display} " if self.display else ""
        return f"{display}<{self.uri}>{write_params(self.params)}"

    @property
    def tag(self) -> str | None:
        return param(self.params, "tag")


@lru_cache(512)  # one message is asked for its addresses several times
def read_name_addr(text: str) -> NameAddr:
    """The display name is kept as it was written; quotes around it belong to it."""
    first, *rest = split(text, ";")
    params = read_params(rest)
    if not first.endswith(">"):
        if any(char in first for char in '?,"< '):
            raise SipError(f"{shown(text)}: a URI with these characters has to stand between < and >")
        return NameAddr(read_uri(first), "", params)
    display, _, uri = first[:-1].rpartition("<")
    display = display.strip()
    if display and not is_quoted(display) and not all(is_token(word) for word in display.split()):
        raise SipError(f"the name {shown(display)} before < has to be words or a quoted string")
    return NameAddr(read_uri(uri.strip()), display, params)


def display_name(address: NameAddr) -> str:
    return unquote(address.display)
