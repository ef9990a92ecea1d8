"""Watching the device's own address (mobility document, section 3.4): the small loop around ``AddressMonitor``.

The address is the one that the system would use towards the home server: a UDP socket is connected to it, which sends
nothing, and asked for its name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from recado.protocols.sip.address import Address
from recado.protocols.sip.monitor import AddressMonitor, Change

ADDRESS_POLL_SECONDS = 2.0

Probe = Callable[[], str | None]
OnChange = Callable[[Change], Awaitable[None]]


def local_address_towards(home: Address) -> str | None:
    """The local address on the way there; None if there is no way."""
    family = socket.AF_INET6 if ":" in home.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((home.host, home.port))
            return str(sock.getsockname()[0])
    except OSError:
        return None


async def watch_address(
    bound: str, probe: Probe, on_change: OnChange, *, poll_seconds: float = ADDRESS_POLL_SECONDS
) -> None:
    """For ever, until cancelled: look, and tell of each change. A change is told whole before the next look."""
    monitor = AddressMonitor(bound)
    while True:
        change = monitor.observe(probe())
        if change is not None:
            await on_change(change)
        await asyncio.sleep(poll_seconds)
