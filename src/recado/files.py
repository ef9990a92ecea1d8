"""The few operations on files that durability is made of: everything that must be whole after a power cut uses them.

Each function is one step that a crash can come before or after. A file is written under a draft name, brought to stable
storage and only then renamed; a rename or a removal counts when its folder is synced too. Drafts end in ``DRAFT`` and
carry the numbers of their process and thread, so that no two writers share one; whoever owns a folder may remove those
that a crash left behind. All functions raise OSError, which the caller turns into words of its own.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

DRAFT = ".draft"


PRIVATE = 0o600
"""For what only its owner may read: events, subscriptions, secrets. Their folders are ``PRIVATE_FOLDER``."""
PRIVATE_FOLDER = 0o700


def create(path: Path, mode: int = 0o666) -> BinaryIO:
    """Open a new file for writing, in place of any older one; ``mode`` is its permissions from the beginning on."""
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=partial(os.open, mode=mode))  # a Path takes no opener


def sync(file: BinaryIO) -> None:
    """Bring all that was written to the file to stable storage."""
    file.flush()
    os.fsync(file.fileno())


def sync_path(path: Path) -> None:
    """Bring a file that others wrote, or the names in a folder, to stable storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to stable storage."""
    sync_path(path)


def rename(path: Path, target: Path) -> None:
    """Give a file or folder its name; it counts after ``sync_folder``."""
    path.replace(target)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    path.unlink(missing_ok=True)


def draft_of(path: Path) -> Path:
    """Where this thread writes what will be ``path``."""
    return path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}{DRAFT}")


def write(path: Path, content: bytes) -> None:
    """Write a file inside a folder that has no name yet, and bring it to stable storage."""
    with create(path) as file:
        file.write(content)
        sync(file)


def replace(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file as a whole: after a power cut it has the old content or the new one, after this the new one."""
    draft = draft_of(path)
    try:
        with create(draft, mode) as file:
            file.write(content)
            sync(file)
        rename(draft, path)
    except OSError:
        with suppress(OSError):
            remove(draft)
        raise
    sync_folder(path.parent)


def copy(path: Path, target: Path, mode: int = 0o666) -> None:
    """Put the same bytes under another name, on stable storage."""
    with path.open("rb") as source, create(target, mode) as file:
        shutil.copyfileobj(source, file)
        sync(file)
