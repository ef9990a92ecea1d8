"""A sensor node as a process: a machine on the driver of ``recado.net``, the air below it, programs above it.

It has one socket to the medium and one for programs; it knows its name and no position. All times of the machine are
in the protocol's seconds: its clock and its timers are slowed by the scene's factor, and so is the air.

A node that was killed and is started again begins empty: the copies that it kept for others and its routes are lost.
What it has of before is how often it was started, so that nobody takes its new messages for old ones, and the
subscriptions that the scene gives it, which it makes again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from recado import files
from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.model.flat import to_flat
from recado.model.subscription import Subscription
from recado.net.driver import Driver, Timers
from recado.overlay.control import (
    Control,
    CountRequest,
    DeliveriesRequest,
    Following,
    FollowRequest,
    PublishRequest,
    Request,
    ShowRequest,
    StopRequest,
    StoryRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from recado.overlay.driver import Story
from recado.overlay.limits import OVERLAY_LIMITS
from recado.overlay.streams import Stream, Streams
from recado.protocols.machine import Asked, Effect, Received, SendFailed, Started, Stimulus
from recado.protocols.pubsub import Notified, Publish, Subscribe, Unsubscribe
from recado.protocols.wire import WireError
from recado.radio.datagrams import FRAME_BYTES, Acked, DatagramSocket, Failed, Heard, Transmit, decode_down, encode
from recado.radio.scene import MEDIUM, Scene, SceneError

SAMPLES = 10_000
"""Notifications that a node keeps for who asks for them by number."""
MOST_SAMPLES = 500
"""In one answer."""
MOST_WAIT_SECONDS = 60.0
EVENT_BYTES = 65_536
"""Of a sample as JSON; it has to fit into a frame."""
MOST_UNANSWERED = 65_536
"""Frames of which the medium has not said whether they arrived."""

log = logging.getLogger("recado.radio")


class SamplesRequest(Request, frozen=True, tag="samples"):
    """The notifications with a higher number than ``after``; if there is none yet, wait so long for one.

    Numbers count from 1 at every start of the node. Each start has a name: numbers of another than ``start`` mean
    nothing.
    """

    after: int = 0
    start: str = ""
    wait_seconds: float = 0.0


class BeginRequest(Request, frozen=True, tag="begin"):
    """Everybody is there: take up the subscriptions that the scene gives this node."""


REQUESTS = (
    BeginRequest | PublishRequest | SubscribeRequest | FollowRequest | UnsubscribeRequest | ShowRequest | CountRequest
    | StoryRequest | DeliveriesRequest | SamplesRequest | StopRequest
)  # fmt: skip


class Sample(Notified, frozen=True, gc=False):
    """A notification with the node that published it and the hops that it came over, where the message told them."""

    node: str | int = ""
    hops: int | None = None


class SlowTimers(Timers):
    """Timers in the protocol's seconds."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor

    def set(self, key: Hashable, after_seconds: float, call: Callable[[], None]) -> None:
        super().set(key, after_seconds * self._factor, call)


