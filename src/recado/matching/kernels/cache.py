"""Compiled kernels on disk, one file each, in a folder of the user's cache.

The folder is named after the content of all files that kernels are made of (``sources``), because they call each other
across files: a change, an upgrade for instance, compiles anew. A file is named after what else machine code depends
on: the types of the arguments, the processor, numba and Python. It begins with a checksum, for machine code that is
damaged must not run.

Whatever is wrong with the folder (it cannot be written, it is full, a file is damaged), matching works: the kernels
are compiled for this process alone, and one warning says why. A folder that can only be read serves those that are in
it. ``is_prepared`` says, without loading numba, whether all of them are.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import sys
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from recado import files

T = TypeVar("T")
VERSIONS_KEPT = 4
DAY = 86_400.0
"""Of the folders of compiled kernels the four used last stay, and all that were used within a day of the last use."""
DIGEST_BYTES = 16
PREPARED = "prepared-"
_log = logging.getLogger("recado.kernels")


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR or XDG_CACHE_HOME decide, as far as they are set."""
    digest = blake2b(digest_size=8)
    for path in sources():
        digest.update(path.read_bytes())
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "recado" / f"kernels-{digest.hexdigest()}"
    _mark_used(folder)
    return folder


def sources() -> list[Path]:
    """The files that kernels are compiled from: they call each other and take constants across this package.

    All of the package, since whoever adds a file would not think of a list here; old machine code would then go on
    running after a change.
    """
    return sorted(Path(__file__).parent.parent.rglob("*.py"))


def _mark_used(folder: Path) -> None:
    """Make the folder the one used last and remove old ones; a cache that cannot be written stays as it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        used = sorted(((other.stat().st_mtime, other) for other in folder.parent.glob("kernels-*")), reverse=True)
    except OSError:
        return
    for last_use, old in used[VERSIONS_KEPT:]:
        if last_use < used[0][0] - DAY:  # a process that runs may still need a younger one
            shutil.rmtree(old, ignore_errors=True)


def can_write() -> bool:
    """Can anything be kept at all?"""
    return cache_folder().is_dir() and os.access(cache_folder(), os.W_OK | os.X_OK)


def is_prepared() -> bool:
    """Have all kernels been compiled for this machine? numba is not loaded to find out."""
    return (cache_folder() / _mark()).exists()


def mark_prepared() -> None:
    """All kernels are there now."""
    write_file(cache_folder() / _mark(), b"")


@cache
def _mark() -> str:
    """A name for what machine code depends on besides the kernels."""
    parts = [platform.machine(), sys.version, version("numba"), version("llvmlite"), version("numpy"), _processor()]
    return PREPARED + blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU "))}))


def read_file(path: Path, load: Callable[[bytes], T]) -> T | None:
    """What ``load`` makes of a file's content; None if there is no such file, or, with a warning, a damaged one."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        warn_once(f"compiled kernels cannot be read from {path.parent}: {error.strerror}")
        return None
    data = content[DIGEST_BYTES:]
    try:
        if content[:DIGEST_BYTES] != _digest(data):
            raise ValueError("the checksum is wrong")  # noqa: TRY301  # told like what follows from it
        return load(data)
    except Exception as error:  # noqa: BLE001  # whatever a file holds, it can be compiled again
        warn_once(f"{path} is damaged ({error}) and is made again")
        return None


def write_file(path: Path, data: bytes) -> None:
    """Keep it, or warn."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, _digest(data) + data)
    except OSError as error:
        warn_once(
            f"compiled kernels cannot be kept in {path.parent}: {error.strerror}. They are compiled at every start; "
            "NUMBA_CACHE_DIR names another folder"
        )


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


@cache
def warn_once(text: str) -> None:
    """The first sentence of a kind; what follows from the same fault is not told again."""
    if not _warned:
        _log.warning("%s", text)
    _warned.append(text)


_warned: list[str] = []
