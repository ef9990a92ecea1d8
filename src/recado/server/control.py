"""The control socket of a running service: what only the owner of the data folder may ask.

It is a Unix socket in the data folder, for its owner alone (mode 0600), so whoever may read the data may use it and
nobody else. A request is a JSON object on one line, and so is the answer. Today there is one request, ``backup``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.server.gateway import LETTERS, Gateway

NAME = "control.sock"
_LONGEST = 8_192
_LONGEST_PATH = 100
_SECONDS = 600


class Request(msgspec.Struct, forbid_unknown_fields=True):
    backup: str


class Answer(msgspec.Struct):
    error: str = ""


class ControlError(RecadoError):
    """A control socket that cannot be used."""


class Control:
    """The socket's side of the service."""

    def __init__(self, gateway: Gateway, tokens: Path) -> None:
        self._gateway, self._tokens = gateway, tokens
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
            await self.back_up(Path(request.backup))
            answer = Answer()
        except (RecadoError, msgspec.DecodeError, ValueError) as error:
            answer = Answer(str(error))
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
        with closing(sqlite3.connect(target / LETTERS)) as copy:
            gateway.letters.copy(copy)
        if tokens.exists():
            shutil.copy2(tokens, target / "tokens")  # with its mode
    except (OSError, sqlite3.Error) as error:
        raise RecadoError(f"the backup to {target} is not whole: {error}") from None


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
        connection.sendall(msgspec.json.encode(request) + b"\n")
        with connection.makefile("rb") as answers:
            answer = msgspec.json.decode(answers.readline(), type=Answer)
    if answer.error:
        raise ControlError(answer.error)
    return True
