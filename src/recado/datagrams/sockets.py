"""A bound UDP socket in the running loop: datagrams in batches, large buffers, and refusals from the network.

A plain asyncio transport wakes up once for every datagram and does not tell who refused. Here one wake-up reads up to
``BATCH`` datagrams, and on Linux the kernel's queue of errors says at which address nobody listens. A datagram that
the kernel does not take is counted and lost: those above cope with loss anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from recado.errors import RecadoError

Address: TypeAlias = tuple[str, int]

BATCH = 64
_BUFFER_BYTES = 8 * 1024 * 1024
_LARGEST = 65_536
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_ERRORS = 256
"""So many refusals are read at one go."""


class DatagramError(RecadoError):
    """A UDP socket that cannot be had."""


class UdpSocket:
    """``on_datagram(bytes, source)`` for what arrives; ``on_refused(addresses)`` for where nobody listens."""

    def __init__(
        self,
        address: Address,
        on_datagram: Callable[[bytes, Address], None],
        on_refused: Callable[[tuple[Address, ...]], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_datagram, self._on_refused = on_datagram, on_refused
        self._socket = _bind(address)
        self.address: Address = self._socket.getsockname()[:2]
        self.unsent = 0
        self.closed = False
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def send(self, datagram: bytes, address: Address) -> None:
        if self.closed:
            self.unsent += 1
            return
        try:
            self._socket.sendto(datagram, address)
        except ConnectionRefusedError:  # of an earlier datagram; this one was not sent yet
            with contextlib.suppress(OSError):
                self._socket.sendto(datagram, address)
                return
            self.unsent += 1
        except (OSError, OverflowError, TypeError):  # no room, no route, or no address at all
            self.unsent += 1

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _readable(self) -> None:
        for _ in range(BATCH):
            try:
                datagram, source = self._socket.recvfrom(_LARGEST)
            except OSError:  # nothing more, or a refusal
                self._read_refusals()
                return
            try:
                self._on_datagram(datagram, source)
            except Exception as error:  # noqa: BLE001  # one bad datagram must not end the service of all others
                self._loop.call_exception_handler({"message": f"a datagram from {source}", "exception": error})
            if self.closed:
                return

    def _read_refusals(self) -> None:
        """Empty the queue of errors: as long as it holds any, the loop wakes up."""
        refused: dict[Address, None] = {}
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                for _ in range(_ERRORS):
                    _, _, _, address = self._socket.recvmsg(1, 512, socket.MSG_ERRQUEUE)
                    refused[address[:2]] = None
        if refused and self._on_refused is not None:
            self._on_refused(tuple(refused))


def check_address(address: Address) -> None:
    """Only numbers: looking up a name would block the loop, and whoever wrote the SDP chose the name."""
    host, port = address
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise DatagramError(f"{host!r} is no IP address, such as 127.0.0.2") from None
    if not 0 < port < 65_536:
        raise DatagramError(f"{port} is no UDP port; it is a number from 1 to 65535")


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_DGRAM)
    try:
        bound.setblocking(False)
        _enlarge(bound)
        if sys.platform == "linux":
            level, option = (
                (socket.IPPROTO_IPV6, _IPV6_RECVERR) if family == socket.AF_INET6 else (socket.IPPROTO_IP, _IP_RECVERR)
            )
            bound.setsockopt(level, option, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        bound.close()
        reason: Any = getattr(error, "strerror", None) or error
        raise DatagramError(
            f"cannot use UDP port {address[1]} of {address[0]}: {reason}; it takes an address of this machine and a "
            "free port, 0 for any"
        ) from None
    return bound


def _enlarge(bound: socket.socket) -> None:
    """As much as the system gives; more than its limit if we may."""
    for plain, forced in ((socket.SO_RCVBUF, _SO_RCVBUFFORCE), (socket.SO_SNDBUF, _SO_SNDBUFFORCE)):
        with contextlib.suppress(OSError):
            bound.setsockopt(socket.SOL_SOCKET, plain, _BUFFER_BYTES)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, forced, _BUFFER_BYTES)
