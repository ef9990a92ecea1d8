"""The kernel: what will happen, in the order of time and then in the order in which it was scheduled.

It carries out the effects of machines (``recado.protocols.machine``) on a network model. One run is one thread, and
nothing in it depends on the clock, on hashing or on other runs: scenario and seed determine every step. The loop is
flat on purpose; it is where a simulation spends its time.

A crash takes a node's state, its timers and what is on its way to it; a restart starts a new machine with what the old
one persisted. Whether the sender of a message that does not arrive learns of it is the network's choice.

Callbacks (what was given to ``at``, the watch, the listeners for deliveries and reports) may do to the system whatever
an experiment may do between runs, also crash the node whose step it is: then the rest of its effects is dropped. Only
``run`` itself cannot be called from them. A machine that raises ends the run; the simulation can go on after it.

Every entry of the agenda has a number, and a step gets the highest number that was given before its effects are carried
out. So the step that caused an entry can be found afterwards (``recado.sim.trace``), and costs nothing now.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from operator import itemgetter
from random import Random
from typing import Any, Protocol, cast

import msgspec

from recado.errors import RecadoError
from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LinkDown,
    LinkUp,
    Machine,
    NodeId,
    Persist,
    Received,
    Report,
    Rng,
    Send,
    SendFailed,
    SetTimer,
    Started,
    Stimulus,
    TimerFired,
)

# --- What will happen, in the order of time and then of the numbers that entries were given --------------------------
#
# A heap of all entries would do. In large runs it is what costs most: with 20,000 entries every one of them is
# compared with a dozen others that are anywhere in memory. So time is cut into stretches: an entry of a later stretch
# is only put on the list of its stretch (``far``), and a stretch is sorted when its time comes (``near``, the next
# entry last). What is scheduled for the stretch that is going on goes into a small heap (``late``). Where all happens
# in one stretch, that is the plain heap again; when a stretch gets crowded, all are made shorter.
#
# The kernel takes entries from ``near`` and ``late`` and puts them in itself, since a call costs as much as the work.


Entry = tuple[float, int, Any, Any, int, Any, Any]
"""Time and number; the rest is the kernel's."""

CROWD = 4096
USUAL = 64
"""So many entries in a stretch are worth sorting at once; it matters little whether they are 8 or 500."""

SHORTER = 1 - 1e-9
"""What comes before so much of a stretch's end is surely in it, however the division is rounded."""

LATEST = 1e150
"""No entry is later, and no stretch is shorter than its inverse, so that every stretch has a finite number."""


class Agenda:
    """``edge`` is the stretch that is going on: later ones are in ``far``, and ``order`` is a heap of their numbers."""

    __slots__ = ("crowd", "edge", "far", "late", "near", "order", "scale")

    def __init__(self) -> None:
        self.near: list[Entry] = []
        self.late: list[Entry] = []
        self.far: dict[int, list[Entry]] = {}
        self.order: list[int] = []
        self.edge = -1
        self.scale = 1.0
        self.crowd = CROWD

    def __len__(self) -> int:
        return len(self.near) + len(self.late) + sum(map(len, self.far.values()))

    def __iter__(self) -> Iterator[Entry]:
        yield from self.near
        yield from self.late
        for stretch in self.far.values():
            yield from stretch

    def put(self, entry: Entry) -> None:
        stretch = int(entry[0] * self.scale)
        if stretch <= self.edge:
            heappush(self.late, entry)
        elif stretch in self.far:
            self.far[stretch].append(entry)
        else:
            self.far[stretch] = [entry]
            heappush(self.order, stretch)

    def next_time(self) -> float:
        """When something happens next; infinity if nothing does."""
        while not self.near and not self.late and self.order:
            self.open()
        return min(self.near[-1][0] if self.near else math.inf, self.late[0][0] if self.late else math.inf)

    def open(self) -> None:
        """The next stretch begins; the one before must be done."""
        self.edge = heappop(self.order)
        self.near += self.far.pop(self.edge)
        if len(self.near) > self.crowd:
            self.shorten()
        self.near.sort(reverse=True)

    def shorten(self) -> None:
        """Make stretches so short that few of the entries that crowd this one share one; none is open after that.

        Where the crowd is spread over many stretches already (it was scheduled after a later one was opened), it only
        has to be put there.
        """
        times = [entry[0] for entry in (*self.near, *self.late)]
        first, last = min(times), max(times)
        scale = min(len(times) / USUAL / (last - first), LATEST) if last > first else 0.0
        if scale <= self.scale and int(first * self.scale) == int(last * self.scale):  # nothing would part them
            self.crowd = 2 * len(times)
            return
        scale = max(scale, self.scale)
        entries = list(self)
        for part in (self.near, self.late, self.far, self.order):
            part.clear()
        self.edge, self.scale = -1, scale
        for entry in entries:
            self.put(entry)

    def take_out(self, unwanted: Callable[[Entry], bool]) -> list[Entry]:
        """Remove entries; they come back in the order of their numbers."""
        out = [entry for entry in self if unwanted(entry)]
        if out:
            numbers = {entry[1] for entry in out}
            for part in (self.near, self.late, *self.far.values()):
                part[:] = [entry for entry in part if entry[1] not in numbers]
            heapify(self.late)
        return sorted(out, key=lambda entry: entry[1])


