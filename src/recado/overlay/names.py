"""Names of nodes and overlays, and where a running node is found on this machine.

A node's control socket is ``RUNTIME/OVERLAY/NODE.sock``. ``RUNTIME`` is ``$RECADO_RUNTIME`` if that is set, else
``$XDG_RUNTIME_DIR/recado``, else ``/tmp/recado-UID``; it belongs to one user and nobody else may enter it.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from pathlib import Path

from recado.overlay.limits import OverlayError

NAME_CHARS = 64
SOCKET_PATH_BYTES = 100
_NAME = re.compile(r"\w[\w.-]*")


def is_name(name: str) -> bool:
    return len(name) <= NAME_CHARS and _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """The name itself, if a node or an overlay can be called so."""
    if not is_name(name):
        raise OverlayError(
            f"{name!r} is no name of a node or overlay: letters, digits, '_', '.' and '-', "
            f"at most {NAME_CHARS} characters, beginning with a letter or digit"
        )
    return name


def runtime() -> Path:
    """The folder of everything that runs for this user."""
    if folder := os.environ.get("RECADO_RUNTIME"):
        return Path(folder)
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(folder) / "recado"
    return Path(tempfile.gettempdir()) / f"recado-{os.getuid()}"


def overlay_folder(overlay: str) -> Path:
    """The folder of one overlay, made if need be; an OverlayError if somebody else could have put things there."""
    top = runtime()
    for folder in (top, top / check_name(overlay)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
        except OSError as error:
            raise OverlayError(f"the folder {folder} cannot be made: {error.strerror}") from None
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise OverlayError(f"the folder {folder} can be written by others; set RECADO_RUNTIME to one of your own")
    return top / overlay


def socket_path(overlay: str, node: str) -> Path:
    path = overlay_folder(overlay) / f"{check_name(node)}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise OverlayError(f"{path} is too long for a socket; set RECADO_RUNTIME to a shorter folder")
    return path


def running(overlay: str = "*") -> list[Path]:
    """The control sockets of nodes that run on this machine, of one overlay or of all."""
    return [path for path in sorted(runtime().glob(f"{overlay}/*.sock"), key=_order) if _answers(path)]


def _order(path: Path) -> tuple[str, list[tuple[int, str]]]:
    """By overlay and name, and n2 before n10."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", path.stem)
    return path.parent.name, [(int(piece), "") if piece[0] in "0123456789" else (-1, piece) for piece in pieces]


def _answers(path: Path) -> bool:
    """A node that was killed leaves its socket behind, and nobody listens on it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def find_node(name: str) -> Path:
    """The socket of a node by ``NODE`` or ``OVERLAY/NODE``; empty, of the only node that runs."""
    overlay, slash, node = name.rpartition("/")
    if slash:
        check_name(overlay)
    found = [path for path in running(overlay or "*") if not node or path.stem == node]
    if len(found) == 1:
        return found[0]
    here = ", ".join(f"{path.parent.name}/{path.stem}" for path in running())
    if not here:
        raise OverlayError("no node runs here; see: recado node run --help")
    if not found:
        raise OverlayError(f"no node {name!r} runs here; running: {here}")
    several = f"several nodes are called {name!r}" if name else "several nodes run here"
    raise OverlayError(f"{several}; name one with --node: {here}")
