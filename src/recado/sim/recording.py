"""A run as it happened, for pictures: who was where, what was sent, who held what, and what came of it.

A recording is NDJSON: a ``Header``, then lines in the order of time, each an object whose ``is`` names one of the
structs below. It knows no protocol. What is sent comes from the steps of the simulation; what a node is and holds comes
from the ``sketch`` of the protocol's description. Nodes, subscriptions and events go by their names as text.

**What a transmission is about** is the event that its message carries. Where it carries none, it is the request that
caused it: a message has the cause of the step that sent it, and a step that of the message or the timer that led to it.
So the story of a publication includes the searches and route requests that were made for it.

**Bounds.** At most ``limit`` transmissions are kept. When there are more, the class with most of them is thinned: one
of two, of four, and so on. Each transmission has its number within its class, so counters stay exact. Of everything
else so many are kept as well, and then no more; the header says what is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.filter import TRUE, And
from recado.model.subscription import Subscription, type_filter
from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
    LinkDown,
    LinkUp,
    NodeId,
    Received,
    Send,
    SendFailed,
    SetTimer,
    Started,
    TimerFired,
)
from recado.protocols.pubsub import OverlayProtocol, Publish, Sketch, Subscribe, Unsubscribe, sketch_node
from recado.protocols.reliable import Ack, Frame
from recado.protocols.wire import write_filter
from recado.sim.kernel import Simulation, Step

VERSION = 1
LIMIT = 200_000
FLYING = 65_536
"""So many messages are remembered, so that their receptions are known as theirs."""
TEXT_CHARS = 300


class RecordingError(RecadoError):
    """A file that is no recording, or a run that cannot be recorded."""


# --- The lines of a recording ----------------------------------------------------------------------------------------


class Line(msgspec.Struct, frozen=True, tag_field="is", omit_defaults=True):
    """Base of the lines; ``t`` is a time of the simulation."""


class ClassTotal(msgspec.Struct, frozen=True):
    """All that was sent of one class; one of ``every`` is in the recording."""

    count: int
    bytes: int
    every: int = 1


class Header(Line, frozen=True, tag="recording"):
    version: int
    title: str
    protocol: str = ""
    scenario: str = ""
    configuration: str = ""
    run: int = 0
    seed: int = 0
    unit: str = "s"
    """What times are in."""
    range_metres: float | None = None
    """How far a radio reaches, where there is one."""
    end: float = 0.0
    totals: dict[str, ClassTotal] = {}
    deliveries: int = 0
    notes: tuple[str, ...] = ()
    """What the recording does not have."""


class NodeLine(Line, frozen=True, tag="node"):
    """A node, before anything happens to it; ``x`` and ``y`` in metres where places mean something."""

    name: str
    x: float | None = None
    y: float | None = None


class Up(Line, frozen=True, tag="up"):
    t: float
    node: str


class Down(Line, frozen=True, tag="down"):
    t: float
    node: str


class Move(Line, frozen=True, tag="move"):
    """Where a node is; between two moves it goes straight."""

    t: float
    node: str
    x: float
    y: float


class LinkLine(Line, frozen=True, tag="link"):
    t: float
    first: str
    second: str
    up: bool = True


class Role(Line, frozen=True, tag="role"):
    t: float
    node: str
    role: str


class Ties(Line, frozen=True, tag="ties"):
    """The nodes to which a line is drawn from now on."""

    t: float
    node: str
    to: tuple[str, ...] = ()


class Hold(Line, frozen=True, tag="hold"):
    """The node keeps something of a subscription from now on; ``to`` are the next nodes toward the subscriber."""

    t: float
    node: str
    subscription: str
    to: tuple[str, ...] = ()


class Drop(Line, frozen=True, tag="drop"):
    t: float
    node: str
    subscription: str


class Subscribed(Line, frozen=True, tag="subscription"):
    t: float
    node: str
    id: str
    text: str = ""


class Published(Line, frozen=True, tag="publication"):
    t: float
    node: str
    id: str
    text: str = ""


class Delivered(Line, frozen=True, tag="delivery"):
    t: float
    node: str
    event: str


class Sent(Line, frozen=True, tag="sent"):
    """A transmission, to one node or, without ``to``, to all who hear it; ``number`` counts within its class.

    ``heard`` are the nodes that it reached, ``reached`` how many there were (more than in ``heard`` if there were too
    many to keep), ``arrived`` when the first of them had it. One to a node with nobody in ``heard`` was lost.
    """

    t: float
    node: str
    kind: str
    traffic_class: str
    number: int
    to: str | None = None
    bytes: int = 0
    why: str = ""
    event: str = ""
    subscription: str = ""
    arrived: float | None = None
    reached: int = 0
    heard: tuple[str, ...] = ()


Happening: TypeAlias = (
    NodeLine | Up | Down | Move | LinkLine | Role | Ties | Hold | Drop | Subscribed | Published | Delivered | Sent
)


TAGS: dict[type, str] = {kind: kind.__struct_config__.tag for kind in Happening.__args__}


class Recording(msgspec.Struct, frozen=True):
    """A header and what happened, in the order of time."""

    header: Header
    lines: tuple[Happening, ...]

    def of(self, kind: type[Any]) -> Iterator[Any]:
        return (line for line in self.lines if type(line) is kind)


def write_recording(recording: Recording, path: Path) -> None:
    encode = msgspec.json.Encoder().encode
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in (recording.header, *recording.lines):
            file.write(encode(line) + b"\n")


def read_recording(path: Path) -> Recording:
    """The recording in a file; a RecordingError names the first line that is wrong."""
    decode = msgspec.json.Decoder(Header | Happening).decode
    header: Header | None = None
    lines: list[Happening] = []
    known: set[str] = set()
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                try:
                    line = decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise RecordingError(f"{path}, line {number}: no line of a recording: {error}") from None
                if isinstance(line, Header):
                    header = _check_header(line, header, path, number)
                    continue
                if header is None:
                    raise RecordingError(f"{path}: it does not begin as a recording does; see: recado sim run --record")
                if isinstance(line, NodeLine):
                    known.add(line.name)
                else:
                    _check_names(line, known, path, number)
                lines.append(line)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error}") from None
    if header is None:
        raise RecordingError(f"{path}: it is empty")
    return Recording(header, tuple(lines))


def _check_header(line: Header, before: Header | None, path: Path, number: int) -> Header:
    if before is not None:
        raise RecordingError(f"{path}, line {number}: a second header; a recording has one run")
    if line.version != VERSION:
        raise RecordingError(f"{path}: a recording of version {line.version}; this Recado reads version {VERSION}")
    return line


def _check_names(line: Any, known: set[str], path: Path, number: int) -> None:
    if isinstance(line, LinkLine):
        named: tuple[str, ...] = (line.first, line.second)
    else:
        to = getattr(line, "to", None) or ()
        named = (line.node, *((to,) if isinstance(to, str) else to), *getattr(line, "heard", ()))
    for name in named:
        if name not in known:
            raise RecordingError(f"{path}, line {number}: there is no node {name!r} before this line")


# --- The recorder ----------------------------------------------------------------------------------------------------


class _Transmission:
    __slots__ = (
        "about", "arrived", "bytes", "heard", "kind", "node", "number", "order", "reached", "t", "to", "traffic_class",
        "why",
    )  # fmt: skip

    def __init__(self, t: float, node: str, to: str | None, why: str, about: _About) -> None:
        self.t, self.node, self.to, self.why, self.about = t, node, to, why, about
        self.kind = self.traffic_class = ""
        self.number = self.bytes = self.reached = self.order = 0
        self.arrived: float | None = None
        self.heard: list[str] = []


_About: TypeAlias = tuple[str, str]
"""The event and the subscription that something is about; one of them at most is not empty."""
_NOTHING: _About = ("", "")


class Recorder:
    """Give it to a simulation as ``watch``, and call ``attach`` with that simulation before its first step.

    On a radio the nodes' places are recorded, again every ``look_seconds`` if they move. Elsewhere places mean nothing,
    and a picture arranges the nodes by their links.
    """

    def __init__(
        self,
        protocol: OverlayProtocol | None = None,
        *,
        size_of: Callable[[Any], int] | None = None,
        limit: int = LIMIT,
        look_seconds: float = 1.0,
    ) -> None:
        if limit < 1:
            raise RecordingError(f"a recording keeps at least one transmission, not {limit}")
        self._sketch = protocol.sketch if protocol is not None else sketch_node
        self._linked = protocol is None or protocol.contact == "links"
        self._class_of = (protocol.traffic_class if protocol is not None else None) or _name_type
        self._size_of, self._limit, self._look_seconds = size_of, limit, look_seconds
        self._simulation: Simulation | None = None
        self._radio: Any = None
        self._order = 0
        self._nodes: dict[NodeId, str] = {}
        self._names: set[str] = set()
        self._owners: dict[str, str] = {}
        self._held_as: dict[str, dict[str, None]] = {}
        """From the names by which nodes hold subscriptions to those of the recording; a family holds several as one."""
        self._lines: list[tuple[int, Happening]] = []
        self._kept: dict[type, int] = {}
        self._missing: dict[type, tuple[int, float]] = {}
        self._links: dict[tuple[str, str], bool] = {}
        self._sketches: dict[NodeId, Sketch] = {}
        self._stale: dict[NodeId, None] = {}
        self._looked = -math.inf
        self._at: dict[NodeId, tuple[float, float]] = {}
        self._sent: dict[str, list[_Transmission]] = {}
        self._counts: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._every: dict[str, int] = {}
        self._sent_kept = 0
        self._heard_left = 4 * limit
        self._deliveries = 0
        self._flying: dict[tuple[str, int], tuple[Any, dict[str | None, _Transmission]]] = {}
        self._timers: dict[NodeId, dict[Any, _About]] = {}
        self._sized: tuple[Any, int] = (None, 0)
        self._end = 0.0

    def attach(self, simulation: Simulation) -> None:
        self._simulation, self._radio = simulation, _find_radio(simulation.network)
        self._linked = self._linked and self._radio is None
        simulation.on_crash = self._crash

    # -- what happens

    def __call__(self, step: Step) -> None:
        now, node = step.time, step.node
        self._end = now
        name = self._nodes.get(node) or self._meet(node)
        about = self._take_in(step, name)
        silent = True
        for effect in step.effects:
            match effect:
                case Send(receiver, message, why):
                    to = self._nodes.get(receiver) or self._meet(receiver)
                    self._transmit(_Transmission(now, name, to, why, about), message)
                    silent = False
                case Broadcast(message, why):
                    self._transmit(_Transmission(now, name, None, why, about), message)
                    silent = False
                case SetTimer(timer, _):
                    self._timers.setdefault(node, {})[timer] = about
                case CancelTimer(timer):
                    self._timers.get(node, {}).pop(timer, None)
                case Deliver(notification):
                    self._deliveries += 1
                    event = getattr(notification, "event", None)
                    self._keep(Delivered(now, name, str(getattr(event, "id", notification))))
                    silent = False
                case _:
                    silent = False
        # Most receptions on a radio are copies that change nothing: such nodes are looked at now and then.
        if silent and type(step.stimulus) is Received and step.stimulus.signal_dbm is not None:
            self._stale[node] = None
        else:
            self._look(node, name, now)
        if now >= self._looked + self._look_seconds:
            self._look_around(now)

    def _take_in(self, step: Step, name: str) -> _About:
        """What happened to a node; what its step is about."""
        now, stimulus = step.time, step.stimulus
        match stimulus:
            case Received(sender, message):
                return self._receive(self._nodes.get(sender) or self._meet(sender), name, message, now)
            case TimerFired(timer):
                return self._timers.get(step.node, {}).pop(timer, _NOTHING)
            case Asked(request):
                return self._request(now, name, request)
            case SendFailed(_, message):
                flying = self._flying.get((name, id(message)))
                return next(iter(flying[1].values())).about if flying else _NOTHING
            case Started(neighbours):
                self._keep(Up(now, name))
                for peer in neighbours:
                    self._link(now, name, self._nodes.get(peer) or self._meet(peer), True)
            case LinkUp(peer):
                self._link(now, name, self._nodes.get(peer) or self._meet(peer), True)
            case LinkDown(peer):
                self._link(now, name, self._nodes.get(peer) or self._meet(peer), False)
        return _NOTHING

    def _request(self, now: float, name: str, request: Any) -> _About:
        match request:
            case Publish(event):
                self._keep(Published(now, name, event.id, describe_event(event)))
                return (event.id, "")
            case Subscribe(subscription):
                known = self._name_subscription(name, subscription.id)
                self._keep(Subscribed(now, name, known, describe_subscription(subscription)))
                return ("", known)
            case Unsubscribe(subscription_id):
                return ("", self._name_subscription(name, subscription_id))
        return _NOTHING

    def _name_subscription(self, node: str, subscription_id: str) -> str:
        """Its id; in some protocols nodes may use the same ids, and then those of later nodes get the node's name."""
        owner = self._owners.setdefault(subscription_id, node)
        return subscription_id if owner == node else f"{subscription_id} of {node}"

    def _transmit(self, sent: _Transmission, message: Any) -> None:
        """``sent`` is about what led to it, unless the message itself carries an event."""
        inner = message.message if type(message) is Frame else message
        sent.kind = type(inner).__name__
        traffic_class = sent.traffic_class = "acknowledgement" if type(inner) is Ack else self._class_of(inner)
        event = getattr(getattr(inner, "event", None), "id", None)
        if event is not None:
            sent.about = (str(event), "")
        sent.number = count = self._counts[traffic_class] = self._counts.get(traffic_class, 0) + 1
        sent.bytes = self._measure(message)
        self._bytes[traffic_class] = self._bytes.get(traffic_class, 0) + sent.bytes
        self._order += 1
        sent.order = self._order
        name = sent.node
        flying = self._flying.get((name, id(message)))
        if flying is None:
            if len(self._flying) >= FLYING:
                for key in [*self._flying][: FLYING // 4]:
                    del self._flying[key]
            flying = self._flying[name, id(message)] = (message, {})
        flying[1][sent.to] = sent
        if (count - 1) % self._every.setdefault(traffic_class, 1) == 0:
            self._sent.setdefault(traffic_class, []).append(sent)
            self._sent_kept += 1
            if self._sent_kept > self._limit:
                self._thin()

    def _thin(self) -> None:
        most = max(self._sent, key=lambda one: len(self._sent[one]))
        every = self._every[most] = 2 * self._every[most]
        kept = [sent for sent in self._sent[most] if (sent.number - 1) % every == 0]
        self._sent_kept -= len(self._sent[most]) - len(kept)
        self._sent[most] = kept

    def _measure(self, message: Any) -> int:
        """A message that is sent to many is one object, and measured once."""
        if self._size_of is None:
            return 0
        if self._sized[0] is not message:
            self._sized = (message, self._size_of(message))
        return self._sized[1]

    def _receive(self, sender: str, name: str, message: Any, now: float) -> _About:
        flying = self._flying.get((sender, id(message)))
        sent = None if flying is None else flying[1].get(name) or flying[1].get(None)
        if sent is None:
            return _NOTHING
        if sent.arrived is None:
            sent.arrived = now
        sent.reached += 1
        if self._heard_left > 0:
            self._heard_left -= 1
            sent.heard.append(name)
        return sent.about

    def _crash(self, now: float, node: NodeId) -> None:
        name = self._nodes.get(node) or self._meet(node)
        self._keep(Down(now, name))
        self._timers.pop(node, None)
        self._stale.pop(node, None)
        self._update(node, name, now, Sketch())

    # -- what is seen

    def _meet(self, node: NodeId) -> str:
        name = self._nodes[node] = str(node)
        self._names.add(name)
        place = self._radio.places.get(node) if self._radio is not None else None
        if place is not None:
            self._at[node] = place
        self._keep(NodeLine(name, *(map(_round, place) if place is not None else ())))
        return name

    def _look_around(self, now: float) -> None:
        self._looked = now
        for node in self._stale:
            self._look(node, self._nodes[node], now)
        self._stale.clear()
        if self._radio is not None:
            for node, place in self._radio.places.items():
                if node in self._nodes and self._at.get(node) != place:
                    self._at[node] = place
                    self._keep(Move(now, self._nodes[node], _round(place[0]), _round(place[1])))

    def _look(self, node: NodeId, name: str, now: float) -> None:
        if self._simulation is not None:
            found = self._simulation.nodes.get(node)
            if found is not None and found.alive:
                self._update(node, name, now, self._sketch(found.machine.inspect()))

    def _update(self, node: NodeId, name: str, now: float, sketch: Sketch) -> None:
        before = self._sketches.get(node) or _UNSEEN
        if sketch == before:
            return
        self._sketches[node] = sketch
        for id, held_as in sketch.names.items():
            self._held_as.setdefault(held_as, {})[self._name_subscription(name, id)] = None
        if sketch.role != before.role:
            self._keep(Role(now, name, sketch.role))
        if sketch.ties != before.ties:
            self._keep(Ties(now, name, self._known(sketch.ties)))
        for id in before.holds:
            if id not in sketch.holds:
                self._keep(Drop(now, name, id))
        for id, to in sketch.holds.items():
            if before.holds.get(id) != to:
                self._keep(Hold(now, name, id, self._known(to)))

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in self._names)

    def _link(self, now: float, first: str, second: str, up: bool) -> None:
        pair = (first, second) if first <= second else (second, first)
        if self._linked and self._links.get(pair, False) != up:
            self._links[pair] = up
            self._keep(LinkLine(now, *pair, up))

    def _keep(self, line: Happening) -> None:
        kind = type(line)
        count = self._kept.get(kind, 0)
        if count >= self._limit and kind is not NodeLine:
            missed, since = self._missing.get(kind, (0, getattr(line, "t", 0.0)))
            self._missing[kind] = (missed + 1, since)
            return
        self._kept[kind] = count + 1
        self._order += 1
        self._lines.append((self._order, line))

    # -- the recording

    def finish(self, **about: Any) -> Recording:
        """The recording of all that happened so far; ``about`` are fields of its header."""
        now = self._simulation.now if self._simulation is not None else self._end
        self._look_around(max(now, self._end) if math.isfinite(now) else self._end)
        sent = [(one.order, _line_of(one)) for kept in self._sent.values() for one in kept]
        ordered = sorted([*self._lines, *sent], key=lambda pair: pair[0])
        nodes = [line for _, line in ordered if type(line) is NodeLine]
        rest = [renamed for _, line in ordered if type(line) is not NodeLine for renamed in self._rename(line)]
        totals = {
            one: ClassTotal(self._counts[one], self._bytes.get(one, 0), self._every[one])
            for one in sorted(self._counts)
        }
        header = Header(
            version=VERSION,
            title=about.pop("title", "A run"),
            range_metres=self._radio.range_metres if self._radio is not None else None,
            end=max(now, self._end),
            totals=totals,
            deliveries=self._deliveries,
            notes=tuple(self._notes()),
            **about,
        )
        return Recording(header, (*nodes, *rest))

    def _rename(self, line: Happening) -> Iterable[Happening]:
        if isinstance(line, Hold | Drop) and line.subscription in self._held_as:
            return [msgspec.structs.replace(line, subscription=id) for id in self._held_as[line.subscription]]
        return (line,)

    def _notes(self) -> Iterator[str]:
        for one, every in self._every.items():
            if every > 1:
                yield f"{one}: 1 of {every} transmissions was kept; counters count all"
        if self._heard_left <= 0:
            yield "of later broadcasts it is only known how many heard them"
        for kind, (missed, since) in self._missing.items():
            name = TAGS[kind]
            yield f"{missed:,} lines about {name} were not kept, the first at {since:g}"


