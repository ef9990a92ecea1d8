"""How Recado opens SQLite files: durable, shared with readers, and possibly damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

DURABLE = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1", "journal_size_limit = 67108864")


class Connection(sqlite3.Connection):
    """SQLite tells of a damaged schema in the very bytes of it; ``sqlite3`` fails on those that are no text."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            damage = sqlite3.DatabaseError(f"the schema is damaged: {error}")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage from error


def open_database(
    path: Path, *, busy_seconds: float = 0.0, is_writable: bool = True, pragmas: Iterable[str] = ()
) -> Connection:
    """Open a file in autocommit mode, from any thread; a commit returns after its fsync (WAL, ``synchronous = FULL``).

    ``busy_seconds`` is how long a lock of another connection is waited for; ``pragmas`` come before all others. A file
    that is not writable must exist, and is opened as it is. Raises ``sqlite3.Error``, with the file closed again.
    """
    mode = "rwc" if is_writable else "ro"
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    try:
        for pragma in (*pragmas, *DURABLE) if is_writable else pragmas:
            db.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        db.close()
        raise
    return db


# --- Many rows in a few statements -----------------------------------------------------------------------------------
#
# ``sqlite3`` lets other threads run during every step of a statement and then has to get its turn again. Beside a busy
# thread, ``executemany`` waits like that once for each row, and a query once for each row that it gives. So rows are
# written some hundred to a statement.


COUNTS = tuple(1 << bit for bit in range(8, -1, -1))
"""So many rows have a statement of their own, which the connection keeps."""


def run_many(db: sqlite3.Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Execute a statement in which ``{}`` stands for rows of values: ``INSERT INTO t VALUES {}``."""
    left = list(rows)
    start = 0
    for count in COUNTS:
        while len(left) - start >= count:
            some = left[start : start + count]
            db.execute(_write_out(statement, count, len(some[0])), tuple(chain.from_iterable(some)))
            start += count


@cache
def _write_out(statement: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return statement.format(", ".join([row] * rows))
