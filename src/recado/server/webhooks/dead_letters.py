"""Dead letters: notifications that a webhook did not take after the last attempt, kept in a file of their own.

A letter is on stable storage before its notification is acknowledged to the engine, so at every moment it is in the
mailbox, or here, or delivered. The oldest go when there are more than ``webhooks.dead_letters``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.store.sqlite import copy_database, open_database

BUSY_SECONDS = 5.0
_TABLE = """
create table if not exists letters (
  number integer primary key autoincrement, user text not null, sub_id text not null, nid integer not null,
  url text not null, event blob not null, reason text not null, at text not null,
  attempts integer not null
);
create index if not exists letters_user on letters (user);
"""
_COLUMNS = "number, user, sub_id, nid, url, event, reason, at, attempts"

_OF = "(? = '*' or user = ?)"


class DeadLetter(msgspec.Struct, frozen=True):
    number: int
    user: str
    sub_id: str
    nid: int
    url: str
    event: bytes
    reason: str
    at: str
    attempts: int

    def members(self) -> dict[str, Any]:
        """As it is listed."""
        return {**msgspec.structs.asdict(self), "event": msgspec.Raw(self.event)}


class DeadLetterStore:
    """All dead letters of a service."""

    def __init__(self, path: Path, most: int) -> None:
        self._most = max(most, 1)
        try:
            self._database = open_database(path, busy_seconds=BUSY_SECONDS)
            self._database.executescript(_TABLE)
        except sqlite3.Error as error:
            raise RecadoError(f"the dead letters in {path} cannot be opened: {error}") from None

    def __len__(self) -> int:
        return int(self._database.execute("select count(*) from letters").fetchone()[0])

    def add(self, letter: DeadLetter) -> None:
        """Keep a letter; its number is given here."""
        values = msgspec.structs.astuple(letter)[1:]
        columns = _COLUMNS.partition(", ")[2]
        self._database.execute(f"insert into letters ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608  # fixed names
        surplus = len(self) - self._most
        if surplus > 0:
            self._database.execute(
                "delete from letters where number in (select number from letters order by number limit ?)", (surplus,)
            )

    def of(
        self, user: str, limit: int = 1_000, after: int = 0, *, prefix: str = "", most_bytes: int = 2**30
    ) -> list[DeadLetter]:
        """The oldest letters of a user, or of all ("*"), with a number greater than ``after``.

        ``prefix`` is how the ids of their subscriptions begin. Not many more than ``most_bytes`` of events are read.
        """
        condition = f"where {_OF} and number > ? and substr(sub_id, 1, ?) = ? order by number limit ?"
        found, size = [], 0
        for letter in self._read(condition, user, user, after, len(prefix), prefix, limit):
            found.append(letter)
            size += len(letter.event)
            if size > most_bytes and len(found) > 1:
                break
        return found

    def find(self, number: int) -> DeadLetter | None:
        return next(self._read("where number = ?", number), None)

    def forget(self, number: int) -> None:
        self._database.execute("delete from letters where number = ?", (number,))

    def purge(self, user: str) -> int:
        return self._database.execute(f"delete from letters where {_OF}", (user, user)).rowcount  # noqa: S608  # fixed text

    def copy(self, target: Path) -> None:
        """All of them, into a new file; raises ``sqlite3.Error`` or OSError."""
        copy_database(self._database, target)

    def close(self) -> None:
        self._database.close()

    def _read(self, condition: str, *values: Any) -> Iterator[DeadLetter]:
        rows = self._database.execute(f"select {_COLUMNS} from letters {condition}", values)  # noqa: S608  # fixed texts
        return (DeadLetter(*row) for row in rows)
