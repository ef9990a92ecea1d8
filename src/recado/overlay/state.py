"""What a machine persists, kept over crashes: one small SQLite file in the node's state folder.

Values are stored as MessagePack, so they come back as plain data: dicts, lists, strings, numbers. The file belongs to
one node by name, and one process has it open at a time. Beside the machine's values it has the ids of subscriptions
that are to outlive the process.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Protocol

import msgspec

from recado.overlay.errors import OverlayError

FILE = "state.db"


class State(Protocol):
    def load(self) -> dict[str, Any]: ...
    def put(self, key: str, value: Any) -> None:
        """Keep the value with the next commit; None forgets the key."""
        ...

    def kept(self) -> list[str]:
        """The subscriptions that are to be kept."""
        ...

    def keep(self, subscription: str, keep: bool) -> None: ...
    def commit(self) -> None: ...
    def close(self, *, commit: bool = True) -> None: ...


class NoState:
    """For a node without a state folder: nothing outlives the process."""

    def load(self) -> dict[str, Any]:
        return {}

    def put(self, key: str, value: Any) -> None:
        pass

    def kept(self) -> list[str]:
        return []

    def keep(self, subscription: str, keep: bool) -> None:
        pass

    def commit(self) -> None:
        pass

    def close(self, *, commit: bool = True) -> None:
        pass


class FileState:
    """``commit`` returns when all is on stable storage."""

    def __init__(self, folder: Path, node: str) -> None:
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._database = sqlite3.connect(path, timeout=0.0, isolation_level=None)
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("CREATE TABLE IF NOT EXISTS owner (node TEXT NOT NULL)")
            self._database.execute("CREATE TABLE IF NOT EXISTS saved (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
            self._database.execute("CREATE TABLE IF NOT EXISTS kept (subscription TEXT PRIMARY KEY)")
            self._claim(node, folder)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise OverlayError(f"the state folder {folder} is in use by another running node") from None
            raise OverlayError(f"the state file {path} cannot be opened: {error}") from None
        except (OSError, sqlite3.Error) as error:
            raise OverlayError(f"the state file {path} cannot be used: {error}") from None

    def _claim(self, node: str, folder: Path) -> None:
        row = self._database.execute("SELECT node FROM owner").fetchone()
        if row is None:
            self._database.execute("INSERT INTO owner VALUES (?)", (node,))
        elif row[0] != node:
            self._database.close()
            raise OverlayError(f"the state folder {folder} belongs to node {row[0]!r}, not to {node!r}")

    def load(self) -> dict[str, Any]:
        rows = self._database.execute("SELECT key, value FROM saved ORDER BY key")
        return {key: msgspec.msgpack.decode(value) for key, value in rows}

    def put(self, key: str, value: Any) -> None:
        self._begin()
        if value is None:
            self._database.execute("DELETE FROM saved WHERE key = ?", (key,))
        else:
            self._database.execute(
                "INSERT INTO saved VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, msgspec.msgpack.encode(value)),
            )

    def kept(self) -> list[str]:
        return [id for (id,) in self._database.execute("SELECT subscription FROM kept ORDER BY subscription")]

    def keep(self, subscription: str, keep: bool) -> None:
        self._begin()
        change = "INSERT OR IGNORE INTO kept VALUES (?)" if keep else "DELETE FROM kept WHERE subscription = ?"
        self._database.execute(change, (subscription,))

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN")

    def commit(self) -> None:
        if self._database.in_transaction:
            self._database.execute("COMMIT")

    def close(self, *, commit: bool = True) -> None:
        if commit:
            self.commit()
        self._database.close()
