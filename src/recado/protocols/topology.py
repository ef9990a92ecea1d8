"""Overlay graphs: nodes and undirected links, the networks of the tree document, and generators.

Generators take their random numbers from the caller, so a topology is determined by its stream.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import combinations

from recado.errors import RecadoError
from recado.protocols.machine import NodeId, Rng


class TopologyError(RecadoError):
    """A graph that is no overlay."""


class Topology:
    """A simple undirected graph; nodes and neighbours keep the order in which they were given.

    ``clients`` are the nodes that are no brokers, each with one link, to its broker; in most networks there are none.
    """

    def __init__(
        self, nodes: Iterable[NodeId], edges: Iterable[tuple[NodeId, NodeId]], clients: Iterable[NodeId] = ()
    ) -> None:
        self.nodes = tuple(dict.fromkeys(nodes))
        self.clients = tuple(dict.fromkeys(clients))
        self._links: dict[NodeId, dict[NodeId, None]] = {node: {} for node in self.nodes}
        unique: dict[tuple[NodeId, NodeId], None] = {}
        for first, second in edges:
            if first not in self._links or second not in self._links or first == second:
                raise TopologyError(f"{first!r} - {second!r} is no link between two nodes of this topology")
            if second not in self._links[first]:
                unique[first, second] = None
                self._links[first][second] = self._links[second][first] = None
        self.edges = tuple(unique)
        for client in self.clients:
            if len(self._links.get(client, ())) != 1:
                raise TopologyError(f"{client!r} is no client: a client has one link, to its broker")

    def brokers(self) -> Topology:
        """The network of brokers alone."""
        clients = dict.fromkeys(self.clients)
        return Topology(
            (node for node in self.nodes if node not in clients),
            ((first, second) for first, second in self.edges if first not in clients and second not in clients),
        )

    def neighbours(self, node: NodeId) -> tuple[NodeId, ...]:
        return tuple(self._links[node])

    def distances(self, start: NodeId) -> dict[NodeId, int]:
        """Hops from one node to all that can be reached."""
        far = {start: 0}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            for other in self._links[node]:
                if other not in far:
                    far[other] = far[node] + 1
                    waiting.append(other)
        return far

    def eccentricity(self, node: NodeId) -> int:
        return max(self.distances(node).values())

    @cached_property
    def diameter(self) -> int:
        return max(map(self.eccentricity, self.nodes))

    @cached_property
    def connected(self) -> bool:
        return not self.nodes or len(self.distances(self.nodes[0])) == len(self.nodes)


def parse_edges(text: str) -> Topology:
    """A topology written as ``A-B B-C``."""
    edges = [edge.partition("-") for edge in text.split()]
    for first, _, second in edges:
        if not first or not second or "-" in second:
            raise TopologyError(f"{text!r} is no list of links; write them as A-B B-C")
    return Topology((node for a, _, b in edges for node in (a, b)), ((a, b) for a, _, b in edges))


NET_13 = parse_edges("K-J K-L J-G G-F G-H H-I F-C F-S C-A C-B C-D C-E A-B D-E")
NET_16 = parse_edges("K-J K-L J-G G-F G-H H-I F-C F-S C-A C-B C-D C-E A-B D-E S-R R-Q Q-O")
NET_5_1 = parse_edges("K-J K-L J-G G-F G-H H-I F-C F-S C-A C-B C-D C-E A-B")

NETWORKS: Mapping[str, Topology] = {"NET-13": NET_13, "NET-16": NET_16, "NET-5.1": NET_5_1}
"""The networks of the tree document by their names in scenario and topology files."""


# -- generators: nodes are 0 to n - 1, and all graphs are connected


def line(n: int) -> Topology:
    return Topology(range(n), ((i, i + 1) for i in range(n - 1)))


def ring(n: int) -> Topology:
    _at_least(3, n, "a ring", "nodes")
    return Topology(range(n), ((i, (i + 1) % n) for i in range(n)))


def star(n: int) -> Topology:
    """Node 0 in the middle."""
    return Topology(range(n), ((0, i) for i in range(1, n)))


def complete(n: int) -> Topology:
    return Topology(range(n), combinations(range(n), 2))


def grid(width: int, height: int) -> Topology:
    """Row by row: node ``y * width + x``."""
    n = width * height
    across = ((i, i + 1) for i in range(n) if (i + 1) % width)
    return Topology(range(n), (*across, *((i, i + width) for i in range(n - width))))


def random_tree(n: int, rng: Rng) -> Topology:
    """Every node joins one of the earlier ones, all equally likely: depth grows with log n."""
    return Topology(range(n), ((rng.randrange(i), i) for i in range(1, n)))


def random_graph(n: int, extra_edges: int, rng: Rng) -> Topology:
    """A random tree and so many links more, all pairs equally likely: ``extra_edges`` is the number of its cycles."""
    edges: dict[tuple[int, int], None] = {(rng.randrange(i), i): None for i in range(1, n)}
    wanted = len(edges) + extra_edges
    if wanted > n * (n - 1) // 2:
        raise TopologyError(f"{n} nodes have room for {n * (n - 1) // 2} links, and {wanted} were asked for")
    while len(edges) < wanted:
        first, second = rng.randrange(n), rng.randrange(n)
        if first != second:
            edges[min(first, second), max(first, second)] = None
    return Topology(range(n), edges)


def scale_free(n: int, m: int, rng: Rng) -> Topology:
    """Barabási and Albert: every node joins ``m`` earlier ones, chosen in proportion to the links that they have."""
    _at_least(1, m, "a scale-free graph", "links a node")
    _at_least(m + 1, n, f"a scale-free graph of {m} links a node", "nodes")
    edges = [(0, i) for i in range(1, m + 1)]
    ends = [end for edge in edges for end in edge]
    for node in range(m + 1, n):
        chosen: dict[int, None] = {}
        while len(chosen) < m:
            chosen[rng.choice(ends)] = None
        edges += [(other, node) for other in chosen]
        ends += [*chosen, *[node] * m]
    return Topology(range(n), edges)


def with_clients(brokers: Topology, n: int, rng: Rng) -> Topology:
    """Clients beside the brokers, so that there are ``n`` nodes; each hangs on one broker, all equally likely."""
    clients = range(len(brokers.nodes), n)
    links = [(rng.choice(brokers.nodes), client) for client in clients]
    return Topology((*brokers.nodes, *clients), (*brokers.edges, *links), clients)


def spanning_tree(topology: Topology, root: NodeId) -> Topology:
    """The tree of shortest paths from the root; among equal ones, through the neighbour that is first in order."""
    parents: dict[NodeId, NodeId] = {}
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for other in topology.neighbours(node):
            if other != root and other not in parents:
                parents[other] = node
                waiting.append(other)
    if len(parents) + 1 < len(topology.nodes):
        raise TopologyError(f"only {len(parents) + 1} of {len(topology.nodes)} nodes can be reached from {root!r}")
    return Topology(topology.nodes, ((parent, node) for node, parent in parents.items()))


def _square(n: int) -> Topology:
    side = max(1, math.isqrt(n))
    return grid(side, n // side)


def _at_least(least: int, found: int, what: str, of: str) -> None:
    if found < least:
        raise TopologyError(f"{what} has at least {least} {of}, not {found}")


GENERATORS: Mapping[str, Callable[[int, Rng], Topology]] = {
    "line": lambda n, rng: line(n),
    "ring": lambda n, rng: ring(n),
    "star": lambda n, rng: star(n),
    "complete": lambda n, rng: complete(n),
    "grid": lambda n, rng: _square(n),
    "random-tree": random_tree,
    "random-graph": lambda n, rng: random_graph(n, min(n + 1, (n - 1) * (n - 2) // 2), rng),
    "scale-free": lambda n, rng: scale_free(n, 2, rng),
}
"""A network of ``n`` nodes of every sort (a grid of about as many); random graphs and scale-free ones of degree 4."""
