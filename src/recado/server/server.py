"""A running service: the engine with its ways in, started and stopped as one.

    async with Server.start(config) as server:
        print(server.url)
        await server.run()  # until SIGTERM or SIGINT

Start: check the configuration, bind the port, open the data, then listen; whatever fails says so before anything is
served. Anything but loopback needs tokens; a change of the token file counts within a second. Stop (drain): take no
more connections, answer what was published, tell the sessions that the service drains, flush, close. SIGHUP reads the
token file, the certificates and the level of the log again; what is open by a token that is gone ends.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shlex
import signal
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from recado import files
from recado.errors import RecadoError
from recado.server.audit import check_audit
from recado.server.config import Config, ConfigError, Semantics
from recado.server.control import Control
from recado.server.engine import Engine, log_settings
from recado.server.gateway import Gateway
from recado.server.identity import is_loopback
from recado.server.listener import Listener, bind, check_port, tls_context
from recado.server.logs import configure_logs
from recado.server.matching import read_understanding
from recado.server.sip import EMBEDDED, SipListener, check_sip, check_sip_sockets
from recado.server.tokens import Tokens

_log = logging.getLogger("recado.server")
DRAIN_SECONDS = 5.0
WATCH_SECONDS = 1.0
"""So often the token file is looked at."""
LOADING_OBJECTS = 100_000
"""So many new objects let the garbage collector begin while a service loads; almost all of them are to stay."""


class FolderError(RecadoError):
    """A data folder that cannot be used."""


class Server:
    """Use ``start``."""

    def __init__(self, gateway: Gateway, listener: Listener, reread: Callable[[], Config] | None) -> None:
        self.gateway, self.engine, self._listener = gateway, gateway.engine, listener
        self._reread = reread
        self._control = Control(gateway, token_path(gateway.config), self.reload_tokens)
        self._watching: asyncio.Task[None] | None = None
        self._sip: SipListener | None = None
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        return self._listener.url

    @property
    def sip_address(self) -> str:
        """The registrar that clients use, as host:port; empty without SIP."""
        return self._sip.address if self._sip is not None else ""

    @classmethod
    @asynccontextmanager
    async def start(cls, config: Config, reread: Callable[[], Config] | None = None) -> AsyncIterator[Server]:
        """A service that serves, and is drained at the end; ``reread`` gives the configuration again on SIGHUP."""
        tokens = await check_start(config)
        bound = bind(config.http.host, config.http.port)
        try:
            make_folder(Path(config.data))
            engine = await Engine.open(config)
        except BaseException:
            bound.close()
            raise
        server = None
        try:
            gateway = Gateway(engine, tokens)
            server = cls(gateway, Listener(gateway), reread)
            await server._begin(bound)
            where = {"sip": server.sip_address} if server.sip_address else {}
            _log.info("the service listens", extra={"url": server.url, "data": config.data, **where})
            yield server
        finally:
            if server is not None:
                await server.drain()
            bound.close()
            await engine.close()

    async def _begin(self, bound: socket.socket) -> None:
        await self._control.start()
        self._watching = asyncio.create_task(self._watch_tokens())
        self.gateway.webhooks.start()
        await self._listener.start(bound)
        if self.gateway.config.sip.registrar:
            self._sip = await SipListener.open(self.gateway)

    async def run(self) -> None:
        """Serve until a signal ends it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        settling = asyncio.create_task(self._settle())
        try:
            await self._stop.wait()
        finally:
            settling.cancel()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _settle(self) -> None:
        """What is there when everything is loaded stays: the garbage collector, which stops the process while it walks
        over its objects, leaves them out from then on, and seldom looks before that.
        """
        before = gc.get_threshold()
        gc.set_threshold(LOADING_OBJECTS, *before[1:])
        try:
            await self.engine.when_loaded()
            gc.freeze()
        finally:
            gc.set_threshold(*before)

    def stop(self) -> None:
        self._stop.set()

    def reload(self) -> None:
        """Tokens, certificates and the level of the log, anew; if that fails everything stays as it was."""
        try:
            config = None if self._reread is None else self._reread()
            tls_context(self.gateway.config.http)  # before anything is changed
            if self._sip is not None:
                self._sip.check_certificate()
            self._reread_tokens()
            self._listener.renew_certificate()
            if self._sip is not None:
                self._sip.renew_certificate()
        except RecadoError as error:
            _log.error(
                "nothing was changed, because it could not be read again: %s", error
            )  # no traceback for a person
            return
        if config is not None:
            configure_logs(config.logging)
        self._recheck()
        _log.info("tokens, certificates and log level were read again", extra={"tokens": len(self.gateway.tokens)})

    def reload_tokens(self) -> None:
        """The tokens alone: what is open by one that is gone ends. Raises TokenError, and changes nothing then."""
        self._reread_tokens()
        self._recheck()

    def _reread_tokens(self) -> None:
        """Which tokens came and went is noted; who changed the file, only its owner knows."""
        before = self.gateway.tokens.names()
        self.gateway.tokens.reload()
        after = self.gateway.tokens.names()
        for did, names in (("token added", after - before), ("token gone", before - after)):
            for name in sorted(names):
                self.gateway.audit.note(None, "the token file", "tokens", did, name=name)

    def _recheck(self) -> None:
        self.gateway.polls.recheck(self.gateway.tokens)
        self._listener.recheck()
        if self._sip is not None:
            self._sip.recheck()

    async def _watch_tokens(self) -> None:
        """Whoever changed the file need not tell: it is looked at, and so are tokens that end."""
        said = ""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                if self.gateway.tokens.has_changed():
                    self.reload_tokens()
                    said = ""
            except RecadoError as error:
                if str(error) != said:
                    _log.error("the tokens stay as they were: %s", error)
                said = str(error)
            except Exception:  # noqa: BLE001  # a fault in one session must not keep others open for ever
                self.engine.dispatcher.note_fault()
                _log.exception("the tokens were read again, and not all that is open was looked at")

    async def drain(self) -> None:
        """Stop accepting, finish, tell everybody."""
        if self.gateway.draining:
            return
        self.gateway.draining = True
        _log.info("the service drains")
        if self._watching is not None:
            self._watching.cancel()
        await self._control.close()
        self.gateway.polls.close()
        if self._sip is not None:
            await self._sip.drain(DRAIN_SECONDS)
        await self._listener.drain(DRAIN_SECONDS)
        await self.gateway.close()


