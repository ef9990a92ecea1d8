"""The place where a service stores: is it there, and does it take anything?

A file that is deleted while a process has it open takes everything that is written to it, and gives it to nobody. So
before each commit is looked whether the files are still the ones that were opened, under their names. That goes for the
folder, too, if it was moved away; when it is back, the service goes on.

A disk may be full before anybody publishes, or be made read-only by the system, as it does after an error. So once a
second is looked how much room there is, and where there is little or none may be used, whether a file can be written.
"""

from __future__ import annotations

import os
from pathlib import Path

from recado import files
from recado.errors import RecadoError

LITTLE_BYTES = 64 * 2**20
"""With less room than this, it is tried whether something can be written."""
PROBE = b"\0" * 64 * 1024
PROBE_FILE = "probe"


class StorageError(RecadoError):
    """The files are not where they were."""


class Storage:
    """``trouble`` is why nothing can be stored, as ``look`` found it; "" if nothing is wrong."""

    def __init__(self, folder: Path, *paths: Path) -> None:
        self._folder = folder
        self._opened: dict[Path, tuple[int, int] | None] = {}
        self.trouble = ""
        for path in paths:
            self.watch(path)

    def watch(self, path: Path) -> None:
        """The file of this name is the right one from now on."""
        self._opened = {**self._opened, path: _identity(path)}  # another thread may be reading

    def check(self) -> None:
        """Raise a StorageError if one of the files is gone, or another one has its name."""
        for path, opened in self._opened.items():
            if _identity(path) != opened:
                raise StorageError(
                    f"{path} was deleted, moved or replaced under the running service; what it held is lost unless the "
                    "file comes back to its place: move it back, or stop the service and restore a backup"
                )

    def look(self) -> None:
        """See how it stands; it may take as long as a write does."""
        try:
            self.check()
            if self.trouble or _is_doubtful(self._folder):
                files.replace(self._folder / PROBE_FILE, PROBE, mode=0o600)
                files.remove(self._folder / PROBE_FILE)
        except StorageError as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble = f"nothing can be written to {self._folder}: {error.strerror or error}"
        else:
            self.trouble = ""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_doubtful(folder: Path) -> bool:
    """Is it worth a try whether anything can be written there? Some file systems do not count their files."""
    found = os.statvfs(folder)
    no_file = bool(found.f_files) and not found.f_favail
    return found.f_bavail * found.f_frsize < LITTLE_BYTES or no_file or bool(found.f_flag & os.ST_RDONLY)
