"""Where a service is and who we are there, from one URL.

==========================================================  =========================================================
``recado://user:token@host:port``                           WebSocket; without a port, 7230
``recado://a.example:7230,b.example``                       several hosts, tried in turn
``recados://…``, ``wss://…``, ``https://…``                 the same over TLS
``ws://…``, ``http://…``                                    the same as ``recado://``; a path is a prefix
``recado+sip://user@domain;registrar=host:port``            SIP and RUDP through the user's home server; further
                                                            ``broker=``, ``transport=udp|tcp``, ``host=``, ``profile=``
==========================================================  =========================================================

Everywhere ``?device=NAME`` may follow. A user name that contains ``:`` or ``/`` is percent-encoded. The token may be
left out of the URL and be given in RECADO_TOKEN.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from recado import files
from recado.client.errors import AddressError
from recado.protocols.rudp import PROFILES
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import read_sip_uri

DEFAULT_PORT = 7230
DEFAULT_URL = f"recado://127.0.0.1:{DEFAULT_PORT}"
SESSION_PATH = "/v1/session"
_PLAIN, _TLS = ("recado", "ws", "http"), ("recados", "wss", "https")
_SIP = "recado+sip"
_EXAMPLE = "recado://ana@localhost:7230 or recado+sip://ana@example.org;registrar=127.0.0.1:5060"
_SECRET = re.compile(r"(://[^:/@]*):[^@]*@")
_LONGEST_T1 = 60.0
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

Host: TypeAlias = tuple[str, int]


class SipTarget(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the broker by SIP."""

    domain: str
    registrar: Host
    broker: str
    transport: Literal["udp", "tcp"] = "udp"
    host: str = ""
    profile: str = "fast"
    t1: float = 0.5


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A service, and who connects to it. ``sip`` is None for WebSocket."""

    hosts: tuple[Host, ...] = ()
    tls: bool = False
    prefix: str = ""
    user: str = ""
    token: str = ""
    device: str = ""
    sip: SipTarget | None = None

    def websocket(self, host: Host) -> str:
        query = f"?user={quote(self.user, safe='')}" if self.user and not self.token else ""
        return f"{'wss' if self.tls else 'ws'}://{authority(host)}{self.prefix}{SESSION_PATH}{query}"

    def http(self, host: Host) -> str:
        return f"{'https' if self.tls else 'http'}://{authority(host)}{self.prefix}"

    def description(self) -> str:
        """Where it is, without the token."""
        if self.sip is not None:
            return f"sip:{self.user}@{self.sip.domain} via {authority(self.sip.registrar)}"
        return ", ".join(authority(host) for host in self.hosts)


def authority(host: Host) -> str:
    name, port = host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def parse_url(url: str) -> Target:
    """The target that a URL names; an AddressError says what would be right."""
    scheme, separator, rest = url.partition("://")
    scheme, url = scheme.lower(), _SECRET.sub(r"\1:…@", url)  # from here on the URL is only for messages
    if not separator:
        raise AddressError(f"{url!r} is not a URL such as {_EXAMPLE}")
    if scheme == _SIP:
        return _parse_sip(url, rest)
    if scheme not in _PLAIN + _TLS:
        known = ", ".join((*_PLAIN, *_TLS, _SIP))
        raise AddressError(f"{scheme}:// leads to no service; a URL begins with one of {known}, such as {_EXAMPLE}")
    path_at = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    who, _, hosts = rest[:path_at].rpartition("@")
    user, _, token = who.partition(":")
    split = urlsplit("//x" + rest[path_at:])
    return Target(
        hosts=tuple(_host(url, one, _PORTS.get(scheme, DEFAULT_PORT)) for one in hosts.split(",")),
        tls=scheme in _TLS,
        prefix=split.path.rstrip("/").removesuffix(SESSION_PATH),
        user=unquote(user),
        token=unquote(token),
        device=_options(url, dict(parse_qsl(split.query)), "device").get("device", ""),
    )


def _parse_sip(url: str, rest: str) -> Target:
    rest, _, query = rest.partition("?")
    address, *parameters = rest.split(";")
    who, at, domain = address.rpartition("@")
    user, _, password = who.partition(":")
    if not at or not user or not domain:
        raise AddressError(f"{url!r} names no user; write recado+sip://user@domain;registrar=host:port")
    pairs = dict(one.partition("=")[::2] for one in parameters)
    options = _options(url, pairs, "registrar", "broker", "transport", "host", "profile", "t1")
    if options.get("transport", "udp") not in ("udp", "tcp"):
        raise AddressError(f"{url!r}: transport is udp or tcp")
    if options.get("profile", "fast") not in PROFILES:
        raise AddressError(f"{url!r}: profile is one of {', '.join(PROFILES)}")
    sip = SipTarget(
        domain=domain,
        registrar=_host(url, options.get("registrar") or domain, 5060),
        broker=_broker(url, options.get("broker") or f"sip:broker@{domain}"),
        transport="tcp" if options.get("transport") == "tcp" else "udp",
        host=options.get("host", ""),
        profile=options.get("profile") or "fast",
        t1=_seconds(url, options.get("t1") or "0.5"),
    )
    device = _options(url, dict(parse_qsl(query)), "device").get("device", "")
    return Target(user=unquote(user), token=unquote(password), device=device, sip=sip)


def _options(url: str, given: dict[str, str], *known: str) -> dict[str, str]:
    for name in given:
        if name not in known:
            raise AddressError(f"{url!r}: there is no option {name!r}; there are {', '.join(known)}")
    return given


def _broker(url: str, text: str) -> str:
    try:
        read_sip_uri(text)
    except SipError as error:
        raise AddressError(f"{url!r}: broker: {error}") from None
    return text


def _seconds(url: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_T1:
        raise AddressError(f"{url!r}: t1 is a number of seconds up to {_LONGEST_T1:.0f}, not {text!r}")
    return seconds


def _host(url: str, text: str, port: int) -> Host:
    """``name``, ``name:port``, ``[::1]:port``."""
    try:
        split = urlsplit("//" + text)
        found = split.hostname, split.port or port
    except ValueError:
        found = None, 0
    if not found[0]:
        raise AddressError(f"{url!r}: {text!r} is not a host such as localhost:{DEFAULT_PORT}")
    return found[0], found[1]


# --- Which service is meant: a flag, else the environment, else a named context, else the one on this machine --------
#
# Contexts are kept in ``contexts.json`` in the XDG configuration folder (``$XDG_CONFIG_HOME/recado``, or
# ``~/.config/recado``), readable by its owner alone, because a URL may hold a token. RECADO_URL names a service,
# RECADO_CONTEXT a context, RECADO_TOKEN a token that the URL need not show.


_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Contexts(msgspec.Struct):
    """Named URLs, and which of them is selected."""

    selected: str = ""
    urls: dict[str, str] = {}


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    folder = environment.get("XDG_CONFIG_HOME") or ""
    base = Path(folder) if folder.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".config"
    return base / "recado" / "contexts.json"


def read_contexts(path: Path | None = None) -> Contexts:
    path = path or contexts_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (OSError, msgspec.DecodeError) as error:
        raise AddressError(f"the contexts in {path} cannot be read: {error}; mend the file, or remove it") from None


def write_contexts(contexts: Contexts, path: Path | None = None) -> None:
    path = path or contexts_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, msgspec.json.format(msgspec.json.encode(contexts)), mode=0o600)


def check_context_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise AddressError(f"{name!r} cannot name a context; use letters, digits, dot, dash and underscore")
    return name


def resolve(url: str | None = None, context: str | None = None, environment: Mapping[str, str] = os.environ) -> Target:
    """The service that is meant: flags before the environment before the selected context."""
    found = url or (None if context else environment.get("RECADO_URL")) or _from_contexts(context, environment)
    target = parse_url(found or DEFAULT_URL)
    token = environment.get("RECADO_TOKEN", "")
    return msgspec.structs.replace(target, token=token) if token and not target.token else target


def _from_contexts(context: str | None, environment: Mapping[str, str]) -> str | None:
    contexts = read_contexts(contexts_path(environment))
    name = context or environment.get("RECADO_CONTEXT") or contexts.selected
    if not name:
        return None
    if name not in contexts.urls:
        known = ", ".join(contexts.urls) or "none"
        raise AddressError(f"there is no context {name!r} (there are: {known}); recado context add NAME URL makes one")
    return contexts.urls[name]
