"""Many rows in a few statements.

``sqlite3`` lets other threads run during every step of a statement and then has to get its turn again. Beside a busy
thread, ``executemany`` waits like that once for each row, and a query once for each row that it gives. So rows are
written some hundred to a statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Any

COUNTS = tuple(1 << bit for bit in range(8, -1, -1))
"""So many rows have a statement of their own, which the connection keeps."""


def run_many(db: sqlite3.Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Execute a statement in which ``{}`` stands for rows of values: ``INSERT INTO t VALUES {}``."""
    left = list(rows)
    start = 0
    for count in COUNTS:
        while len(left) - start >= count:
            some = left[start : start + count]
            db.execute(_written_out(statement, count, len(some[0])), tuple(chain.from_iterable(some)))
            start += count


@cache
def _written_out(statement: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return statement.format(", ".join([row] * rows))
