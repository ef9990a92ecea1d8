"""The state in one SQLite file: WAL, ``synchronous=FULL``, a checksum a row.

Every write is one transaction of a ``Batch``; when it returns, it is on stable storage, and when it fails, nothing of
it is. An event that waits in many mailboxes is stored once, in ``held``, and goes with the last mail that needs it.

Opening looks at the write-ahead log before SQLite does (``recado.store.sqlite``), since SQLite passes over damage
there in silence. ``load`` checks the file and every row: damaged rows are set aside into the table ``damaged`` and
named, and the rest is used. A file that SQLite itself cannot read is set aside as a whole, and what can be read of it
is copied (``salvage``). The methods may be called from any thread, one at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recado.store.log.settings import LogError
from recado.store.sqlite import Connection, check_wal, run_many
from recado.store.state.reading import read_all
from recado.store.state.rows import (
    DISPATCHED,
    POSITION_BITS,
    Batch,
    Loaded,
    StateError,
    checksum,
    mail_checksum,
    number_key,
    packed,
    text_key,
)
from recado.store.state.salvage import salvage
from recado.store.state.schema import migrate

STATE_FILE = "state.sqlite"
FORGET_MAIL = "DELETE FROM mail WHERE (nid, box) IN (SELECT column1, column2 FROM (VALUES {}))"
FORGET_HELD = (
    "DELETE FROM held WHERE position IN (VALUES {}) AND NOT EXISTS "
    "(SELECT 1 FROM mail WHERE nid >= held.position << 20 AND nid < (held.position + 1) << 20)"
)
BUSY_SECONDS = 10.0
_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}


class StateStore:
    """The state of the service whose folder holds the file."""

    def __init__(self, folder: Path) -> None:
        """Open the file, or make it; ``set_aside`` tells what was wrong with one that had to be replaced."""
        self.path = folder / STATE_FILE
        self.set_aside: list[str] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_wal(Path(f"{self.path}-wal"))
            self._db = self._opened()
        except OSError as error:
            raise StateError(f"{folder} cannot be used for the state: {error.strerror or error}") from error
        except (LogError, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not _is_damage(error):
                raise self._failed("cannot be opened", error) from error
            self._replace(str(error))
        self.starts = int(self._db.execute("SELECT value FROM marks WHERE name = 'starts'").fetchone()[0])

    def _opened(self) -> sqlite3.Connection:
        db = connect(self.path)
        try:
            migrate(db, self.path)
            _count_start(db)
        except BaseException:
            db.close()
            raise
        return db

    def _replace(self, reason: str) -> None:
        """Set the file aside and go on with what can be read of it."""
        aside, rows = salvage(self.path)
        self._db = self._opened()
        self.set_aside = [f"{self.path.name} is damaged ({reason}); it was set aside as {aside.name}", *rows.lost]
        with self._transaction():
            for statement, values in rows.inserts:
                self._db.executemany(statement, values)
            _count_start(self._db)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failed("cannot be written", error) from error

    def _failed(self, what: str, error: sqlite3.Error) -> StateError:
        return StateError(f"{self.path} {what}: {error}", _is_passing(error))

    # -- reading -------------------------------------------------------------------------------------------------------

    def load(self) -> Loaded:
        """Check the file and read everything."""
        try:
            wrong = [row[0].decode(errors="replace") for row in self._db.execute("PRAGMA quick_check(10)")]
        except sqlite3.DatabaseError as error:
            wrong = [str(error)]
        if wrong != ["ok"]:
            self._db.close()
            self._replace("; ".join(wrong))
        try:
            loaded = read_all(self._db)
        except sqlite3.Error as error:
            raise self._failed("cannot be read", error) from error
        loaded.damage[:0] = self.set_aside
        return loaded

    def values(self, space: str) -> dict[str, bytes]:
        """The intact values of a space."""
        found = {}
        for key, body, check in self._db.execute("SELECT key, body, checksum FROM kept WHERE space = ?", (space,)):
            name = key.decode(errors="replace")
            if type(body) is bytes and checksum("kept", text_key(space, name), body) == check:
                found[name] = body
        return found

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        """All of the batch, or an error and nothing of it."""
        with self._transaction():
            self._write_mail(batch)
            self._write_rows(batch)
            if batch.dispatched is not None:
                for name in DISPATCHED:
                    _mark(self._db, name, batch.dispatched)

    def _write_mail(self, batch: Batch) -> None:
        self._put("boxes", ((row.number, number_key(row.number), packed(row)) for row in batch.boxes))
        held = ((p, event, checksum("held", number_key(p), event)) for p, event in batch.held.items())
        run_many(self._db, "INSERT OR IGNORE INTO held VALUES {}", held)
        mail = ((n, b, at, s.encode(), mail_checksum(n, b, at, s.encode())) for n, b, at, s in batch.mail)
        run_many(self._db, "INSERT OR REPLACE INTO mail VALUES {}", mail)
        if batch.gone:
            run_many(self._db, FORGET_MAIL, batch.gone)
            positions = sorted({nid >> POSITION_BITS for nid, _ in batch.gone})
            run_many(self._db, FORGET_HELD, ((position,) for position in positions))
        self._drop("boxes", "number", batch.forget_boxes)

    def _write_rows(self, batch: Batch) -> None:
        self._put("subscriptions", ((row.serial, number_key(row.serial), packed(row)) for row in batch.subscriptions))
        self._put("notices", ((row.id, number_key(row.id), packed(row)) for row in batch.notices))
        devices = ((text_key(row.user, row.device), packed(row)) for row in batch.devices)
        self._put("devices", ((key, key, body) for key, body in devices))
        self._drop("subscriptions", "serial", batch.forget_subscriptions)
        self._drop("notices", "id", batch.forget_notices)
        self._drop("devices", "key", [text_key(*names) for names in batch.forget_devices])
        for (space, key), body in batch.values.items():
            if body is None:
                self._db.execute("DELETE FROM kept WHERE space = ? AND key = ?", (space, key))
            else:
                row = (space, key, body, checksum("kept", text_key(space, key), body))
                self._db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", row)

    def _put(self, table: str, rows: Iterable[tuple[int | bytes, bytes, bytes]]) -> None:
        statement = f"INSERT OR REPLACE INTO {table} VALUES {{}}"  # noqa: S608  # the name is ours
        run_many(self._db, statement, ((key, body, checksum(table, raw, body)) for key, raw, body in rows))

    def _drop(self, table: str, column: str, keys: Iterable[int | bytes]) -> None:
        statement = f"DELETE FROM {table} WHERE {column} IN (VALUES {{}})"  # noqa: S608  # the names are ours
        run_many(self._db, statement, ((key,) for key in keys))


def connect(path: Path) -> sqlite3.Connection:
    """The file, as it is always opened."""
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=Connection)
    db.text_factory = bytes  # a damaged text need not be UTF-8
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1", "journal_size_limit = 67108864"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    return db


def _count_start(db: sqlite3.Connection) -> None:
    """Count how often the state was opened, this time included."""
    row = db.execute("SELECT value FROM marks WHERE name = 'starts'").fetchone()
    _mark(db, "starts", (row[0] if row and type(row[0]) is int else 0) + 1)


def _mark(db: sqlite3.Connection, name: str, value: int) -> None:
    row = (name, value, checksum("marks", name.encode(), number_key(value)))
    db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", row)


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _is_passing(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING
