"""A real service in the test's own loop, and a wire to it that can be cut."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager

import recado
from recado.server.config import make_config
from recado.server.server import Server


@asynccontextmanager
async def running(data, port=0, **sections):
    """A service on an ephemeral port, with its data in a folder."""
    config = make_config({"data": str(data), "http": {"port": port}, **sections})
    async with Server.start(config) as server:
        yield server


def port_of(server):
    return int(server.url.rpartition(":")[2])


def connect(server, user="ana", **options):
    where = server if isinstance(server, str) else server.url
    return recado.connect(where, **{"user": user, "first_wait": 0.02, "longest_wait": 0.2, **options})


class Wire:
    """A TCP proxy; ``cut`` breaks every connection in the middle of whatever it is doing."""

    def __init__(self, port):
        self.port = port
        self.open = True
        self._writers = []
        self._tasks = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"recado://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader, writer):
        self._tasks.append(asyncio.current_task())
        self._writers.append(writer)
        if not self.open:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(far_writer)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    def cut(self):
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()


async def _pump(reader, writer):
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()


async def eventually(condition, seconds=60.0):
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "it did not happen"
        await asyncio.sleep(0.005)


async def collect(subscription, count, seconds=60.0):
    """The next so many, each acknowledged."""
    found = []
    async with asyncio.timeout(seconds):
        async for one in subscription:
            found.append(one)
            if len(found) == count:
                break
    subscription.finish()
    return found


class Background:
    """A service in a thread of its own."""

    def __init__(self, data):
        self._data = data
        self._ready = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        assert self._ready.wait(60)
        return self

    async def _main(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with running(self._data) as server:
            self.url = server.url
            self._ready.set()
            await self._stop.wait()

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
