"""Publishers and a subscriber on the real client, and the five words for what became of every event.

ok: acknowledged and delivered once. lost: acknowledged, not delivered. duplicated: delivered twice. unexpected:
delivered, never published. recovered: delivered, though its publisher never got the acknowledgement.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import recado.client as recado
from recado.store.log import LogReader

PUBLISHERS, IN_FLIGHT = 3, 4
QUIET_SECONDS = 60.0
OPTIONS = {"first_wait": 0.02, "longest_wait": 0.3, "timeout": 90.0}


class Load:
    """Publishes until it is told to stop; a subscriber who is always there hears of it."""

    def __init__(self, service) -> None:
        self.service = service
        self.published: dict[str, None] = {}
        self.acked: dict[str, int] = {}
        self.heard: list[str] = []
        self._stopping = False

    async def __aenter__(self):
        self._stack = AsyncExitStack()
        enter = self._stack.enter_async_context
        subscriber = await enter(recado.connect(self.service.url("ana"), device="desk", **OPTIONS))
        subscription = subscriber.subscribe(type="Reading", id="all", ttl=86_400)
        await subscription.ready()
        self._listening = asyncio.create_task(self._listen(subscription))
        clients = [
            await enter(recado.connect(self.service.url(f"p{n}"), device=f"p{n}", **OPTIONS)) for n in range(PUBLISHERS)
        ]
        numbers = [iter(range(10**9)) for _ in clients]
        self._publishing = [
            asyncio.create_task(self._publish(client, f"p{n}", numbers[n]))
            for n, client in enumerate(clients)
            for _ in range(IN_FLIGHT)
        ]
        return self

    async def _publish(self, client, name, numbers) -> None:
        while not self._stopping:
            id = f"{name}-{next(numbers)}"
            self.published[id] = None
            self.acked[id] = await client.publish({"id": id, "type": "Reading", "text": "x" * 100})

    async def _listen(self, subscription) -> None:
        async for notification in subscription:
            self.heard.append(notification.id)

    async def progress(self, events: int) -> None:
        """Wait until so many more are acknowledged."""
        target = len(self.acked) + events
        deadline = time.monotonic() + QUIET_SECONDS
        while len(self.acked) < target:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            self.raise_errors()
            await asyncio.sleep(0.005)

    def raise_errors(self) -> None:
        for task in (*self._publishing, self._listening):
            if task.done() and task.exception() is not None:
                raise task.exception()

    async def settle(self) -> None:
        """No more publications: every one that is under way is acknowledged, and everything is delivered."""
        self._stopping = True
        await asyncio.wait_for(asyncio.gather(*self._publishing), QUIET_SECONDS)
        known, since = -1, time.monotonic()
        while not set(self.acked) <= set(self.heard) and time.monotonic() - since < QUIET_SECONDS:
            if len(self.heard) != known:
                known, since = len(self.heard), time.monotonic()
            await asyncio.sleep(0.05)

    async def __aexit__(self, *error) -> None:
        self._listening.cancel()
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(self._listening, *self._publishing, return_exceptions=True)
        await self._stack.aclose()

    def verdict(self) -> dict[str, int]:
        counts = Counter(self.heard)
        words = {
            "ok": [id for id in self.acked if counts[id] == 1],
            "lost": [id for id in self.acked if not counts[id]],
            "duplicated": [id for id, count in counts.items() if count > 1],
            "unexpected": [id for id in counts if id not in self.published],
            "recovered": [id for id in counts if id in self.published and id not in self.acked],
        }
        return {word: len(ids) for word, ids in words.items()}

    def check_order(self) -> None:
        """What one publisher published is heard in its order."""
        for number in range(PUBLISHERS):
            mine = [int(id.partition("-")[2]) for id in self.heard if id.startswith(f"p{number}-")]
            assert mine == sorted(mine)

    def check_log(self) -> None:
        """Every acknowledged event is where its acknowledgement said, and no event is there twice."""
        stored: dict[int, str] = {}
        for batch in LogReader(self.service.data / "log").read():
            stored.update(zip(batch.column("position").to_pylist(), batch.column("id").to_pylist(), strict=True))
        assert {id: position for position, id in stored.items() if id in self.acked} == self.acked
        assert len(set(stored.values())) == len(stored)
