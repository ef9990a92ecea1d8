"""What an application gets: notifications, and the subscription that it iterates over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from recado.model.codec import read_event
from recado.model.event import Event
from recado.protocols.session.messages import ORDINAL_BITS, Notify

_decode = msgspec.json.Decoder().decode


class Notification:
    """One event for one subscription; ``n["Price"]`` is an attribute of the event.

    The event is decoded when it is asked for.
    """

    __slots__ = ("_acknowledge", "_decoded", "_notify")

    def __init__(self, notify: Notify, acknowledge: Callable[[int], None]) -> None:
        self._notify, self._acknowledge = notify, acknowledge
        self._decoded: dict[str, Any] | None = None

    @property
    def nid(self) -> int:
        """Its number, which is the same if the service has to repeat it."""
        return self._notify.nid

    @property
    def subscription(self) -> str:
        """The id of the subscription."""
        return self._notify.sub_id

    @property
    def position(self) -> int:
        """The event's place in the log."""
        return self._notify.nid >> ORDINAL_BITS

    @property
    def generated_at(self) -> str:
        """When the service made it, as RFC 3339 text."""
        return self._notify.generated_at

    @property
    def queued(self) -> bool:
        """Did it wait in the mailbox?"""
        return self._notify.queued

    @property
    def why(self) -> dict[str, Any] | None:
        """Which attribute stood for which name, if the subscription's ``semantic`` has ``explain``."""
        return self._notify.why

    @property
    def raw(self) -> bytes:
        """The event as JSON, in the flat form."""
        return bytes(self._notify.event)

    @property
    def members(self) -> dict[str, Any]:
        """The members of the event's flat form."""
        if self._decoded is None:
            self._decoded = _decode(self._notify.event)
        return self._decoded

    @property
    def event(self) -> Event:
        """The event, checked and typed."""
        return read_event(self.members)

    @property
    def id(self) -> str:
        """The event's id."""
        return str(self.members["id"])

    @property
    def type(self) -> str:
        """The event's type; "" if it has none."""
        return str(self.members.get("type", ""))

    def __getitem__(self, name: str) -> Any:
        """A member of the event's flat form; a KeyError if it has none of this name."""
        return self.members[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The same, with a default."""
        return self.members.get(name, default)

    def ack(self) -> None:
        """The application is done with it: the service may forget it. A second time does nothing."""
        self._acknowledge(self._notify.nid)

    def __repr__(self) -> str:
        return f"<Notification {self.nid} of {self.subscription}: {self.raw.decode()}>"


class SubscriptionOwner(Protocol):
    """The session, as far as a subscription needs it."""

    def acknowledge(self, nid: int) -> bool: ...

    def release(self, nid: int) -> None: ...

    async def renew(self, sub_id: str, ttl: float | None = None) -> str: ...

    async def cancel(self, sub_id: str) -> None: ...


class ClientSubscription:
    """A subscription in the hands of the application: an asynchronous iterator of notifications, with counts.

    ``Client.subscribe`` makes it. Iterating waits for the service's confirmation by itself, and ends when the
    subscription is cancelled, the client closed, or the same id subscribed to or followed again by this client: the
    newer object then takes what was not taken. With ``auto_ack`` a notification is acknowledged when the loop asks
    for the next one, so one that the body failed on comes again; leaving ``async with`` without an exception
    acknowledges the last one, too, and ends a subscription that has no id of its own.
    """

    id: str
    """Its name at the service."""
    durable: bool
    """Does it outlive the client?"""
    delivered: int
    """Notifications that the application acknowledged."""
    cancelled: str
    """Why the service cancelled it; "" if it did not."""

    def __init__(
        self, owner: SubscriptionOwner, sub_id: str, *, durable: bool, auto_ack: bool, confirmed: asyncio.Future[Any]
    ) -> None:
        self.id = sub_id
        self.durable = durable
        self.delivered = 0
        self.cancelled = ""
        self._owner = owner
        self._auto = auto_ack
        self._confirmed = confirmed
        self._queue: deque[Notify] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._in_hand: int | None = None
        self._end: Exception | None = None
        self._ended = False

    @property
    def pending(self) -> int:
        """Notifications that are here and not taken."""
        return len(self._queue)

    async def ready(self) -> Self:
        """Wait until the service holds the subscription; Refused or NotAllowed if it does not want to."""
        await asyncio.shield(self._confirmed)
        return self

    # -- for the session

    def put(self, notify: Notify) -> None:
        """Queue a notification."""
        self._queue.append(notify)
        self._wake()

    def hand_over(self) -> list[Notify]:
        """Another object stands for the subscription from now on: give what nobody has taken, and end."""
        queued = list(self._queue)
        self._queue.clear()
        self.end()
        return queued

    def end(self, error: Exception | None = None) -> None:
        """No more will come: what is here can still be taken."""
        if not self._ended:
            self._ended, self._end = True, error
            self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- for the application

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        if self._in_hand is not None:
            self.finish()
        if not self._queue:
            await self.wait()
        notify = self._queue.popleft()
        if self._auto:
            self._in_hand = notify.nid
        return Notification(notify, self._acknowledge)

    def take(self, most: int = 1_024) -> list[Notification]:
        """What is here already, without waiting; to be acknowledged one by one."""
        return [Notification(self._queue.popleft(), self._acknowledge) for _ in range(min(most, len(self._queue)))]

    async def wait(self) -> None:
        """Wait until there is something to take; StopAsyncIteration if nothing will come."""
        if not self._confirmed.done():
            await self.ready()
        while not self._queue:
            if self._confirmed.done() and not self._confirmed.cancelled() and (error := self._confirmed.exception()):
                raise error
            if self._ended:
                if self._end is not None:
                    raise self._end
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def finish(self) -> None:
        """Acknowledge the notification in hand, if there is one."""
        nid, self._in_hand = self._in_hand, None
        if nid is not None:
            self._acknowledge(nid)

    def _acknowledge(self, nid: int) -> None:
        if self._owner.acknowledge(nid):
            self.delivered += 1
        if nid == self._in_hand:
            self._in_hand = None

    async def cancel(self) -> None:
        """End the subscription at the service."""
        await self._owner.cancel(self.id)

    async def renew(self, ttl: float | None = None) -> str:
        """Extend it; until when it is granted now."""
        return await self._owner.renew(self.id, ttl)

    async def __aenter__(self) -> Self:
        return await self.ready()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        if not self.durable:
            if not self._ended:
                await self.cancel()
            while self._queue:
                self._owner.release(self._queue.popleft().nid)
