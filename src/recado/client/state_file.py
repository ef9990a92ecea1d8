"""What a device keeps over a restart: its name, what it has seen, its subscriptions.

One JSON file, replaced as a whole, so that a reader finds the old one or the new one. Writing is gathered: what the
agent persists is on disk within a quarter of a second, and at the end of the session. A crash in between may let
the service repeat a notification that the application had finished in its last moments; it cannot lose one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from recado.client.errors import ClientError

_GATHER_SECONDS = 0.25


class StateFile:
    """``values`` are the agent's, by the keys of its Persist; ``device`` is the device's name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.device = ""
        self.values: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._read()

    def _read(self) -> None:
        try:
            content = msgspec.json.decode(self.path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            raise ClientError(f"the state file {self.path} cannot be read: {error}; remove it to begin anew") from None
        if not isinstance(content, dict) or not isinstance(content.get("values"), dict):
            raise ClientError(f"{self.path} is not a state file of the client; remove it or name another one")
        self.device, self.values = str(content.get("device", "")), content["values"]

    def put(self, key: str, value: Any) -> None:
        """Keep a value; None forgets the key."""
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self.write)

    def write(self) -> None:
        """Write the file now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        content = msgspec.json.encode({"device": self.device, "values": self.values})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())  # else a power cut could leave an empty file under the name
            Path(name).replace(self.path)
        except OSError as error:
            raise ClientError(f"the state file {self.path} cannot be written: {error}") from None
