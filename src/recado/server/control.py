"""The control socket of a running service: what only the owner of the data folder may ask.

It is a Unix socket in the data folder, for its owner alone (mode 0600), so whoever may read the data may use it and
nobody else. A request is a JSON object on one line, and so is the answer. Requests are ``backup`` and ``tokens``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.server.gateway import LETTERS, Gateway

NAME = "control.sock"
_LONGEST = 8_192
_LONGEST_PATH = 100
_SECONDS = 600
_log = logging.getLogger("recado.server")
_CREDENTIALS = struct.Struct("3i")  # process, user and group


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """One of the two: a copy to this folder, or the tokens read again."""

    backup: str = ""
    tokens: bool = False


class Answer(msgspec.Struct):
    error: str = ""


class ControlError(RecadoError):
    """A control socket that cannot be used."""


class Control:
    """The socket's side of the service."""

    def __init__(self, gateway: Gateway, tokens: Path, reload_tokens: Callable[[], None]) -> None:
        self._gateway, self._tokens, self._reload_tokens = gateway, tokens, reload_tokens
        self._path = Path(gateway.config.data) / NAME
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        before = os.umask(0o177)
        try:
            self._path.unlink(missing_ok=True)  # the folder is locked by this process, so it is a leftover
            with _address(self._path) as address:
                self._server = await asyncio.start_unix_server(self._serve, address, limit=_LONGEST)
        except OSError as error:
            raise ControlError(f"the control socket {self._path} cannot be made: {error}") from None
        finally:
            os.umask(before)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = msgspec.json.decode(await reader.readline(), type=Request)
            self._gateway.audit.note(None, _caller(writer), "control", "tokens" if request.tokens else "backup")
            if request.tokens:
                self._reload_tokens()
            else:
                await self.back_up(Path(request.backup))
            answer = Answer()
        except (RecadoError, msgspec.DecodeError, ValueError) as error:
            answer = Answer(str(error))
        except Exception:  # noqa: BLE001  # whoever asks gets an answer, and the log the reason
            _log.exception("a request of the folder's owner failed in a way that nobody foresaw")
            answer = Answer("the service failed; its log says why")
        with suppress(ConnectionError):
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()

    async def back_up(self, target: Path) -> None:
        """Everything in the data folder, as of one moment."""
        await back_up(self._gateway, self._tokens, target)


async def back_up(gateway: Gateway, tokens: Path, target: Path) -> None:
    """The engine's files, the dead letters and the tokens, to a new folder."""
    await gateway.engine.backup(target)
    try:
        target.chmod(0o700)  # it holds what the data folder holds
        gateway.letters.copy(target / LETTERS)
        if tokens.exists():
            shutil.copy2(tokens, target / "tokens")  # with its mode
    except (OSError, sqlite3.Error) as error:
        raise RecadoError(f"the backup to {target} is not whole: {error}") from None


def _caller(writer: asyncio.StreamWriter) -> str:
    """Which user of this machine asks."""
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return f"user {_CREDENTIALS.unpack(credentials)[1]} of this machine"


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Where the socket is. The system takes short paths only, so a long one is told by its open folder."""
    if len(os.fsencode(path)) < _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def ask(data: Path, request: Request) -> bool:
    """Let the service that runs on a data folder do something; False if none runs. An error says what failed."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        try:
            with _address(data / NAME) as address:
                connection.connect(address)
        except OSError:
            return False
        line = b""
        with suppress(ConnectionError), connection.makefile("rb") as answers:
            connection.sendall(msgspec.json.encode(request) + b"\n")
            line = answers.readline()
    if not line:
        raise ControlError("the service ended before it answered; nothing is known of what was asked of it")
    answer = msgspec.json.decode(line, type=Answer)
    if answer.error:
        raise ControlError(answer.error)
    return True


def service_pid(data: Path) -> int | None:
    """The process that serves a data folder, as far as this user may know; None if none does."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            with _address(data / NAME) as address:
                connection.connect(address)
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    return int(_CREDENTIALS.unpack(credentials)[0])
