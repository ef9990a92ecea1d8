"""Long polls: a device that asks now and then instead of staying connected.

The first ``take`` of a device makes its consumer; it stays until nobody asked for ``limits.poll_seconds`` after the
last answer. What a take returned and nobody acknowledged is returned again by the next one, so an answer that got
lost on its way costs nothing. A device may acknowledge also when its consumer is gone, or was another process's. The
consumer's window is what one take may return. A device has one take at a time: the newest wins, because whoever asked
before it may be gone without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from recado.protocols.session.messages import FromService, Gap, SubCancelled
from recado.server.consumer import REVOKED, OutgoingNotification
from recado.server.engine import Engine
from recado.server.permissions import Conflict, Principal
from recado.server.problems import UnauthenticatedError
from recado.server.tokens import Tokens

WINDOW = 1_000


class Poll:
    """The consumer of a device that polls."""

    kind = "poll"

    def __init__(self, who: Principal, address: str, closed: Callable[[], None]) -> None:
        self.who, self.address, self.window = who, address, WINDOW
        self._closed = closed
        self._ended = ""
        self.notifications: dict[int, OutgoingNotification] = {}
        self.notices: dict[int, Gap | SubCancelled] = {}
        self.asking = self._turn = 0
        self.answered = -1  # the greatest nid that an answer had
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
        self._consumers: dict[tuple[str, str], Poll] = {}
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    async def take(
        self,
        who: Principal,
        device: str,
        address: str,
        seconds: float,
        *,
        upto: int | None = None,
        notices: Sequence[int] = (),
    ) -> Poll:
        """The device's consumer, when it has something or the time is over; what the device has is acknowledged."""
        key = (who.user, device)
        consumer = await self._reach(who, device, address, upto)
        self._acknowledge(consumer, upto, notices)
        consumer.who, consumer.address = who, address
        consumer.asking += 1
        self._stop_timer(key)
        try:
            await consumer.wait(seconds)
        finally:
            consumer.asking -= 1
            if not consumer.asking and self._consumers.get(key) is consumer:
                self._start_timer(key)
        return consumer

    def note_answer(self, consumer: Poll, notifications: Sequence[OutgoingNotification]) -> None:
        """These are being answered; what an earlier answer had is a repeat."""
        repeats = sum(one.nid <= consumer.answered for one in notifications)
        if repeats:
            self._engine.note_repeats(consumer, repeats)
        if notifications:
            consumer.answered = max(consumer.answered, notifications[-1].nid)

    async def _reach(self, who: Principal, device: str, address: str, upto: int | None) -> Poll:
        """The device's consumer. If it has none any more, since it was silent or the service was started again, it gets
        another one, and what it has is told to the engine as a session that resumes tells it.
        """
        key = (who.user, device)
        found = self._consumers.get(key)
        if found is not None:
            return found
        consumer = Poll(who, address, lambda: self._drop(key, consumer))
        self._engine.attach(who, device, consumer, upto)
        self._consumers[key] = consumer
        await asyncio.sleep(0)  # what waits is given at the end of the turn
        return consumer

    async def acknowledge(
        self, who: Principal, device: str, address: str, *, upto: int | None, notices: Sequence[int]
    ) -> None:
        """What the device has. A Conflict if it never polled, or is connected in another way by now."""
        key = (who.user, device)
        if key not in self._consumers:
            known = next((one for one in self._engine.sessions(who) if one.device == device), None)
            if known is None or known.connected:
                raise Conflict(f"device {device!r} does not poll; take first, then acknowledge")
        consumer = await self._reach(who, device, address, upto)
        self._acknowledge(consumer, upto, notices)
        if not consumer.asking and key not in self._timers:
            self._start_timer(key)

    def _acknowledge(self, consumer: Poll, upto: int | None, notices: Sequence[int]) -> None:
        consumer.forget(upto, notices)
        if upto is not None:
            self._engine.acknowledge(consumer, upto)
        if notices:
            self._engine.confirm_notices(consumer, notices)

    def _expire(self, key: tuple[str, str]) -> None:
        consumer = self._consumers.get(key)
        if consumer is not None and not consumer.asking:
            self._drop(key, consumer)
            self._engine.lose(consumer, "no poll came")

    def _drop(self, key: tuple[str, str], consumer: Poll) -> None:
        if self._consumers.get(key) is consumer:
            del self._consumers[key]
        self._stop_timer(key)

    def _start_timer(self, key: tuple[str, str]) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(self._idle, self._expire, key)

    def _stop_timer(self, key: tuple[str, str]) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def recheck(self, tokens: Tokens) -> None:
        """The tokens were read again: devices whose token is gone are disconnected."""
        for consumer in list(self._consumers.values()):
            if tokens.current(consumer.who) is None:
                consumer.close(REVOKED)
                self._engine.lose(consumer, REVOKED)

    def close(self) -> None:
        for key in list(self._consumers):
            self._stop_timer(key)
            consumer = self._consumers.pop(key)
            consumer.close("draining")
            self._engine.lose(consumer, "draining")
