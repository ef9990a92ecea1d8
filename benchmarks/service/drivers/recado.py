"""Recado over WebSocket, with its own client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from benchmarks.service.drivers.base import Heard
from benchmarks.service.workload import TYPE, expression, members
from recado.client import Client, ClientSubscription, connect

DAY_SECONDS = 86_400.0


class Recado:
    """Its publishers are users of its own: what another run has published is not the same event sent again."""

    def __init__(self, port: int) -> None:
        self._port, self._run = port, token_hex(4)

    async def prepare(self) -> None:
        """Every event goes to the log."""

    async def _connect(self, user: str) -> Client:
        return await connect(f"recado://{user}@127.0.0.1:{self._port}", device="bench").__aenter__()

    async def publisher(self, number: int) -> _Publisher:
        return _Publisher(await self._connect(f"publisher-{self._run}-{number}"))

    async def listener(self, name: str, classes: Sequence[int], heard: Heard) -> _Listener:
        listener = _Listener(await self._connect(name), heard)
        client = listener.client
        made = [client.subscribe(expression(kind), type=TYPE, id=f"s-{kind}", ttl=DAY_SECONDS) for kind in classes]
        await asyncio.gather(*map(listener.listen, made))
        return listener

    async def keep(self, name: str) -> None:
        client = await self._connect(name)
        await client.subscribe(type=TYPE, id="all", ttl=DAY_SECONDS).ready()
        await client.close()

    async def subscribe(self, name: str, classes: Sequence[int]) -> None:
        """Leave subscriptions behind, one for each of the classes."""
        client = await self._connect(name)
        made = [
            client.subscribe(expression(kind), type=TYPE, id=f"s-{number}", ttl=DAY_SECONDS)
            for number, kind in enumerate(classes)
        ]
        await asyncio.gather(*(one.ready() for one in made))
        await client.close()

    async def back(self, name: str, heard: Heard) -> _Listener:
        listener = _Listener(await self._connect(name), heard)
        await listener.listen(listener.client.follow())
        return listener


class _Publisher:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def publish(self, number: int) -> None:
        await self._client.publish(members(number))

    async def close(self) -> None:
        await self._client.close()


class _Listener:
    def __init__(self, client: Client, heard: Heard) -> None:
        self.client, self._heard = client, heard
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, subscription: ClientSubscription) -> None:
        """Hear it from now on, when the service holds it."""
        await subscription.ready()
        self._tasks.append(asyncio.create_task(self._hear(subscription)))

    async def _hear(self, subscription: ClientSubscription) -> None:
        async for notification in subscription:
            self._heard(notification["number"])

    async def close(self) -> None:
        await self.client.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
