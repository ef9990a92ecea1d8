"""What the load asks of each system's own Python client. All of them run on asyncio, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Heard = Callable[[int], None]
"""Told the number of each event that reached somebody interested."""

TOPIC = "events"


class Publisher(Protocol):
    async def publish(self, number: int) -> None:
        """Publish event ``number``; returns when the broker has acknowledged it."""
        ...

    async def close(self) -> None: ...


class Listener(Protocol):
    async def close(self) -> None: ...


class Driver(Protocol):
    """One system. A broker that cannot look into events sends them all, and the client leaves out what nobody wants."""

    async def prepare(self) -> None:
        """See to it that what is published from now on is kept."""
        ...

    async def publisher(self, number: int) -> Publisher: ...

    async def listener(self, name: str, classes: Sequence[int], heard: Heard) -> Listener:
        """A connection with these interests."""
        ...

    async def keep(self, name: str) -> None:
        """Subscribe to all events so that they are kept for this subscriber, and go away."""
        ...

    async def back(self, name: str, heard: Heard) -> Listener:
        """The subscriber comes back and takes what was kept, acknowledging it."""
        ...
