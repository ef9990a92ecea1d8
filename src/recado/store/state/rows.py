"""The rows of the state as SQLite has them: the checksum that every row carries, and reading them all.

What the tables keep is declared in ``recado.broker.persistence``.

A row is its key, a body in MessagePack and a 64-bit BLAKE2b checksum over the table's name, the key and the body, so
that no row is believed that was changed, or that belongs elsewhere. Mail has columns instead of a body, for there are
many. Instants are microseconds since 1970 in UTC; positions and nids are those of the log.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from recado.broker.persistence import KINDS, MAILBOXES, Key, Loaded, NotificationRow, Row
from recado.broker.state import ORDINAL_BITS
from recado.errors import RecadoError

DISPATCHED = ("dispatched", "dispatched, again")
"""The mark of what is dispatched, twice: without it nobody would know which events are still to be notified."""


class StateError(RecadoError):
    """The state cannot be opened, read or written. ``passing`` tells whether it may work later."""

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


_encode = msgspec.msgpack.Encoder().encode
_MAIL = struct.Struct("<qqq")
_KEY = struct.Struct("<q")


def packed(row: Row) -> bytes:
    return _encode(row)


def checksum(table: str, key: bytes, body: bytes) -> bytes:
    return blake2b(b"%d:%b%b" % (len(key), key, body), digest_size=8, person=table.encode()).digest()


def number_key(number: int) -> bytes:
    return _KEY.pack(number)


def text_key(*texts: str) -> bytes:
    return _encode(texts)


def column_value(key: Key) -> int | bytes:
    """The key of a thing as its column holds it."""
    return key if isinstance(key, int) else text_key(*key)


def key_bytes(value: int | bytes) -> bytes:
    """The value of a key's column as checksums take it."""
    return number_key(value) if isinstance(value, int) else value


def notification_checksum(nid: int, mailbox: int, at: int, sub_id: bytes) -> bytes:
    return blake2b(_MAIL.pack(nid, mailbox, at) + sub_id, digest_size=8, person=b"mail").digest()


def decoded(kind: Any, body: Any) -> Any:
    """The row in a body, or None if it is none."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, TypeError, UnicodeError):
        return None


# --- Reading the whole state, row by row, believing none without its checksum ----------------------------------------
#
# What is wrong is moved to the table ``damaged`` and named. Mail that lost its row or its event is given back as such,
# so that its owner can be told which notification will not come.


def read_all(db: sqlite3.Connection) -> Loaded:
    """Everything intact, and what is not."""
    damage: list[str] = []
    bad: list[tuple[str, str, Any]] = []
    found = {kind.table: list(_rows(db, kind.table, kind.column, kind.row, bad)) for kind in KINDS}
    events = _events(db, bad)
    notifications, unreadable = _notifications(db, events, {row.number for row in found[MAILBOXES.table]}, bad)
    loaded = Loaded(
        dispatched=_dispatched(db, damage),
        rows=found,
        notifications=notifications,
        events=events,
        damage=damage,
        unreadable=unreadable,
    )
    _set_aside(db, bad, damage)
    return loaded


def _rows(
    db: sqlite3.Connection, table: str, column: str, row_type: type[Row], bad: list[tuple[str, str, Any]]
) -> Iterator[Any]:
    for key, body, check in db.execute(f"SELECT {column}, body, checksum FROM {table}"):  # noqa: S608  # ours
        row = decoded(row_type, body) if _is_intact(table, key, body, check) else None
        if row is None:
            bad.append((table, column, key))
        else:
            yield row


def _is_intact(table: str, key: Any, body: Any, check: Any) -> bool:
    if type(body) is not bytes:
        return False
    raw = number_key(key) if type(key) is int else key
    return type(raw) is bytes and checksum(table, raw, body) == check


def _events(db: sqlite3.Connection, bad: list[tuple[str, str, Any]]) -> dict[int, bytes]:
    events: dict[int, bytes] = {}
    for position, event, check in db.execute("SELECT position, body, checksum FROM held"):
        if type(event) is bytes and checksum("held", number_key(position), event) == check:
            events[position] = event
        else:
            bad.append(("held", "position", position))
    return events


def _notifications(
    db: sqlite3.Connection, events: dict[int, bytes], mailboxes: set[int], bad: list[tuple[str, str, Any]]
) -> tuple[list[NotificationRow], list[tuple[int, int]]]:
    """In the order of nids."""
    found: list[NotificationRow] = []
    unreadable: list[tuple[int, int]] = []
    for nid, mailbox, at, sub_id, check in db.execute(
        "SELECT nid, box, at, sub_id, checksum FROM mail ORDER BY nid, box"
    ):
        numbered = type(nid) is type(mailbox) is int
        typed = numbered and type(at) is int and type(sub_id) is bytes
        whole = typed and notification_checksum(nid, mailbox, at, sub_id) == check
        if whole and mailbox in mailboxes and nid >> ORDINAL_BITS in events:
            found.append(NotificationRow(nid, mailbox, at, sub_id.decode()))
        else:
            if numbered:
                unreadable.append((nid, mailbox))
            bad.append(("mail", "nid, box", (nid, mailbox)))  # users have the same nids
    return found, unreadable


def _dispatched(db: sqlite3.Connection, damage: list[str]) -> int | None:
    for name in DISPATCHED:
        for value, check in db.execute("SELECT value, checksum FROM marks WHERE name = ?", (name,)):
            if type(value) is int and checksum("marks", name.encode(), number_key(value)) == check:
                return value
            damage.append(f"the mark {name!r} does not have its checksum")
    return None


def _set_aside(db: sqlite3.Connection, bad: list[tuple[str, str, Any]], damage: list[str]) -> None:
    """Move damaged rows out of the way, keeping what they hold."""
    if not bad:
        return
    db.execute("BEGIN IMMEDIATE")
    for table, columns, key in bad:
        shown = key.hex() if type(key) is bytes else str(key)
        damage.append(f"a row of {table} with {columns} {shown} does not have its checksum; it was set aside")
        values = key if type(key) is tuple else (key,)
        rows = f"FROM {table} WHERE {_matching(columns, values)}"
        for row in db.execute(f"SELECT * {rows}", values).fetchall():
            db.execute("INSERT INTO damaged VALUES (?, ?, ?)", (table, shown, repr(row)))
        db.execute(f"DELETE {rows}", values)
    db.execute("COMMIT")


def _matching(columns: str, values: tuple[Any, ...]) -> str:
    """A damaged key need not have its type, and a text comes out of the file as bytes."""
    pairs = zip(columns.split(", "), values, strict=True)
    return " AND ".join(f"{f'CAST({name} AS BLOB)' if type(value) is bytes else name} IS ?" for name, value in pairs)
