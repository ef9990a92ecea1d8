"""Long polls: a device that asks now and then instead of staying connected.

The first ``take`` of a device makes its leg; it stays until nobody asked for ``limits.poll_seconds`` after the last
answer. What a take returned and nobody acknowledged is returned again by the next one, so an answer that got lost on
its way costs nothing. The leg's window is what one take may return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from recado.protocols.session.messages import FromService, Gap, SubCancelled
from recado.service.engine import Engine
from recado.service.legs import Notified
from recado.service.permissions import Conflict, Principal

WINDOW = 1_000


class Poll:
    """The leg of a device that polls."""

    kind = "poll"

    def __init__(self, address: str, closed: Callable[[], None]) -> None:
        self.address, self.window = address, WINDOW
        self._closed = closed
        self.notifications: dict[int, Notified] = {}
        self.notices: dict[int, Gap | SubCancelled] = {}
        self.asking = False
        self._news = asyncio.Event()

    def push(self, notifications: Sequence[Notified]) -> None:
        self.notifications.update((notified.nid, notified) for notified in notifications)
        self._news.set()

    def notice(self, notices: Sequence[Gap | SubCancelled]) -> None:
        self.notices.update((notice.notice, notice) for notice in notices)
        self._news.set()

    def say(self, messages: Sequence[FromService]) -> None:
        """There are no requests here, so there is nothing to answer."""

    def close(self, reason: str) -> None:
        self._closed()
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Until there is something, or the time is over."""
        if self.notifications or self.notices:
            return
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

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
        if leg.asking:
            raise Conflict(f"device {device!r} asks already in another request; give each its own device")
        leg.asking = True
        self._stop_timer(key)
        try:
            await leg.wait(seconds)
        finally:
            leg.asking = False
            if key in self._legs:
                self._timers[key] = asyncio.get_running_loop().call_later(self._idle, self._expire, key)
        return leg

    async def _attach(self, who: Principal, device: str, address: str) -> Poll:
        key = (who.user, device)
        leg = Poll(address, lambda: self._drop(key, leg))
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
            self._engine.acked(leg, upto)
        if notices:
            self._engine.noticed(leg, notices)

    def _expire(self, key: tuple[str, str]) -> None:
        leg = self._legs.get(key)
        if leg is not None and not leg.asking:
            self._drop(key, leg)
            self._engine.lost(leg, "no poll came")

    def _drop(self, key: tuple[str, str], leg: Poll) -> None:
        if self._legs.get(key) is leg:
            del self._legs[key]
        self._stop_timer(key)

    def _stop_timer(self, key: tuple[str, str]) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def close(self) -> None:
        for key in list(self._legs):
            self._stop_timer(key)
            leg = self._legs.pop(key)
            leg.close("draining")
            self._engine.lost(leg, "draining")
