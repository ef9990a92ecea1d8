"""Long polls: a device that asks now and then instead of staying connected.

The first ``take`` of a device makes its leg; it stays until nobody asked for ``limits.poll_seconds`` after the last
answer. What a take returned and nobody acknowledged is returned again by the next one, so an answer that got lost on
its way costs nothing. The leg's window is what one take may return. A device has one take at a time: the newest wins,
because whoever asked before it may be gone without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from recado.protocols.session.messages import FromService, Gap, SubCancelled
from recado.server.consumer import REVOKED, OutgoingNotification
from recado.server.engine import Engine
from recado.server.http.problems import UnauthenticatedError
from recado.server.permissions import Conflict, Principal
from recado.server.tokens import Tokens

WINDOW = 1_000


class Poll:
    """The leg of a device that polls."""

    kind = "poll"

    def __init__(self, who: Principal, address: str, closed: Callable[[], None]) -> None:
        self.who, self.address, self.window = who, address, WINDOW
        self._closed = closed
        self._ended = ""
        self.notifications: dict[int, OutgoingNotification] = {}
        self.notices: dict[int, Gap | SubCancelled] = {}
        self.asking = self._turn = 0
        self._news = asyncio.Event()

    def push(self, notifications: Sequence[OutgoingNotification]) -> None:
        self.notifications.update((notified.nid, notified) for notified in notifications)
        self._news.set()

    def notice(self, notices: Sequence[Gap | SubCancelled]) -> None:
        self.notices.update((notice.notice, notice) for notice in notices)
        self._news.set()

    def say(self, messages: Sequence[FromService]) -> None:
        """There are no requests here, so there is nothing to answer."""

    def close(self, reason: str) -> None:
        self._ended = reason
        self.notifications.clear()
        self.notices.clear()
        self._closed()
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Until there is something, or the time is over; whoever waited before waits no more."""
        self._turn += 1
        mine = self._turn
        self._news.set()
        self._news.clear()
        if not (self._ended or self.notifications or self.notices):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        if self._ended == REVOKED:
            raise UnauthenticatedError("the token was revoked")
        if self._turn != mine:
            raise Conflict("a newer request of the same device took the place of this one; give each its own device")

    def forget(self, upto: int | None, notices: Sequence[int]) -> None:
        for nid in [nid for nid in self.notifications if upto is not None and nid <= upto]:
            del self.notifications[nid]
        for notice in notices:
            self.notices.pop(notice, None)


class Polls:
    """The devices that poll."""

    def __init__(self, engine: Engine, idle_seconds: float) -> None:
        self._engine, self._idle = engine, idle_seconds
        self._legs: dict[tuple[str, str], Poll] = {}
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    async def take(self, who: Principal, device: str, address: str, seconds: float) -> Poll:
        """The device's leg, when it has something or the time is over."""
        key = (who.user, device)
        leg = self._legs.get(key)
        if leg is None:
            leg = await self._attach(who, device, address)
        leg.who, leg.address = who, address
        leg.asking += 1
        self._stop_timer(key)
        try:
            await leg.wait(seconds)
        finally:
            leg.asking -= 1
            if not leg.asking and self._legs.get(key) is leg:
                self._timers[key] = asyncio.get_running_loop().call_later(self._idle, self._expire, key)
        return leg

    async def _attach(self, who: Principal, device: str, address: str) -> Poll:
        key = (who.user, device)
        leg = Poll(who, address, lambda: self._drop(key, leg))
        self._engine.attach(who, device, leg)
        self._legs[key] = leg
        await asyncio.sleep(0)  # what waits is given at the end of the turn
        return leg

    def acknowledge(self, who: Principal, device: str, upto: int | None, notices: Sequence[int]) -> None:
        """What the device has; without a leg there is nothing to acknowledge, and it will come again."""
        leg = self._legs.get((who.user, device))
        if leg is None:
            raise Conflict(f"device {device!r} has not polled lately; take again, then acknowledge")
        leg.forget(upto, notices)
        if upto is not None:
            self._engine.acknowledge(leg, upto)
        if notices:
            self._engine.confirm_notices(leg, notices)

    def _expire(self, key: tuple[str, str]) -> None:
        leg = self._legs.get(key)
        if leg is not None and not leg.asking:
            self._drop(key, leg)
            self._engine.lose(leg, "no poll came")

    def _drop(self, key: tuple[str, str], leg: Poll) -> None:
        if self._legs.get(key) is leg:
            del self._legs[key]
        self._stop_timer(key)

    def _stop_timer(self, key: tuple[str, str]) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def recheck(self, tokens: Tokens) -> None:
        """The tokens were read again: devices whose token is gone are disconnected."""
        for leg in list(self._legs.values()):
            if tokens.current(leg.who) is None:
                leg.close(REVOKED)
                self._engine.lose(leg, REVOKED)

    def close(self) -> None:
        for key in list(self._legs):
            self._stop_timer(key)
            leg = self._legs.pop(key)
            leg.close("draining")
            self._engine.lose(leg, "draining")
