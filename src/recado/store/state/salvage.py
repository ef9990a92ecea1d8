"""A file that SQLite cannot read as a whole: set it aside, and read around the damage what can be read.

Rows are read forwards from the beginning and backwards from the end of each table, until SQLite stumbles. Checksums are
looked at later, when the new file is loaded as any other.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from recado.store.sqlite import Connection

_TABLES = {
    "marks": "name",
    "subscriptions": "serial",
    "boxes": "number",
    "mail": "nid",
    "held": "position",
    "notices": "id",
    "devices": "key",
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
        db = sqlite3.connect(f"{aside.absolute().as_uri()}?mode=ro", uri=True, factory=Connection)
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
        width = len(next(iter(rows.values())))
        statement = f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * width)})"  # noqa: S608  # ours
        found.inserts.append((statement, [_texts(row, table) for row in rows.values()]))


def _texts(row: tuple[Any, ...], table: str) -> tuple[Any, ...]:
    """Names were read as bytes, since damaged ones need not be UTF-8."""
    names = {"marks": 1, "kept": 2}.get(table, 0)
    return tuple(
        value.decode(errors="replace") if column < names and type(value) is bytes else value
        for column, value in enumerate(row)
    )
