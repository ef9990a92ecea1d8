"""What a connection wants done and tells, as plain values, and what can go wrong with it."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from recado.errors import RecadoError

Address: TypeAlias = Any
"""Whatever the transport below sends to: a pair of host and port, or the id of a node in the simulator."""


def show(address: Address) -> str:
    """For messages: host and port as people write them."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(address)


class RudpError(RecadoError):
    """A setting or a call that makes no sense."""


class QueueFull(RudpError):  # noqa: N818  # named like the one of the standard library
    """Too many messages wait for their acknowledgement; take care of some Acknowledged first."""


class Unreachable(RudpError):  # noqa: N818  # the document's name
    """The peer did not acknowledge; the layer above marks it DISCONNECTED."""


class Transmit(msgspec.Struct, frozen=True, gc=False):
    datagram: bytes
    address: Address


class Delivered(msgspec.Struct, frozen=True, gc=False):
    message: bytes


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    handle: int


class Failed(msgspec.Struct, frozen=True):
    handle: int
    error: Unreachable


class Disconnected(msgspec.Struct, frozen=True):
    error: Unreachable


Output: TypeAlias = Transmit | Delivered | Acknowledged | Failed | Disconnected
