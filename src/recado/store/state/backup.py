"""A copy of the state while it is in use, through SQLite's backup interface: the state of one moment."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from recado.store import files
from recado.store.state.rows import StateError


def copy_state(path: Path, target: Path) -> None:
    """Copy a state file to a new file, whole and on stable storage."""
    if target.exists():
        raise StateError(f"{target} exists already; a backup goes into a new folder")
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    copy = sqlite3.connect(target)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.Error as error:
        raise StateError(f"{path} cannot be copied to {target}: {error}") from error
    finally:
        copy.close()
        source.close()
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    files.sync_folder(target.parent)