async def check_start(config: Config) -> Tokens:
    """Refuse a configuration with which no service can start, before anything is opened; its tokens."""
    tokens = open_tokens(config)
    tls_context(config.http)
    try:
        log_settings(config).check()
    except RecadoError as error:
        raise ConfigError(f"$.log: {error}") from None
    if config.semantics != Semantics():
        await asyncio.to_thread(read_understanding, config)
    check_audit(config.logging.audit)
    if config.sip.registrar:
        await check_sip(config, tokens)
    check_ports_differ(config)
    check_folder(Path(config.data))
    return tokens


async def check_config(config: Config) -> None:
    """Refuse what ``Server.start`` refuses; a service may run on the ports and the folder meanwhile."""
    check_port("http.port", config.http.port)
    bind(config.http.host, 0).close()
    if config.sip.registrar:
        check_sip_sockets(config)
    await check_start(config)


def listeners(config: Config) -> Iterator[tuple[str, str, int, socket.SocketKind]]:
    """Where a service listens: which member says so, host, port (0: any) and kind of socket."""
    yield "http.port", config.http.host, config.http.port, socket.SOCK_STREAM
    sip = config.sip
    if sip.registrar:
        yield "sip.port", sip.host, sip.port, socket.SOCK_DGRAM
        yield "sip.rudp_port", sip.host, sip.rudp_port, socket.SOCK_DGRAM
    if sip.registrar == EMBEDDED:
        yield "sip.port", sip.host, sip.port, socket.SOCK_STREAM
        if sip.certificate:
            yield "sip.tls_port", sip.host, sip.tls_port, socket.SOCK_STREAM


def check_ports_differ(config: Config) -> None:
    """Refuse two listeners of one service at one place."""
    taken: dict[tuple[str, int, socket.SocketKind], str] = {}
    for member, host, port, kind in listeners(config):
        place = ("127.0.0.1" if host == "localhost" else host, port, kind)
        if port and place in taken:
            raise ConfigError(f"$.{taken[place]} and $.{member} are both {port} on {host}; give each its own")
        taken[place] = member


def open_tokens(config: Config) -> Tokens:
    """The tokens of the configuration; a listener beyond loopback without any is refused."""
    tokens = Tokens(token_path(config), may_come_later=not config.access.tokens)
    if is_loopback(config.http.host):
        if len(tokens) and config.access.anonymous:
            _log.warning(
                "there are tokens, yet callers on loopback need none; set access.anonymous = false if a proxy or other "
                "people on this machine reach the service"
            )
    else:
        if not len(tokens):
            raise ConfigError(
                f"http.host {config.http.host!r} is not loopback, so callers need tokens, and there is none: "
                f"make one with 'recado token add NAME --user USER --data {config.data}'"
            )
        if not config.http.certificate:
            _log.warning("tokens travel unencrypted: http.certificate is not set, and the host is not loopback")
    return tokens


def check_folder(path: Path) -> None:
    """Raise what stands against a data folder at the path, which is not made."""
    nearest = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    if not nearest.is_dir():
        raise FolderError(f"the data folder {path} cannot be made: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise FolderError(f"the data folder {path} cannot be used: {nearest} cannot be written by this user")
    if path.exists():
        check_private(path)


def make_folder(path: Path) -> None:
    """The data folder, for its owner alone; a FolderError says what to type if one that is there is not."""
    try:
        path.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
        check_private(path)
    except FileExistsError:
        raise FolderError(f"the data folder {path} cannot be made: there is a file of that name") from None
    except OSError as error:
        raise FolderError(f"the data folder {path} cannot be made: {error.strerror}") from None


def check_private(path: Path) -> None:
    """Raise a FolderError with what to type if others may use the data folder, which is there."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise FolderError(
            f"others on this machine may use the data folder {path} (mode {mode:04o}), which holds events and secrets; "
            f"make it private with: chmod -R go-rwx {shlex.quote(str(path))}"
        )


def token_path(config: Config) -> Path:
    """The token file: the configured one, else ``tokens`` in the data folder."""
    return Path(config.access.tokens) if config.access.tokens else Path(config.data) / "tokens"
