"""Closing a connection so that the last answer arrives.

A socket that is closed while bytes of the peer are unread resets the connection, and the peer never sees the answer
that was to tell what it did wrong. So the service first ends its own side, reads and drops what still comes, and
closes when the peer does, or after a moment.
"""

from __future__ import annotations

import asyncio
from typing import Any

LINGER_SECONDS = 1.0


def linger(transport: asyncio.Transport) -> asyncio.TimerHandle | None:
    """End our side; the whole connection ends when the peer closes, or a moment later."""
    if transport.is_closing():
        return None
    if not transport.can_write_eof():
        transport.close()
        return None
    try:
        transport.write_eof()
    except OSError:  # the peer is gone already
        transport.abort()
        return None
    transport.resume_reading()
    return asyncio.get_running_loop().call_later(LINGER_SECONDS, transport.abort)


class Lingering:
    """A transport whose ``close`` lingers; everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.plain = transport
        self._ending = False
        self._timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        """What uvicorn asks of a transport."""
        return getattr(self.plain, name)

    def is_closing(self) -> bool:
        return self._ending or self.plain.is_closing()

    def close(self) -> None:
        if not self._ending:
            self._ending = True
            self._timer = linger(self.plain)

    def closed(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