# --- What the kernel keeps for a node, and what it counts for a kind of message --------------------------------------
#
# Counters of a node go on over crashes and restarts, so that the sum over all nodes is what was sent in the whole run.


class Node:
    """A node of the simulation: its machine and its counters. A restart makes a new one."""

    __slots__ = (
        "alive", "down_bytes", "down_messages", "id", "machine", "rng", "saved", "starts", "timers", "up_bytes",
        "up_messages",
    )  # fmt: skip

    def __init__(self, node_id: NodeId, machine: Machine, rng: Rng, earlier: Node | None) -> None:
        self.id, self.machine, self.rng = node_id, machine, rng
        self.alive = True
        self.timers: dict[Hashable, int] = {}
        self.saved: dict[str, Any] = earlier.saved if earlier else {}
        self.starts: int = earlier.starts + 1 if earlier else 1
        self.up_messages: int = earlier.up_messages if earlier else 0
        self.up_bytes: int = earlier.up_bytes if earlier else 0
        self.down_messages: int = earlier.down_messages if earlier else 0
        self.down_bytes: int = earlier.down_bytes if earlier else 0


class Sent:
    """What was sent of one kind of message (a broadcast is sent once), and how much of it arrived at live nodes."""

    __slots__ = ("arrived", "arrived_bytes", "bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = self.arrived = self.arrived_bytes = 0


# --- Independent random streams from one seed: one for every purpose and node ----------------------------------------
#
# A stream is named, not numbered, so that a new purpose does not shift the draws of the others, and two variants of an
# experiment meet the same arrivals, sessions and delays.


def stream(seed: int, *purpose: str | int) -> Random:
    """The random stream of a purpose, such as ``stream(seed, "node", 17)``."""
    name = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, *purpose))
    return Random(int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "big"))  # noqa: S311  # not secrets


def lazy_stream(seed: int, *purpose: str | int) -> Rng:
    """The same draws, from a stream that is made when the first is taken: most nodes of a large run take none."""
    return cast(Rng, _LazyStream(seed, purpose))


class _LazyStream:
    """A stream's state takes 2.5 KB and its making 10 us; an empty slot takes neither. Filled slots are plain calls."""

    __slots__ = ("_purpose", "_seed", "_stream", "choice", "expovariate", "random", "randrange", "sample", "uniform")

    def __init__(self, seed: int, purpose: tuple[str | int, ...]) -> None:
        self._seed, self._purpose = seed, purpose

    def __getattr__(self, name: str) -> Any:
        if name == "_stream":
            self._stream = stream(self._seed, *self._purpose)
            return self._stream
        method = getattr(self._stream, name)
        if name in _LazyStream.__slots__:
            setattr(self, name, method)
        return method


# --- The kernel: what will happen, in the order of time and then in the order in which it was scheduled --------------


class SimulationError(RecadoError):
    """A simulation that cannot go on, or was told something impossible."""


class Network(Protocol):
    """When, and whether, messages arrive. It draws only from the random stream it was made with."""

    tells_failure: bool
    """Does the sender learn that a message did not arrive, or that its receiver was dead?"""

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        """The times at which copies of the message arrive: usually one, none if it is lost."""
        ...

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        """Who hears a broadcast: node, time of arrival, signal strength in dBm."""
        ...


class Transmission:
    """One message on its way through a medium; ``number`` is its place in the order of what was scheduled."""

    __slots__ = ("counter", "message", "number", "receiver", "sender", "size_bytes")

    def __init__(
        self, number: int, sender: Node, receiver: NodeId | None, message: Any, *, size_bytes: int, counter: Sent
    ) -> None:
        self.number, self.sender, self.receiver = number, sender, receiver
        self.message, self.size_bytes, self.counter = message, size_bytes, counter


