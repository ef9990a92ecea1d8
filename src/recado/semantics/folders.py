"""Where Recado keeps what it made (the cache folder) and what a person gave it (the data folder), and how it writes.

``XDG_CACHE_HOME`` and ``XDG_DATA_HOME`` decide, as on any desktop; ``RECADO_DATA`` names the data folder itself. What
is in the cache folder can be deleted at any time. A file is written whole under another name and then renamed, so a
reader sees the old one or the new one.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from recado.errors import RecadoError


def cache_folder() -> Path:
    return _home("XDG_CACHE_HOME", ".cache") / "recado"


def data_folder() -> Path:
    if folder := os.environ.get("RECADO_DATA"):
        return Path(folder)
    return _home("XDG_DATA_HOME", ".local/share") / "recado"


def _home(variable: str, otherwise: str) -> Path:
    folder = os.environ.get(variable, "")
    return Path(folder) if folder.startswith("/") else Path.home() / otherwise


def write_whole(path: Path, content: bytes) -> None:
    """Put the content in the place of the file at once; a RecadoError if the folder does not take it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise RecadoError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_limited(path: Path, most: int, what: str) -> bytes:
    """The file's content; a RecadoError if it cannot be read or has more than ``most`` bytes."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            content = stream.read(min(size, most) + 1)
    except OSError as error:
        raise RecadoError(f"{path}: {what} cannot be read: {error.strerror or error}") from None
    if len(content) > most or size > most:
        raise RecadoError(f"{path}: {what} is larger than {most:,} bytes")
    return content
