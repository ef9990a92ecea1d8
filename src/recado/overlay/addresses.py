"""What nodes are called, where they listen, and who may connect.

Names are of nodes and overlays. A node's control socket is ``RUNTIME/OVERLAY/NODE.sock``. ``RUNTIME`` is
``$RECADO_RUNTIME`` if that is set, else ``$XDG_RUNTIME_DIR/recado``, else ``/tmp/recado-UID``; it belongs to one user
and nobody else may enter it.

Closed by default: without a shared key, and without TLS that asks the other side for a certificate, a node listens
on loopback only. The key proves membership when a link begins and hides nothing; TLS hides what is said. Between
machines that do not share a trusted network, use both.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
import ssl
import stat
import tempfile
from pathlib import Path

import msgspec

from recado.overlay.limits import OverlayError

log = logging.getLogger("recado.overlay")

NAME_CHARS = 64
SOCKET_PATH_BYTES = 100
_NAME = re.compile(r"\w[\w.-]*")
KEY_BYTES = 16


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


def running_nodes(overlay: str = "*") -> list[Path]:
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
    found = [path for path in running_nodes(overlay or "*") if not node or path.stem == node]
    if len(found) == 1:
        return found[0]
    here = ", ".join(f"{path.parent.name}/{path.stem}" for path in running_nodes())
    if not here:
        raise OverlayError("no node runs here; see: recado node run --help")
    if not found:
        raise OverlayError(f"no node {name!r} runs here; running: {here}")
    several = f"several nodes are called {name!r}" if name else "several nodes run here"
    raise OverlayError(f"{several}; name one with --node: {here}")


# --- Who may connect: addresses, the shared key, TLS, and the one rule about listening -------------------------------


class Address(msgspec.Struct, frozen=True, order=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def read_address(text: str) -> Address:
    """An address written ``HOST:PORT`` or ``[IPv6]:PORT``."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not host or not port.isdecimal() or int(port) > 65_535 or (":" in host and not bracketed):
        raise OverlayError(f"{text!r} is no address; write HOST:PORT, such as 127.0.0.1:7701 or [::1]:7701")
    return Address(host, int(port))


def read_key(path: Path) -> bytes:
    """The shared key of an overlay: the file's content without surrounding white space."""
    try:
        key = path.read_bytes().strip()
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            log.warning("the key file %s is open to others on this machine; close it with: chmod 600 %s", path, path)
    except OSError as error:
        raise OverlayError(f"the key file {path} cannot be read: {error.strerror}") from None
    if len(key) < KEY_BYTES:
        raise OverlayError(
            f"the key in {path} has {len(key)} bytes; at least {KEY_BYTES} are needed. Make one with: "
            f"openssl rand -hex 32 > {path}"
        )
    return key


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM form. With ``ca``, each side must show a certificate that this authority signed."""

    cert: Path
    key: Path
    ca: Path | None = None

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load(context)
        if self.ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._load(context)
        if self.ca is None:
            context.load_default_certs()
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.cert, self.key)
            if self.ca is not None:
                context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise OverlayError(f"TLS cannot use {self.cert}, {self.key}, {self.ca or 'no ca'}: {error}") from None


def check_listening(address: Address, key: bytes, tls: Tls | None) -> None:
    """The one place that decides where a node may listen."""
    if address.loopback or key or (tls is not None and tls.ca is not None):
        return
    raise OverlayError(
        f"{address} can be reached from other machines, so a shared key is needed (--key-file), or TLS with --tls-ca; "
        "without either, listen on 127.0.0.1"
    )
