"""Host names to addresses, one question at a time for each name. SRV and NAPTR records are not asked for.

Only addresses of the family of our own socket are of use.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from recado.protocols.sip.address import Address

_SECONDS = 60.0
_MOST = 1_024
_WAITING = 64

OnFound = Callable[[Address | None], None]


class Names:
    def __init__(self) -> None:
        self.family = socket.AF_INET
        self._known: dict[str, tuple[float, str]] = {}
        self._waiting: dict[str, list[tuple[Address, OnFound]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def resolve(self, address: Address, on_found: OnFound) -> None:
        """At once if the name is known, or else when it is; None if it has no address. Too many questions are lost."""
        known = self._known.get(address.host)
        if known is not None and known[0] > time.monotonic():
            on_found(address._replace(host=known[1]))
            return
        waiting = self._waiting.setdefault(address.host, [])
        if len(waiting) < _WAITING:
            waiting.append((address, on_found))
        if len(waiting) == 1 and len(self._tasks) < _WAITING:
            task = asyncio.get_running_loop().create_task(self._ask(address.host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, host: str) -> None:
        found = None
        with suppress(OSError, UnicodeError):
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, None, family=self.family, type=socket.SOCK_DGRAM
            )
            found = str(answers[0][4][0])
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[host] = (time.monotonic() + _SECONDS, found)
        for address, on_found in self._waiting.pop(host, []):
            on_found(None if found is None else address._replace(host=found))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
