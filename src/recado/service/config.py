"""The configuration of a service: one TOML file, every default written out here and nowhere else.

``recado serve --print-config`` prints it with the comments below, ``--check-config`` reads a file and names what is
wrong, with its place as in ``$.mailbox.length``. A member with another name is an error, because a misspelt limit would
be none. Sizes are bytes, times are seconds, unless a name says otherwise.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from recado.errors import RecadoError

_LARGEST = 2**53
_LONGEST = 1e9  # seconds
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]
Bound: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]  # 0 means no bound
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LARGEST)]  # the same
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=_LONGEST)]
Delay: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST)]


class ConfigError(RecadoError):
    """A configuration that cannot be used."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Http(_Section, frozen=True):
    """HTTP and WebSocket. Anything but loopback needs tokens; TLS needs a certificate and its key."""

    host: str = "127.0.0.1"
    port: Port = 7230
    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class Sip(_Section, frozen=True):
    """SIP and RUDP. ``registrar`` is the home SIP server ("host:port"); "embedded" starts one; "" turns SIP off."""

    registrar: str = ""
    host: str = "127.0.0.1"
    port: Port = 7260
    rudp_port: Port = 7261
    uri: str = "sip:broker@localhost"
    password: str = ""
    transport: Literal["udp", "tcp"] = "udp"
    register_expires: Count = 300
    profile: Literal["fast", "classic", "lab"] = "fast"
    t1: Seconds = 0.5


class Log(_Section, frozen=True):
    """The event log. Retention removes whole segments; 0 means no bound."""

    retain_seconds: Delay = 7 * 86_400
    retain_bytes: Bound = 10 * 2**30
    segment_rows: Count = 100_000
    segment_bytes: Count = 64 * 2**20
    segment_age_seconds: Seconds = 3_600
    commit_events: Count = 5_000
    waiting_bytes: Count = 64 * 2**20


class Mailbox(_Section, frozen=True):
    """What is kept for a user who is away. Over a bound the oldest go, and the user is told which."""

    length: Count = 100_000
    bytes: Count = 64 * 2**20
    age_seconds: Seconds = 7 * 86_400
    per_device: bool = False


class Subscriptions(_Section, frozen=True):
    ttl_seconds: Seconds = 3_600
    ttl_max_seconds: Seconds = 7 * 86_400
    grace_seconds: Delay = 3_600
    sweep_seconds: Seconds = 600
    per_user: Count = 100_000
    in_all: Count = 2_000_000
    time_zone: str = "UTC"


class Sessions(_Section, frozen=True):
    """``window`` bounds what a connection has unacknowledged; a vanished device is known for ``leg_ttl_seconds``."""

    window: Count = 1_024
    devices_per_user: Count = 64
    connections: Count = 10_000
    connections_per_user: Count = 64
    leg_ttl_seconds: Seconds = 86_400
    hello_seconds: Seconds = 5
    ping_seconds: Seconds = 20
    resume_on_data: bool = False


class Limits(_Section, frozen=True):
    """Before and after authentication. Rates are per user; 0 means no bound."""

    first_bytes: Count = 4_096
    frame_bytes: Count = 2 * 2**20
    body_bytes: Count = 16 * 2**20
    event_bytes: Count = 2**20
    batch_events: Count = 10_000
    publish_per_second: Rate = 0
    requests_per_second: Rate = 0
    failed_logins_per_minute: Bound = 60
    poll_seconds: Seconds = 60
    replays_per_user: Count = 4
    replays_in_all: Count = 64
    outgoing_bytes: Count = 8 * 2**20


class Webhooks(_Section, frozen=True):
    """``private`` allows targets on loopback and private networks, which are refused otherwise."""

    enabled: bool = True
    private: bool = False
    timeout_seconds: Seconds = 10
    attempts: Count = 8
    first_delay_seconds: Delay = 1
    longest_delay_seconds: Delay = 300
    concurrency: Count = 64
    dead_letters: Count = 10_000


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

    ``always`` gives ``semantic`` to every subscription that lacks it. ``share`` and ``waiting_bytes`` bound what names
    and values that were not met before may cost.
    """

    always: bool = False
    measure: str = "hybrid"
    threshold: float = 0.0
    unmatched: Literal["ignore", "fail"] = "fail"
    overrides: str = ""
    frequencies: str = ""
    cache: str = ""
    note: bool = False
    share: Annotated[float, msgspec.Meta(ge=0.01, le=1)] = 0.5
    waiting_bytes: Count = 4 * 2**20


class Matching(_Section, frozen=True):
    """How much of the time a user may take when events wait: for filters that only the plain evaluator can decide, and
    for events with many array elements or long strings. What the index decides by itself, nearly everything, costs
    nothing. ``all_share`` is for all users together.

    ``canary_share`` of the time of matching compares answers of the index with the plain evaluator; 0: none.
    """

    canary_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.001
    share: Annotated[float, msgspec.Meta(ge=0.001, le=1)] = 0.1
    burst_seconds: Seconds = 0.25
    all_share: Annotated[float, msgspec.Meta(ge=0.001, le=1)] = 0.5
    waiting_bytes: Count = 4 * 2**20


class Config(_Section, frozen=True):
    """``data`` is the folder of everything that must survive."""

    data: Annotated[str, msgspec.Meta(min_length=1)] = "recado-data"
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
    matching: Matching = Matching()


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
        config = msgspec.convert(members, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error).replace("Object contains unknown field", "there is no member")) from None
    zone = config.subscriptions.time_zone
    try:
        ZoneInfo(zone)
    except (KeyError, OSError, ValueError):
        raise ConfigError(f"$.subscriptions.time_zone: {zone!r} is no time zone; write UTC or Europe/Lisbon") from None
    return config
