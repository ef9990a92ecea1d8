"""The client: one session of one device with the service, whatever the line is made of.

It connects, resumes, renews and drops repeats by itself (``recado.protocols.session.agent``); the application
publishes, subscribes and looks at counts. Everything runs in the loop that entered ``async with``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from recado.client.errors import TooManyInFlight
from recado.client.events import event_json
from recado.client.session import ClientSession
from recado.client.subscription import Subscription
from recado.model.event import Event
from recado.protocols.session import agent_words as words
from recado.protocols.session import messages as m

_PAGE = 1_000
_log = logging.getLogger("recado.client")

Publishable = str | Event | Mapping[str, Any] | bytes


class Client(ClientSession):
    """Made by ``recado.connect``; use it with ``async with``."""

    # -- publish

    async def publish(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> int:
        """Publish one event; its position in the log, when it is on stable storage."""
        while self._publishing >= self.options.in_flight:
            await self._wait_for_room()
        return await self.publish_soon(what, attributes)

    def publish_soon(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> asyncio.Future[int]:
        """The same without waiting; TooManyInFlight if ``in_flight`` of them are unanswered."""
        if self._publishing >= self.options.in_flight:
            raise TooManyInFlight(f"{self._publishing:,} publications are unanswered, which is the bound; await room()")
        self._check_open()
        event = event_json(what, attributes, self._ids)
        future: asyncio.Future[int] = self._loop.create_future()
        self._ask(words.PublishEvent(msgspec.Raw(event), future))
        self._publishing += 1
        return future

    async def publish_all(self, events: Iterable[Publishable]) -> list[int]:
        """Publish many, ``in_flight`` at a time, in order; their positions."""
        futures = []
        for event in events:
            while self._publishing >= self.options.in_flight:
                await self._wait_for_room()
            futures.append(self.publish_soon(event))
        return list(await asyncio.gather(*futures))

    async def room(self) -> None:
        """Wait until ``publish_soon`` may be called again."""
        while self._publishing >= self.options.in_flight:
            await self._wait_for_room()

    # -- subscribe

    def subscribe(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        id: str | None = None,
        constraints: Iterable[Mapping[str, Any]] = (),
        ttl: float | None = None,
        expires_at: str | None = None,
        scope: Literal["all", "this device"] | None = None,
        semantic: Mapping[str, Any] | bool | None = None,
        auto_ack: bool = True,
        **more: Any,
    ) -> Subscription:
        """Make a subscription; iterate over what it returns.

        With an ``id`` it is durable: it outlives this client, until it expires, and the same call takes it up again,
        with everything that came meanwhile. Without one it ends with the client and is for this device only.
        """
        durable = id is not None
        name = id if id is not None else f"{self.inboxes.ephemeral_prefix}{next(self._ids)}"
        record = {
            "id": name,
            "filter": filter,
            "type": type,
            "constraints": [dict(one) for one in constraints] or None,
            "ttl": ttl,
            "expires_at": expires_at,
            "scope": scope or ("all" if durable else "this device"),
            "semantic": _semantic(semantic),
            **more,
        }
        confirmed = self._request(words.MakeSubscription, {key: one for key, one in record.items() if one is not None})
        subscription = Subscription(self, name, durable=durable, auto_ack=auto_ack, confirmed=confirmed)
        self.inboxes.add(subscription)
        return subscription

    def follow(self, id: str | None = None, *, auto_ack: bool = True) -> Subscription:
        """Notifications of a subscription that the service holds already; without an id, of all that nobody takes."""
        confirmed: asyncio.Future[Any] = self._loop.create_future()
        confirmed.set_result(None)
        subscription = Subscription(self, id or "", durable=True, auto_ack=auto_ack, confirmed=confirmed)
        self.inboxes.add(subscription)
        return subscription

    async def subscriptions(self) -> list[dict[str, Any]]:
        """What the service holds for this user."""
        answer = await self._request(words.ListSubscriptions)
        return list(answer.subs)

    async def renew(self, id: str, *, ttl: float | None = None, expires_at: str | None = None) -> str:
        """Extend a subscription; until when it is granted now."""
        answer = await self._request(words.RenewSubscription, id, ttl, expires_at)
        return str(answer.expires_at)

    async def cancel(self, id: str) -> None:
        """End a subscription; what came before can still be taken."""
        await self._request(words.CancelSubscription, id)
        self.inboxes.end(id)

    async def discard(self) -> None:
        """End all subscriptions of this user that are not for another device, and empty the mailbox."""
        await self._request(words.DiscardSubscriptions)

    async def replay(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        position: int | None = None,
        since: str | None = None,
        limit: int | None = None,
        semantic: Mapping[str, Any] | bool | None = None,
        on_damage: Callable[[str], None] = _log.warning,
    ) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Events of the log that pass a filter, from a position or an instant on: (position, members).

        It asks for a page at a time, so a slow reader holds nothing up, and ends where the log ends. ``on_damage`` is
        told of positions that the service could not read.
        """
        members = {"id": "replay", "filter": filter or None, "type": type or None, "semantic": _semantic(semantic)}
        record = {name: value for name, value in members.items() if value is not None}
        left = limit
        while left is None or left > 0:
            page = _PAGE if left is None else min(_PAGE, left)
            events: list[m.Replayed] = []
            future: asyncio.Future[Any] = self._loop.create_future()
            self._ask(words.ReplayLog(record, position, since, page, (future, events)))
            answer = await future
            for text in answer.damage:
                on_damage(f"the replay is not whole: {text}")
            for one in events:
                yield one.position, msgspec.json.decode(one.event)
            if len(events) < page:
                return
            position, since = events[-1].position + 1, None
            left = None if left is None else left - len(events)


def _semantic(wanted: Mapping[str, Any] | bool | None) -> dict[str, Any] | None:
    """The member of a record; True means the defaults of the service."""
    if wanted is None or wanted is False:
        return None
    return {} if wanted is True else dict(wanted)
