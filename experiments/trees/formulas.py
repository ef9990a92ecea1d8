"""The cost formulas F1 to F5 (sections 5.1 to 5.4 of the tree document), each tried on many small random networks.

Every answer is the number of cases, or of cases in which a formula was missed.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from experiments.trees.golden import depth, publish, subscribe, tree_edges
from experiments.trees.small import small_networks
from recado.protocols.machine import NodeId, Received
from recado.protocols.topology import Topology
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.trees.messages import QYes
from recado.sim.kernel import Step
from recado.sim.system import System

NETWORKS, QUICK_NETWORKS = 1_500, 150


class Answers:
    """When the last YES of the current operation came to the node that asked."""

    def __init__(self) -> None:
        self.root: NodeId = -1
        self.last = 0.0

    def __call__(self, step: Step) -> None:
        if step.node == self.root and isinstance(step.stimulus, Received) and isinstance(step.stimulus.message, QYes):
            self.last = step.time


class Trial:
    """One network, with the operations of F1 to F5 carried out on it one after another."""

    def __init__(self, topology: Topology, rng: Random, count: Counter[str]) -> None:
        self.topology, self.rng, self.count = topology, rng, count
        self.answers = Answers()
        self.system = System(topology, lambda node: TreeNode(node, TreeSettings(mpp="aggregate")), watch=self.answers)
        self.publishers = rng.sample(topology.nodes, rng.randrange(4))
        for node in self.publishers:
            self.system.become_publisher(node, "x")
        self.roots = rng.sample(topology.nodes, rng.randrange(1, 5))

    def run(self) -> None:
        for root in self.roots:
            self._f1(root)
        for node in self.publishers:
            self._f3(node)
        newcomers = [node for node in self.topology.nodes if node not in self.publishers]
        if newcomers:
            self._f4(self.rng.choice(newcomers))
        if self.publishers:
            self._f5(self.publishers[0])
        for root in self.roots:
            self._f2(root)

    def _f1(self, root: NodeId) -> None:
        self.answers.root, self.answers.last = root, self.system.simulation.now
        begun, d = self.system.simulation.now, self.topology.diameter
        cost = subscribe(self.system, root)
        self.count["F1.cases"] += 1
        self.count["F1.M.missed"] += cost.messages != 2 * len(self.topology.edges)
        self.count["F1.T.over_2d"] += cost.time > 2 * d
        self.count["F1.T.over_2ecc_plus_1"] += cost.time > 2 * self.topology.eccentricity(root) + 1
        self.count["F1.t_yes.over_2d"] += self.answers.last - begun > 2 * d
        self.count["F1.T.over_2n_minus_2"] += cost.time > 2 * len(self.topology.nodes) - 2

    def _f2(self, root: NodeId) -> None:
        edges = tree_edges(self.system, f"I({root})", "x")
        nodes = {end for edge in edges for end in edge}
        cost = self.system.unsubscribe(root, f"I({root})")
        self.count["F2.cases"] += 1
        self.count["F2.M.missed"] += cost.messages != len(edges)
        self.count["F2.T.over"] += cost.time > max(0, len(nodes) - 1)
        self.count["F2.rows.left"] += bool(tree_edges(self.system, f"I({root})", "x"))

    def _f3(self, publisher: NodeId) -> None:
        trees = [tree_edges(self.system, f"I({root})", "x") for root in self.roots]
        longest = max(depth(self.system, f"I({root})", "x") for root in self.roots)
        links = {frozenset(edge) for tree in trees for edge in tree}
        total = sum(map(len, trees))
        begun, before = self.system.simulation.now, len(self.system.deliveries)
        cost = publish(self.system, publisher)
        self.count["F3.cases"] += 1
        self.count["F3.late"] += any(one.time - begun > longest for one in self.system.deliveries[before:])
        self.count["F3.M.over_printed"] += cost.messages > total - 1
        self.count["F3.M.over_sum"] += cost.messages > total
        self.count["F3.T.over"] += cost.time > longest
        ends = {end for link in links for end in link}
        if len(links) == len(ends) - 1:
            self.count["F3.acyclic"] += 1
            self.count["F3.M.over_union"] += cost.messages > len(links)

    def _f4(self, newcomer: NodeId) -> None:
        cost = self.system.become_publisher(newcomer, "x")
        self.count["F4.cases"] += 1
        self.count["F4.M.missed"] += cost.messages != 2 * len(self.topology.edges)
        self.count["F4.T.over"] += cost.time > 2 * self.topology.eccentricity(newcomer) + 1

    def _f5(self, publisher: NodeId) -> None:
        trees = [tree_edges(self.system, f"I({root})", "x") for root in self.roots]
        cost = self.system.become_broker(publisher, "x")
        self.count["F5.cases"] += 1
        self.count["F5.M.over"] += cost.messages > sum(map(len, trees))
        self.count["F5.T.over"] += cost.time > max(len({end for edge in tree for end in edge}) for tree in trees)


def formulas(quick: bool) -> dict[str, float | str]:
    count: Counter[str] = Counter()
    for topology, rng in small_networks(QUICK_NETWORKS if quick else NETWORKS, "formulas"):
        Trial(topology, rng, count).run()
    return {**count, "F1.T.over_2d.share": 100 * count["F1.T.over_2d"] / count["F1.cases"]}
