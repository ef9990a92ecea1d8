"""The hot tail: the newest rows, in one SQLite database.

WAL with ``synchronous=FULL``: a commit returns after its fsync, and readers in any process see whole commits. The one
row of ``state`` has the log's identity and the next position, so that rows that vanish from the end are missed, and
the numbering goes on although the tail is empty. Nothing that comes out of the file is believed without its checksum.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from recado.store.log.rows import Row, is_intact, state_checksum
from recado.store.log.settings import BusyError, LogError
from recado.store.sqlite import copy_database, for_rows, open_database

# --- Rows of the tail in one step of SQLite (see ``recado.store.sqlite`` for why): each column as one text, cut up
# here
#
# It only believes what is as it should be, each row by its checksum. At anything else it gives up, and the rows are
# read one by one to find out what is wrong.


_RANGE = "FROM (SELECT * FROM tail WHERE position >= ? AND position < ? ORDER BY position)"
_TEXTS = ("id", "type", "source", "event")
_SIZE = f"SELECT total(length(event)) {_RANGE}"
_QUERY = f"""
    SELECT group_concat(position), group_concat(accepted_at), group_concat(ifnull(time, '')),
        group_concat(hex(checksum), ''),
        {", ".join(f"group_concat(length({name})), group_concat({name}, '')" for name in _TEXTS)}
    {_RANGE}
