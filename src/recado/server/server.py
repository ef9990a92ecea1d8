"""A running service: the engine with its ways in, started and stopped as one.

    async with Server.start(config) as server:
        print(server.url)
        await server.run()  # until SIGTERM or SIGINT

Start: check the configuration, bind the port, open the data, then listen; whatever fails says so before anything is
served. Anything but loopback needs tokens. Stop (drain): take no more connections, answer what was published, tell the
sessions that the service drains, flush, close. SIGHUP reads the token file and the level of the log again; what is open
by a token that is gone ends.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from recado.errors import RecadoError
from recado.server.config import Config, ConfigError
from recado.server.control import Control
from recado.server.engine import Engine
from recado.server.gateway import Gateway
from recado.server.identity import is_loopback
from recado.server.listener import Listener, bind, tls_context
from recado.server.logs import configure_logs
from recado.server.sip import SipListener
from recado.server.tokens import Tokens

_log = logging.getLogger("recado.server")
DRAIN_SECONDS = 5.0
LOADING_OBJECTS = 100_000
"""So many new objects let the garbage collector begin while a service loads; almost all of them are to stay."""


class Server:
    """Use ``start``."""

    def __init__(self, gateway: Gateway, listener: Listener, reread: Callable[[], Config] | None) -> None:
        self.gateway, self.engine, self._listener = gateway, gateway.engine, listener
        self._reread = reread
        self._control = Control(gateway, token_path(gateway.config))
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
        tokens = open_tokens(config)
        tls_context(config.http)  # a bad certificate is told before anything is opened
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
        """Tokens and the level of the log, anew; if that fails everything stays as it was."""
        try:
            config = None if self._reread is None else self._reread()
            self.gateway.tokens.reload()
        except RecadoError as error:
            _log.error(
                "nothing was changed, because it could not be read again: %s", error
            )  # no traceback for a person
            return
        if config is not None:
            configure_logs(config.logging)
        self.gateway.polls.recheck(self.gateway.tokens)
        self._listener.recheck()
        if self._sip is not None:
            self._sip.recheck()
        _log.info("tokens and log level were read again", extra={"tokens": len(self.gateway.tokens)})

    async def drain(self) -> None:
        """Stop accepting, finish, tell everybody."""
        if self.gateway.draining:
            return
        self.gateway.draining = True
        _log.info("the service drains")
        await self._control.close()
        self.gateway.polls.close()
        if self._sip is not None:
            await self._sip.drain(DRAIN_SECONDS)
        await self._listener.drain(DRAIN_SECONDS)
        await self.gateway.close()


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


def make_folder(path: Path) -> None:
    """The data folder, for its owner alone; one that is there stays as it is."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise RecadoError(f"the data folder {path} cannot be made: there is a file of that name") from None
    except OSError as error:
        raise RecadoError(f"the data folder {path} cannot be made: {error.strerror}") from None


def token_path(config: Config) -> Path:
    """The token file: the configured one, else ``tokens`` in the data folder."""
    return Path(config.access.tokens) if config.access.tokens else Path(config.data) / "tokens"
