"""The control socket: how programs on this machine use a running node, of an overlay or of a scene over radio.

A Unix socket that only its owner may open (mode 0600), JSON lines both ways. Each request is answered by one line,
``{"ok": …}`` or ``{"error": "…"}``; after one that is answered with a ``Following`` the connection carries what the
subscription brings, until either side closes it. Requests are structs such as those below; ``do`` names them::

    {"do": "publish", "event": {"id": "t-1", "type": "Tick", "Price": 24.9}}
    {"do": "subscribe", "subscription": {"id": "cheap", "type": "Tick", "filter": "Price < 25"}}
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
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


class Request(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    """Base of all requests."""


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

log = logging.getLogger("recado.overlay")
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class Following:
    """An answer: the stream of a subscription, and what to do when the program goes away."""

    def __init__(self, stream: Stream, end: Callable[[], Awaitable[None]]) -> None:
        if stream.followed:
            raise OverlayError(f"another program follows {stream.subscription!r} already")
        self.stream, self.end = stream, end


class Control:
    """``requests`` is the union of requests that ``answer`` takes; what it raises as a RecadoError is told.

    At most ``programs`` use the socket at a time.
    """

    def __init__(self, path: Path, requests: Any, answer: Callable[[Any], Awaitable[Any]], programs: int) -> None:
        self.path, self._answer, self._programs = path, answer, programs
        self._decode = msgspec.json.Decoder(requests).decode
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def claim(self) -> None:
        """Take away a socket that a killed process left; refuse if somebody still answers."""
        try:
            _, writer = await asyncio.open_unix_connection(self.path)
        except OSError:
            self.path.unlink(missing_ok=True)
            return
        writer.close()
        raise OverlayError(f"a node with the control socket {self.path} runs already; give this one another name")

    async def start(self) -> None:
        limit = LIMITS.event_bytes + LIMITS.subscription_bytes
        try:
            listening = _listen(self.path)
        except OSError as error:
            raise OverlayError(f"the control socket {self.path} cannot be opened: {error}") from None
        self._server = await asyncio.start_unix_server(self._accept, sock=listening, limit=limit)

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
        if len(self._tasks) >= self._programs:
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
                    answer = await self._take(line)
                    if isinstance(answer, Following):
                        await _follow(answer, reader, writer)
                        return
                    writer.write(_line(answer))
                    await writer.drain()
            except ValueError:
                writer.write(_line({"error": "the request is longer than an event may be"}))

    async def _take(self, line: bytes) -> Any:
        try:
            answer = await self._answer(self._decode(line))
        except msgspec.DecodeError as error:
            return {"error": f"the request cannot be read: {error}"}
        except RecadoError as error:
            return {"error": str(error)}
        except (RecursionError, ValueError) as error:
            return {"error": f"the request cannot be taken: {error}"}
        except Exception as error:
            log.exception("a request failed")
            return {"error": f"the request failed ({error!r}); the log has the details"}
        return answer if isinstance(answer, Following) else {"ok": answer}


async def _follow(following: Following, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    stream = following.stream
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
        await following.end()


def control_of(node: Node, path: Path) -> Control:
    """The control socket of a node of an overlay."""
    return Control(path, AnyRequest, lambda request: _answer(node, request), node.limits.programs)


async def _answer(node: Node, request: AnyRequest) -> Any:
    match request:
        case PublishRequest(event):
            await node.publish(read_event(bytes(event)))
        case SubscribeRequest(record, keep, follow):
            stream = await node.subscribe(read_subscription(bytes(record)), keep=keep or not follow)
            if follow:
                return Following(stream, lambda: _end(node, stream, keep))
            return {"subscription": stream.subscription}
        case FollowRequest(id):
            followed = node.follow(id)
            return Following(followed, lambda: _end(node, followed, True))
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


async def _end(node: Node, stream: Stream, keep: bool) -> None:
    """The program went away, and its subscription with it unless it is to be kept."""
    gone = keep or node.stopped.is_set() or not node.streams.has(stream)
    if not gone:
        await node.unsubscribe(stream.subscription)


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
            more = {name: getattr(item, name) for name in item.__struct_fields__[2:]}
            return {"event": to_flat(event), "subscriptions": subscriptions, **more}
        case Gap(count, events):
            return {"gap": count, "events": events}
    return {"fact": type(item).__name__, **shown(item)}


def _line(answer: Any) -> bytes:
    return _encode(answer) + b"\n"
