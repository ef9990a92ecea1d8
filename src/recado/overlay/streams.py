"""The applications at a node: who gets which notification.

A stream belongs to one subscription and is an async iterator. It holds a bounded number of notifications, of bounded
size; if its reader is slower than that, or away, the oldest are dropped and the reader is told which, at the place
where they would have stood.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import msgspec

from recado.model.event import Event
from recado.overlay.limits import OverlayError, OverlayLimits
from recado.protocols.pubsub import Notified


class Gap(msgspec.Struct, frozen=True, gc=False):
    """So many events were dropped because the stream was not read in time; ``events`` are their ids, oldest first."""

    count: int
    events: tuple[str, ...]


Item: TypeAlias = Notified | Gap | Any
"""What a stream yields: notifications, gaps, and what the protocol reports of the subscription (``Settled``, …)."""


class Stream:
    """Iterate to receive; it ends when ``close`` is called."""

    def __init__(self, subscription: str, limits: OverlayLimits) -> None:
        self.subscription = subscription
        self.followed = False
        self.delivered = self.dropped = 0
        self._most, self._most_bytes = limits.stream_notifications, limits.stream_bytes
        self._bytes = 0
        self._items: deque[Item] = deque()
        self._lost: deque[str] = deque(maxlen=limits.stream_notifications)
        self._told = 0
        self._more = asyncio.Event()
        self._closed = False

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._bytes += _weight(item)
        while len(self._items) > self._most or self._bytes > self._most_bytes:
            oldest = self._items.popleft()
            self._bytes -= _weight(oldest)
            if isinstance(oldest, Notified):
                self.dropped += 1
                self._lost.append(oldest.event.id)
        self._more.set()

    def close(self) -> None:
        self._closed = True
        self._more.set()

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        while not self._items and not self._lost:
            if self._closed:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        if self._lost:
            gap = Gap(self.dropped - self._told, tuple(self._lost))
            self._told = self.dropped
            self._lost.clear()
            return gap
        item = self._items.popleft()
        self._bytes -= _weight(item)
        self.delivered += 1
        return item


def _weight(item: Item) -> int:
    """About how many bytes an item holds in memory: its texts, and a little for everything else."""
    return event_weight(item.event) if isinstance(item, Notified) else 100


def event_weight(event: Event) -> int:
    values = event.attributes.values()
    return 500 + sum(100 + sum(map(_length, v)) if type(v) is tuple else 100 + _length(v) for v in values)


def _length(value: Any) -> int:
    return len(value) if type(value) is str else 8


class Delivery(msgspec.Struct, frozen=True, gc=False):
    time: float
    event: str
    subscriptions: tuple[str, ...]


class Streams:
    """The streams of a node by subscription, and its last deliveries."""

    def __init__(self, limits: OverlayLimits) -> None:
        self._limits = limits
        self._streams: dict[str, Stream] = {}
        self.deliveries: deque[Delivery] = deque(maxlen=limits.deliveries)

    def open(self, subscription: str) -> Stream:
        stream = self._streams[subscription] = Stream(subscription, self._limits)
        return stream

    def close(self, subscription: str) -> None:
        if stream := self._streams.pop(subscription, None):
            stream.close()

    def get(self, subscription: str) -> Stream:
        if subscription not in self._streams:
            known = ", ".join(self._streams) or "none"
            raise OverlayError(f"this node has no subscription {subscription!r}; it has {known}")
        return self._streams[subscription]

    def __contains__(self, subscription: str) -> bool:
        return subscription in self._streams

    def has(self, stream: Stream) -> bool:
        return self._streams.get(stream.subscription) is stream

    def close_all(self) -> None:
        for subscription in list(self._streams):
            self.close(subscription)

    def deliver(self, notified: Notified, now: float) -> None:
        self.deliveries.append(Delivery(now, notified.event.id, notified.subscriptions))
        for subscription in notified.subscriptions:
            if stream := self._streams.get(subscription):
                stream.put(notified)

    def report(self, fact: Any) -> None:
        """What the protocol says of a subscription goes to its stream."""
        if stream := self._streams.get(getattr(fact, "subscription", "")):
            stream.put(fact)
