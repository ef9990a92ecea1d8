"""SIP and RUDP as a way in: the user agent of the service, one RUDP socket, and the registrar if it is our own.

The service registers under ``sip.uri`` like any user, at the home server that ``sip.registrar`` names or at an embedded
one, so that agents reach it by its URI. Every invitation is judged before anything is kept: who calls, from which
device, where it wants its data. ``address`` is where clients find the registrar.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from urllib.parse import unquote

from recado.errors import RecadoError
from recado.net import RudpEndpoint, new_key
from recado.net.address_policy import may_reach, may_send
from recado.net.sip import Endpoint, TlsClient, TlsServer, open_endpoint, open_registrar
from recado.net.sparing_log import SparingLog
from recado.protocols.rudp import profile
from recado.protocols.sip import events
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.digest import Algorithm, Credentials, Guard, secret_of
from recado.protocols.sip.events import AgentSettings, Incoming
from recado.protocols.sip.limits import LAB, SipLimits, SipTimers
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import Address, add_brackets, read_address, read_sip_uri
from recado.server.config import Config, ConfigError, Http, Sip
from recado.server.gateway import Gateway
from recado.server.identity import is_loopback
from recado.server.listener import ListenError, check_port, load_certificate, tls_context
from recado.server.permissions import Busy, Denied, Principal, anonymous, check_device
from recado.server.problems import TooManyError
from recado.server.sip_consumer import GOODBYE_SECONDS, SipConsumer
from recado.server.tokens import SIP_REALM, Tokens

# --- Who a caller is: by digest against the tokens for SIP, or by name on loopback where the service allows that
#
# ``access.anonymous`` means the same as for HTTP: on loopback a caller is believed. Everywhere else both the embedded
# registrar and the service ask for credentials, with one guard for both: the user's name and its token for SIP
# (``recado token add NAME --user USER --sip``). Such users are those of the service's own domain.


class SipAuthentication:
    """``failed`` counts wrong credentials by the host that they came from, as those of HTTP are."""

    def __init__(self, config: Config, tokens: Tokens, failed: Callable[[str], float]) -> None:
        own = read_sip_uri(config.sip.uri)
        if own.user is None:
            raise ConfigError(f"$.sip.uri: {config.sip.uri!r} has no name; write it as sip:broker@example.org")
        self.domain, self._name = own.host.lower(), own.user
        self._access, self._tokens, self._failed = config.access, tokens, failed
        self._password = config.sip.password or secrets.token_urlsafe(32)
        self._open = config.access.anonymous and is_loopback(config.sip.host)
        if not self._open and not len(tokens):
            raise ConfigError(
                "SIP needs tokens, since callers are not believed: $.sip.host is not loopback or $.access.anonymous "
                f"is off; make one with 'recado token add NAME --user USER --sip --data {config.data}'"
            )

    @property
    def own(self) -> Credentials:
        """With which the service registers."""
        return Credentials(self._name, self._password)

    def guard(self) -> Guard | None:
        """None where callers are believed."""
        if self._open:
            return None
        key = secrets.token_bytes(32)
        return Guard(SIP_REALM, self._secret, key, domains=(self.domain,), algorithms=("SHA-256",), failed=self._failed)

    def _secret(self, username: str, realm: str, algorithm: Algorithm) -> str | None:
        if username == self._name:
            return secret_of(algorithm, username, realm, self._password)
        if username.lower().endswith(f"@{self.domain}"):
            return None  # users of this domain go by the bare name: the secret of ``ana@here`` must not prove ``ana``
        found = self._tokens.by_sip(username)
        return found[0] if found is not None else None

    def principal(self, incoming: Incoming) -> Principal:
        """Who calls; Denied if nobody that may come in."""
        name = self._named(incoming.user)
        if incoming.proven:
            found = self._tokens.by_sip(name)
            if found is None:
                raise Denied(f"user {name!r} has no token for SIP")
            return found[1]
        if not self._open or not is_loopback(incoming.source.host):
            raise Denied("callers from elsewhere have to prove who they are")
        return anonymous(self._access, name)

    def _named(self, user: str) -> str:
        uri = read_sip_uri(user)
        name = unquote(uri.user or "")
        if not name or name == self._name:
            raise RecadoError(f"{user} is no user of this service")
        return name if uri.host.lower() == self.domain else f"{name}@{uri.host.lower()}"


# --- SIP and RUDP as a way in: the user agent of the service, one RUDP socket, and the registrar if it is our own

_log = logging.getLogger("recado.sip")
_sparing = SparingLog(_log)
EMBEDDED = "embedded"
DEVICE = "recado"
REGISTER_SECONDS = 3.0


class SipListener:
    """Use ``open``."""

    def __init__(self, gateway: Gateway, authentication: SipAuthentication) -> None:
        self._tls_server: TlsServer | None = None
        self._gateway, self._sip, self._authentication = gateway, gateway.config.sip, authentication
        self._held = AsyncExitStack()
        self._consumers: dict[str, SipConsumer] = {}
        self._registered, self._unregistered, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._endpoint: Endpoint[UserAgent]
        self._rudp: RudpEndpoint
        self.address = ""

    @classmethod
    async def open(cls, gateway: Gateway) -> SipListener:

        def failed(host: str) -> float:
            gateway.audit.note(None, host, "sip", "login", status=401)
            return gateway.identity.failed(host)

        listener = cls(gateway, SipAuthentication(gateway.config, gateway.tokens, failed))
        try:
            await listener._open()
        except OSError as error:
            await listener._held.aclose()
            sip = gateway.config.sip
            raise ListenError(f"SIP cannot listen at {sip.host}:{sip.port}: {error.strerror or error}") from None
        except BaseException:
            await listener._held.aclose()
            raise
        return listener

    async def _open(self) -> None:
        host = _host(self._gateway.config)
        tls = self._tls_server = _tls(self._sip)
        guard = self._authentication.guard()
        self._rudp = RudpEndpoint((host, self._sip.rudp_port), profile(self._sip.profile))
        self._held.callback(self._rudp.close)
        self._gateway.count_refused_datagrams = self._count_refused
        home, port = await self._home(host, guard, tls)
        if not self.address:
            self.address = f"{add_brackets(home.host)}:{home.port}"
        settings = self._settings(home)
        local = Address(home.transport, host, port)
        self._endpoint = await open_endpoint(
            lambda bound: UserAgent(settings, bound, guard),
            local,
            self._told,
            policy=lambda to: may_reach(to, host),
            home=home.host,
            tls=TlsClient(_trust(self._sip.ca), home.host) if home.transport == "tls" else None,
            only_tls=tls is not None,
        )
        self._held.push_async_callback(self._endpoint.close)
        self._endpoint.ask(events.Register())
        with suppress(TimeoutError):  # the home server may come later; the user agent tries on
            async with asyncio.timeout(REGISTER_SECONDS):
                await self._registered.wait()

    async def _home(self, host: str, guard: Guard | None, tls: TlsServer | None) -> tuple[Address, int]:
        """The registrar, and the port that is left for the user agent."""
        if self._sip.registrar != EMBEDDED:
            home = await _find_registrar(self._gateway.config)
            return home._replace(transport=self._sip.transport), self._sip.port
        registrar = await open_registrar(
            Address("udp", host, self._sip.port), (self._authentication.domain,), guard=guard, tls=tls
        )
        self._held.push_async_callback(registrar.close)
        if tls is not None:
            self.address = f"{add_brackets(registrar.local.host)}:{registrar.tls_port}"
        return registrar.local._replace(transport=self._sip.transport), 0

    def _settings(self, home: Address) -> AgentSettings:
        sip = self._sip
        return AgentSettings(
            user=sip.uri,
            device=DEVICE,
            home=home,
            credentials=self._authentication.own,
            register_expires=sip.register_expires,
            timers=LAB if sip.profile == "lab" else SipTimers(t1=sip.t1),
            limits=SipLimits(calls=self._gateway.config.sessions.connections),
        )

    def _count_refused(self) -> dict[str, int]:
        found = self._rudp.counters()
        return {"no session": self._rudp.strangers, "wrong tag": found.malformed, "repeated": found.unproven}

    # -- what SIP tells ------------------------------------------------------------------------------------------------

    def _told(self, event: events.Event) -> None:
        match event:
            case events.Registered():
                self._registered.set()
            case events.RegistrationFailed(status, reason, again):
                after = "never again" if again is None else f"again in {again:.0f} s"
                _log.warning("the registrar %s refused the service: %s %s; %s", self.address, status, reason, after)
            case events.Unregistered():
                self._unregistered.set()
            case events.Incoming():
                self._on_invite(event)
            case events.Established(call) if call in self._consumers:
                self._replace(call)
                self._consumers[call].established()
            case events.Updated(call, _, remote) if call in self._consumers:
                self._on_update(call, remote.media)
            case events.Ended(call):
                self._on_end(call)

    def _on_invite(self, event: events.Incoming) -> None:
        try:
            who, device = self._admit(event)
        except RecadoError as error:
            _sparing.info("a caller was refused", extra={"user": event.user, "reason": str(error)})
            self._gateway.metrics.by["connections_refused"]["sip"] += 1
            self._gateway.audit.note(None, event.source.host, "sip", "connect", status=_status(error))
            self._endpoint.ask(events.Reject(event.call, _status(error)))
            return
        media = event.remote.media
        host, port = self._rudp.address
        ours = Media(host=host, port=port, connection=self._rudp.new_conn_id(), key=new_key(), device=DEVICE)
        consumer = SipConsumer(self._gateway, who, device, partial(self._hang_up, event.call))
        consumer.connect(self._rudp, media, ours)
        self._gateway.connections += 1
        self._consumers[event.call] = consumer
        self._endpoint.ask(events.Answer(event.call, ours))

    def _admit(self, event: events.Incoming) -> tuple[Principal, str]:
        """Who comes in, from which device; the last thing that is checked is how many there are."""
        gateway = self._gateway
        who = self._authentication.principal(event)
        device = check_device(event.device or "")
        self._check_media(event.remote.media)
        gateway.check_open()
        if not gateway.has_room():
            raise Busy(f"there are {gateway.config.sessions.connections:,} connections, which is the limit")
        gateway.enter(who)
        return who, device

    def _check_media(self, media: Media) -> None:
        if media.connection is None:
            raise SipError("the session description has no a=rudp-conn", 488)
        if media.key is None:
            raise SipError("the session description has no a=rudp-key: the device speaks RUDP without tags", 488)
        if not may_send((media.host, media.port), self._rudp.address):
            raise SipError(f"data cannot be sent to {media.host}:{media.port} from here", 488)

    def _on_update(self, call: str, media: Media) -> None:
        try:
            self._check_media(media)
        except SipError as error:
            self._consumers[call].finish(str(error))
        else:
            self._consumers[call].updated(media)

    def _replace(self, call: str) -> None:
        """A device has one session: one that it lost, and did not update, ends (15.4-A17)."""
        new = self._consumers[call]
        for other, consumer in list(self._consumers.items()):
            same = consumer is not new and consumer.who.user == new.who.user and consumer.device == new.device
            if same and not consumer.attached:  # else the engine closes it when the new one is attached
                self._hang_up(other)

    def _hang_up(self, call: str) -> None:
        with suppress(SipError):  # it may be over already
            self._endpoint.ask(events.Bye(call))
        self._on_end(call)

    def _on_end(self, call: str) -> None:
        consumer = self._consumers.pop(call, None)
        if consumer is None:
            return
        consumer.over()
        self._gateway.connections -= 1
        self._gateway.leave(consumer.who)
        if not self._consumers:
            self._empty.set()

    def check_certificate(self) -> None:
        """Raises ConfigError if certificate and key, as they are now, could not be used."""
        _tls(self._sip)

    def renew_certificate(self) -> None:
        """Read certificate and key again, for connections from now on; call it when ``check_certificate`` took them."""
        if self._tls_server is not None:
            load_certificate(self._tls_server.context, Http(certificate=self._sip.certificate, key=self._sip.key))

    def recheck(self) -> None:
        """The tokens were read again: sessions of those that are gone end."""
        for consumer in list(self._consumers.values()):
            if not consumer.closed:
                consumer.recheck()

    # -- the end -------------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Answer what was published, end the sessions, and be registered no more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(consumer.publishing for consumer in self._consumers.values()):
                    await asyncio.sleep(0.01)
                await self._goodbye()
        for call in list(self._consumers):
            self._hang_up(call)
        await self._held.aclose()

    async def _goodbye(self) -> None:
        self._empty.clear()
        for consumer in list(self._consumers.values()):
            consumer.finish("draining")
        if self._consumers:
            await self._empty.wait()
        if self._registered.is_set():
            self._endpoint.ask(events.Unregister())
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._unregistered.wait()


async def check_sip(config: Config, tokens: Tokens) -> None:
    """Refuse what SIP cannot be opened with, without opening it; warn of what others could read."""
    SipAuthentication(config, tokens, lambda _: 0.0)
    _host(config)
    check_port("sip.port", config.sip.port)
    check_port("sip.rudp_port", config.sip.rudp_port)
    check_port("sip.tls_port", config.sip.tls_port)
    encrypted = _tls(config.sip) is not None
    if config.sip.registrar != EMBEDDED:
        await _find_registrar(config)
        if config.sip.transport == "tls":
            _trust(config.sip.ca)
            encrypted = True
    if not is_loopback(config.sip.host):
        _log.warning(
            "%s unencrypted, and sip.host %s is not loopback: whoever can read the network reads events; "
            "see docs/security.md",
            "RUDP travels" if encrypted else "SIP and RUDP travel",
            config.sip.host,
        )


def check_sip_sockets(config: Config) -> None:
    """Can the host be listened on?"""
    host = _host(config)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.bind(address)
    except OSError as error:
        raise ListenError(f"SIP cannot listen at {host}: {error.strerror or error}") from None


def _tls(sip: Sip) -> TlsServer | None:
    """The certificate of the embedded registrar, if it has one."""
    if sip.registrar != EMBEDDED:
        return None
    if sip.transport == "tls":
        raise ConfigError('$.sip.transport: "tls" is for a home server of others; give "embedded" a certificate')
    try:
        context = tls_context(Http(certificate=sip.certificate, key=sip.key))
    except ConfigError as error:
        raise ConfigError(str(error).replace("http.", "sip.")) from None
    return None if context is None else TlsServer(context, sip.tls_port)


def _host(config: Config) -> str:
    host = "127.0.0.1" if config.sip.host == "localhost" else config.sip.host
    if host in ("0.0.0.0", "::"):  # noqa: S104  # refused, not used
        raise ConfigError(f"$.sip.host: {host} names no place; write the address at which devices reach the service")
    return host


async def _find_registrar(config: Config) -> Address:
    try:
        home = read_address(config.sip.registrar)
    except SipError as error:
        raise ConfigError(f"$.sip.registrar: must be host:port or {EMBEDDED}: {error}") from None
    await _check_name(home.host)
    return home


async def _check_name(host: str) -> None:
    """A name that does not exist is a mistake; a server that is not there yet may come."""
    try:
        await asyncio.get_running_loop().getaddrinfo(host, None)
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            raise ConfigError(f"$.sip.registrar: {host}: {error.strerror}") from None


def _trust(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"$.sip.ca: {ca} cannot be used: {error}") from None


def _status(error: RecadoError) -> int:
    """The SIP status that refuses an invitation (section 3.3)."""
    if isinstance(error, SipError):
        return error.status
    return 503 if isinstance(error, Busy | TooManyError) else 403
