"""Ports for nodes that are started later, and may be started again.

The system chooses a port from the range that outgoing connections get theirs from, and everybody who asks for any
port. Between the choice and the start of the node, or while a killed node is away, somebody else may be given it. So
ports are drawn from below that range.
"""

from __future__ import annotations

import errno
import secrets
import socket
from contextlib import ExitStack
from pathlib import Path

from recado.overlay.complaints import why
from recado.overlay.errors import OverlayError
from recado.overlay.security import Address, read_address

_LOWEST = 10_000
_USUAL_END = 32_768
_TRIALS = 1_000


def free_address(text: str, stack: ExitStack) -> Address:
    """The address, with a free port if it has none; the port is held until the stack is left."""
    address = read_address(text)
    if address.port:
        return address
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    held = stack.enter_context(socket.socket(family))
    return Address(address.host, _bind(held, address.host))


def _bind(held: socket.socket, host: str) -> int:
    end = _end()
    for _ in range(_TRIALS):
        port = _LOWEST + secrets.randbelow(end - _LOWEST)
        try:
            held.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OverlayError(f"cannot listen on {host}: {why(error)}") from None
        else:
            return port
    raise OverlayError(f"{host} has no free port between {_LOWEST} and {end}; give nodes ports of their own")


def _end() -> int:
    """Where the ports begin that the system hands out; 32,768 where it does not tell, or leaves too few below."""
    try:
        end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_END
    return end if end > 2 * _LOWEST else _USUAL_END
