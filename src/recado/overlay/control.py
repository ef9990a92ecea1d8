"""The control socket: how programs on this machine use a running node.

A Unix socket that only its owner may open (mode 0600), JSON lines both ways. Each request is answered by one line,
``{"ok": …}`` or ``{"error": "…"}``; after ``subscribe`` the connection carries what the subscription brings, until
either side closes it. Requests are the structs below; ``do`` names them::

    {"do": "publish", "event": {"id": "t-1", "type": "Tick", "Price": 24.9}}
    {"do": "subscribe", "subscription": {"id": "cheap", "type": "Tick", "filter": "Price < 25"}}
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.model.flat import to_flat
from recado.model.limits import LIMITS
from recado.overlay.driver import shown
from recado.overlay.limits import OverlayError
from recado.overlay.link import stop_listening
from recado.overlay.node import Node
from recado.overlay.streams import Gap, Item, Stream
from recado.protocols.pubsub import Notified


class Request(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, rename="kebab"):
    pass


class PublishRequest(Request, frozen=True, tag="publish"):
    event: msgspec.Raw


class SubscribeRequest(Request, frozen=True, tag="subscribe"):
    """With ``keep`` the subscription stays when the connection ends; without ``follow`` it is only made, and kept."""

    subscription: msgspec.Raw
    keep: bool = False
    follow: bool = True


class FollowRequest(Request, frozen=True, tag="follow"):
    """The connection carries what a kept subscription brings, and brought since it was last followed."""

    id: str


class UnsubscribeRequest(Request, frozen=True, tag="unsubscribe"):
    id: str


class PublisherRequest(Request, frozen=True, tag="become-publisher"):
    type: str


class BrokerRequest(Request, frozen=True, tag="become-broker"):
    type: str


class CandidateRequest(Request, frozen=True, tag="become-candidate"):
    type: str


class ShowRequest(Request, frozen=True, tag="show"):
    pass


class CountRequest(Request, frozen=True, tag="count"):
    """Only what tells whether messages are on their way."""


class StoryRequest(Request, frozen=True, tag="story"):
    about: str = ""
    last: int = 100


class DeliveriesRequest(Request, frozen=True, tag="deliveries"):
    pass


class ConnectRequest(Request, frozen=True, tag="connect"):
    address: str


class StopRequest(Request, frozen=True, tag="stop"):
    pass


AnyRequest: TypeAlias = (
    PublishRequest
    | SubscribeRequest
    | FollowRequest
    | UnsubscribeRequest
    | PublisherRequest
    | BrokerRequest
    | CandidateRequest
    | ShowRequest
    | CountRequest
    | StoryRequest
    | DeliveriesRequest
    | ConnectRequest
    | StopRequest
)

_decode = msgspec.json.Decoder(AnyRequest).decode
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class Control:
    """The control socket of one node."""

    def __init__(self, node: Node, path: Path) -> None:
        self._node, self.path = node, path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        limit = LIMITS.event_bytes + LIMITS.subscription_bytes
        try:
            listening = _listen(self.path)
        except OSError as error:
            raise OverlayError(f"the control socket {self.path} cannot be opened: {error}") from None
        self._server = await asyncio.start_unix_server(self._accept, sock=listening, limit=limit)

    async def claim(self) -> None:
        """Take away a socket that a killed node left; refuse if its node still runs."""
        try:
            _, writer = await asyncio.open_unix_connection(self.path)
        except OSError:
            self.path.unlink(missing_ok=True)
            return
        writer.close()
        raise OverlayError(f"a node with the control socket {self.path} runs already; give this one another name")

    async def close(self) -> None:
        if self._server is None:
            return
        await stop_listening(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close a turn later
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._node.limits.programs:
            writer.write(_line({"error": f"{len(self._tasks)} programs use this node already; that is the limit"}))
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also if it is cancelled before it begins

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            try:
                while line := await reader.readline():
                    await self._answer(line, reader, writer)
                    await writer.drain()
            except ValueError:
                writer.write(_line({"error": "the request is longer than an event may be"}))

    async def _answer(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = _decode(line)
            match request:
                case SubscribeRequest(record, keep, follow):
                    stream = await self._node.subscribe(read_subscription(bytes(record)), keep=keep or not follow)
                    if follow:
                        await self._follow(stream, keep, reader, writer)
                    else:
                        writer.write(_line({"ok": {"subscription": stream.subscription}}))
                case FollowRequest(id):
                    await self._follow(self._node.follow(id), True, reader, writer)
                case _:
                    writer.write(_line({"ok": await self._do(request)}))
        except msgspec.DecodeError as error:
            writer.write(_line({"error": f"the request cannot be read: {error}"}))
        except RecadoError as error:
            writer.write(_line({"error": str(error)}))
        except (RecursionError, ValueError) as error:
            writer.write(_line({"error": f"the request cannot be taken: {error}"}))

    async def _do(self, request: AnyRequest) -> Any:
        node = self._node
        match request:
            case PublishRequest(event):
                await node.publish(read_event(bytes(event)))
            case UnsubscribeRequest(id):
                await node.unsubscribe(id)
            case PublisherRequest(type):
                await node.become_publisher(type)
            case BrokerRequest(type):
                await node.become_broker(type)
            case CandidateRequest(type):
                await node.become_candidate(type)
            case ShowRequest():
                return node.show()
            case CountRequest():
                return node.count()
            case StoryRequest(about, last):
                return node.driver.story.tell(about, last)
            case DeliveriesRequest():
                return list(node.streams.deliveries)
            case ConnectRequest(address):
                node.connect(address)
            case StopRequest():
                node.ask_to_stop()
        return {}

    # -- a subscription's connection

    async def _follow(
        self, stream: Stream, keep: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if stream.followed:
            raise OverlayError(f"another program follows {stream.subscription!r} already")
        stream.followed = True
        writer.write(_line({"ok": {"subscription": stream.subscription}}))
        writing = asyncio.create_task(_write_items(stream, writer))
        leaving = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            writing.cancel()
            leaving.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)
            writer.close()
            stream.followed = False
            await self._end(stream, keep)

    async def _end(self, stream: Stream, keep: bool) -> None:
        """The program went away, and its subscription with it unless it is to be kept."""
        gone = keep or self._node.stopped.is_set() or not self._node.streams.has(stream)
        if not gone:
            await self._node.unsubscribe(stream.subscription)


def _listen(path: Path) -> socket.socket:
    """A socket that appears under its name when it can already be connected to."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(draft))
        listening.listen()
        draft.replace(path)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


async def _write_items(stream: Stream, writer: asyncio.StreamWriter) -> None:
    async for item in stream:
        writer.write(_line(item_record(item)))
        await writer.drain()


def item_record(item: Item) -> Mapping[str, Any]:
    """What a stream yields, as a JSON object."""
    match item:
        case Notified(event, subscriptions):
            return {"event": to_flat(event), "subscriptions": subscriptions}
        case Gap(count, events):
            return {"gap": count, "events": events}
    return {"fact": type(item).__name__, **shown(item)}


def _line(answer: Any) -> bytes:
    return _encode(answer) + b"\n"
