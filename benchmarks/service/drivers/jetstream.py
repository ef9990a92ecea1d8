"""nats-server through nats-py: JetStream publications with acknowledgements.

Content-filtered delivery uses core subscriptions, the fastest that NATS has: they are not acknowledged. Who goes away
has a durable pull consumer and acknowledges each batch with its last message, as Recado's acknowledgements do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType, StreamConfig

from benchmarks.service.drivers.base import TOPIC, Heard
from benchmarks.service.workload import class_read, event, number_of, read

STREAM = "EVENTS"
BATCH = 500


class JetStream:
    def __init__(self, port: int) -> None:
        self._url = f"nats://127.0.0.1:{port}"

    async def _connect(self) -> Client:
        return await nats.connect(self._url, allow_reconnect=False)

    async def prepare(self) -> None:
        client = await self._connect()
        stream = StreamConfig(name=STREAM, subjects=[TOPIC], storage=StorageType.FILE, num_replicas=1)
        await client.jetstream().add_stream(stream)
        await client.close()

    async def publisher(self, number: int) -> _Publisher:
        return _Publisher(await self._connect())

    async def listener(self, name: str, classes: Sequence[int], heard: Heard) -> _Connection:
        wanted = frozenset(classes)

        async def on_message(message: Msg) -> None:
            reading = read(message.data)
            if class_read(reading) in wanted:
                heard(reading.number)

        client = await self._connect()
        await client.subscribe(TOPIC, cb=on_message, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await client.flush()
        return _Connection(client)

    async def keep(self, name: str) -> None:
        client = await self._connect()
        consumer = ConsumerConfig(
            durable_name=name, ack_policy=AckPolicy.ALL, deliver_policy=DeliverPolicy.NEW, max_ack_pending=10 * BATCH
        )
        await client.jetstream().add_consumer(STREAM, consumer)
        await client.close()

    async def back(self, name: str, heard: Heard) -> _Connection:
        client = await self._connect()
        return _Connection(client, asyncio.create_task(_drain(client, name, heard)))


async def _drain(client: Client, name: str, heard: Heard) -> None:
    subscription = await client.jetstream().pull_subscribe_bind(name, STREAM, pending_msgs_limit=-1)
    while True:
        try:
            messages = await subscription.fetch(BATCH, timeout=1)
        except NatsTimeoutError:
            continue
        for message in messages:
            heard(number_of(message.data))
        await messages[-1].ack()


class _Connection:
    def __init__(self, client: Client, task: asyncio.Task[None] | None = None) -> None:
        self._client, self._task = client, task

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()


class _Publisher:
    def __init__(self, client: Client) -> None:
        self._client, self._stream = client, client.jetstream()

    async def publish(self, number: int) -> None:
        await (await self._stream.publish_async(TOPIC, event(number)))

    async def close(self) -> None:
        await self._client.close()
