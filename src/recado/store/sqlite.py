"""How Recado opens SQLite files: durable, shared with readers, and possibly damaged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from recado.files import PRIVATE, sync_path

Statement: TypeAlias = tuple[str, Sequence[Any]]
"""SQL, and the values of its parameters."""
DURABLE = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1", "journal_size_limit = 67108864")


class Connection(sqlite3.Connection):
    """SQLite tells of a damaged schema in the very bytes of it; ``sqlite3`` fails on those that are no text."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            raise _damage(error) from error

    def write(self, statements: Iterable[Statement], fail: Callable[[str, sqlite3.Error], Exception]) -> None:
        """All of the statements in one transaction, or nothing; what SQLite raises becomes what ``fail`` makes of it.

        They are asked for inside the transaction, one after the other, so whoever makes them may look at what is
        there, and raise an error of its own if nothing is to be written.
        """
        execute = super().execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                for statement, values in statements:
                    execute(statement, values)
                execute("COMMIT")
            except BaseException:
                if self.in_transaction:
                    execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise fail("cannot be written", error) from error
        except UnicodeDecodeError as error:
            raise fail("cannot be written", _damage(error)) from error


def _damage(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    damage = sqlite3.DatabaseError(f"the schema is damaged: {error}")
    damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return damage


def make_private(path: Path) -> None:
    """Make an empty file, which is an empty database, for its owner alone; one that is there stays as it is.

    What goes wrong is left to SQLite to tell.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


def open_database(
    path: Path, *, busy_seconds: float = 0.0, is_writable: bool = True, pragmas: Iterable[str] = ()
) -> Connection:
    """Open a file in autocommit mode, from any thread; a commit returns after its fsync (WAL, ``synchronous = FULL``).

    ``busy_seconds`` is how long a lock of another connection is waited for; ``pragmas`` come before all others. A file
    that is not writable must exist, and is opened as it is. A new one is its owner's alone, and so are the files that
    SQLite puts beside it. Raises ``sqlite3.Error``, with the file closed again.
    """
    mode = "rwc" if is_writable else "ro"
    if is_writable:
        make_private(path)
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


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Put all that the source has at one moment into a new file of its owner's, whole and on stable storage.

    The file stands alone: SQLite needs no other beside it. Raises ``sqlite3.Error`` or OSError.
    """
    make_private(target)
    copy = sqlite3.connect(target)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        copy.close()
    sync_path(target)


# --- Many rows in a few statements -----------------------------------------------------------------------------------
#
# ``sqlite3`` lets other threads run during every step of a statement and then has to get its turn again. Beside a busy
# thread, ``executemany`` waits like that once for each row, and a query once for each row that it gives. So rows are
# written some hundred to a statement.


COUNTS = tuple(1 << bit for bit in range(8, -1, -1))
"""So many rows have a statement of their own, which the connection keeps."""


def for_rows(statement: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[Statement]:
    """A statement in which ``{}`` stands for rows of values, ``INSERT INTO t VALUES {}``, for all of these rows."""
    left = list(rows)
    start = 0
    for count in COUNTS:
        while len(left) - start >= count:
            some = left[start : start + count]
            yield _write_out(statement, count, len(some[0])), tuple(chain.from_iterable(some))
            start += count


@cache
def _write_out(statement: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return statement.format(", ".join([row] * rows))
