"""Reading the whole state, row by row, believing none without its checksum.

What is wrong is moved to the table ``damaged`` and named. Mail that lost its row or its event is given back as such, so
that its owner can be told which notification will not come.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from recado.store.state.rows import (
    DISPATCHED,
    POSITION_BITS,
    BoxRow,
    DeviceRow,
    Loaded,
    MailRow,
    NoticeRow,
    SubscriptionRow,
    checksum,
    decoded,
    mail_checksum,
    number_key,
)


def read_all(db: sqlite3.Connection) -> Loaded:
    """Everything intact, and what is not."""
    damage: list[str] = []
    bad: list[tuple[str, str, Any]] = []

    def rows(table: str, column: str, kind: Any) -> Iterator[Any]:
        for key, body, check in db.execute(f"SELECT {column}, body, checksum FROM {table}"):  # noqa: S608  # ours
            row = decoded(kind, body) if _is_intact(table, key, body, check) else None
            if row is None:
                bad.append((table, column, key))
            else:
                yield row

    boxes = list(rows("boxes", "number", BoxRow))
    held = _held(db, bad)
    mail, unreadable = _mail(db, held, {box.number for box in boxes}, bad)
    loaded = Loaded(
        dispatched=_dispatched(db, damage),
        subscriptions=list(rows("subscriptions", "serial", SubscriptionRow)),
        boxes=boxes,
        mail=mail,
        held=held,
        notices=list(rows("notices", "id", NoticeRow)),
        devices=list(rows("devices", "key", DeviceRow)),
        damage=damage,
        unreadable=unreadable,
    )
    _set_aside(db, bad, damage)
    return loaded


def _is_intact(table: str, key: Any, body: Any, check: Any) -> bool:
    if type(body) is not bytes:
        return False
    raw = number_key(key) if type(key) is int else key
    return type(raw) is bytes and checksum(table, raw, body) == check


def _held(db: sqlite3.Connection, bad: list[tuple[str, str, Any]]) -> dict[int, bytes]:
    held: dict[int, bytes] = {}
    for position, event, check in db.execute("SELECT position, body, checksum FROM held"):
        if type(event) is bytes and checksum("held", number_key(position), event) == check:
            held[position] = event
        else:
            bad.append(("held", "position", position))
    return held


def _mail(
    db: sqlite3.Connection, held: dict[int, bytes], boxes: set[int], bad: list[tuple[str, str, Any]]
) -> tuple[list[MailRow], list[tuple[int, int]]]:
    """In the order of nids."""
    mail: list[MailRow] = []
    unreadable: list[tuple[int, int]] = []
    for nid, box, at, sub_id, check in db.execute("SELECT nid, box, at, sub_id, checksum FROM mail ORDER BY nid, box"):
        numbered = type(nid) is type(box) is int
        typed = numbered and type(at) is int and type(sub_id) is bytes
        whole = typed and mail_checksum(nid, box, at, sub_id) == check
        if whole and box in boxes and nid >> POSITION_BITS in held:
            mail.append(MailRow(nid, box, at, sub_id.decode()))
        else:
            if numbered:
                unreadable.append((nid, box))
            bad.append(("mail", "nid, box", (nid, box)))  # users have the same nids
    return mail, unreadable


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
