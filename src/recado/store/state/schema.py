"""The tables, by version. A file of an older version is brought to the newest, step by step, in one transaction.

``PRAGMA user_version`` has the version. A file of a newer one is refused: what it means is not known here.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from recado.store.state.rows import StateError

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
