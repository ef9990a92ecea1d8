"""How many bytes came in on this process's connections to a port, as the kernel counts them.

The same for every client library, and for what it reads ahead or throws away. Linux only: elsewhere it is 0.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_RECEIVED = struct.Struct("@Q")
_RECEIVED_AT = 128  # of tcpi_bytes_received in struct tcp_info


def bytes_received(port: int) -> int:
    """On all open TCP connections of this process to that port of any address."""
    total = 0
    for taken in _connections(port):
        information = taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if len(information) >= _RECEIVED_AT + _RECEIVED.size:
            total += _RECEIVED.unpack_from(information, _RECEIVED_AT)[0]
    return total


def _connections(port: int) -> Iterator[socket.socket]:
    folder = Path("/proc/self/fd")
    if not folder.exists() or not hasattr(socket, "TCP_INFO"):
        return
    for name in [int(entry.name) for entry in folder.iterdir()]:
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(name).st_mode):
                continue
            with socket.socket(fileno=os.dup(name)) as taken:
                if taken.type == socket.SOCK_STREAM and taken.getpeername()[1:2] == (port,):
                    yield taken