_UNSEEN = Sketch()


def _name_type(message: Any) -> str:
    return type(message).__name__


def _find_radio(network: Any) -> Any:
    """The model with places and a range among those that are put around each other; None if there is none."""
    while network is not None and not (hasattr(network, "places") and hasattr(network, "range_metres")):
        network = getattr(network, "inner", None)
    return network


def _line_of(sent: _Transmission) -> Sent:
    event, subscription = sent.about
    return Sent(
        sent.t,
        sent.node,
        sent.kind,
        sent.traffic_class,
        sent.number,
        sent.to,
        sent.bytes,
        sent.why,
        event,
        subscription,
        sent.arrived,
        sent.reached,
        tuple(sent.heard),
    )


def _round(metres: float) -> float:
    return round(metres, 2)


def describe_event(event: Event) -> str:
    """Type and attributes in a line that is not too long."""
    values = ", ".join(f"{name} = {_describe_value(value)}" for name, value in event.attributes.items())
    return _shorten(" ".join(part for part in (event.type, values) if part))


def _describe_value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, default=str, ensure_ascii=False)


def describe_subscription(subscription: Subscription) -> str:
    parts = [type_filter(subscription.type)] if subscription.type else []
    parts += [subscription.filter] if subscription.filter != TRUE or not parts else []
    return _shorten(write_filter(parts[0] if len(parts) == 1 else And(tuple(parts))))


def _shorten(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"