Audience = Sequence[tuple[NodeId, float, float]]
"""Who hears a broadcast: node, time of arrival, signal strength in dBm."""


class Medium(Protocol):
    """A network that is given every transmission whole, and says itself what comes of it and when.

    It is what a network has as ``medium``, which for a radio is the radio; then ``arrivals`` and ``audience`` are not
    asked. A network without that attribute has none.
    It answers with ``Simulation.hear``, ``arrive`` and ``fail``, each at most once for a transmission, then or later;
    what it needs to happen in between it asks for with ``Simulation.at``.
    """

    def bind(self, simulation: Simulation) -> None:
        """Belong to this simulation; called once, before anything is sent."""
        ...

    def transmit(self, transmission: Transmission, now: float) -> None:
        """A message to ``transmission.receiver``, or to whoever hears it if that is None."""
        ...


class _Airing:
    """A broadcast on its way to those who hear it, in the order in which they do; ``next`` is the first to come."""

    __slots__ = ("hearers", "next", "transmission")

    def __init__(self, transmission: Transmission, hearers: list[tuple[float, Node, float]]) -> None:
        self.transmission, self.hearers, self.next = transmission, hearers, 0


class LinkMaker(Protocol):
    """Who knows which links there are, and so can make one that a machine asks for."""

    def connect(self, opener: NodeId, peer: NodeId) -> None: ...
    def disconnect(self, opener: NodeId, peer: NodeId) -> None: ...


class Gone:
    """The machine of a crashed node: nothing is left."""

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        raise SimulationError(f"a crashed node was given {stimulus!r}")

    def inspect(self) -> dict[str, Any]:
        return {}


GONE = Gone()
NO_RNG = lazy_stream(0, "a crashed node")


class Step(msgspec.Struct, frozen=True):
    """What happened to a node, and what it wants done: entries numbered from ``scheduled`` + 1 on."""

    time: float
    number: int
    node: NodeId
    stimulus: Stimulus
    effects: Sequence[Effect]
    scheduled: int


Watch = Callable[[Step], None]
"""Called at every step, before its effects are carried out."""


