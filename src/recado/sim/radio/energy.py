"""What a radio costs a node in joules, batteries that run down, and how long a network lives.

A node's time is divided among four states: it transmits, receives, is idle (awake, nothing on the air) or sleeps; each
has its power. Energy is time multiplied by power, nothing else is in the account: no processor, no sensor.

``CC2420`` is the radio of many sensor nodes, by the data sheet of its maker (Texas Instruments, SWRS041) at 3 V:
17.4 mA to transmit at 0 dBm, 18.8 mA to receive, 426 uA in idle mode, 20 uA in power-down mode, 250 kb/s. In idle mode
that radio hears nothing: the account is that of a node which something else wakes for every frame.
``CC2420_LISTENING`` is the plain node: awake, its receiver is on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random

import msgspec

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError
from recado.sim.radio.channel import Radio
from recado.sim.radio.sleep import ALWAYS_AWAKE, Sleep


class RadioPower(msgspec.Struct, frozen=True, kw_only=True):
    """What a radio draws in each state, and how long a message takes it."""

    transmit_watts: float
    receive_watts: float
    idle_watts: float
    sleep_watts: float
    bits_per_second: float
    overhead_bytes: int
    """Of a frame around its message: synchronisation, header, check sum."""

    def air_seconds(self, size_bytes: int) -> float:
        """How long a message is on the air, on a channel that does not say it itself."""
        return 8 * (size_bytes + self.overhead_bytes) / self.bits_per_second


VOLTS = 3.0
CC2420 = RadioPower(
    transmit_watts=VOLTS * 17.4e-3,
    receive_watts=VOLTS * 18.8e-3,
    idle_watts=VOLTS * 426e-6,
    sleep_watts=VOLTS * 20e-6,
    bits_per_second=250e3,
    overhead_bytes=17,
)
CC2420_LISTENING = msgspec.structs.replace(CC2420, idle_watts=CC2420.receive_watts)
RADIOS = {"cc2420": CC2420, "cc2420-listening": CC2420_LISTENING}


class Spent(msgspec.Struct, frozen=True):
    """A node's seconds in each state, and the joules of each."""

    transmit_seconds: float
    receive_seconds: float
    idle_seconds: float
    sleep_seconds: float
    transmit_joules: float
    receive_joules: float
    idle_joules: float
    sleep_joules: float

    @property
    def joules(self) -> float:
        return self.transmit_joules + self.receive_joules + self.idle_joules + self.sleep_joules


class EnergyMeter:
    """Keeps the account of every node of a radio from time 0 on; make it before the run."""

    def __init__(self, radio: Radio, power: RadioPower = CC2420, sleep: Sleep = ALWAYS_AWAKE) -> None:
        self.power, self._sleep = power, sleep
        self._transmit: dict[NodeId, float] = {}
        self._receive: dict[NodeId, float] = {}
        self.stopped: dict[NodeId, float] = {}
        """When a node died: its account ends there."""
        radio.listener = self
        radio.air_seconds = power.air_seconds

    def transmitted(self, node: NodeId, seconds: float) -> None:
        self._transmit[node] = self._transmit.get(node, 0.0) + seconds

    def received(self, node: NodeId, seconds: float) -> None:
        self._receive[node] = self._receive.get(node, 0.0) + seconds

    def spent(self, node: NodeId, now: float) -> Spent:
        """Until now, or until the node died.

        Receptions that overlap count each on the ideal channel; a node never spends more time than there was.
        """
        now = min(now, self.stopped.get(node, math.inf))
        transmit = min(self._transmit.get(node, 0.0), now)
        receive = min(self._receive.get(node, 0.0), now - transmit)
        awake = max(self._sleep.awake_until(node, now), transmit + receive)
        idle, asleep = awake - transmit - receive, now - awake
        power = self.power
        return Spent(
            transmit,
            receive,
            idle,
            asleep,
            transmit * power.transmit_watts,
            receive * power.receive_watts,
            idle * power.idle_watts,
            asleep * power.sleep_watts,
        )

    def joules(self, node: NodeId, now: float) -> float:
        return self.spent(node, now).joules


class Batteries:
    """A process of a radio: nodes whose battery is empty crash. Steps are ``step_seconds`` apart at least.

    ``capacity_joules`` is what a battery holds when it is full: one number, or one for each node (``draw_batteries``).
    When a battery was empty is known exactly enough: between two steps it is taken to run down evenly.
    """

    def __init__(
        self,
        meter: EnergyMeter,
        nodes: Iterable[NodeId],
        capacity_joules: float | Mapping[NodeId, float],
        step_seconds: float = 10.0,
    ) -> None:
        nodes = list(nodes)
        given = capacity_joules if isinstance(capacity_joules, Mapping) else dict.fromkeys(nodes, capacity_joules)
        if not all(given.get(node, 0.0) > 0 for node in nodes) or not step_seconds > 0:
            raise SimulationError("a battery holds more than 0 joules, and its steps take more than 0 seconds")
        self.meter, self.step_seconds = meter, step_seconds
        self.capacity_joules = {node: given[node] for node in nodes}
        self.deaths: dict[NodeId, float] = {}
        """When nodes died of it, in that order."""
        self._before: dict[NodeId, tuple[float, float]] = dict.fromkeys(nodes, (0.0, 0.0))

    def advance(self, radio: Radio, now: float) -> float:
        empty: list[tuple[float, int, NodeId]] = []
        for place, (node, (then, spent)) in enumerate(self._before.items()):
            joules, capacity = self.meter.joules(node, now), self.capacity_joules[node]
            if joules >= capacity and node not in self.deaths:
                share = (capacity - spent) / (joules - spent) if joules > spent else 1.0
                empty.append((then + share * (now - then), place, node))
            self._before[node] = (now, joules)
        for time, _, node in sorted(empty, key=lambda death: death[:2]):
            self.deaths[node] = self.meter.stopped[node] = time
            del self._before[node]
            found = radio.simulation.nodes.get(node)
            if found is not None and found.alive:
                radio.simulation.crash(node)
        return now + self.step_seconds

    def remaining_joules(self, node: NodeId, now: float) -> float:
        return 0.0 if node in self.deaths else max(0.0, self.capacity_joules[node] - self.meter.joules(node, now))


def draw_batteries(nodes: Iterable[NodeId], mean_joules: float, spread: float, rng: Random) -> dict[NodeId, float]:
    """Batteries that are not alike: each holds up to a share ``spread`` more or less than the mean, uniformly drawn."""
    if not 0 <= spread < 1:
        raise SimulationError(f"batteries differ from their mean by a share below 1, not by {spread:g}")
    return {node: mean_joules * rng.uniform(1 - spread, 1 + spread) for node in nodes}
