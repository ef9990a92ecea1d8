"""What the tests of live nodes share: quick limits, waiting for events, talking to a port by hand, a TCP proxy."""

import asyncio
import contextlib

from overlay.flood import FLOOD
from recado.overlay.hello import FrameDecoder, Handshake, Hello, decode_control, encode_control, header
from recado.overlay.limits import OverlayLimits
from recado.overlay.node import Node

QUICK = OverlayLimits(
    hello_seconds=0.5,
    ping_seconds=0.2,
    silence_seconds=0.8,
    probe_seconds=0.3,
    retry_seconds=0.02,
    retry_most_seconds=0.2,
    publish_wait_seconds=0.05,
    drain_seconds=1.0,
)


def run(test, seconds=120):
    """Run an async test; it may not take too long, and no task may be left behind."""

    async def whole():
        async with asyncio.timeout(seconds):
            await test
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(whole())


def node(name, **options):
    options.setdefault("limits", QUICK)
    options.setdefault("protocol", FLOOD)
    return Node(name, **options)


async def until(condition):
    """Wait until it is so; the test's own time limit ends it otherwise."""
    while not condition():
        await asyncio.sleep(0.005)


async def take(stream, count):
    """The ids of the next events of a stream."""
    return [(await anext(stream)).event.id for _ in range(count)]


class Hand:
    """A connection to a node that a test drives by hand."""

    @classmethod
    async def to(cls, node):
        self = cls()
        self.reader, self.writer = await asyncio.open_connection(node.address.host, node.address.port)
        self.decoder = FrameDecoder(1 << 20)
        return self

    def say(self, message, control=True):
        payload = encode_control(message)
        self.writer.write(header(payload, control=control) + payload)

    async def frame(self):
        """The next frame, or None if the node closed."""
        while (frame := self.decoder.next()) is None:
            try:
                data = await self.reader.read(4096)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.decoder.feed(data)
        return frame

    async def control(self):
        """The next thing the link says for itself."""
        while (frame := await self.frame()) is not None:
            if frame.control:
                return decode_control(frame.payload)
        return None

    async def last_words(self):
        """What the node says before it closes."""
        said = []
        while (message := await self.control()) is not None:
            said.append(message)
        self.writer.close()
        return said

    async def become(self, name, node, key=b"", at=""):
        """Go through the hello as a node of this name, which may say where it listens, to the link."""
        hello = Hello(1, node.overlay, node.protocol.name, name, b"n" * 16, (f"at={at}",) if at else ())
        handshake = Handshake(hello, key, dialled=True)
        for message in handshake.begin():
            self.say(message)
        while not handshake.accepted:
            for answer in handshake.receive((await self.frame()).payload):
                self.say(answer)
            if handshake.proven and handshake.decides:
                self.say(handshake.accept())
        return self


class Proxy:
    """A TCP proxy that can be cut and slowed."""

    def __init__(self, target):
        self.target, self.open, self.tasks, self.writers = target, True, set(), set()
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.cut()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def connected(self, reader, writer):
        task = asyncio.create_task(self.serve(reader, writer))
        self.tasks.add(task)

    def cut(self):
        for writer in self.writers:
            writer.transport.abort()

    async def serve(self, reader, writer):
        self.writers.add(writer)
        if not self.open:
            writer.transport.abort()
            return
        back_reader, back = await asyncio.open_connection(self.target.host, self.target.port)
        self.writers.add(back)
        await asyncio.gather(self.carry(reader, back), self.carry(back_reader, writer))

    async def carry(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(4096):
                await self.flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
