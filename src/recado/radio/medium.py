"""The medium: the process that knows where nodes stand, and carries their frames as the air would.

Who hears a frame, and how strongly, comes from the simulator's own model of signals; a frame arrives after its time on
the air. One to a single receiver is tried up to ``ATTEMPTS`` times, then its sender is told. The medium counts what is
transmitted by traffic class, from the frames alone, so that nodes can be held against it; repetitions on the link are
counted apart.

Faults can be set while it runs: loss, collisions, a partition, nodes that are mute, nodes that are moved. A mute node
hears and is not heard, so what is sent to it arrives and is never acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from recado.overlay.control import Control, Request
from recado.overlay.limits import OVERLAY_LIMITS
from recado.protocols.machine import NodeId
from recado.protocols.wire import WireError
from recado.radio.datagrams import Acked, DatagramSocket, Down, Failed, Heard, Transmit, decode_up, encode
from recado.radio.scene import MEDIUM, Scene, SceneError
from recado.sim.network import Place
from recado.sim.radio.field import Field
from recado.sim.radio.ideal import BROADCAST_SECONDS, UNICAST_SECONDS

ATTEMPTS = 7
BACKOFF_SECONDS = 0.002
"""With collisions: who hears somebody waits up to so long before it looks again."""
UNKNOWN = "unknown"
"""The traffic class of a frame that is no message of the protocol."""

log = logging.getLogger("recado.radio")


class CountRequest(Request, frozen=True, tag="count"):
    """What was carried, and whether anything is on its way."""


class ShowRequest(Request, frozen=True, tag="show"):
    """Places and faults."""


class FaultRequest(Request, frozen=True, tag="fault"):
    """What is None stays as it is. ``cut`` are the nodes of one side; empty: all are together again."""

    loss: float | None = None
    collisions: bool | None = None
    cut: tuple[str, ...] | None = None
    mute: tuple[str, ...] = ()
    unmute: tuple[str, ...] = ()
    move: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    heal: bool = False
    """First end all of them; nodes stay where they are."""


class StopRequest(Request, frozen=True, tag="stop"):
    pass


REQUESTS = CountRequest | ShowRequest | FaultRequest | StopRequest


class Faults(msgspec.Struct):
    loss: float = 0.0
    collisions: bool = False
    cut: tuple[str, ...] = ()
    mute: tuple[str, ...] = ()


class Flight:
    """A frame on the air."""

    __slots__ = ("attempt", "delivered", "hearers", "sender", "spoilt", "tx")

    def __init__(self, sender: str, tx: Transmit) -> None:
        self.sender, self.tx = sender, tx
        self.attempt = 0
        self.delivered = False
        self.hearers: dict[Any, float] = {}
        self.spoilt: set[str] = set()
        """Where it collided."""


class Medium:
    """``socket`` is given after it is made, since it hands over what it receives to ``receive``."""

    def __init__(self, scene: Scene, socket: DatagramSocket | None = None) -> None:
        self._scene, self.socket = scene, socket
        self._protocol = scene.configured()
        self._class_of = self._protocol.protocol.traffic_class or (lambda message: type(message).__name__)
        self.field = Field(dict[NodeId, Place](scene.places().items()), scene.range)
        self.faults = Faults(loss=scene.loss)
        self._rng = Random(f"{scene.seed} medium")  # noqa: S311  # repeatable, not secret
        self._loop = asyncio.get_running_loop()
        self._flights: set[Flight] = set()
        self._waiting = 0
        self.stopping = asyncio.Event()
        self.transmissions: Counter[str] = Counter()
        self.sent_bytes: Counter[str] = Counter()
        self.sent_by: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    # -- frames

    def receive(self, sender: str, data: bytes) -> None:
        """A datagram of a node."""
        try:
            tx = decode_up(data)
        except msgspec.DecodeError:
            self.counts["garbage"] += 1
            return
        if sender not in self.field.places:
            self.counts["strangers"] += 1
            return
        kind = self._classify(tx.frame)
        self.transmissions[kind] += 1
        self.sent_bytes[kind] += len(tx.frame)
        self.sent_by[sender] += 1
        self._begin(Flight(sender, tx))

    def _classify(self, frame: bytes) -> str:
        try:
            return self._class_of(self._protocol.decode(frame))
        except WireError:
            return UNKNOWN

    def _begin(self, flight: Flight) -> None:
        if self.faults.collisions and any(flight.sender in other.hearers for other in self._flights):
            self._waiting += 1
            self._later(self._rng.uniform(0, BACKOFF_SECONDS), self._begin_later, flight)
            return
        flight.attempt += 1
        flight.spoilt.clear()
        flight.hearers = self.field.hearers(flight.sender)
        if self.faults.collisions:
            self._collide(flight)
        self._flights.add(flight)
        low, high = (BROADCAST_SECONDS, BROADCAST_SECONDS) if flight.tx.to is None else UNICAST_SECONDS
        self._later(self._rng.uniform(low, high), self._land, flight)

    def _begin_later(self, flight: Flight) -> None:
        self._waiting -= 1
        self._begin(flight)

    def _collide(self, flight: Flight) -> None:
        """Whoever hears two frames at once understands neither; nor does one hear while one speaks."""
        for other in self._flights:
            both = flight.hearers.keys() & other.hearers.keys()
            flight.spoilt |= both | {other.sender}
            other.spoilt |= both | {flight.sender}

    def _land(self, flight: Flight) -> None:
        self._flights.discard(flight)
        if flight.tx.to is None:
            hearers = list(flight.hearers.items())
            self._rng.shuffle(hearers)
            for node, rssi in hearers:
                self._reach(flight, node, rssi)
        else:
            self._land_at(flight, flight.tx.to)

    def _land_at(self, flight: Flight, to: str) -> None:
        rssi = flight.hearers.get(to)
        arrived = rssi is not None and self._reach(flight, to, rssi)
        if arrived and to not in self.faults.mute:
            self._tell(flight.sender, Acked(flight.tx.ref))
        elif flight.attempt < ATTEMPTS:
            self.counts["repeated"] += 1
            self._begin(flight)
        else:
            self.counts["failed"] += 1
            self._tell(flight.sender, Failed(flight.tx.ref))

    def _reach(self, flight: Flight, node: str, rssi: float) -> bool:
        """Does the frame arrive there? Then the node has it, once."""
        sender, faults = flight.sender, self.faults
        if sender in faults.mute or (sender in faults.cut) != (node in faults.cut):
            self.counts["blocked"] += 1
            return False
        if node in flight.spoilt:
            self.counts["collided"] += 1
            return False
        if faults.loss and self._rng.random() < faults.loss:
            self.counts["lost"] += 1
            return False
        if flight.delivered:
            return True
        arrived = self._tell(node, Heard(sender, rssi, flight.tx.frame))
        self.counts["heard" if arrived else "absent"] += 1
        if flight.tx.to is not None:
            flight.delivered = arrived
        return arrived

    def _tell(self, node: str, what: Down) -> bool:
        assert self.socket is not None
        return self.socket.send(node, encode(what))

    def _later(self, seconds: float, call: Any, flight: Flight) -> None:
        self._loop.call_later(seconds * self._scene.factor, call, flight)

    # -- what programs ask

    async def answer(self, request: Any) -> Any:
        match request:
            case CountRequest():
                return self.count()
            case ShowRequest():
                return {"node": MEDIUM, "places": self.field.places, "range": self.field.range_metres,
                        "faults": self.faults, **self.count()}  # fmt: skip
            case FaultRequest():
                self.set_faults(request)
                return {"faults": self.faults}
            case StopRequest():
                self.stopping.set()
        return {}

    def count(self) -> dict[str, Any]:
        assert self.socket is not None
        return {
            "process": os.getpid(),
            "on_air": len(self._flights) + self._waiting + self.socket.waiting,
            "transmissions": dict(sorted(self.transmissions.items())),
            "bytes": dict(sorted(self.sent_bytes.items())),
            "nodes": dict(self.sent_by),
            "counts": dict(sorted(self.counts.items())),
            "retried": self.socket.retried,
            "dropped": self.socket.dropped,
            "strangers": self.socket.strangers,
        }

    def set_faults(self, wanted: FaultRequest) -> None:
        """Change all of it or, with a SceneError, nothing."""
        for node in (*(wanted.cut or ()), *wanted.mute, *wanted.unmute, *wanted.move):
            if node not in self.field.places:
                raise SceneError(f"there is no node {node!r} in this scene")
        if wanted.loss is not None and not 0 <= wanted.loss <= 1:
            raise SceneError(f"loss is a probability, from 0 to 1, not {wanted.loss:g}")
        if not all(math.isfinite(number) for place in wanted.move.values() for number in place):
            raise SceneError("a place is two numbers, in metres")
        if wanted.heal:
            self.faults = Faults()
        if wanted.loss is not None:
            self.faults.loss = wanted.loss
        if wanted.collisions is not None:
            self.faults.collisions = wanted.collisions
        if wanted.cut is not None:
            self.faults.cut = wanted.cut
        mute = dict.fromkeys((*self.faults.mute, *wanted.mute))
        self.faults.mute = tuple(node for node in mute if node not in wanted.unmute)
        for node, place in wanted.move.items():
            self.field.move(node, place)
        log.info("faults: %s", self.faults)


async def run_medium(scene: Scene, folder: Path) -> int:
    """Until somebody asks it to stop."""
    medium = Medium(scene)
    control = Control(folder / f"{MEDIUM}.radio", REQUESTS, medium.answer, OVERLAY_LIMITS.programs)
    await control.claim()
    medium.socket = DatagramSocket(folder / f"{MEDIUM}.air", medium.receive)
    try:
        await control.start()
        await medium.stopping.wait()
    finally:
        await control.close()
        medium.socket.close()
    return 0
