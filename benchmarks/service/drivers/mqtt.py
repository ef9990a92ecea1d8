"""mosquitto through paho-mqtt on asyncio: publications of quality 1, "at least once".

Content-filtered delivery uses subscriptions of quality 0, the fastest that MQTT has: they are not acknowledged. Who
goes away has one of quality 1. mosquitto keeps an event only for clients that are away; so there is one, when it is
asked to keep events.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.service.drivers.base import TOPIC, Heard
from benchmarks.service.workload import class_read, event, number_of, read

IN_FLIGHT = 10_000
MISC_SECONDS = 0.5


class Mqtt:
    def __init__(self, port: int) -> None:
        self._port = port

    async def prepare(self) -> None:
        await self.keep("archive")

    async def publisher(self, number: int) -> _Connection:
        connection = _Connection(f"publisher-{number}")
        await connection.open(self._port)
        return connection

    async def listener(self, name: str, classes: Sequence[int], heard: Heard) -> _Connection:
        wanted = frozenset(classes)

        def on_message(client: Client, userdata: Any, message: MQTTMessage) -> None:
            reading = read(bytes(message.payload))
            if class_read(reading) in wanted:
                heard(reading.number)

        connection = _Connection(name)
        connection.client.on_message = on_message
        await connection.open(self._port)
        await connection.subscribe(quality=0)
        return connection

    async def keep(self, name: str) -> None:
        connection = _Connection(name, clean=False)
        await connection.open(self._port)
        await connection.subscribe()
        await connection.close()

    async def back(self, name: str, heard: Heard) -> _Connection:
        connection = _Connection(name, clean=False)
        connection.client.on_message = lambda client, userdata, message: heard(number_of(bytes(message.payload)))
        await connection.open(self._port)
        return connection


class _Connection:
    """A client whose socket the event loop watches, as paho's documentation shows it."""

    def __init__(self, name: str, clean: bool = True) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._subscribed: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._misc: asyncio.Task[None] | None = None
        self.client = client = Client(CallbackAPIVersion.VERSION2, name, clean_session=clean)
        client.max_inflight_messages_set(IN_FLIGHT)
        client.max_queued_messages_set(0)
        loop = self._loop
        client.on_socket_open = lambda client, userdata, sock: loop.add_reader(sock, client.loop_read)
        client.on_socket_close = lambda client, userdata, sock: _quietly(loop.remove_reader(sock))
        client.on_socket_register_write = lambda client, userdata, sock: loop.add_writer(sock, client.loop_write)
        client.on_socket_unregister_write = lambda client, userdata, sock: _quietly(loop.remove_writer(sock))
        client.on_connect = lambda *_: _done(self._connected)
        client.on_subscribe = lambda *_: _done(self._subscribed)
        client.on_disconnect = lambda *_: _done(self._gone)
        client.on_publish = lambda client, userdata, mid, reason, properties: _done(self._waiting.pop(mid))

    async def open(self, port: int) -> None:
        self.client.connect("127.0.0.1", port, keepalive=600)
        taken = self.client.socket()
        assert isinstance(taken, socket.socket)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._misc = asyncio.create_task(self._keep_up())
        await self._connected

    async def _keep_up(self) -> None:
        while self.client.loop_misc() == 0:
            await asyncio.sleep(MISC_SECONDS)

    async def subscribe(self, quality: int = 1) -> None:
        self.client.subscribe(TOPIC, qos=quality)
        await self._subscribed

    async def publish(self, number: int) -> None:
        acknowledged = self._loop.create_future()
        self._waiting[self.client.publish(TOPIC, event(number), qos=1).mid] = acknowledged
        await acknowledged

    async def close(self) -> None:
        if self._misc is not None:
            self._misc.cancel()
            await asyncio.gather(self._misc, return_exceptions=True)
        self.client.disconnect()
        await asyncio.wait([self._gone], timeout=1)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _quietly(_: bool) -> None:
    """A callback that has nothing to tell."""
