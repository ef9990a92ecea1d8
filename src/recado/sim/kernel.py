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
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import msgspec

from recado.errors import RecadoError
from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
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
from recado.sim.agenda import LATEST, Agenda
from recado.sim.node import Node, Sent
from recado.sim.streams import lazy_stream


class SimulationError(RecadoError):
    """A simulation that cannot go on, or was told something impossible."""


class Network(Protocol):
    """When, and whether, messages arrive. It draws only from the random stream it was made with."""

    tells_failure: bool
    """Does the sender learn that a message did not arrive, or that its receiver was dead?"""

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        """The times at which copies of the message arrive: usually one, none if it is lost."""
        ...

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Sequence[tuple[NodeId, float, float]]:
        """Who hears a broadcast: node, time of arrival, signal strength in dBm."""
        ...


class Gone:
    """The machine of a crashed node: nothing is left."""

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        raise SimulationError(f"a crashed node was given {stimulus!r}")

    def inspect(self) -> dict[str, Any]:
        return {}


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
        # entries are time, number, receiver and what; and for a message its size, sender and counter
        self._agenda = Agenda()
        self._sequence = 0
        self._running = False

    # -- what an experiment does to the system

    def add(self, id: NodeId, machine: Machine, neighbours: tuple[NodeId, ...] = ()) -> Node:
        """A new node, which starts now; or a crashed one again, with what it had persisted."""
        earlier = self.nodes.get(id)
        if earlier is not None and earlier.alive:
            raise SimulationError(f"node {id!r} is already there and alive")
        rng = lazy_stream(self.seed, "node", id, earlier.starts if earlier else 0)
        node = self.nodes[id] = Node(id, machine, rng, earlier)
        self._push(self.now, node, Started(neighbours, dict(node.saved)))
        return node

    def crash(self, id: NodeId) -> None:
        """The node is gone without a word."""
        node = self._node(id)
        node.alive = False
        node.machine = Gone()
        node.timers.clear()

    def ask(self, id: NodeId, request: Any, at: float | None = None) -> None:
        """The application at a node wants something, now or later; it is not told if the node is dead then."""
        self._push(self.now if at is None else at, self._node(id), Asked(request))

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

    def lose(self, sender: NodeId, receiver: NodeId) -> None:
        """What is on its way from one node to another does not arrive."""
        lost = self._agenda.take_out(lambda e: e[5] is not None and e[5].id == sender and e[2].id == receiver)
        if self.network.tells_failure:
            for _, _, _, message, _, node, _ in lost:
                self._push(self.now, node, SendFailed(receiver, message))

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Call a function of the experiment at a time: churn, faults, samples."""
        self._push(time, None, call)

    def _node(self, id: NodeId) -> Node:
        try:
            return self.nodes[id]
        except KeyError:
            raise SimulationError(f"there is no node {id!r} in this simulation; add it first") from None

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
        near, late, far, order = agenda.near, agenda.late, agenda.far, agenda.order
        scale, edge = agenda.scale, agenda.edge
        pop, push = heappop, heappush
        taken, most = 0, math.inf if steps is None else steps
        sequence = self._sequence
        effect: Any  # the loop asks for the exact type, which is fast and does not narrow a union
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
                if now > until:
                    push(late, entry)
                    break
                self.now = now
                if node is None:
                    self._sequence = sequence
                    what()
                    sequence = self._sequence
                    continue
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
                elif type(what) is TimerFired:
                    if node.timers.get(what.timer) != number:
                        continue
                    del node.timers[what.timer]
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
                        counter = sent.get(type(message))
                        if counter is None:
                            counter = sent[type(message)] = Sent()
                        counter.count += 1
                        node.up_messages += 1
                        if size_of is None:
                            size = 0
                        else:
                            size = size_of(message)
                            counter.bytes += size
                            node.up_bytes += size
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
                        self._sequence = sequence
                        self._push(now + effect.after_seconds, node, TimerFired(effect.timer))
                        sequence = node.timers[effect.timer] = self._sequence
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
            case Broadcast(message):
                self._broadcast(message, node, now)
            case _:
                raise SimulationError(f"node {node.id!r} returned {effect!r}, which is no effect")

    def _broadcast(self, message: Any, node: Node, now: float) -> None:
        counter = self.sent.setdefault(type(message), Sent())
        size = self._size_of(message) if self._size_of is not None else 0
        counter.count += 1
        counter.bytes += size
        node.up_messages += 1
        node.up_bytes += size
        for id, time, signal in self.network.audience(node.id, size, now):
            if not now <= time <= LATEST:
                raise SimulationError(_impossible(node.id, message, id, time, now))
            hearer = self.nodes.get(id)
            if hearer is not None:  # the radio may know the places of nodes that are still to come
                self._sequence += 1
                heard = Received(node.id, message, signal)
                self._agenda.put((time, self._sequence, hearer, heard, size, None, counter))


def _impossible(sender: NodeId, message: Any, receiver: NodeId, time: float, now: float) -> str:
    return f"the network lets {message!r} from {sender!r} arrive at {receiver!r} at {time}; it is {now}"
