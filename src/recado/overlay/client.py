"""Ask a running node, over its control socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from recado.overlay.errors import OverlayError

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class NodeClient:
    """One connection; requests one after another. Blocking, so that a command line or a test needs no event loop."""

    def __init__(self, path: Path, timeout_seconds: float | None = 30.0) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_seconds)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise OverlayError(f"no node answers at {path}: {error.strerror or error}") from None
        self._file = self._socket.makefile("rb")

    def ask(self, do: str, **fields: Any) -> Any:
        """The answer to one request; an OverlayError with the node's own words if it refuses."""
        try:
            with suppress(BrokenPipeError):  # the node closed early, and may have said why
                self._socket.sendall(_encode({"do": do, **fields}) + b"\n")
            line = self._file.readline()
        except OSError as error:
            raise OverlayError(f"the node at {self.path} does not answer: {error.strerror or error}") from None
        if not line:
            raise OverlayError(f"the node at {self.path} closed the connection")
        answer = _decode(line)
        if "error" in answer:
            raise OverlayError(answer["error"])
        return answer["ok"]

    def stream(self) -> Iterator[dict[str, Any]]:
        """After ``subscribe``: what the subscription brings, until the node ends."""
        self._socket.settimeout(None)
        for line in self._file:
            yield _decode(line)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> NodeClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def ask(path: Path, do: str, *, timeout_seconds: float = 30.0, **fields: Any) -> Any:
    """One request on a connection of its own."""
    with closing(NodeClient(path, timeout_seconds)) as client:
        return client.ask(do, **fields)
