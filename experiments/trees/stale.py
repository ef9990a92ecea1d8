"""What role changes leave behind, in the three ways of taking a new publisher in (section 4.4.4.1).

On small random networks publishers come and go one after another. A run is **entangled** if rows of two neighbours name
each other as origin, or a row has two ways toward its subscriber; it is **stale** if rows remain after the last
publisher has gone, although then no row leads anywhere.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Literal

from experiments.trees.golden import publish, subscribe
from experiments.trees.small import small_networks
from recado.protocols.machine import NodeId
from recado.protocols.topology import Topology
from recado.protocols.trees import TreeNode, TreeSettings
from recado.sim.draws import exponential
from recado.sim.kernel import Network, stream
from recado.sim.network import Links, UnitDelay
from recado.sim.system import System

RUNS, QUICK_RUNS = 1_500, 100
MODES: tuple[Literal["stream", "aggregate", "graft"], ...] = ("stream", "aggregate", "graft")


def stale(quick: bool) -> dict[str, float | str]:
    """For every mode and sort of delay: runs, entangled runs, stale runs, and deliveries that went wrong."""
    answers: dict[str, float | str] = {}
    for mode in MODES:
        for delay in ("unit", "random"):
            count: Counter[str] = Counter()
            for number, (topology, rng) in enumerate(small_networks(QUICK_RUNS if quick else RUNS, "stale")):
                network = UnitDelay() if delay == "unit" else Links(exponential(1.0, stream(number, "delays")))
                _one_run(topology, rng, TreeSettings(mpp=mode), network, count)
            answers |= {f"{mode}.{delay}.{name}": found for name, found in count.items()}
    return answers


def _one_run(topology: Topology, rng: Random, settings: TreeSettings, network: Network, count: Counter[str]) -> None:
    system = System(topology, lambda node: TreeNode(node, settings), network)
    roots = rng.sample(topology.nodes, rng.randrange(1, 4))
    for root in roots:
        subscribe(system, root)
    publishers: list[NodeId] = []
    entangled = wrong = False
    for _ in range(8):
        _change_a_role(system, rng, publishers)
        entangled = entangled or _entangled(system)
        if publishers:
            wrong = _delivered_wrong(system, rng.choice(publishers), roots) or wrong
    while publishers:
        system.become_broker(publishers.pop(), "x")
    left = any(state["tables"].get("x") for state in system.inspect().values())
    count.update(runs=1, entangled=int(entangled), stale=int(left), wrong=int(wrong))


def _change_a_role(system: System, rng: Random, publishers: list[NodeId]) -> None:
    others = [node for node in system.topology.nodes if node not in publishers]
    if others and (not publishers or rng.random() < 0.6):
        publishers.append(rng.choice(others))
        system.become_publisher(publishers[-1], "x")
    else:
        system.become_broker(publishers.pop(rng.randrange(len(publishers))), "x")


def _delivered_wrong(system: System, publisher: NodeId, roots: list[NodeId]) -> bool:
    """Did anybody miss the event, or get it twice?"""
    before = len(system.deliveries)
    publish(system, publisher)
    got = Counter(delivery.node for delivery in system.deliveries[before:])
    return got != Counter(roots)


def _entangled(system: System) -> bool:
    origins: dict[tuple[str, NodeId], Any] = {}
    for node, state in system.inspect().items():
        for id, row in state["tables"].get("x", {}).items():
            if len(row["next"]) > 1:
                return True
            origins[id, node] = row["origin"]
    return any(
        node in origins.get((id, other), ())
        for (id, node), found in origins.items()
        for other in found
        if other != node
    )
