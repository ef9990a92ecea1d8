"""The state in one SQLite file: WAL, ``synchronous=FULL``, a checksum a row.

Every write is one transaction of a ``Batch``; when it returns, it is on stable storage, and when it fails, nothing of
it is. An event that waits in many mailboxes is stored once, in ``held``, and goes with the last mail that needs it.

Opening looks at the write-ahead log before SQLite does (``recado.store.wal``), since SQLite passes over damage
there in silence. ``load`` checks the file and every row: damaged rows are set aside into the table ``damaged`` and
named, and the rest is used. A file that SQLite itself cannot read is set aside as a whole, and what can be read of it
is copied (``salvage``). The methods may be called from any thread, one at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from recado import files
from recado.broker.persistence import KINDS, Batch, Key, Kind, Loaded, Row
from recado.broker.state import ORDINAL_BITS
from recado.store.protocols import FencedError
from recado.store.sqlite import Connection, Statement, copy_database, for_rows, open_database
from recado.store.state.rows import (
    DISPATCHED,
    StateError,
    checksum,
    column_value,
    key_bytes,
    notification_checksum,
    number_key,
    packed,
    read_all,
    text_key,
)
from recado.store.wal import wal_damage

# --- The tables, by version. A file of an older version is brought to the newest, step by step, in one transaction
#
# ``PRAGMA user_version`` has the version. A file of a newer one is refused: what it means is not known here.


STEPS: tuple[tuple[str, ...], ...] = (
    (  # 1
        "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE subscriptions (serial INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum BLOB NOT NULL)",
        "CREATE TABLE boxes (number INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum BLOB NOT NULL)",
        """CREATE TABLE mail (
            nid INTEGER, box INTEGER, at INTEGER NOT NULL, sub_id BLOB NOT NULL, checksum BLOB NOT NULL,
            PRIMARY KEY (nid, box)
        ) WITHOUT ROWID""",
        "CREATE TABLE held (position INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum BLOB NOT NULL)",
        "CREATE TABLE notices (id INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum BLOB NOT NULL)",
        "CREATE TABLE devices (key BLOB PRIMARY KEY, body BLOB NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID",
    ),
    (  # 2: what other parts of a service keep, and rows that were found damaged
        """CREATE TABLE kept (
            space TEXT, key TEXT, body BLOB NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (space, key)
        ) WITHOUT ROWID""",
        "CREATE TABLE damaged (source TEXT NOT NULL, key TEXT NOT NULL, content TEXT NOT NULL)",
    ),
)
VERSION = len(STEPS)


def migrate(db: sqlite3.Connection, path: Path, version: int = VERSION) -> None:
    """Bring the file to a version; an error leaves it as it was."""
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > version:
        raise StateError(f"{path} has version {found} of the state; this version of Recado knows {version} at most")
    if found == version:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[found:version]:
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


# --- A copy of the state while it is in use, through SQLite's backup interface: the state of one moment --------------


def copy_state(path: Path, target: Path) -> None:
    """Copy a state file to a new file, whole and on stable storage."""
    if target.exists():
        raise StateError(f"{target} exists already; a backup goes into a new folder")
    try:
        source = open_database(path, is_writable=False)
        try:
            copy_database(source, target)
        finally:
            source.close()
    except sqlite3.Error as error:
        raise StateError(f"{path} cannot be copied to {target}: {error}") from error
    files.sync_folder(target.parent)


# --- A file that SQLite cannot read as a whole: set it aside, and read around the damage what can be read ------------
#
# Rows are read forwards from the beginning and backwards from the end of each table, until SQLite stumbles. Checksums
# are looked at later, when the new file is loaded as any other.


_TABLES = {
    "marks": "name",
    **{kind.table: kind.column for kind in KINDS},
    "mail": "nid",
    "held": "position",
    "kept": "space, key",
}
_SUFFIXES = ("", "-wal", "-shm")


class Salvaged(msgspec.Struct):
    """Statements that put back what was read, with their rows, and the tables of which something is lost."""

    inserts: list[tuple[str, list[Any]]] = []
    lost: list[str] = []


def salvage(path: Path) -> tuple[Path, Salvaged]:
    """Set the file aside; its new name, and what could be read of it."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    for suffix in _SUFFIXES:
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{aside}{suffix}")
    found = Salvaged([], [])
    try:
        db = open_database(aside, is_writable=False)
        db.text_factory = bytes
    except sqlite3.Error as error:
        found.lost.append(f"nothing of it can be read: {error}")
        return aside, found
    for table, key in _TABLES.items():
        _read_around(db, table, key, found)
    db.close()
    return aside, found


def _read_around(db: sqlite3.Connection, table: str, key: str, found: Salvaged) -> None:
    rows: dict[Any, Any] = {}
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{column} {direction}" for column in key.split(", "))
        try:
            for row in db.execute(f"SELECT * FROM {table} ORDER BY {order}"):  # noqa: S608  # the names are ours
                rows[row[: 2 if table in ("mail", "kept") else 1]] = row
        except sqlite3.Error as error:
            if direction == "DESC" or not rows:
                found.lost.append(f"rows of {table} are lost: {error}")
        else:
            break
    if rows:
        statement = f"INSERT OR REPLACE INTO {table} VALUES {{}}"  # noqa: S608  # ours
        found.inserts.append((statement, [_texts(row, table) for row in rows.values()]))


def _texts(row: tuple[Any, ...], table: str) -> tuple[Any, ...]:
    """Names were read as bytes, since damaged ones need not be UTF-8."""
    names = {"marks": 1, "kept": 2}.get(table, 0)
    return tuple(
        value.decode(errors="replace") if column < names and type(value) is bytes else value
        for column, value in enumerate(row)
    )


