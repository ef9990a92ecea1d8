"""The configuration of a service: one TOML file, every default written out here and nowhere else.

``recado serve --print-config`` prints it with the comments below, ``--check-config`` reads a file and names what is
wrong, with its place as in ``$.mailbox.length``. A member with another name is an error, because a misspelt limit would
be none. Sizes are bytes, times are seconds, unless a name says otherwise.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from recado.errors import RecadoError
from recado.model.decoding import explain

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
    transport: Literal["udp", "tcp", "tls"] = "udp"
    certificate: str = ""
    key: str = ""
    tls_port: Port = 7262
    ca: str = ""
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
    """``window`` bounds what a connection has unacknowledged; who is away is known for ``leg_ttl_seconds``."""

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
    concurrency_per_user: Count = 8
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
    audit: str = ""


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
        raise ConfigError(explain(error, Config)) from None
    for section, name, value in entries(config):
        if isinstance(value, str) and "\0" in value:
            raise ConfigError(f"{'.'.join(filter(None, ('$', section, name)))}: must hold no NUL")
    zone = config.subscriptions.time_zone
    try:
        ZoneInfo(zone)
    except (KeyError, OSError, ValueError):
        raise ConfigError(f"$.subscriptions.time_zone: {zone!r} is no time zone; write UTC or Europe/Lisbon") from None
    return config


# --- The configuration as text: TOML with every default and what it means, and the tables of the documentation -------
#
# ``MEANINGS`` says a line about every member of ``recado.server.config``; a test holds that none is missing.


MEANINGS: dict[str, str] = {
    "data": "the folder of everything that must survive",
    "http.host": "the address to listen on; anything but loopback needs tokens",
    "http.port": "the port of HTTP and WebSocket; 0 lets the system choose",
    "http.certificate": "a PEM file; with it and the key the service speaks TLS 1.3 only",
    "http.key": "the certificate's private key",
    "http.client_ca": "an authority; callers then need a certificate that it signed",
    "sip.registrar": 'the home SIP server as "host:port", "embedded" to start one, "" for no SIP',
    "sip.host": "the address of SIP and RUDP",
    "sip.port": "the port of SIP",
    "sip.rudp_port": "the port of RUDP",
    "sip.uri": "the address of record that agents call",
    "sip.password": "of the service at the registrar",
    "sip.transport": '"udp" or "tcp"; to a home server of others also "tls"',
    "sip.certificate": "a PEM file; with it and the key the embedded registrar hears other hosts over TLS alone",
    "sip.key": "the certificate's private key",
    "sip.tls_port": "the port of SIP over TLS",
    "sip.ca": 'the authority to trust for "tls"; "" means those of the system',
    "sip.register_expires": "seconds of a registration",
    "sip.profile": 'the timers of RUDP: "fast", "classic" or "lab"',
    "sip.t1": "seconds of the SIP timer T1",
    "log.retain_seconds": "how long events are kept; 0 means no bound",
    "log.retain_bytes": "how much of them is kept; 0 means no bound",
    "log.segment_rows": "a segment is closed at so many events",
    "log.segment_bytes": "or at so many bytes",
    "log.segment_age_seconds": "or at this age",
    "log.commit_events": "events of one commit at most",
    "log.waiting_bytes": "publications that wait for the disk; more are refused with 503",
    "mailbox.length": "notifications that wait for one user",
    "mailbox.bytes": "and their bytes",
    "mailbox.age_seconds": "how long they wait; older ones are dropped, and the user is told",
    "mailbox.per_device": "a mailbox for every device, and not one for all devices of a user",
    "subscriptions.ttl_seconds": "the life of a subscription that asks for none",
    "subscriptions.ttl_max_seconds": "the longest one",
    "subscriptions.grace_seconds": "how long an expired one can still be renewed",
    "subscriptions.sweep_seconds": "how often is looked for what is too old; expired ones end within seconds anyway",
    "subscriptions.per_user": "subscriptions of one user",
    "subscriptions.in_all": "subscriptions of all users",
    "subscriptions.time_zone": "of constraints that name none",
    "sessions.window": "notifications that a connection may have unacknowledged",
    "sessions.devices_per_user": "devices that are known of one user",
    "sessions.connections": "connections in all",
    "sessions.connections_per_user": "WebSocket sessions of one user",
    "sessions.leg_ttl_seconds": "how long a device that is away is known",
    "sessions.hello_seconds": "within which a request's head, or HELLO, must be there",
    "sessions.ping_seconds": "a WebSocket that is silent so long is asked for a sign of life, and closed if none comes",
    "sessions.resume_on_data": "a packet from a disconnected SIP device connects it again",
    "limits.first_bytes": "of a WebSocket message before its sender is known",
    "limits.frame_bytes": "of a WebSocket message after that",
    "limits.body_bytes": "of a request's body",
    "limits.event_bytes": "of one event",
    "limits.batch_events": "events of one request",
    "limits.publish_per_second": "events that one user may publish in a second; 0 means no bound",
    "limits.requests_per_second": "other requests of one user; 0 means no bound",
    "limits.failed_logins_per_minute": "wrong tokens from one address before it gets 429",
    "limits.poll_seconds": "the longest wait of a long poll, and how long its device is connected after it",
    "limits.replays_per_user": "replays of one user at the same time; more get 429",
    "limits.replays_in_all": "replays of all users at the same time; more get 503",
    "limits.outgoing_bytes": "answers that wait for one connection before it is too slow",
    "webhooks.enabled": "whether webhooks are called at all",
    "webhooks.private": "allow targets on loopback and private networks",
    "webhooks.timeout_seconds": "for one attempt",
    "webhooks.attempts": "after which a notification is a dead letter",
    "webhooks.first_delay_seconds": "the back-off after the first attempt, doubled after each, with full jitter",
    "webhooks.longest_delay_seconds": "the longest back-off",
    "webhooks.concurrency": "requests under way at the same time",
    "webhooks.concurrency_per_user": "and of one user's webhooks",
    "webhooks.dead_letters": "dead letters that are kept; the oldest go",
    "access.tokens": 'the file of "recado token"; "" means "tokens" in the data folder',
    "access.anonymous": "callers on loopback need no token, and name the user they stand for",
    "access.default_publish": "event types that callers without a token may publish",
    "access.default_subscribe": "and subscribe to",
    "logging.level": '"debug", "info", "warning" or "error"',
    "logging.format": '"text", "json", or "auto": text on a terminal and JSON elsewhere',
    "logging.audit": 'a file of who published, subscribed or administered, and from where; "" for none',
    "semantics.always": "understand names by meaning also where a subscription does not ask for it",
    "semantics.measure": "how the similarity of names is measured",
    "semantics.threshold": "names must be more alike than this; 0 means the measure's own threshold",
    "semantics.unmatched": 'what a name without a similar one does to a match: "ignore" or "fail"',
    "semantics.overrides": "a file of similarities that are given",
    "semantics.frequencies": 'a folder that "recado pipeline frequencies" wrote',
    "semantics.cache": 'a file of similarities that "recado pipeline align" made, read besides the service\'s own',
    "semantics.note": 'put pairs of names close to the threshold on the list of "recado semantics review"',
    "semantics.share": "of one core's time, to compare names and values not met before; their events wait until then",
    "semantics.waiting_bytes": "of such events of one user that wait; more are refused with 503",
    "matching.canary_share": "of matching's time, to compare answers with the plain evaluator; 0 for none",
    "matching.share": "of the time, for one user's costly filters and large events when others wait",
    "matching.burst_seconds": "that a user may take at once; beyond it costly filters are left out and it is told",
    "matching.all_share": "the share of all users together: of many at once each has less than its own",
    "matching.waiting_bytes": "of large events of a user over that, which wait to be stored; more are refused with 503",
}


def entries(config: Config) -> Iterator[tuple[str, str, Any]]:
    """Section, name and value of everything; the section of what stands at the top is empty."""
    for name, value in msgspec.structs.asdict(config).items():
        if isinstance(value, msgspec.Struct):
            for member, inner in msgspec.structs.asdict(value).items():
                yield name, member, inner
        else:
            yield "", name, value


def config_text(config: Config) -> str:
    """TOML that ``read_config`` reads back as the same configuration."""
    lines: list[str] = ["# The configuration of recado serve: every member, with its value here."]
    section = ""
    for at, name, value in entries(config):
        if at != section:
            section = at
            lines += ["", f"[{section}]"]
        meaning = MEANINGS.get(f"{at}.{name}".lstrip("."), "")
        lines.append(f"{name} = {_toml(value)}" + (f"  # {meaning}" if meaning else ""))
    return "\n".join(lines) + "\n"


def config_tables(config: Config) -> str:
    """The same as tables in Markdown."""
    lines: list[str] = []
    section: str | None = None
    for at, name, value in entries(config):
        if at != section:
            section = at
            lines += ["", f"## {at or 'at the top'}", "", "| member | default | meaning |", "|---|---|---|"]
        lines.append(f"| `{name}` | `{_toml(value)}` | {MEANINGS[f'{at}.{name}'.lstrip('.')]} |")
    return "\n".join(lines).strip() + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()  # a JSON string is a TOML string
    if isinstance(value, float) and value.is_integer():
        return f"{int(value):_}"
    return f"{value:_}" if isinstance(value, int) else str(value)
