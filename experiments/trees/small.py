"""Small random networks, by the thousand: where a formula is tried that should hold on every network.

4 to 10 nodes, a random tree and 1 to 2n attempts at a further link.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from recado.protocols.machine import NodeId
from recado.protocols.topology import Topology
from recado.sim.kernel import stream


def small_networks(count: int, purpose: str) -> Iterator[tuple[Topology, Random]]:
    """So many networks, each with the stream for all that is drawn on it."""
    for number in range(count):
        rng = stream(number, purpose)
        yield small_network(rng), rng


def small_network(rng: Random) -> Topology:
    n = rng.randrange(4, 11)
    edges: list[tuple[NodeId, NodeId]] = [(rng.randrange(node), node) for node in range(1, n)]
    for _ in range(rng.randrange(1, 2 * n + 1)):
        first, second = rng.sample(range(n), 2)
        edges.append((first, second))
    return Topology(range(n), edges)
