"""Rows of the tail in one step of SQLite (see ``recado.store.many`` for why): each column as one text, cut up here.

It only believes what is as it should be, each row by its checksum. At anything else it gives up, and the rows are read
one by one to find out what is wrong.
"""

from __future__ import annotations

import sqlite3

from recado.store.log.rows import Row, is_intact

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