class RadioNode:
    """The node ``name`` of a scene; its files are in ``folder``."""

    def __init__(self, scene: Scene, name: str, folder: Path) -> None:
        self.name, self._scene, self._folder = name, scene, folder
        self._protocol = scene.configured(name)
        self._class_of = self._protocol.protocol.traffic_class or (lambda message: type(message).__name__)
        self._loop = asyncio.get_running_loop()
        self._state = folder / "state" / f"{name}.json"
        self._saved: dict[str, Any] = msgspec.json.decode(self._state.read_bytes()) if self._state.exists() else {}
        self.machine = self._protocol.protocol.make(self._protocol.settings, None)(name)
        self.streams = Streams(OVERLAY_LIMITS)
        self.story = Story(OVERLAY_LIMITS)
        self.steps = self.delivered = self.refused = self.too_long = self._ref = 0
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._unanswered: dict[int, tuple[str, Any]] = {}
        self._way: tuple[str | int, int | None] = name, 0
        self._samples: deque[tuple[int, Sample]] = deque(maxlen=SAMPLES)
        self._numbered = 0
        self._start = secrets.token_hex(8)
        self._more = asyncio.Event()
        self.stopping = asyncio.Event()
        self.failure = ""
        boots = self._saved.get("boots", 0)
        self.driver = Driver(
            self.machine,
            send=self._send,
            broadcast=self._broadcast,
            deliver=self._deliver,
            report=self.streams.report,
            persist=self._persist,
            clock=lambda: self._loop.time() / scene.factor,
            rng=Random(f"{scene.seed} {name} {boots}"),  # noqa: S311  # for jitter, not for secrets
            timers=SlowTimers(scene.factor),
            observe=self._observe,
            name=name,
        )

    async def run(self) -> int:
        """Until somebody asks it to stop; 1 if it had to."""
        control = Control(self._folder / f"{self.name}.radio", REQUESTS, self.answer, OVERLAY_LIMITS.programs)
        await control.claim()
        self._air = DatagramSocket(self._folder / f"{self.name}.air", self._receive)
        try:
            self.driver.tell(Started((), self._saved))
            await control.start()
            await self.stopping.wait()
        finally:
            await control.close()
            self.driver.close()
            self.streams.close_all()
            self._air.close()
        return 1 if self.failure else 0

    # -- the air

    def _receive(self, sender: str, data: bytes) -> None:
        if sender != MEDIUM:
            self.refused += 1
            return
        try:
            down = decode_down(data)
        except msgspec.DecodeError:
            self.refused += 1
            return
        match down:
            case Heard(sender, rssi, frame):
                self._hear(sender, rssi, frame)
            case Acked(ref):
                self._unanswered.pop(ref, None)
            case Failed(ref):
                receiver, message = self._unanswered.pop(ref, ("", None))
                if receiver:
                    self.failed[self._class_of(message)] += 1
                    self._tell(SendFailed(receiver, message))

    def _hear(self, sender: str, rssi: float, frame: bytes) -> None:
        try:
            message = self._protocol.decode(frame)
        except WireError as error:
            self.refused += 1
            log.debug("%s: a frame of %s is refused: %s", self.name, sender, error)
            return
        self.received[self._class_of(message)] += 1
        self._tell(Received(sender, message, rssi))

    def _tell(self, stimulus: Stimulus) -> None:
        try:
            self.driver.tell(stimulus)
        except Exception:
            self.refused += 1
            log.exception("%s: the machine failed at %r", self.name, stimulus)

    def _send(self, receiver: Any, message: Any) -> bool:
        self._ref += 1
        if len(self._unanswered) >= MOST_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        self._unanswered[self._ref] = receiver, message
        return self._transmit(self._ref, receiver, message)

    def _broadcast(self, message: Any) -> None:
        self._transmit(0, None, message)

    def _transmit(self, ref: int, to: str | None, message: Any) -> bool:
        """False if it cannot leave; the driver tells the machine of one that had a receiver."""
        frame, kind = self._protocol.encode(message), self._class_of(message)
        if len(frame) > FRAME_BYTES:
            self._unanswered.pop(ref, None)
            self.too_long += 1
            log.warning(
                "%s: a frame of %s has %d bytes; none over %d is sent", self.name, kind, len(frame), FRAME_BYTES
            )
            return False
        self.sent[kind] += 1
        if self._air.send(MEDIUM, encode(Transmit(ref, to, frame))):
            return True
        self.ask_to_stop("the medium is gone")
        return False

    def ask_to_stop(self, failure: str = "") -> None:
        if failure and not self.failure:
            log.error("%s: %s", self.name, failure)
            self.failure = failure
        self.stopping.set()

    # -- the machine's other effects

    def _observe(self, stimulus: Stimulus, effects: Sequence[Effect], now: float) -> None:
        self.steps += 1
        self.story.add(now, stimulus, effects, 0)
        describe_way, settings = self._protocol.protocol.way, self._protocol.settings
        way = describe_way(stimulus, settings) if effects and type(stimulus) is Received else None
        self._way = way or (self.name, 0)

    def _persist(self, key: str, value: Any) -> None:
        self._saved = {**self._saved, key: value}
        self._state.parent.mkdir(exist_ok=True)
        files.replace(self._state, msgspec.json.encode(self._saved))

    def _deliver(self, notified: Notified) -> None:
        self.delivered += 1
        self._numbered += 1
        sample = Sample(notified.event, notified.subscriptions, *self._way)
        self._samples.append((self._numbered, sample))
        self._more.set()
        self.streams.deliver(sample, self.driver.now)

    # -- what programs ask

    async def answer(self, request: Any) -> Any:
        match request:
            case BeginRequest():
                for number, text in enumerate(self._scene.subscribes(self.name), 1):
                    if (id := f"{self.name}-{number}") not in self.streams:
                        self._subscribe(Subscription(id, parse(text)))
            case PublishRequest(event):
                if len(bytes(event)) > EVENT_BYTES:
                    raise SceneError(f"the event has {len(bytes(event)):,} bytes; a sample has at most {EVENT_BYTES:,}")
                self.driver.tell(Asked(Publish(read_event(bytes(event)))))
            case SubscribeRequest(record, keep, follow):
                stream = self._subscribe(read_subscription(bytes(record)))
                if follow:
                    return Following(stream, lambda: self._end(stream, keep))
                return {"subscription": stream.subscription}
            case FollowRequest(id):
                stream = self.streams.get(id)
                return Following(stream, lambda: self._end(stream, True))
            case UnsubscribeRequest(id):
                self.driver.tell(Asked(Unsubscribe(id)))
                self.streams.close(id)
            case ShowRequest():
                return self.show()
            case CountRequest():
                return self.count()
            case StoryRequest(about, last):
                return self.story.tell(about, last)
            case DeliveriesRequest():
                return list(self.streams.deliveries)
            case SamplesRequest(after, start, wait_seconds):
                return await self._tell_samples(after if start in ("", self._start) else 0, wait_seconds)
            case StopRequest():
                self.stopping.set()
        return {}

    def _subscribe(self, subscription: Subscription) -> Stream:
        if subscription.id in self.streams:
            raise SceneError(f"there is a subscription {subscription.id!r} at this node already")
        stream = self.streams.open(subscription.id)
        try:
            self.driver.tell(Asked(Subscribe(subscription)))
        except RecadoError:
            self.streams.close(subscription.id)
            raise
        return stream

    async def _end(self, stream: Stream, keep: bool) -> None:
        """The program went away, and its subscription with it unless it is to be kept."""
        if not keep and not self.stopping.is_set() and self.streams.has(stream):
            self.driver.tell(Asked(Unsubscribe(stream.subscription)))
            self.streams.close(stream.subscription)

    async def _tell_samples(self, after: int, wait_seconds: float) -> dict[str, Any]:
        if self._numbered <= after and wait_seconds > 0:
            self._more.clear()
            try:
                async with asyncio.timeout(min(wait_seconds, MOST_WAIT_SECONDS)):
                    await self._more.wait()
            except TimeoutError:
                pass
        first = self._samples[0][0] if self._samples else self._numbered + 1
        told = [
            {"number": number, "event": to_flat(one.event), "subscriptions": one.subscriptions,
             "node": one.node, "hops": one.hops}
            for number, one in self._samples
            if number > after
        ]  # fmt: skip
        return {"start": self._start, "first": first, "last": self._numbered,
                "samples": told[:MOST_SAMPLES]}  # fmt: skip

    def show(self) -> dict[str, Any]:
        machine = self.machine.inspect()
        return {
            "node": self.name,
            "scene": self._scene.scene,
            "protocol": self._protocol.name,
            **self.count(),
            "received": dict(sorted(self.received.items())),
            "failed": dict(sorted(self.failed.items())),
            "roles": self._protocol.protocol.roles(machine),
            "machine": machine,
        }

    def count(self) -> dict[str, Any]:
        """What tells whether anything is still to come, and what was sent by traffic class."""
        return {
            "process": os.getpid(),
            "now": self.driver.now,
            "steps": self.steps,
            "timers": len(self.driver.timers),
            "unanswered": len(self._unanswered),
            "waiting": self._air.waiting,
            "sent": dict(sorted(self.sent.items())),
            "delivered": self.delivered,
            "refused": self.refused + self._air.strangers,
            "too_long": self.too_long,
        }
