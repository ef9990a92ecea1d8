"""The audit log: who published, subscribed or administered, from where, when, and whether it was let.

One JSON object a line, appended to ``logging.audit`` as it happens: ``at``, ``user``, ``token`` (its name), ``from``,
``over`` (http, websocket, sip, rudp; control for the owner of the folder, tokens for changes of the token file),
``did``, ``of`` (whose it is, if it is not the caller's), and what belongs to it. It holds no contents: no attributes of
events, no filters, no secrets. Publications are one line a request or frame, with their number. Who only reads has a
line for replays, and for what is somebody else's. The file is its owner's alone; one that was moved away is begun anew
with the next line, so that the usual tools can rotate it. A line that cannot be written is told in the log and holds
nothing up.
"""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from recado import files
from recado.errors import RecadoError
from recado.server.permissions import Principal

_log = logging.getLogger("recado.audit")
_encode = msgspec.json.Encoder().encode
_LOOK_SECONDS = 1.0


def _instant() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_audit(path: str) -> None:
    """Raise what stands against an audit log at the path, which is not made: whoever checks may be another user."""
    place = Path(path)
    if not path:
        return
    if place.is_symlink():
        reason = "links are not followed"
    elif place.exists():
        reason = "it is no file" if not place.is_file() else "" if os.access(place, os.W_OK) else "Permission denied"
    elif not place.parent.is_dir():
        reason = f"there is no folder {place.parent}"
    else:
        reason = "" if os.access(place.parent, os.W_OK | os.X_OK) else "Permission denied"
    if reason:
        raise RecadoError(f"logging.audit: {path} cannot be written: {reason}")


class AuditLog:
    """Without a path it notes nothing."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._file = -1
        self._looked = 0.0
        self._failing = False
        if self._path is not None:
            try:
                self._open()
            except OSError as error:
                raise RecadoError(f"logging.audit: {path} cannot be written: {error.strerror}") from None

    def note(self, who: Principal | None, address: str, over: str, did: str, **what: Any) -> None:
        """``who`` is None for a caller that was not let in."""
        if self._path is None:
            return
        line: dict[str, Any] = {"at": _instant()}
        if who is not None:
            line |= {"user": who.user, "token": who.name}
        try:
            if time.monotonic() - self._looked > _LOOK_SECONDS:
                self._open()
            os.write(self._file, _encode({**line, "from": address, "over": over, "did": did, **what}) + b"\n")
            self._failing = False
        except OSError as error:
            if not self._failing:
                _log.error("the audit log %s cannot be written: %s", self._path, error.strerror)
            self._failing = True

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._path = None

    def _open(self) -> None:
        """Open the file, unless it is the one that is open."""
        assert self._path is not None
        self._looked = time.monotonic()
        if self._file >= 0:
            try:
                there, here = self._path.stat(), os.fstat(self._file)
            except FileNotFoundError:
                pass
            else:
                if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                    return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fresh = os.open(self._path, flags, files.PRIVATE)
        if self._file >= 0:
            os.close(self._file)
        self._file = fresh