# --- The state in one SQLite file: WAL, ``synchronous=FULL``, a checksum a row ---------------------------------------

STATE_FILE = "state.sqlite"
FORGET_MAIL = "DELETE FROM mail WHERE (nid, box) IN (SELECT column1, column2 FROM (VALUES {}))"
FORGET_HELD = (
    "DELETE FROM held WHERE position IN (VALUES {}) AND NOT EXISTS "
    "(SELECT 1 FROM mail WHERE nid >= held.position << 20 AND nid < (held.position + 1) << 20)"
)
BUSY_SECONDS = 10.0
_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}


class SqliteStateStore:
    """The state of the service whose folder holds the file: a ``recado.store.protocols.StateStore``."""

    def __init__(self, folder: Path) -> None:
        """Open the file, or make it; ``set_aside`` tells what was wrong with one that had to be replaced."""
        self.path = folder / STATE_FILE
        self.set_aside: list[str] = []
        try:
            folder.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
            if damage := wal_damage(Path(f"{self.path}-wal")):
                self._replace(damage)
            else:
                self._db = self._open()
        except OSError as error:
            raise StateError(f"{folder} cannot be used for the state: {error.strerror or error}") from error
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._fail("cannot be opened", error) from error
            self._replace(str(error))
        self.starts = _starts(self._db)

    def _open(self) -> Connection:
        db = connect(self.path)
        try:
            migrate(db, self.path)
            _make_tables(db)
            db.execute(*_count_start(db))
        except BaseException:
            db.close()
            raise
        return db

    def _replace(self, reason: str) -> None:
        """Set the file aside and go on with what can be read of it."""
        aside, rows = salvage(self.path)
        self._db = self._open()
        self.set_aside = [f"{self.path.name} is damaged ({reason}); it was set aside as {aside.name}", *rows.lost]
        self._db.write(self._put_back(rows), self._fail)
        self.starts = _starts(self._db)

    def _put_back(self, rows: Salvaged) -> Iterator[Statement]:
        for statement, values in rows.inserts:
            yield from for_rows(statement, values)
        yield _count_start(self._db)

    def close(self) -> None:
        self._db.close()

    def _fail(self, what: str, error: sqlite3.Error) -> StateError:
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
            raise self._fail("cannot be read", error) from error
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
        """All of the batch, or an error and nothing of it; FencedError if the state was opened again since."""
        self._db.write(self._statements(batch), self._fail)

    def _statements(self, batch: Batch) -> Iterator[Statement]:
        if _starts(self._db) != self.starts:
            raise FencedError(f"{self.path} was opened by another process; this one writes to it no more")
        for kind in KINDS:
            yield from _put(kind, batch.rows.get(kind.table, ()))
        yield from _put_notifications(batch)
        for kind in KINDS:
            yield from _forget(kind, batch.forgotten.get(kind.table, ()))
        yield from _put_values(batch)
        if batch.dispatched is not None:
            for name in DISPATCHED:
                yield _mark(name, batch.dispatched)


def _put(kind: Kind, rows: Iterable[Row]) -> Iterator[Statement]:
    statement = f"INSERT OR REPLACE INTO {kind.table} VALUES {{}}"  # noqa: S608  # the name is ours
    keyed = ((column_value(kind.key_of(row)), packed(row)) for row in rows)
    return for_rows(statement, ((key, body, checksum(kind.table, key_bytes(key), body)) for key, body in keyed))


def _forget(kind: Kind, keys: Iterable[Key]) -> Iterator[Statement]:
    statement = f"DELETE FROM {kind.table} WHERE {kind.column} IN (VALUES {{}})"  # noqa: S608  # the names are ours
    return for_rows(statement, ((column_value(key),) for key in keys))


def _put_notifications(batch: Batch) -> Iterator[Statement]:
    events = ((p, event, checksum("held", number_key(p), event)) for p, event in batch.events.items())
    yield from for_rows("INSERT OR IGNORE INTO held VALUES {}", events)
    rows = ((n, b, at, s.encode(), notification_checksum(n, b, at, s.encode())) for n, b, at, s in batch.notifications)
    yield from for_rows("INSERT OR REPLACE INTO mail VALUES {}", rows)
    if batch.gone:
        yield from for_rows(FORGET_MAIL, batch.gone)
        positions = sorted({nid >> ORDINAL_BITS for nid, _ in batch.gone})
        yield from for_rows(FORGET_HELD, ((position,) for position in positions))


def _put_values(batch: Batch) -> Iterator[Statement]:
    for (space, key), body in batch.values.items():
        if body is None:
            yield "DELETE FROM kept WHERE space = ? AND key = ?", (space, key)
        else:
            row = (space, key, body, checksum("kept", text_key(space, key), body))
            yield "INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", row


def connect(path: Path) -> Connection:
    """The file, as it is always opened."""
    db = open_database(path, busy_seconds=BUSY_SECONDS)
    db.text_factory = bytes  # a damaged text need not be UTF-8
    return db


def _make_tables(db: sqlite3.Connection) -> None:
    """A table for every kind of thing that has none yet."""
    for kind in KINDS:
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {kind.table} "
            f"({kind.column} PRIMARY KEY, body BLOB NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID"
        )


def _starts(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT value FROM marks WHERE name = 'starts'").fetchone()[0])


def _count_start(db: sqlite3.Connection) -> Statement:
    """What counts how often the state was opened, this time included."""
    row = db.execute("SELECT value FROM marks WHERE name = 'starts'").fetchone()
    return _mark("starts", (row[0] if row and type(row[0]) is int else 0) + 1)


def _mark(name: str, value: int) -> Statement:
    row = (name, value, checksum("marks", name.encode(), number_key(value)))
    return "INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", row


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _is_passing(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING
