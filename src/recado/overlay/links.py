"""The lasting links of a node: it dials its peers, and keeps one link to each.

A dialler tries again for ever, with growing, jittered pauses, and rests while there is a link to the node at its
address. What happens before a connection is a link is in ``recado.overlay.connections``.

If the side that decides has a link to the peer already, the new connection is refused and the old one probed: after a
crash that went unnoticed the old one is cut, and the peer's next attempt succeeds. The other side, when it is told of
a new connection and has a link already, lets the new one wait for the probe: if the old one answers, there are two
nodes of one name, and the first stays.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Protocol

from recado.overlay.addresses import Address
from recado.overlay.connections import Connections, Identity, Stream
from recado.overlay.hello import Hello, Refuse, RefusedError
from recado.overlay.limits import OverlayError, OverlayLimits, reason_of
from recado.overlay.link import Link

log = logging.getLogger("recado.overlay")

_LINKED = "there is a link to a node of this name already"


class LinkOwner(Protocol):
    """The node that the links belong to: it is told of links that come and go, and of every message."""

    def link_up(self, peer: str) -> None: ...
    def link_down(self, peer: str) -> None: ...
    def receive(self, peer: str, payload: bytes) -> None: ...


class Links:
    """The links of the node ``me``, by the peer's name."""

    def __init__(self, me: Identity, owner: LinkOwner, limits: OverlayLimits, rng: Random) -> None:
        self._me, self._owner, self._limits, self._rng = me, owner, limits, rng
        self.links: dict[str, Link] = {}
        self._connections = Connections(me, self, limits)
        self._diallers: dict[Address, asyncio.Task[None]] = {}

    @property
    def address(self) -> Address | None:
        return self._connections.address

    @property
    def refused(self) -> int:
        """Connections that came to nothing."""
        return self._connections.refused

    @property
    def open(self) -> int:
        """Connections, whether they are links by now or not."""
        return self._connections.open

    # -- listening and dialling

    async def bind(self, address: Address) -> Address:
        """Take the address, and let nobody in before ``serve``; with the port that the system chose, if it was 0."""
        return await self._connections.bind(address)

    async def serve(self) -> None:
        """Let others in."""
        await self._connections.serve()

    def dial(self, address: Address) -> None:
        """Have a link to whoever listens there, from now on."""
        if address not in self._diallers:
            self._diallers[address] = self._connections.start(self._dial(address))

    def hang_up(self, address: Address) -> None:
        """Dial there no more; a link that exists stays."""
        if dialler := self._diallers.pop(address, None):
            dialler.cancel()

    def end(self, peer: str) -> None:
        """End the link to this peer, if there is one, when everything queued was sent."""
        if link := self.links.get(peer):
            link.finish()

    @property
    def dialled(self) -> tuple[Address, ...]:
        return tuple(self._diallers)

    async def close(self) -> None:
        """Send what is queued, say good-bye, and end every task."""
        await self._connections.stop_listening()
        for address in self.dialled:
            self.hang_up(address)
        await self._connections.close(list(self.links.values()))

    async def _dial(self, address: Address) -> None:
        pause = Backoff(self._limits.retry_seconds, self._limits.retry_most_seconds, self._rng)
        complaint = ""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._call(address)
            except (OverlayError, OSError, UnicodeError) as error:  # the last one: a host that cannot be a name
                if reason_of(error) != complaint:
                    complaint = reason_of(error)
                    log.warning("%s: no link to %s: %s; will try again", self._me.name, address, complaint)
            else:
                complaint = ""
            if loop.time() - began > self._limits.probe_seconds:
                pause.reset()  # it was a link for a while, not one that fails at once every time
            await asyncio.sleep(pause.next())

    async def _call(self, address: Address) -> None:
        """Dial once, and return when the link that it led to has ended."""
        try:
            await self._connections.call(address)
        except RefusedError as refused:
            if not refused.linked or refused.peer not in self.links:
                raise
            await self._rest(refused.peer)

    # -- what connections ask

    def capabilities(self) -> tuple[str, ...]:
        return ()

    def refusal(self, hello: Hello) -> Refuse | None:
        link = self.links.get(hello.node)
        if link is None:
            return None
        link.probe()
        return Refuse(_LINKED, linked=True)

    async def keep(self, hello: Hello, remote: Address, stream: Stream, *, dialled: bool) -> None:
        link = Link(
            hello.node,
            stream.reader,
            stream.writer,
            stream.decoder,
            limits=self._limits,
            receive=self._owner.receive,
            dialled=dialled,
        )
        while older := self.links.get(link.peer):
            if await older.answers():
                raise link.refuse(f"another node called {link.peer!r} is linked here; names are unique in an overlay")
        self.links[link.peer] = link
        log.info("%s: link to %s is up", self._me.name, link.peer)
        self._owner.link_up(link.peer)
        reason = "this node stops"
        try:
            reason = await link.run()
        finally:
            self._remove(link, reason)

    def _remove(self, link: Link, reason: str) -> None:
        if self.links.get(link.peer) is link:
            del self.links[link.peer]
            log.info("%s: link to %s is down: %s", self._me.name, link.peer, reason)
            if not self._connections.ending:
                self._owner.link_down(link.peer)

    async def _rest(self, peer: str) -> None:
        """Wait while there is a link to this peer."""
        while link := self.links.get(peer):
            await link.ended.wait()
            await asyncio.sleep(0)


# --- How long to wait before dialling again: exponential, with jitter, so that many nodes do not return at once


class Backoff:
    """Waits of between half and all of a bound that doubles, up to ``most``; ``reset`` after a success."""

    def __init__(self, first: float, most: float, rng: Random) -> None:
        self._first, self._most, self._rng = first, most, rng
        self._failures = 0

    def next(self) -> float:
        bound = min(self._most, self._first * 2.0 ** min(self._failures, 63))
        self._failures += 1
        return bound * (0.5 + 0.5 * self._rng.random())

    def reset(self) -> None:
        self._failures = 0
