"""What is said of connections that came to nothing. Strangers cause these lines, so their number and form are bounded.

At most ``most`` lines a minute are written; the first line of a later minute is preceded by how many were left out.
What the other side said itself is shortened and freed of line breaks and control characters, so that nobody can
write lines of their own into a log or move about on a terminal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl

log = logging.getLogger("recado.overlay")

_PERIOD_SECONDS = 60.0
_REASON_CHARS = 300


class Complaints:
    """Of the node ``name``, at most ``most`` a minute."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._since = float("-inf")
        self._count = 0

    def add(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._since >= _PERIOD_SECONDS:
            if (more := self._count - self._most) > 0:
                log.warning("%s: %d more connections failed, which were not logged one by one", self._name, more)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= self._most:
            log.warning("%s: %s", self._name, text)


def foreign(text: str) -> str:
    """What another node said, fit for a log."""
    return "".join(char if char.isprintable() else "?" for char in text[:_REASON_CHARS])


def why(error: Exception) -> str:
    """The reason in an error. Asyncio puts its own words and the address where the system's words would be."""
    match error:
        case ssl.SSLError():
            return f"TLS: {getattr(error, 'reason', '') or error}"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError(strerror=str(words)):
            return words
    return str(error)
