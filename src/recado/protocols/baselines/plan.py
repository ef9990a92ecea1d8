"""What is worked out from the whole topology before a run: rooted trees, rendezvous nodes, bounded groups.

The baselines of brokers assume an acyclic overlay; on a graph with cycles they run on a tree of shortest paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from recado.protocols.baselines.node import BaselineError
from recado.protocols.machine import NodeId
from recado.protocols.topology import Topology, spanning_tree


class Tree:
    """A tree of shortest paths to the root: all links, and for every node but the root the one that leads there."""

    def __init__(self, topology: Topology, root: NodeId) -> None:
        if root not in topology.nodes:
            raise BaselineError(f"there is no node {root!r} in this topology to be the root")
        self.root = root
        self._links = spanning_tree(topology, root)
        self.order = tuple(self._links.distances(root))
        self.parents: dict[NodeId, NodeId] = {}
        for node in self.order:
            for child in self._links.neighbours(node):
                if child != self.parents.get(node):
                    self.parents[child] = node

    def neighbours(self, node: NodeId) -> tuple[NodeId, ...]:
        return self._links.neighbours(node)

    def parent(self, node: NodeId) -> tuple[NodeId, ...]:
        """The parent; nothing for the root."""
        return (self.parents[node],) if node in self.parents else ()


def lowest(topology: Topology) -> NodeId:
    """The node with the lowest identifier, numbers before names."""
    return min(topology.nodes, key=lambda node: (isinstance(node, str), node))


class Rendezvous:
    """A tree for every event type, rooted at the type's rendezvous node: a given one, or one found by hashing."""

    def __init__(self, topology: Topology, given: Mapping[str, NodeId]) -> None:
        self._topology, self._given = topology, given
        self._trees: dict[NodeId, Tree] = {}

    def node(self, event_type: str) -> NodeId:
        if event_type in self._given:
            return self._given[event_type]
        digest = blake2b(event_type.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return self._topology.nodes[int.from_bytes(digest, "big") % len(self._topology.nodes)]

    def tree(self, event_type: str) -> Tree:
        root = self.node(event_type)
        if root not in self._trees:
            self._trees[root] = Tree(self._topology, root)
        return self._trees[root]


class Groups:
    """The tree cut into connected groups of at most ``size`` nodes, of one interest each where interests are given.

    From the root down, a node joins the group of its parent if that has room and the same interest; else it becomes
    the root of a new group.
    """

    def __init__(self, tree: Tree, size: int, interests: Mapping[NodeId, str]) -> None:
        if size < 1:
            raise BaselineError(f"a group has at least one node, not {size}")
        self._tree = tree
        self.root_of: dict[NodeId, NodeId] = {}
        members: dict[NodeId, int] = {}
        for node in tree.order:
            group = self.root_of[tree.parents[node]] if node in tree.parents else node
            if members.get(group, 0) >= size or interests.get(node) != interests.get(group):
                group = node
            self.root_of[node] = group
            members[group] = members.get(group, 0) + 1
        self._count = len(members)
        self._below = dict.fromkeys(tree.order, 0)
        for node in reversed(tree.order):
            for parent in tree.parent(node):
                self._below[parent] += self._below[node] + (not self.together(node, parent))

    def together(self, node: NodeId, other: NodeId) -> bool:
        """Are both in one group?"""
        return self.root_of[node] == self.root_of[other]

    def leads_out(self, node: NodeId, neighbour: NodeId) -> bool:
        """Are there other groups behind this neighbour?"""
        if not self.together(node, neighbour):
            return True
        if neighbour in self._tree.parent(node):
            return self._below[node] < self._count - 1
        return self._below[neighbour] > 0
