"""Every limit of a live node, in one place: what one peer or one program can cost it.

``docs/overlay.md`` has this table, and a test compares them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl

import msgspec

from recado.errors import RecadoError


class OverlayLimits(msgspec.Struct, frozen=True):
    # connections
    frame_bytes: int = 2_097_152
    hello_bytes: int = 4_096
    hello_seconds: float = 5.0
    connections: int = 256
    complaints_a_minute: int = 20
    # a link
    queue_bytes: int = 8_388_608
    ping_seconds: float = 5.0
    silence_seconds: float = 15.0
    probe_seconds: float = 2.0
    messages_a_second: int = 5_000
    # contacts: links that are opened when they are needed
    contacts: int = 64
    contact_idle_seconds: float = 30.0
    ack_seconds: float = 1.0
    ack_tries: int = 2
    # dialling
    retry_seconds: float = 0.2
    retry_most_seconds: float = 30.0
    # the applications at this node
    programs: int = 64
    stream_notifications: int = 10_000
    stream_bytes: int = 16_777_216
    publish_wait_seconds: float = 1.0
    # what a node remembers of itself
    story_steps: int = 4_096
    story_bytes: int = 8_388_608
    deliveries: int = 10_000
    # the end
    drain_seconds: float = 5.0


OVERLAY_LIMITS = OverlayLimits()


# --- What can go wrong on an overlay ---------------------------------------------------------------------------------


class OverlayError(RecadoError):
    """A node that cannot be started, reached or asked."""


class LinkError(OverlayError):
    """A connection that cannot go on; the message is its reason, told to the peer and to the log."""


class HelloError(LinkError):
    """A connection that never became a link: another version, overlay or key."""


# --- What is said of connections that came to nothing. Strangers cause these lines, so their number and form are
# bounded
#
# At most ``most`` lines a minute are written; the first line of a later minute is preceded by how many were left out.
# What the other side said itself is shortened and freed of line breaks and control characters, so that nobody can
# write lines of their own into a log or move about on a terminal.


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


def sanitize(text: str) -> str:
    """What another node said, fit for a log."""
    return "".join(char if char.isprintable() else "?" for char in text[:_REASON_CHARS])


def reason_of(error: Exception) -> str:
    """The reason in an error. Asyncio puts its own words and the address where the system's words would be."""
    match error:
        case ssl.SSLError():
            return f"TLS: {getattr(error, 'reason', '') or error}"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError(strerror=str(words)):
            return words
    return str(error)
