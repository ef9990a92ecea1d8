"""The few operations on files that durability is made of.

Everything that a log does to its folder, apart from SQLite's own work, goes through these functions, each of which is
one step that a crash can come before or after. A file is written under a draft name, brought to stable storage and
only then renamed; a rename or removal counts when its folder is synced too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

DRAFT = ".draft"


def create(path: Path) -> BinaryIO:
    """A new file, in place of any older one."""
    return path.open("wb")


def sync(file: BinaryIO) -> None:
    """All that was written to the file is on stable storage."""
    file.flush()
    os.fsync(file.fileno())


def rename(path: Path, target: Path) -> None:
    path.replace(target)


def sync_folder(path: Path) -> None:
    """The names in a folder are on stable storage."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def draft_of(path: Path) -> Path:
    return path.with_name(path.name + DRAFT)


def replace(path: Path, content: bytes) -> None:
    """The file has the old content or the new, whenever the power fails, and the new one when this returns."""
    draft = draft_of(path)
    with create(draft) as file:
        file.write(content)
        sync(file)
    rename(draft, path)
    sync_folder(path.parent)


def copy(path: Path, target: Path) -> None:
    """The same bytes under another name, on stable storage."""
    with path.open("rb") as source, create(target) as file:
        shutil.copyfileobj(source, file)
        sync(file)