"""


def read_together(db: sqlite3.Connection, start: int, stop: int, most_bytes: int) -> list[Row] | None:
    """The rows of ``[start, stop)``, which have fewer than ``most_bytes`` of events; None if they have to be read one
    by one.
    """
    if db.execute(_SIZE, (start, stop)).fetchone()[0] >= most_bytes:
        return None
    found = db.execute(_QUERY, (start, stop)).fetchone()
    if found[0] is None:
        return []
    try:
        return _cut(found)
    except (ValueError, TypeError, AttributeError):
        return None


def _cut(found: tuple[bytes, ...]) -> list[Row] | None:
    positions, accepted, times, checksums, *texts = found
    columns = [_pieces(lengths, joined) for lengths, joined in zip(texts[::2], texts[1::2], strict=True)]
    joined = bytes.fromhex(checksums.decode())
    checks = [joined[at : at + 8] for at in range(0, len(joined), 8)]
    rows: list[Row] = list(
        zip(
            map(int, positions.split(b",")),
            map(int, accepted.split(b",")),
            [int(time) if time else None for time in times.split(b",")],
            *columns,
            checks,
            strict=True,
        )
    )
    return rows if all(map(is_intact, rows)) else None


def _pieces(lengths: bytes, joined: bytes) -> list[bytes]:
    pieces, start = [], 0
    for length in lengths.split(b","):
        stop = start + int(length)
        pieces.append(joined[start:stop])
        start = stop
    return pieces


# --- The hot tail: the newest rows, in one SQLite database -----------------------------------------------------------

PIECE_BYTES = 16 * 1024 * 1024
"""A piece of the tail is cut when it has so many bytes of events."""

DELETE_ROWS = 1_000
WAL_PAGES = 4_000
"""A commit that finds a longer write-ahead log moves it into the database; ``checkpoint`` does it before."""

_PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
}
"""Errors that say nothing about the file."""

_CREATE = """
CREATE TABLE tail (
    position INTEGER PRIMARY KEY, accepted_at INTEGER NOT NULL, time INTEGER,
    id BLOB NOT NULL, type BLOB NOT NULL, source BLOB NOT NULL, event BLOB NOT NULL, checksum BLOB NOT NULL
);
CREATE TABLE state (
    one INTEGER PRIMARY KEY, log BLOB NOT NULL, next INTEGER NOT NULL, checksum BLOB NOT NULL
);
"""


_DELETE = """
DELETE FROM tail WHERE position <= (
    SELECT max(position) FROM (SELECT position FROM tail WHERE position < ? ORDER BY position LIMIT ?)
)
"""


class State(NamedTuple):
    log: str
    next: int


class Found(NamedTuple):
    """Rows of the tail as one moment saw them; ``reasons`` tells why a position in between is not among them."""

    rows: list[Row]
    reasons: dict[int, str]
    reached: int  # every position before this one was looked for


class Tail:
    """One connection. A writer's is kept; a reader opens one for each piece, so that it holds no lock in between."""

    def __init__(self, path: Path, *, writable: bool, busy_seconds: float) -> None:
        self.path = path
        checkpoints = (f"wal_autocheckpoint = {WAL_PAGES}",) if writable else ()
        try:
            self._db = open_database(path, busy_seconds=busy_seconds, is_writable=writable, pragmas=checkpoints)
        except sqlite3.Error as error:
            raise self._fail("cannot be opened", error) from error
        self._db.text_factory = bytes  # a damaged text need not be UTF-8

    def _fail(self, what: str, error: sqlite3.Error) -> LogError:
        passing = getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING
        return (BusyError if passing else LogError)(f"{self.path} {what}: {error}")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing -------------------------------------------------------------------------------------------------------

    def create(self, log: str, next_position: int) -> None:
        """Make the tables, in one transaction."""
        row = log.encode(), next_position, state_checksum(log, next_position)
        tables = [(statement, ()) for statement in _CREATE.split(";")]
        self._db.write([*tables, ("INSERT INTO state VALUES (1, ?, ?, ?)", row)], self._fail)

    def append(self, rows: Sequence[Row], state: State) -> None:
        """Store the rows and the state that follows them: all of it, or an error and nothing."""
        inserts = for_rows("INSERT INTO tail VALUES {}", rows)
        update = "UPDATE state SET next = ?, checksum = ? WHERE one = 1", (state.next, state_checksum(*state))
        self._db.write(chain(inserts, [update]), self._fail)

    def delete_before(self, position: int) -> bool:
        """Delete sealed rows, at most DELETE_ROWS of them, so that nobody waits long; True if there may be more."""
        before = self._db.total_changes
        self._db.write([(_DELETE, (position, DELETE_ROWS))], self._fail)
        return self._db.total_changes > before

    def checkpoint(self) -> None:
        """Move what is in the write-ahead log into the database, without keeping a writer waiting."""
        self._query("PRAGMA wal_checkpoint(PASSIVE)")

    def copy(self, target: Path) -> None:
        """A copy of the tail as it is at one moment, in a new file."""
        try:
            copy_database(self._db, target)
        except sqlite3.Error as error:
            raise self._fail("cannot be copied", error) from error

    # -- reading -------------------------------------------------------------------------------------------------------

    def is_empty_file(self) -> bool:
        """Was the database never filled? That is how a crash during the creation of a log leaves it."""
        return not self._query("SELECT 1 FROM sqlite_schema")

    def state(self) -> State:
        """The state; a LogError if it is damaged."""
        rows = self._query("SELECT log, next, checksum FROM state")
        if len(rows) == 1:
            log, next_position, checksum = rows[0]
            if type(log) is bytes and type(next_position) is int and log.isascii():
                state = State(log.decode(), next_position)
                if state_checksum(*state) == checksum:
                    return state
        raise LogError(f"{self.path}: the row of the table state, which has the log's end, is damaged")

    def end(self, log: str, least: int) -> int:
        """The end of the log, which is known to reach to ``least``; a LogError if the state does not fit that."""
        state = self.state()
        if state.log != log:
            raise LogError(f"{self.path} belongs to the log {state.log}, the manifest to the log {log}")
        if state.next < least:
            raise LogError(f"{self.path} ends at position {state.next:,}, but there is a later one, {least - 1:,}")
        return state.next

    def has(self, position: int) -> bool:
        """Is there a row with the position, intact or not?"""
        return bool(self._query("SELECT 1 FROM tail WHERE position = ?", position))

    def bytes_from(self, position: int) -> int:
        """Bytes of the events from a position on: unchecked, for bookkeeping."""
        return int(self._query("SELECT total(length(event)) FROM tail WHERE position >= ?", position)[0][0])

    def first(self) -> int | None:
        """The position of the first intact row."""
        row = self._first_intact("SELECT * FROM tail ORDER BY position")
        return None if row is None else row[0]

    def last(self) -> Row | None:
        """The last intact row, whatever the state says."""
        return self._first_intact("SELECT * FROM tail ORDER BY position DESC")

    def _first_intact(self, query: str) -> Row | None:
        try:
            return next((row for row in self._db.execute(query) if is_intact(row)), None)
        except sqlite3.Error:
            return None

    def read(self, start: int, end: int, most: int, most_bytes: int = PIECE_BYTES) -> Found:
        """The rows of ``[start, end)``, up to ``most`` rows or bytes of events, with the reasons for those missing."""
        stop = min(end, start + most)
        try:
            with self._snapshot():
                rows = read_together(self._db, start, stop, most_bytes)
                found = (
                    _check(self._scan(start, stop), start, stop, most_bytes) if rows is None else Found(rows, {}, stop)
                )
                if found.rows or found.reasons:
                    return found
                return Found([], {}, self._next_row(stop, end))
        except sqlite3.Error as error:
            return self._bisect(start, stop, error)

    def _next_row(self, start: int, end: int) -> int:
        """Where a gap ends, so that a long one is passed in one step."""
        query = "SELECT position FROM tail WHERE position >= ? AND position < ? ORDER BY position LIMIT 1"
        found = self._db.execute(query, (start, end)).fetchone()
        return found[0] if found and type(found[0]) is int and start <= found[0] < end else end

    def _bisect(self, start: int, end: int, error: sqlite3.Error) -> Found:
        """Read around a place that SQLite itself cannot read."""
        failed = self._fail("cannot be read", error)
        if isinstance(failed, BusyError):
            raise failed from error
        if end - start <= 1:
            return Found([], {start: str(error)}, end)
        middle = (start + end) // 2
        left, right = self._half(start, middle), self._half(middle, end)
        return Found(left.rows + right.rows, left.reasons | right.reasons, end)

    def _half(self, start: int, end: int) -> Found:
        try:
            return _check(self._scan(start, end), start, end, None)
        except sqlite3.Error as error:
            return self._bisect(start, end, error)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _scan(self, start: int, end: int) -> Iterator[Any]:
        query = "SELECT * FROM tail WHERE position >= ? AND position < ? ORDER BY position"
        return self._db.execute(query, (start, end))

    def _query(self, query: str, *values: int) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._fail("cannot be read", error) from error


def _check(found: Iterator[Any], start: int, end: int, most_bytes: int | None) -> Found:
    """Intact rows with ascending positions inside ``[start, end)``."""
    rows: list[Row] = []
    reasons: dict[int, str] = {}
    size, after = 0, start
    for row in found:
        position = row[0]
        if type(position) is not int or not after <= position < end:
            continue  # whatever it is, it is not the row that was asked for
        after = position + 1
        if not is_intact(row):
            reasons[position] = "the row does not have its checksum"
            continue
        rows.append(row)
        size += len(row[6])
        if most_bytes is not None and size >= most_bytes:
            return Found(rows, reasons, after)
    return Found(rows, reasons, end)
