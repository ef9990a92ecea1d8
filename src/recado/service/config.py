"""The configuration of a service: one TOML file, every default written out here and nowhere else.

``recado serve --print-config`` prints it with the comments below, ``--check-config`` reads a file and names what is
wrong, with its place as in ``$.mailbox.length``. A member with another name is an error, because a misspelt limit would
be none. Sizes are bytes, times are seconds, unless a name says otherwise.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from recado.errors import RecadoError


class ConfigError(RecadoError):
    """A configuration that cannot be used."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Http(_Section, frozen=True):
    """HTTP and WebSocket. Anything but loopback needs tokens; TLS needs a certificate and its key."""

    host: str = "127.0.0.1"
    port: int = 7230
    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class Sip(_Section, frozen=True):
    """SIP and RUDP. ``registrar`` is the home SIP server ("host:port"); "embedded" starts one; "" turns SIP off."""

    registrar: str = ""
    host: str = "127.0.0.1"
    port: int = 7260
    rudp_port: int = 7261
    uri: str = "sip:broker@localhost"
    password: str = ""
    transport: Literal["udp", "tcp"] = "udp"
    register_expires: int = 300
    profile: Literal["fast", "classic", "lab"] = "fast"
    t1: float = 0.5


class Log(_Section, frozen=True):
    """The event log. Retention removes whole segments; 0 means no bound."""

    retain_seconds: float = 7 * 86_400
    retain_bytes: int = 10 * 2**30
    segment_rows: int = 100_000
    segment_bytes: int = 64 * 2**20
    segment_age_seconds: float = 3_600
    commit_events: int = 5_000
    waiting_bytes: int = 64 * 2**20


class Mailbox(_Section, frozen=True):
    """What is kept for a user who is away. Over a bound the oldest go, and the user is told which."""

    length: int = 100_000
    bytes: int = 64 * 2**20
    age_seconds: float = 7 * 86_400
    per_device: bool = False


class Subscriptions(_Section, frozen=True):
    ttl_seconds: float = 3_600
    ttl_max_seconds: float = 7 * 86_400
    grace_seconds: float = 3_600
    sweep_seconds: float = 600
    per_user: int = 100_000
    in_all: int = 2_000_000
    time_zone: str = "UTC"


class Sessions(_Section, frozen=True):
    """``window`` bounds what a connection has unacknowledged; a vanished device is known for ``leg_ttl_seconds``."""

    window: int = 1_024
    devices_per_user: int = 64
    connections: int = 10_000
    connections_per_user: int = 64
    leg_ttl_seconds: float = 86_400
    hello_seconds: float = 5
    ping_seconds: float = 20
    resume_on_data: bool = False


class Limits(_Section, frozen=True):
    """Before and after authentication. Rates are per user; 0 means no bound."""

    first_bytes: int = 4_096
    frame_bytes: int = 2 * 2**20
    body_bytes: int = 16 * 2**20
    event_bytes: int = 2**20
    batch_events: int = 10_000
    publish_per_second: float = 0
    requests_per_second: float = 0
    failed_logins_per_minute: int = 60
    poll_seconds: float = 60
    outgoing_bytes: int = 8 * 2**20


class Webhooks(_Section, frozen=True):
    """``private`` allows targets on loopback and private networks, which are refused otherwise."""

    enabled: bool = True
    private: bool = False
    timeout_seconds: float = 10
    attempts: int = 8
    first_delay_seconds: float = 1
    longest_delay_seconds: float = 300
    concurrency: int = 64
    dead_letters: int = 10_000


class Access(_Section, frozen=True):
    """Who may do what. ``tokens`` is the file of ``recado token``; ``anonymous`` lets loopback in without one.

    An anonymous caller names the user it stands for, and may do everything that user may.
    """

    tokens: str = ""
    anonymous: bool = True
    default_publish: tuple[str, ...] = ("*",)
    default_subscribe: tuple[str, ...] = ("*",)


class Logging(_Section, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class Semantics(_Section, frozen=True):
    """What a subscription's ``semantic`` leaves open. Semantic matching is loaded when the first one arrives.

    ``always`` gives ``semantic`` to every subscription that lacks it.
    """

    always: bool = False
    measure: str = "hybrid"
    threshold: float = 0.0
    unmatched: Literal["ignore", "fail"] = "fail"
    overrides: str = ""
    cache: str = ""


class Config(_Section, frozen=True):
    """``data`` is the folder of everything that must survive."""

    data: str = "recado-data"
    http: Http = Http()
    sip: Sip = Sip()
    log: Log = Log()
    mailbox: Mailbox = Mailbox()
    subscriptions: Subscriptions = Subscriptions()
    sessions: Sessions = Sessions()
    limits: Limits = Limits()
    webhooks: Webhooks = Webhooks()
    access: Access = Access()
    logging: Logging = Logging()
    semantics: Semantics = Semantics()


def read_config(path: str | Path) -> Config:
    """The configuration in a file; a ConfigError names the place and what would be right."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {path} cannot be read: {error}") from None
    try:
        return make_config(tomllib.loads(text))
    except (ConfigError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def make_config(members: dict[str, Any]) -> Config:
    """The same from decoded TOML."""
    try:
        return msgspec.convert(members, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from None
