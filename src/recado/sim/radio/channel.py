"""What every radio channel has: places, a count of what is transmitted, obstacles, and what goes on beside it.

A radio is a medium (``recado.sim.kernel.Medium``). It counts transmissions by *traffic class*, a word that
``class_of`` gives for a message, whatever the nodes say that they did: one for every message that is handed to the
link, also if it reaches nobody; what a channel sends by itself (reservations, acknowledgements, address resolution) and
its repetitions are counted apart.

*Processes* are what changes with time and not with messages: nodes that move, batteries that run down. They have steps,
and a radio lets them catch up before it carries a transmission, so that a simulation in which nobody says anything has
nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from recado.protocols.machine import NodeId
from recado.sim.faults import Obstacle
from recado.sim.kernel import Audience, Simulation, SimulationError, Transmission
from recado.sim.network import Place
from recado.sim.radio.field import Field
from recado.sim.radio.sleep import ALWAYS_AWAKE, Sleep


class Process(Protocol):
    """Something that goes on beside the messages."""

    def advance(self, radio: Radio, now: float) -> float:
        """Catch up; the time of the next step, which is later than now."""
        ...


class Listener(Protocol):
    """Who keeps account of the air: how long a node transmitted, and how long it received."""

    def transmitted(self, node: NodeId, seconds: float) -> None: ...
    def received(self, node: NodeId, seconds: float) -> None: ...


ClassOf = Callable[[Any], str]


def type_name(message: Any) -> str:
    """The traffic class of a message whose protocol has no better word."""
    return type(message).__name__


class Radio:
    """Give it to a simulation; ``class_of`` is the protocol's ``traffic_class``."""

    tells_failure = True

    def __init__(
        self,
        places: Mapping[NodeId, Place],
        range_metres: float,
        class_of: ClassOf | None = None,
        sleep: Sleep = ALWAYS_AWAKE,
    ) -> None:
        self.field = Field(places, range_metres)
        self.class_of = class_of or type_name
        self.sleep = sleep
        self.transmissions: dict[str, int] = {}
        """How many messages were handed to the link, by traffic class."""
        self.sent_bytes: dict[str, int] = {}
        self.obstacles: list[Obstacle] = []
        """Each may stop a frame: ``recado.sim.faults`` puts ``Loss`` and ``Cuts`` here when they are around a radio."""
        self.listener: Listener | None = None
        self.air_seconds: Callable[[int], float] = lambda size_bytes: 0.001
        """How long the listener is told that a message of a size was on the air, where the channel does not know."""
        self.processes: list[Process] = []
        self._due: list[float] = []
        self._next_step = math.inf
        self._simulation: Simulation | None = None

    @property
    def medium(self) -> Radio:
        return self

    @property
    def places(self) -> dict[NodeId, Place]:
        return self.field.places

    @property
    def range_metres(self) -> float:
        return self.field.range_metres

    def hearers(self, sender: NodeId) -> dict[NodeId, float]:
        """Who is in range of a node, and how strongly they hear it (dBm)."""
        return self.field.hearers(sender)

    def move(self, node: NodeId, place: Place) -> None:
        """To a new place; or a new node to its first."""
        self.field.move(node, place)

    def move_all(self, places: Mapping[NodeId, Place]) -> None:
        """Many nodes at once."""
        self.field.move_all(places)

    @property
    def simulation(self) -> Simulation:
        if self._simulation is None:
            raise SimulationError("this radio is in no simulation; give it to one")
        return self._simulation

    def bind(self, simulation: Simulation) -> None:
        if self._simulation is not None:
            raise SimulationError("a radio belongs to one simulation; make another one")
        self._simulation = simulation

    def add_process(self, process: Process, start: float = 0.0) -> None:
        """It takes its first step before the first transmission at or after ``start``."""
        self.processes.append(process)
        self._due.append(start)
        self._next_step = min(self._due)

    def advance(self, now: float) -> None:
        """Let all processes catch up; an experiment does that at its end, transmissions do it by themselves."""
        while self._next_step <= now:
            for place, process in enumerate(self.processes):
                if self._due[place] <= now:
                    self._due[place] = process.advance(self, now)
            self._next_step = min(self._due)

    def transmit(self, transmission: Transmission, now: float) -> None:
        """Count the message and carry it, unless the sender's battery is found empty first."""
        if now >= self._next_step:
            self.advance(now)
            if not transmission.sender.alive:
                return
        if self.carry(transmission, now):
            name = self.class_of(transmission.message)
            self.transmissions[name] = self.transmissions.get(name, 0) + 1
            self.sent_bytes[name] = self.sent_bytes.get(name, 0) + transmission.size_bytes

    def carry(self, transmission: Transmission, now: float) -> bool:
        """What the channel does with a message; False if it does not even try."""
        raise NotImplementedError

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        """For models around a radio that change when messages arrive; not every channel can be told."""
        raise SimulationError("only loss and cuts can be around this channel")

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        raise SimulationError("only loss and cuts can be around this channel")

    def passes(self, sender: NodeId, receiver: NodeId) -> bool:
        """Does no obstacle stop a frame? All are asked, so that what one draws does not depend on the others."""
        open_ways = [obstacle(sender, receiver) for obstacle in self.obstacles]
        return all(open_ways)
