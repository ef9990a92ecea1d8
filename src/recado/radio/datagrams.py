"""What nodes and medium say to each other, and the Unix datagram sockets that carry it.

Up goes ``Transmit``; down come ``Heard``, ``Acked`` and ``Failed``. A frame is the protocol's message as bytes, which
the medium carries and does not change. Where a datagram comes from says who sent it.

A queue of Linux takes about ten datagrams. What does not fit waits here and is tried again: nothing is dropped unless
the other side is gone, or more than ``MOST_WAITING`` wait for it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

RETRY_SECONDS = 0.001
MOST_WAITING = 100_000
MOST_NAMES = 4_096
BUFFER_BYTES = 4 << 20
DATAGRAM_BYTES = 1 << 20
FRAME_BYTES = 192 << 10
"""A longer frame does not leave its node: the buffers of a socket take about 208 KiB where nobody made them larger."""


class Datagram(msgspec.Struct, frozen=True, gc=False, tag_field="do", array_like=True):
    """Base of all datagrams."""


class Transmit(Datagram, frozen=True, tag="tx"):
    """A node's frame to everybody, or to one neighbour; then ``ref`` comes back in ``Acked`` or ``Failed``."""

    ref: int
    to: str | None
    frame: bytes


class Heard(Datagram, frozen=True, tag="rx"):
    sender: str
    rssi: float
    """In dBm."""
    frame: bytes


class Acked(Datagram, frozen=True, tag="ack"):
    ref: int


class Failed(Datagram, frozen=True, tag="fail"):
    ref: int


Down: TypeAlias = Heard | Acked | Failed

encode = msgspec.msgpack.Encoder().encode
decode_up = msgspec.msgpack.Decoder(Transmit).decode
decode_down = msgspec.msgpack.Decoder(Heard | Acked | Failed).decode


class DatagramSocket:
    """Bound to ``path``; ``receive(name, data)`` is called with the name of the socket that each datagram came from.

    Names are those of sockets in the same folder. What comes from anywhere else is dropped and counted.
    """

    def __init__(self, path: Path, receive: Callable[[str, bytes], None]) -> None:
        self.path, self._receive = path, receive
        self._folder, self._suffix = path.parent, path.suffix
        self._home = path.parent.resolve()
        self._names: dict[str, str] = {}
        """Of addresses that were seen."""
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, deque[bytes]] = {}
        self._retry: asyncio.TimerHandle | None = None
        self.retried = self.dropped = self.strangers = 0
        """Datagrams that had to wait for room; that were given up because too many waited; from other folders."""
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        self._socket.bind(str(path))
        self._loop.add_reader(self._socket, self._read)

    @property
    def waiting(self) -> int:
        """Datagrams that found no room yet."""
        return sum(map(len, self._waiting.values()))

    def send(self, name: str, data: bytes) -> bool:
        """Now or when there is room; False if nobody is there."""
        waiting = self._waiting.get(name)
        if waiting is not None:
            if len(waiting) >= MOST_WAITING:
                self.dropped += 1
                return False
            waiting.append(data)
            return True
        try:
            self._socket.sendto(data, self._address(name))
        except BlockingIOError:
            self.retried += 1
            self._waiting[name] = deque((data,))
            self._retry_later()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """A second call does nothing."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        if self._retry is not None:
            self._retry.cancel()
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def _address(self, name: str) -> str:
        return str(self._folder / f"{name}{self._suffix}")

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._loop.call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        for name in list(self._waiting):
            waiting, address = self._waiting[name], self._address(name)
            try:
                while waiting:
                    self._socket.sendto(waiting[0], address)
                    waiting.popleft()
            except BlockingIOError:
                continue
            except OSError:
                pass  # it is gone, and what was for it
            del self._waiting[name]
        if self._waiting:
            self._retry_later()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            for _ in range(64):  # then others have their turn
                data, address = self._socket.recvfrom(DATAGRAM_BYTES)
                name = self._name_of(address)
                if name:
                    self._receive(name, data)
                else:
                    self.strangers += 1

    def _name_of(self, address: str | bytes | None) -> str:
        """Of a socket in this folder; "" for one that has no address, an abstract one (bytes), or one elsewhere."""
        if not isinstance(address, str):
            return ""
        name = self._names.get(address)
        if name is None:
            path = Path(address)
            is_here = path.suffix == self._suffix and path.parent.resolve() == self._home
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            name = self._names[address] = path.stem if is_here else ""
        return name
