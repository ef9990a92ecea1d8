"""A connection to an SQLite file that may be damaged."""

from __future__ import annotations

import sqlite3
from typing import Any


class Connection(sqlite3.Connection):
    """SQLite tells of a damaged schema in the very bytes of it; ``sqlite3`` fails on those that are no text."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            damage = sqlite3.DatabaseError(f"the schema is damaged: {error}")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage from error
