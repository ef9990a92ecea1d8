"""One writer a folder: an advisory lock on a file. The system takes it back when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from recado.store.log.errors import BusyError, LogError
from recado.store.log.manifest import LOCK


class FolderLock:
    """Held from its making until ``release``; the file has the process id of the holder, for people to read."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise BusyError(
                    f"{folder} has a writer already, the process {holder}; a log has one at a time"
                ) from None
            raise LogError(f"{path} cannot be locked: {error.strerror}") from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def writer_of(folder: Path) -> str | None:
    """The process id of the writer that has the log now; None if there is none."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return None
