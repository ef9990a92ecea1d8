"""The client for programs without an event loop: the same things, each call waits.

A thread of its own runs the loop. Notifications come over in handfuls, so that a loop over them costs no hand-over
between threads per notification.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from recado.client.client import Client, Publishable
from recado.client.options import make_options
from recado.client.subscription import Notification, Subscription

T = TypeVar("T")
_HANDFUL = 64


class SyncClient:
    """Made by ``recado.connect_sync``; use it with ``with``."""

    def __init__(
        self,
        url: str | None = None,
        *,
        user: str | None = None,
        device: str | None = None,
        state: Any = None,
        **more: Any,
    ) -> None:
        self._client = Client(make_options(url, user=user, device=device, state=state, **more))
        self._subscriptions: list[SyncSubscription] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recado client", daemon=True)

    def __enter__(self) -> SyncClient:
        self._thread.start()
        try:
            self.wait_for(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                for one in self._subscriptions:
                    self.wait_for(one.finish())
            self.wait_for(self._client.close(finish=error is None))
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the client's loop; its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def publish(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> int:
        """Publish one event; its position in the log, when it is on stable storage."""
        return self.wait_for(self._client.publish(what, attributes))

    def publish_all(self, events: Iterable[Publishable]) -> list[int]:
        return self.wait_for(self._client.publish_all(events))

    def subscribe(self, filter: str | None = None, **options: Any) -> SyncSubscription:
        """A subscription, confirmed by the service; iterate over it."""

        async def make() -> Subscription:
            return await self._client.subscribe(filter, **options).ready()

        made = SyncSubscription(self, self.wait_for(make()))
        self._subscriptions.append(made)
        return made

    def subscriptions(self) -> list[dict[str, Any]]:
        return self.wait_for(self._client.subscriptions())

    def renew(self, id: str, *, ttl: float | None = None) -> str:
        return self.wait_for(self._client.renew(id, ttl=ttl))

    def cancel(self, id: str) -> None:
        self.wait_for(self._client.cancel(id))

    def replay(self, filter: str | None = None, **options: Any) -> list[tuple[int, dict[str, Any]]]:
        async def gather() -> list[tuple[int, dict[str, Any]]]:
            return [one async for one in self._client.replay(filter, **options)]

        return self.wait_for(gather())

    @property
    def state(self) -> str:
        return self._client.state

    @property
    def pending(self) -> int:
        return self._client.pending

    @property
    def delivered(self) -> int:
        return self._client.delivered

    @property
    def dropped(self) -> int:
        return self._client.dropped


class SyncSubscription:
    """An iterator; a notification is acknowledged some time after the loop asks for the next one, or at a clean end."""

    def __init__(self, owner: SyncClient, inner: Subscription) -> None:
        self._owner, self._inner = owner, inner
        self._here: deque[Notification] = deque()
        self._done: list[Notification] = []
        self._in_hand: Notification | None = None
        self.id = inner.id

    @property
    def pending(self) -> int:
        return self._inner.pending + len(self._here)

    def __iter__(self) -> SyncSubscription:
        return self

    def __next__(self) -> Notification:
        if self._in_hand is not None:
            self._done.append(self._in_hand)
            self._in_hand = None
        if not self._here:
            self._here.extend(self._owner.wait_for(self._handful()))
        if not self._here:
            raise StopIteration
        self._in_hand = self._here.popleft()
        return self._in_hand

    async def _handful(self) -> list[Notification]:
        self._acknowledge()
        try:
            await self._inner.wait()
        except StopAsyncIteration:
            return []
        return self._inner.take(_HANDFUL)

    def _acknowledge(self) -> None:
        done, self._done = self._done, []
        for one in done:
            one.ack()

    async def finish(self) -> None:
        """Acknowledge everything that the loop has been given."""
        if self._in_hand is not None:
            self._done.append(self._in_hand)
            self._in_hand = None
        self._acknowledge()

    def cancel(self) -> None:
        self._owner.cancel(self.id)
