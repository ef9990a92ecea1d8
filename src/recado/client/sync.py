"""The client for programs without an event loop: the same things, each call waits.

A thread of its own runs the loop. Notifications come over in handfuls, so that a loop over them costs no hand-over
between threads per notification.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from recado.client.client import Client, Publishable, Scope, Semantic, connect
from recado.client.subscription import ClientSubscription, Notification
from recado.protocols.session.commands import Existing, OnCancelled
from recado.protocols.session.messages import Gap

if TYPE_CHECKING:
    from recado.filters.syntax import Syntax  # as in recado.client.client

T = TypeVar("T")
_HANDFUL = 64


def connect_sync(
    url: str | None = None,
    *,
    user: str | None = None,
    device: str | None = None,
    state: str | Path | None = None,
    existing: Existing = "recover",
    on_cancelled: OnCancelled = "resubscribe",
    outbox: int = 10_000,
    in_flight: int = 1_024,
    window: int = 1_024,
    timeout: float | None = 30.0,
    first_wait: float = 0.2,
    longest_wait: float = 30.0,
    keepalive: float = 30.0,
    on_state: Callable[[str, str], None] | None = None,
    on_gap: Callable[[Gap], None] | None = None,
    on_cancel: Callable[[str, str, str], None] | None = None,
    tls: ssl.SSLContext | None = None,
) -> SyncClient:
    """A client for programs without an event loop: ``with recado.connect_sync(url) as c: c.publish(...)``.

    It takes what ``connect`` takes. The functions ``on_state``, ``on_gap`` and ``on_cancel`` are called in the client's
    thread.
    """
    return SyncClient(
        connect(
            url,
            user=user,
            device=device,
            state=state,
            existing=existing,
            on_cancelled=on_cancelled,
            outbox=outbox,
            in_flight=in_flight,
            window=window,
            timeout=timeout,
            first_wait=first_wait,
            longest_wait=longest_wait,
            keepalive=keepalive,
            on_state=on_state,
            on_gap=on_gap,
            on_cancel=on_cancel,
            tls=tls,
        )
    )


class SyncClient:
    """A Client whose methods wait. ``recado.connect_sync`` makes it; use it with ``with``, from one thread.

    It raises what the methods of Client raise.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._subscriptions: list[SyncSubscription] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recado client", daemon=True)

    def __enter__(self) -> Self:
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
        """Publish many, in order; their positions, when all are on stable storage."""
        return self.wait_for(self._client.publish_all(events))

    def subscribe(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        id: str | None = None,
        constraints: Iterable[Mapping[str, Any]] = (),
        ttl: float | None = None,
        expires_at: str | None = None,
        scope: Scope | None = None,
        semantic: Semantic = None,
        filters: Iterable[Mapping[str, Any]] = (),
        syntax: Syntax | None = None,
        webhook: Mapping[str, Any] | None = None,
    ) -> SyncSubscription:
        """A subscription, confirmed by the service; iterate over it. The options are those of ``Client.subscribe``."""

        async def make() -> ClientSubscription:
            subscription = self._client.subscribe(
                filter,
                type=type,
                id=id,
                constraints=constraints,
                ttl=ttl,
                expires_at=expires_at,
                scope=scope,
                semantic=semantic,
                filters=filters,
                syntax=syntax,
                webhook=webhook,
            )
            return await subscription.ready()

        made = SyncSubscription(self, self.wait_for(make()))
        self._subscriptions.append(made)
        return made

    def subscriptions(self) -> list[dict[str, Any]]:
        """What the service holds for this user."""
        return self.wait_for(self._client.subscriptions())

    def renew(self, id: str, *, ttl: float | None = None) -> str:
        """Extend a subscription; until when it is granted now."""
        return self.wait_for(self._client.renew(id, ttl=ttl))

    def cancel(self, id: str) -> None:
        """End a subscription; what came before can still be taken."""
        self.wait_for(self._client.cancel(id))

    def replay(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        position: int | None = None,
        since: str | None = None,
        limit: int | None = None,
        semantic: Semantic = None,
        on_damage: Callable[[str], None] | None = None,
    ) -> list[tuple[int, dict[str, Any]]]:
        """All events of the log that pass, as ``Client.replay`` gives them, in a list."""

        async def gather() -> list[tuple[int, dict[str, Any]]]:
            replay = self._client.replay(
                filter,
                type=type,
                position=position,
                since=since,
                limit=limit,
                semantic=semantic,
                on_damage=on_damage,
            )
            return [one async for one in replay]

        return self.wait_for(gather())

    @property
    def state(self) -> Literal["CONNECTED", "DISCONNECTED", "ENDED"]:
        """DISCONNECTED is passing: the client connects again. ENDED is final."""
        return self._client.state

    @property
    def pending(self) -> int:
        """Notifications that are here and not acknowledged."""
        return self._client.pending

    @property
    def delivered(self) -> int:
        """Notifications that the application is done with."""
        return self._client.delivered

    @property
    def dropped(self) -> int:
        """Notifications that the service dropped and told about."""
        return self._client.dropped


class SyncSubscription:
    """An iterator of notifications. ``SyncClient.subscribe`` makes it.

    A notification is acknowledged some time after the loop asks for the next one, or at a clean end.
    """

    id: str
    """Its name at the service."""

    def __init__(self, owner: SyncClient, inner: ClientSubscription) -> None:
        self._owner, self._inner = owner, inner
        self._here: deque[Notification] = deque()
        self._done: list[Notification] = []
        self._in_hand: Notification | None = None
        self.id = inner.id

    @property
    def pending(self) -> int:
        """Notifications that are here and not taken."""
        return self._inner.pending + len(self._here)

    def __iter__(self) -> Self:
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
        """End the subscription at the service."""
        self._owner.cancel(self.id)
