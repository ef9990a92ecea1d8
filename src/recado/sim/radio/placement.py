"""Where to put the nodes, and what network that makes: who is in range of whom, in one piece or not, hops apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

from recado.protocols.machine import NodeId
from recado.protocols.topology import Topology
from recado.sim.kernel import SimulationError
from recado.sim.network import Place
from recado.sim.radio.field import Field
from recado.sim.radio.signal import RANGE_METRES

MOST_DRAWS = 10_000


def scatter(nodes: Sequence[NodeId], side_metres: float, rng: Random) -> dict[NodeId, Place]:
    """Uniformly over a square."""
    return {node: (rng.uniform(0, side_metres), rng.uniform(0, side_metres)) for node in nodes}


def connected_scatter(
    nodes: Sequence[NodeId], side_metres: float, rng: Random, range_metres: float = RANGE_METRES
) -> dict[NodeId, Place]:
    """Uniformly over a square, drawn again until all are in one piece; a SimulationError if that seems hopeless."""
    for _ in range(MOST_DRAWS):
        places = scatter(nodes, side_metres, rng)
        if radio_topology(places, range_metres).connected:
            return places
    raise SimulationError(
        f"{MOST_DRAWS:,} placements of {len(nodes)} nodes on {side_metres:g} m were all in pieces; "
        "take more nodes or a smaller square"
    )


def line_places(nodes: Sequence[NodeId], apart_metres: float) -> dict[NodeId, Place]:
    return {node: (number * apart_metres, 0.0) for number, node in enumerate(nodes)}


def grid_places(nodes: Sequence[NodeId], side_metres: float) -> dict[NodeId, Place]:
    """Row by row over a square, as many in a row as there are rows, about; the first and the last in corners."""
    width = math.ceil(math.sqrt(len(nodes)))
    apart = side_metres / (width - 1) if width > 1 else 0.0
    return {node: (number % width * apart, number // width * apart) for number, node in enumerate(nodes)}


def clusters(
    nodes: Sequence[NodeId], side_metres: float, count: int, spread_metres: float, rng: Random
) -> dict[NodeId, Place]:
    """In heaps: around each of ``count`` points of the square, normally distributed, and kept inside of it."""
    if count < 1:
        raise SimulationError(f"nodes are in 1 cluster or more, not in {count}")
    centres = [(rng.uniform(0, side_metres), rng.uniform(0, side_metres)) for _ in range(count)]

    def near(centre: Place) -> Place:
        x, y = (min(max(rng.gauss(middle, spread_metres), 0.0), side_metres) for middle in centre)
        return x, y

    return {node: near(centres[number % count]) for number, node in enumerate(nodes)}


def radio_topology(places: Mapping[NodeId, Place], range_metres: float = RANGE_METRES) -> Topology:
    """Who is in range of whom; ``connected`` and ``distances`` of it are the oracles of what a radio can reach."""
    field = Field(places, range_metres)
    return Topology(places, ((node, other) for node in places for other in field.hearers(node)))


def hop_counts(places: Mapping[NodeId, Place], range_metres: float = RANGE_METRES) -> dict[NodeId, dict[NodeId, int]]:
    """From every node to every node that it can reach, the fewest hops."""
    topology = radio_topology(places, range_metres)
    return {node: topology.distances(node) for node in places}
