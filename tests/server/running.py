"""A service in the test's own loop, on a port that the system chooses, and small clients of it."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
from websockets.asyncio.client import connect

from recado.protocols.session import messages as m
from recado.server.config import Config, make_config
from recado.server.server import Server


def config(folder: Path, **sections) -> Config:
    """The defaults on port 0; sections override, such as ``limits={"first_bytes": 100}``."""
    http = {"port": 0, **sections.pop("http", {})}
    return make_config({"data": str(folder / "data"), "http": http, **sections})


@asynccontextmanager
async def serving(folder: Path, seconds=60, **sections):
    async with asyncio.timeout(seconds), Server.start(config(folder, **sections)) as server:
        await server.engine.when_loaded()
        yield server


def run(coroutine):
    return asyncio.run(coroutine)


@asynccontextmanager
async def http(server, user="ana", token=None, **headers):
    """An HTTP client that stands for a user."""
    who = {"authorization": f"Bearer {token}"} if token else {"x-recado-user": user}
    async with httpx.AsyncClient(
        base_url=server.url, headers={**who, **headers}, trust_env=False, timeout=30
    ) as client:
        yield client


class Agent:
    """A WebSocket session by hand: what comes is kept, in order, until someone asks for it."""

    def __init__(self, socket):
        self.socket = socket
        self.unread = []

    async def send(self, *messages):
        await self.socket.send(m.encode(messages).decode())

    async def next(self, kind=object, where=lambda message: True):
        """The first message of a kind that nobody asked for yet."""
        while True:
            for number, message in enumerate(self.unread):
                if isinstance(message, kind) and where(message):
                    return self.unread.pop(number)
            async with asyncio.timeout(60):
                self.unread += m.from_service(await self.socket.recv())

    async def ask(self, message, kind=m.Ok):
        """Send a request and wait for its answer, which must be of this kind."""
        await self.send(message)
        answer = await self.next(where=lambda found: getattr(found, "req", None) == message.req)
        assert isinstance(answer, kind), answer
        return answer

    async def subscribe(self, req, **record):
        return await self.ask(m.Subscribe(req, raw(record)), m.Subscribed)

    async def publish(self, req, **event):
        return await self.ask(m.Publish(req, raw(event)))


def raw(members):
    return msgspec.Raw(msgspec.json.encode(members))


def ws_url(server, user=None):
    return server.url.replace("http", "ws", 1) + "/v1/session" + (f"?user={user}" if user else "")


@asynccontextmanager
async def agent(server, user="ana", device="d", **hello):
    """A session that has been welcomed."""
    async with connect(ws_url(server, user), compression=None, max_size=None, proxy=None) as socket:
        found = Agent(socket)
        await found.send(m.Hello(device, **hello))
        found.welcome = await found.next(m.Welcome)
        yield found


async def until(condition, seconds=60):
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
