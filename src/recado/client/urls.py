"""Where a service is and who we are there, from one URL.

==========================================================  =========================================================
``recado://user:token@host:port``                           WebSocket; without a port, 7230
``recado://a.example:7230,b.example``                       several hosts, tried in turn
``recados://…``, ``wss://…``, ``https://…``                 the same over TLS
``ws://…``, ``http://…``                                    the same as ``recado://``; a path is a prefix
``recado+sip://user@domain;registrar=host:port``            SIP and RUDP through the user's home server; further
                                                            ``broker=``, ``transport=udp|tcp|tls``, ``ca=``, ``host=``,
                                                            ``profile=``
==========================================================  =========================================================

Everywhere ``?device=NAME`` may follow. A user name that contains ``:`` or ``/`` is percent-encoded. The token may be
left out of the URL and be given in RECADO_TOKEN.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeAlias, cast
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
_VISIBLE = re.compile(r"[!-~]*")
_LONGEST_T1 = 60.0
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

Host: TypeAlias = tuple[str, int]


class SipTarget(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the broker by SIP."""

    domain: str
    registrar: Host
    broker: str
    transport: Literal["udp", "tcp", "tls"] = "udp"
    ca: str = ""
    host: str = ""
    profile: str = "fast"
    t1: float = 0.5


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A service, and who connects to it. ``sip`` is None for WebSocket.

    Raises an AddressError for a user or a token that no header can hold; it does not show the token.
    """

    hosts: tuple[Host, ...] = ()
    tls: bool = False
    prefix: str = ""
    user: str = ""
    token: str = ""
    device: str = ""
    sip: SipTarget | None = None

    def __post_init__(self) -> None:
        if self.sip is None and not _VISIBLE.fullmatch(self.user):
            raise AddressError(f"{self.user[:80]!r} cannot name a user; use characters of ASCII that can be seen")
        if self.sip is None and not _VISIBLE.fullmatch(self.token):
            raise AddressError(
                "the token holds a character that no token has; write it as 'recado token add' showed it"
            )

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
    options = _options(url, pairs, "registrar", "broker", "transport", "ca", "host", "profile", "t1")
    transport = options.get("transport") or "udp"
    if transport not in ("udp", "tcp", "tls"):
        raise AddressError(f"{url!r}: transport is udp, tcp or tls")
    if options.get("profile", "fast") not in PROFILES:
        raise AddressError(f"{url!r}: profile is one of {', '.join(PROFILES)}")
    sip = SipTarget(
        domain=domain,
        registrar=_host(url, options.get("registrar") or domain, 5061 if transport == "tls" else 5060),
        broker=_broker(url, options.get("broker") or f"sip:broker@{domain}"),
        transport=cast(Literal["udp", "tcp", "tls"], transport),
        ca=unquote(options.get("ca", "")),
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
# RECADO_CONTEXT a context, RECADO_TOKEN a token that the URL need not show. That token is sent to the hosts of the
# service that the environment names, or to RECADO_TOKEN_HOST, and beyond loopback only over TLS, unless RECADO_INSECURE
# is 1.


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
    if not token or target.token:
        return target
    _check_token_goes_there(target, bool(url or context), environment)
    return msgspec.structs.replace(target, token=token)


def _check_token_goes_there(target: Target, by_flag: bool, environment: Mapping[str, str]) -> None:
    """RECADO_TOKEN is for the service that the environment names, and not to be read on the way there."""
    hosts = _names_of(target)
    if given := environment.get("RECADO_TOKEN_HOST"):
        meant = {_same_host(one.strip()) for one in given.split(",")}
    elif by_flag:
        usual = environment.get("RECADO_URL") or _from_contexts(None, environment)
        meant = _names_of(parse_url(usual or DEFAULT_URL))
    else:
        meant = hosts
    if not hosts <= meant:
        other = ", ".join(sorted(hosts - meant))
        raise AddressError(
            f"RECADO_TOKEN is for {', '.join(sorted(meant))}, and is not sent to {other}; write that service's token "
            f"into its URL, or set RECADO_TOKEN_HOST={other} if it is the same"
        )
    clear = target.sip is None and not target.tls and hosts != {_LOOPBACK}
    if clear and environment.get("RECADO_INSECURE") != "1":
        raise AddressError(
            f"RECADO_TOKEN would travel to {target.description()} unencrypted; use recados://, or set "
            "RECADO_INSECURE=1 where everybody on the way may read it"
        )


_LOOPBACK = "this machine"


def _names_of(target: Target) -> set[str]:
    hosts = target.hosts if target.sip is None else (target.sip.registrar,)
    return {_same_host(name) for name, _ in hosts}


def _same_host(name: str) -> str:
    """One name for all of loopback."""
    try:
        is_loopback = name == "localhost" or ip_address(name.strip("[]")).is_loopback
    except ValueError:
        is_loopback = False
    return _LOOPBACK if is_loopback else name.lower()


def _from_contexts(context: str | None, environment: Mapping[str, str]) -> str | None:
    contexts = read_contexts(contexts_path(environment))
    name = context or environment.get("RECADO_CONTEXT") or contexts.selected
    if not name:
        return None
    if name not in contexts.urls:
        known = ", ".join(contexts.urls) or "none"
        raise AddressError(f"there is no context {name!r} (there are: {known}); recado context add NAME URL makes one")
    return contexts.urls[name]
