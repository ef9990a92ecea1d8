"""Radio: a shared medium on which a transmission is heard by whoever is near enough, and how strongly.

A radio is a network (``recado.sim.kernel.Network``) whose ``audience`` says who hears a broadcast. This is the ideal
channel: a disk of ``range_metres`` around the sender, no loss, no collision. A transmission takes
``BROADCAST_SECONDS``, to a single receiver ``UNICAST_SECONDS`` (it is acknowledged), and up to ``JITTER_SECONDS`` more
for each hearer. The sender of a unicast learns that nobody acknowledged it.

Signal strength is two-ray ground, with the constants of ns-2: in free space it falls with the square of the distance,
beyond the crossover distance with the fourth power, since the ray that the ground reflects weakens the direct one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError
from recado.sim.network import Place

POWER_WATTS = 0.28183815
ANTENNA_METRES = 1.5
WAVELENGTH_METRES = 3e8 / 914e6  # ns-2 rounds the speed of light
CROSSOVER_METRES = 4 * math.pi * ANTENNA_METRES**2 / WAVELENGTH_METRES

RANGE_METRES = 250.0
BROADCAST_SECONDS = 0.001
UNICAST_SECONDS = (0.002, 0.003)
JITTER_SECONDS = 0.0001
NEAREST_METRES = 1e-3  # two nodes in one place would otherwise hear each other without limit


def received_watts(metres: float) -> float:
    """What arrives of ``POWER_WATTS`` at a distance."""
    metres = max(metres, NEAREST_METRES)
    if metres < CROSSOVER_METRES:
        return POWER_WATTS * (WAVELENGTH_METRES / (4 * math.pi * metres)) ** 2
    return POWER_WATTS * ANTENNA_METRES**4 / metres**4


def dbm(watts: float) -> float:
    return 10 * math.log10(watts * 1000)


class IdealRadio:
    """``places`` are in metres; a node that moves is moved with ``move``."""

    tells_failure = True

    def __init__(self, places: Mapping[NodeId, Place], rng: Random, range_metres: float = RANGE_METRES) -> None:
        self.places, self.range_metres, self._rng = dict(places), range_metres, rng
        self._cells: dict[tuple[int, int], dict[NodeId, None]] = {}
        self._heard: dict[NodeId, dict[NodeId, float]] = {}
        for node in self.places:
            self._cells.setdefault(self._cell(node), {})[node] = None

    def hearers(self, sender: NodeId) -> dict[NodeId, float]:
        """Who hears a node, and how strongly (dBm)."""
        if sender not in self.places:
            raise SimulationError(f"node {sender!r} is nowhere; give it a place")
        heard = self._heard.get(sender)
        if heard is None:
            heard = self._heard[sender] = self._listen(sender)
        return heard

    def move(self, node: NodeId, place: Place) -> None:
        """To a new place; or a new node to its first."""
        if node in self.places:
            del self._cells[self._cell(node)][node]
        self.places[node] = place
        self._cells.setdefault(self._cell(node), {})[node] = None
        self._heard.clear()

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Sequence[tuple[NodeId, float, float]]:
        end, rng = now + BROADCAST_SECONDS, self._rng
        return [(node, end + rng.uniform(0, JITTER_SECONDS), signal) for node, signal in self.hearers(sender).items()]

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        if receiver not in self.hearers(sender):
            return ()
        return (now + self._rng.uniform(*UNICAST_SECONDS) + self._rng.uniform(0, JITTER_SECONDS),)

    def _cell(self, node: NodeId) -> tuple[int, int]:
        x, y = self.places[node]
        return int(x // self.range_metres), int(y // self.range_metres)

    def _listen(self, sender: NodeId) -> dict[NodeId, float]:
        """Whoever is in range is in this cell or in one of the eight around it."""
        column, row = self._cell(sender)
        near = [
            node
            for x in (column - 1, column, column + 1)
            for y in (row - 1, row, row + 1)
            for node in self._cells.get((x, y), ())
            if node != sender
        ]
        far = {node: math.dist(self.places[sender], self.places[node]) for node in near}
        return {node: dbm(received_watts(far[node])) for node in near if far[node] <= self.range_metres}


def scatter(nodes: Sequence[NodeId], side_metres: float, rng: Random) -> dict[NodeId, Place]:
    """Uniformly over a square."""
    return {node: (rng.uniform(0, side_metres), rng.uniform(0, side_metres)) for node in nodes}
