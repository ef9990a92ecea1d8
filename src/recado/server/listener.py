"""The HTTP listener: its socket, TLS, the connections on it, and how they end."""

from __future__ import annotations

import asyncio
import errno
import shlex
import socket
import ssl
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from recado.server.config import ConfigError, Http
from recado.server.gateway import Gateway
from recado.server.http.app import App
from recado.server.http.protocol import HEAD_BYTES, HttpConnection
from recado.server.websocket import Connection

_BACKLOG = 2_048
_LAST_PORT = 65_535
_LAST_WORD_SECONDS = 1.0


class ListenError(ConfigError):
    """The address cannot be listened on."""


class Listener:
    """HTTP and WebSocket on one port."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._state = ServerState()
        self._sockets: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._tls: ssl.SSLContext | None = None
        self._clock: asyncio.TimerHandle | None = None
        self.url = ""

    async def start(self, bound: socket.socket) -> None:
        """Serve on a socket that is bound."""
        settings = self._gateway.config.http
        tls = self._tls = tls_context(settings)
        config = uvicorn.Config(
            App(self._gateway), log_config=None, lifespan="off", ws="none", http="h11", server_header=False,
            proxy_headers=False, access_log=False, h11_max_incomplete_event_size=HEAD_BYTES, interface="asgi3",
        )  # fmt: skip
        config.load()

        def connection() -> HttpConnection:
            return HttpConnection(config, self._state, self._gateway, self._sockets)

        loop = asyncio.get_running_loop()
        patience: dict[str, Any] = {"ssl_handshake_timeout": self._gateway.config.sessions.hello_seconds} if tls else {}
        self._server = await loop.create_server(connection, sock=bound, ssl=tls, backlog=_BACKLOG, **patience)
        self._tick()
        host, port = bound.getsockname()[:2]
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    def _tick(self) -> None:
        """The Date header, renewed every second and not for every answer."""
        self._state.default_headers = [(b"date", formatdate(time(), usegmt=True).encode())]
        self._clock = asyncio.get_running_loop().call_later(1, self._tick)

    def recheck(self) -> None:
        """The tokens were read again: sessions of those that are gone end."""
        for connection in list(self._sockets):
            connection.recheck()

    def renew_certificate(self) -> None:
        """Read certificate and key again, for connections from now on; a ConfigError if they cannot be used.

        Call it when ``tls_context`` took them: a pair that does not fit would be half loaded.
        """
        if self._tls is not None:
            load_certificate(self._tls, self._gateway.config.http)

    async def drain(self, seconds: float) -> None:
        """Accept nothing more, end what is under way, tell the sessions; after ``seconds`` cut off the rest."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._sockets):
            connection.drain()
        for request in list(self._state.connections):
            request.shutdown()
        deadline = asyncio.get_running_loop().time() + seconds
        while (self._sockets or self._state.tasks) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        if unfinished := list(self._state.tasks):
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=_LAST_WORD_SECONDS)
        for left in [*self._sockets, *self._state.connections]:
            cast(Connection | HttpConnection, left).cut()
        if self._clock is not None:
            self._clock.cancel()
        await asyncio.sleep(0)


def bind(host: str, port: int) -> socket.socket:
    """A bound socket, or an error that says what to do."""
    check_port("http.port", port)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"http.host: {host!r} is no address of this machine: {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"port {port} on {host} is in use, perhaps by another service; choose one with --port"
            ) from None
        raise ListenError(f"the service cannot listen on {host}:{port}: {error.strerror}") from None
    return bound


def check_port(member: str, port: int) -> None:
    """The system would take another one, without a word."""
    if not 0 <= port <= _LAST_PORT:
        raise ListenError(f"{member}: {port} is no port; use one from 1 to {_LAST_PORT}, or 0 to let the system choose")


def check_key(path: str, name: str) -> None:
    """A private key that everybody on the machine can read is none; a group may have it."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror}") from None
    if mode & 0o007:
        raise ConfigError(f"{name}: everybody may read {path}; make it private with: chmod o-rwx {shlex.quote(path)}")


def tls_context(settings: Http) -> ssl.SSLContext | None:
    """TLS 1.3 by the certificate that the configuration names; with ``client_ca`` callers need one, too."""
    if not (settings.certificate or settings.key or settings.client_ca):
        return None
    if not (settings.certificate and settings.key):
        needless = "; http.client_ca asks callers for theirs" if settings.client_ca else ""
        raise ConfigError(f"http.certificate and http.key are needed together{needless}")
    check_key(settings.key, "http.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_certificate(context, settings)
    if settings.client_ca:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:  # SSLError is one
            raise ConfigError(f"http.client_ca cannot be used: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_certificate(context: ssl.SSLContext, settings: Http) -> None:
    """For handshakes from now on; a ConfigError if it cannot be used."""
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:  # SSLError is one
        raise ConfigError(f"http.certificate or http.key cannot be used: {error}") from None
