"""``recado node run``: one node in this process."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from recado.overlay.security import Tls


def run(
    *,
    listen: str = "127.0.0.1:0",
    peer: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    name: str = "",
    overlay: str = "recado",
    state: Path | None = None,
    key_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_ca: Path | None = None,
    setting: tuple[str, ...] = (),
) -> int:
    """Run a node until it is stopped (Ctrl-C, SIGTERM, or recado node stop).

    What happens to the node is told on stderr. Without a shared key, or TLS with an authority, it listens on loopback
    only.

    Parameters
    ----------
    listen
        HOST:PORT; with port 0 the system chooses one.
    peer
        HOST:PORT of nodes to have links to; they are dialled again whenever the link is lost.
    name
        The node's name, unique in its overlay. Without one, the host's name and the port.
    overlay
        The name of the overlay; nodes of others are refused.
    state
        A folder for what must outlive the process; without it a restarted node begins anew.
    key_file
        A file with the key that all nodes of the overlay share, at least 16 bytes.
    tls_cert
        This node's certificate, in PEM form.
    tls_key
        The certificate's private key.
    tls_ca
        The authority that signed the peers' certificates.
    setting
        A setting of the tree protocol as NAME=VALUE, such as causal=true or buffer=100; may be repeated.
    """
    import asyncio

    from recado.overlay.host import log_to_stderr, run_nodes
    from recado.overlay.names import socket_path
    from recado.overlay.node import Node
    from recado.overlay.protocol import trees
    from recado.overlay.security import read_key

    log_to_stderr()
    name = name or _default_name(listen)
    node = Node(
        name,
        listen=listen,
        peers=peer,
        overlay=overlay,
        protocol=trees(_settings(setting)),
        key=read_key(key_file) if key_file else b"",
        tls=_tls(tls_cert, tls_key, tls_ca),
        state=state,
    )
    return asyncio.run(run_nodes([(node, socket_path(overlay, name))]))


def _default_name(listen: str) -> str:
    host = socket.gethostname().split(".")[0] or "node"
    port = listen.rpartition(":")[2]
    return f"{host}-{secrets.token_hex(3) if port == '0' else port}"


def _settings(words: tuple[str, ...]) -> dict[str, Any]:
    """``causal=true buffer=100 mpp=stream``: values are JSON where that can be read, else texts."""
    import msgspec

    from recado.overlay.errors import OverlayError

    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise OverlayError(f"--setting {word}: write NAME=VALUE, such as causal=true")
        try:
            settings[name.replace("-", "_")] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[name.replace("-", "_")] = value
    return settings


def _tls(cert: Path | None, key: Path | None, ca: Path | None) -> Tls | None:
    from recado.overlay.errors import OverlayError
    from recado.overlay.security import Tls

    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        raise OverlayError("TLS needs --tls-cert and --tls-key together; --tls-ca asks the peers for certificates, too")
    return Tls(cert, key, ca)