class Simulation:
    """One run. ``size_of`` gives a message's size on the wire; without it, bytes are not counted."""

    def __init__(
        self,
        network: Network,
        seed: int = 0,
        *,
        size_of: Callable[[Any], int] | None = None,
        watch: Watch | None = None,
        deliver: Callable[[float, NodeId, Any], None] | None = None,
        report: Callable[[float, NodeId, Any], None] | None = None,
    ) -> None:
        self.network, self.seed = network, seed
        self.now = 0.0
        self.steps = 0
        self.nodes: dict[NodeId, Node] = {}
        self.sent: dict[type, Sent] = {}
        self.last_arrival = 0.0
        self._size_of, self._watch = size_of, watch
        self._deliver, self._report = deliver, report
        self.link_maker: LinkMaker = self
        """Asked for the links that machines want; ``recado.sim.faults`` puts itself here, since its links can fail."""
        self.on_crash: Callable[[float, NodeId], None] | None = None
        """Told of every crash; a crash is no step, so a watch does not see it."""
        self._opened: dict[tuple[NodeId, NodeId], None] = {}
        # entries are time, number, receiver and what; and for a message its size, sender and counter
        self._agenda = Agenda()
        self._sequence = 0
        self._running = False
        self.medium: Medium | None = getattr(network, "medium", None)
        if self.medium is not None:
            self.medium.bind(self)

    # -- what an experiment does to the system

    def add(self, node_id: NodeId, machine: Machine, neighbours: tuple[NodeId, ...] = ()) -> Node:
        """A new node, which starts now; or a crashed one again, with what it had persisted."""
        earlier = self.nodes.get(node_id)
        if earlier is not None and earlier.alive:
            raise SimulationError(f"node {node_id!r} is already there and alive")
        name = node_id if isinstance(node_id, int) else str(node_id)
        rng = lazy_stream(self.seed, "node", name, earlier.starts if earlier else 0)
        node = self.nodes[node_id] = Node(node_id, machine, rng, earlier)
        self._push(self.now, node, Started(neighbours, dict(node.saved)))
        return node

    def crash(self, node_id: NodeId) -> None:
        """The node is gone without a word."""
        node = self._node(node_id)
        node.alive = False
        node.machine, node.rng = GONE, NO_RNG  # a stream takes 2.5 KB, and a long run has many dead
        node.timers.clear()
        if self.on_crash is not None:
            self.on_crash(self.now, node_id)

    def ask(self, node_id: NodeId, request: Any, at: float | None = None) -> None:
        """The application at a node wants something, now or later; it is not told if the node is dead then."""
        self._push(self.now if at is None else at, self._node(node_id), Asked(request))

    def tell(self, node_id: NodeId, stimulus: Stimulus) -> None:
        """Give a node a stimulus now that no other call has, such as the link to a peer that it may contact."""
        self._push(self.now, self._node(node_id), stimulus)

    def link_up(self, first: NodeId, second: NodeId) -> None:
        """Tell both ends."""
        self._push(self.now, self._node(first), LinkUp(second))
        self._push(self.now, self._node(second), LinkUp(first))

    def link_down(self, first: NodeId, second: NodeId) -> None:
        """Tell both ends; what is on its way between them is lost."""
        self.lose(first, second)
        self.lose(second, first)
        self._push(self.now, self._node(first), LinkDown(second))
        self._push(self.now, self._node(second), LinkDown(first))

    def connect(self, opener: NodeId, peer: NodeId) -> None:
        """A link that a machine asked for, in a network whose links do not fail."""
        alive = opener in self.nodes and peer in self.nodes and self.nodes[opener].alive and self.nodes[peer].alive
        if alive and (opener, peer) not in self._opened and (peer, opener) not in self._opened:
            self._opened[opener, peer] = None
            self.link_up(opener, peer)

    def disconnect(self, opener: NodeId, peer: NodeId) -> None:
        if (opener, peer) in self._opened:
            del self._opened[opener, peer]
            self.link_down(opener, peer)

    def lose(self, sender: NodeId, receiver: NodeId) -> None:
        """What is on its way from one node to another does not arrive."""
        lost = self._agenda.take_out(lambda e: e[5] is not None and e[5].id == sender and e[2].id == receiver)
        if self.network.tells_failure:
            for _, _, _, message, _, node, _ in lost:
                self._push(self.now, node, SendFailed(receiver, message))

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Call a function of the experiment at a time: churn, faults, samples."""
        self._push(time, None, call)

    def _node(self, node_id: NodeId | None) -> Node:
        try:
            return self.nodes[cast(NodeId, node_id)]
        except KeyError:
            raise SimulationError(f"there is no node {node_id!r} in this simulation; add it first") from None

    def _push(self, time: float, node: Node | None, what: Any) -> None:
        if not self.now <= time <= LATEST:
            thing = "a call" if node is None else f"{what!r} at node {node.id!r}"
            raise SimulationError(f"{thing} cannot be scheduled for {time}; it is {self.now}")
        self._sequence += 1
        self._agenda.put((time, self._sequence, node, what, 0, None, None))

    # -- the run

    @property
    def pending(self) -> int:
        """What is still to happen, timers that were replaced included."""
        return len(self._agenda)

    def run(self, until: float = math.inf, steps: int | None = None) -> int:
        """Go on until nothing is left, the time is reached, or so many steps were taken; the steps taken."""
        if self._running:
            raise SimulationError("a run is going on; what it calls may schedule more, but not run the simulation")
        nodes, sent, network, agenda = self.nodes, self.sent, self.network, self._agenda
        size_of, watch, arrivals, tells = self._size_of, self._watch, network.arrivals, network.tells_failure
        medium = self.medium
        near, late, far, order = agenda.near, agenda.late, agenda.far, agenda.order
        scale, edge = agenda.scale, agenda.edge
        pop, push = heappop, heappush
        taken, most = 0, math.inf if steps is None else steps
        sequence = self._sequence
        effect: Any  # the loop asks for the exact type, which is fast and does not narrow a union
        effects: Sequence[Effect]
        self._running = True
        try:
            while taken < most:
                if late and (not near or late[0] < near[-1]):
                    if len(late) > agenda.crowd:
                        agenda.shorten()
                        scale, edge = agenda.scale, agenda.edge
                        continue
                    entry = pop(late)
                elif near:
                    entry = near.pop()
                elif order:
                    agenda.open()
                    scale, edge = agenda.scale, agenda.edge
                    continue
                else:
                    break
                now, number, node, what, size, sender, counter = entry
                sized = what  # whose size and counter these are: a message that is passed on is not measured again
                if now > until:
                    push(late, entry)
                    break
                self.now = now
                if node is None:
                    if type(what) is not _Airing:
                        self._sequence = sequence
                        what()
                        sequence = self._sequence
                        continue
                    # Those who hear a broadcast before anything else happens, one after another: most of them have
                    # heard it before and do nothing, so nothing gets between them.
                    border = until
                    if near and near[-1][0] < border:
                        border = near[-1][0]
                    if late and late[0][0] < border:
                        border = late[0][0]
                    if order and (edge + 1) / scale * SHORTER < border:
                        border = (edge + 1) / scale * SHORTER
                    transmission, hearers, place = what.transmission, what.hearers, what.next
                    sized, size, counter = transmission.message, transmission.size_bytes, transmission.counter
                    origin, crowd, effects, arrived = transmission.sender.id, len(hearers), (), 0
                    try:
                        while True:
                            now, node, signal = hearers[place]
                            place += 1
                            if node.alive:
                                node.down_messages += 1
                                node.down_bytes += size
                                arrived += 1
                                effects = node.machine.handle(Received(origin, sized, signal), now, node.rng)
                                if effects or watch is not None:
                                    break
                            if place == crowd or hearers[place][0] >= border or taken + arrived >= most:
                                break
                    finally:
                        self.now = now
                        if arrived:
                            self.last_arrival = now
                        taken += arrived
                        counter.arrived += arrived
                        counter.arrived_bytes += arrived * size
                        if place < crowd:
                            what.next = place
                            time = hearers[place][0]
                            if int(time * scale) <= edge:
                                push(late, (time, number, None, what, 0, None, None))
                            else:
                                agenda.put((time, number, None, what, 0, None, None))
                    if watch is not None and arrived:
                        self._sequence = sequence
                        watch(Step(now, number, node.id, Received(origin, sized, signal), effects, sequence))
                        sequence = self._sequence
                        if not node.alive:
                            continue
                else:
                    if counter is not None:
                        if not node.alive:
                            if tells and sender is not None:
                                sequence += 1
                                push(late, (now, sequence, sender, SendFailed(node.id, what), 0, None, None))
                            continue
                        if sender is not None:
                            what = Received(sender.id, what)
                        node.down_messages += 1
                        node.down_bytes += size
                        counter.arrived += 1
                        counter.arrived_bytes += size
                        self.last_arrival = now
                    elif type(what) is SetTimer or type(what) is TimerFired:
                        timer = what.timer
                        if node.timers.get(timer) != number:
                            continue
                        del node.timers[timer]
                        what = TimerFired(timer)
                    elif not node.alive:
                        if type(what) is Asked and nodes[node.id].alive:  # the application asks whoever is there
                            sequence += 1
                            push(late, (now, sequence, nodes[node.id], what, 0, None, None))
                        continue
                    taken += 1
                    effects = node.machine.handle(what, now, node.rng)
                    if watch is not None:
                        self._sequence = sequence
                        watch(Step(now, number, node.id, what, effects, sequence))
                        sequence = self._sequence
                        if not node.alive:
                            continue
                for effect in effects:
                    kind = type(effect)
                    if kind is Send:
                        message, to = effect.message, effect.receiver
                        if message is not sized or counter is None:
                            sized = message
                            counter = sent.get(type(message))
                            if counter is None:
                                counter = sent[type(message)] = Sent()
                            if size_of is not None:
                                size = size_of(message)
                        counter.count += 1
                        node.up_messages += 1
                        if size_of is not None:
                            counter.bytes += size
                            node.up_bytes += size
                        if medium is not None:
                            sequence += 1
                            self._sequence = sequence
                            medium.transmit(
                                Transmission(sequence, node, to, message, size_bytes=size, counter=counter), now
                            )
                            sequence = self._sequence
                            if not node.alive:
                                break
                            continue
                        try:
                            receiver = nodes[to]
                        except KeyError:
                            raise SimulationError(
                                f"node {node.id!r} sent {message!r} to {to!r}, which is no node"
                            ) from None
                        times = arrivals(node.id, to, size, now)
                        for time in times:
                            if not now <= time <= LATEST:
                                raise SimulationError(_impossible(node.id, message, to, time, now))
                            sequence += 1
                            stretch = int(time * scale)
                            if stretch <= edge:
                                push(late, (time, sequence, receiver, message, size, node, counter))
                            elif stretch in far:
                                far[stretch].append((time, sequence, receiver, message, size, node, counter))
                            else:
                                far[stretch] = [(time, sequence, receiver, message, size, node, counter)]
                                push(order, stretch)
                        if tells and not times:
                            sequence += 1
                            push(late, (now, sequence, node, SendFailed(to, message), 0, None, None))
                    elif kind is SetTimer:
                        timer = effect.timer
                        time = now + effect.after_seconds
                        if not now <= time <= LATEST:
                            self._sequence = sequence
                            self._push(time, node, TimerFired(timer))  # which says what is wrong
                        sequence += 1
                        node.timers[timer] = sequence
                        stretch = int(time * scale)
                        # many timers are replaced before their time: what is told then is made when it is
                        if stretch <= edge:
                            push(late, (time, sequence, node, effect, 0, None, None))
                        elif stretch in far:
                            far[stretch].append((time, sequence, node, effect, 0, None, None))
                        else:
                            far[stretch] = [(time, sequence, node, effect, 0, None, None)]
                            push(order, stretch)
                    elif kind is CancelTimer:
                        node.timers.pop(effect.timer, None)
                    else:
                        self._sequence = sequence  # a callback may ask for more
                        self._rare(effect, node, now)
                        sequence = self._sequence
                        if not node.alive:
                            break
        finally:
            self._running = False
            self._sequence = max(sequence, self._sequence)  # a callback that raised may have scheduled more
            self.steps += taken
        if math.isfinite(until) and agenda.next_time() > until:
            self.now = max(self.now, until)
        return taken

    def _rare(self, effect: Effect, node: Node, now: float) -> None:
        """The effects that are not worth a place in the loop."""
        match effect:
            case Deliver(notification):
                if self._deliver is not None:
                    self._deliver(now, node.id, notification)
            case Report(fact):
                if self._report is not None:
                    self._report(now, node.id, fact)
            case Persist(key, value):
                if value is None:
                    node.saved.pop(key, None)
                else:
                    node.saved[key] = value
            case Connect(peer):
                self.link_maker.connect(node.id, peer)
            case Disconnect(peer):
                self.link_maker.disconnect(node.id, peer)
            case Broadcast(message):
                self._broadcast(message, node, now)
            case _:
                raise SimulationError(f"node {node.id!r} returned {effect!r}, which is no effect")

    def _broadcast(self, message: Any, node: Node, now: float) -> None:
        counter = self.sent.get(type(message))
        if counter is None:
            counter = self.sent[type(message)] = Sent()
        size = self._size_of(message) if self._size_of is not None else 0
        counter.count += 1
        counter.bytes += size
        node.up_messages += 1
        node.up_bytes += size
        self._sequence += 1
        transmission = Transmission(self._sequence, node, None, message, size_bytes=size, counter=counter)
        if self.medium is not None:
            self.medium.transmit(transmission, now)
        else:
            self.hear(transmission, self.network.audience(node.id, size, now))

    # -- what a medium tells of a transmission

    def hear(self, transmission: Transmission, audience: Audience) -> None:
        """These nodes hear a broadcast, at these times and strengths; the dead, and those who are to come, do not."""
        find = self.nodes.get  # a radio may know the places of nodes that are still to come
        heard = [(time, node, signal) for id, time, signal in audience if (node := find(id)) is not None]
        if not heard:
            return
        heard.sort(key=_TIME)
        for time, node, _ in (heard[0], heard[-1]):
            if not self.now <= time <= LATEST:
                raise SimulationError(
                    _impossible(transmission.sender.id, transmission.message, node.id, time, self.now)
                )
        self._agenda.put((heard[0][0], transmission.number, None, _Airing(transmission, heard), 0, None, None))

    def arrive(self, transmission: Transmission, time: float) -> None:
        """A message reaches its receiver at a time, which may be now."""
        sender, to, message = transmission.sender, transmission.receiver, transmission.message
        if not self.now <= time <= LATEST:
            raise SimulationError(_impossible(sender.id, message, to, time, self.now))
        receiver = self._node(to)
        self._agenda.put(
            (time, transmission.number, receiver, message, transmission.size_bytes, sender, transmission.counter)
        )

    def fail(self, transmission: Transmission) -> None:
        """The sender learns now that a message did not reach its receiver."""
        to = cast(NodeId, transmission.receiver)
        self._push(self.now, transmission.sender, SendFailed(to, transmission.message))


_TIME = itemgetter(0)


def _impossible(sender: NodeId, message: Any, receiver: NodeId | None, time: float, now: float) -> str:
    return f"the network lets {message!r} from {sender!r} arrive at {receiver!r} at {time}; it is {now}"
