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

from recado.overlay.limits import OverlayError
from recado.store.sqlite import open_database

FILE = "state.db"


class State(Protocol):
    def load(self) -> dict[str, Any]: ...
    def put(self, key: str, value: Any) -> None:
        """Keep the value with the next commit; None forgets the key."""
        ...

    def kept_subscriptions(self) -> list[str]:
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

    def kept_subscriptions(self) -> list[str]:
        return []

    def keep(self, subscription: str, keep: bool) -> None:
        pass

    def commit(self) -> None:
        pass

    def close(self, *, commit: bool = True) -> None:
        pass


class FileState:
    """``commit`` returns when all is on stable storage; before it nothing is written, so only it can fail."""

    def __init__(self, folder: Path, node: str) -> None:
        path = folder / FILE
        self._changes: list[tuple[str, tuple[Any, ...]]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                path.touch()
        except OSError as error:
            raise OverlayError(f"the state file {path} cannot be opened: {error}") from None
        database: sqlite3.Connection | None = None
        try:
            database = self._database = open_database(path, pragmas=["locking_mode = EXCLUSIVE"])
            self._open(node, folder)
            self._read()
        except BaseException as error:
            if database is not None:
                database.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise OverlayError(f"the state folder {folder} is in use by another running node") from None
            if isinstance(error, sqlite3.OperationalError) and "unable to open" in str(error):
                raise OverlayError(f"the state file {path} cannot be opened: {error}") from None
            if not isinstance(error, sqlite3.Error | msgspec.DecodeError | UnicodeDecodeError):
                raise
            raise OverlayError(
                f"the state file {path} cannot be used: {error}; if it is damaged, take it away, "
                "and the node begins without subscriptions and published types"
            ) from None

    def _open(self, node: str, folder: Path) -> None:
        self._database.execute("CREATE TABLE IF NOT EXISTS owner (node TEXT NOT NULL)")
        self._database.execute("CREATE TABLE IF NOT EXISTS saved (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
        self._database.execute("CREATE TABLE IF NOT EXISTS kept (subscription TEXT PRIMARY KEY)")
        self._claim(node, folder)

    def _claim(self, node: str, folder: Path) -> None:
        row = self._database.execute("SELECT node FROM owner").fetchone()
        if row is None:
            self._database.execute("INSERT INTO owner VALUES (?)", (node,))
        elif row[0] != node:
            raise OverlayError(f"the state folder {folder} belongs to node {row[0]!r}, not to {node!r}")

    def _read(self) -> None:
        rows = self._database.execute("SELECT key, value FROM saved ORDER BY key")
        self._saved = {key: msgspec.msgpack.decode(value) for key, value in rows}
        kept = self._database.execute("SELECT subscription FROM kept ORDER BY subscription")
        self._kept = {id: None for (id,) in kept}

    def load(self) -> dict[str, Any]:
        return self._saved

    def put(self, key: str, value: Any) -> None:
        if value is None:
            self._changes.append(("DELETE FROM saved WHERE key = ?", (key,)))
        else:
            self._changes.append(("INSERT OR REPLACE INTO saved VALUES (?, ?)", (key, msgspec.msgpack.encode(value))))

    def kept_subscriptions(self) -> list[str]:
        return list(self._kept)

    def keep(self, subscription: str, keep: bool) -> None:
        if keep == (subscription in self._kept):
            return
        if keep:
            self._kept[subscription] = None
        else:
            del self._kept[subscription]
        change = "INSERT OR IGNORE INTO kept VALUES (?)" if keep else "DELETE FROM kept WHERE subscription = ?"
        self._changes.append((change, (subscription,)))

    def commit(self) -> None:
        if not self._changes:
            return
        self._database.execute("BEGIN")
        for change, values in self._changes:
            self._database.execute(change, values)
        self._database.execute("COMMIT")
        self._changes.clear()

    def close(self, *, commit: bool = True) -> None:
        if commit:
            self.commit()
        self._database.close()
