"""Section 7.2.3: what it costs to replace the only publisher of a type, by election and by hand.

Random graphs of 50 nodes, 10 subscriptions, one publisher, three candidates. The publisher leaves, or crashes. *By
hand* is the plain protocol: when all is quiet, somebody who knows of the loss tells the first candidate to publish.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import NodeId
from recado.protocols.pubsub import BecomeCandidate, Elected, Unpublished
from recado.protocols.topology import random_graph
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.trees.messages import Q
from recado.sim.faults import Cuts, Outages
from recado.sim.kernel import stream
from recado.sim.network import UnitDelay
from recado.sim.system import System

NETWORKS, QUICK_NETWORKS = 100, 10
NODES, SUBSCRIPTIONS, CANDIDATES = 50, 10, 3


def election(quick: bool) -> dict[str, float | str]:
    """Means over the networks, by how the publisher goes and who replaces it; ``wrong`` are deliveries."""
    count = QUICK_NETWORKS if quick else NETWORKS
    answers: dict[str, float | str] = {}
    for how in ("leaves", "crashes"):
        for who in ("elected", "by hand"):
            total: Counter[str] = Counter()
            for number in range(count):
                total.update(_one(how, who, stream(number, "election")))
            answers |= {f"{how}.{who}.{name}": found / count for name, found in total.items()}
    return answers


def _one(how: str, who: str, rng: Random) -> dict[str, float]:
    topology = random_graph(NODES, NODES, rng)
    publisher, *others = rng.sample(topology.nodes, 1 + CANDIDATES + SUBSCRIPTIONS)
    candidates, subscribers = others[:CANDIDATES], others[CANDIDATES:]
    settings, cuts = TreeSettings(elect=who == "elected"), Cuts(UnitDelay())

    def make(node: NodeId) -> TreeNode:
        return TreeNode(node, settings)

    system = System(topology, make, cuts)
    outages = Outages(system.simulation, topology, make, cuts)
    system.become_publisher(publisher, "x")
    if settings.elect:
        for node in candidates:
            system.do(node, BecomeCandidate("x"))
    for node in subscribers:
        system.subscribe(node, Subscription(f"s{node}", type="x"))
    before, started, questions = system.messages, system.simulation.now, _questions(system)
    system.facts.clear()
    if how == "leaves":
        system.become_broker(publisher, "x")
    else:
        outages.crash(publisher)
        system.run_until_quiet()
    if not settings.elect:
        system.become_publisher(candidates[0], "x")
    sources = [node for node in candidates if "x" in system.inspect([node])[node]["publishes"]]
    elected = [time for time, _, fact in system.facts if isinstance(fact, Elected)]
    found = {
        "messages": system.messages - before,
        "questions": _questions(system) - questions,
        "without": sum(isinstance(fact, Unpublished) for _, _, fact in system.facts),
        "successors": len(sources),
    }
    system.deliveries.clear()
    for source in sources[:1]:
        system.publish(source, Event("e", "x"))
    got = Counter(delivery.node for delivery in system.deliveries)
    here = _within_reach(system, sources[0]) if sources else {}
    return found | {
        "wrong": float(got != Counter(node for node in subscribers if node in here)),
        "time": min(elected) - started if elected else 0.0,
    }


def _within_reach(system: System, source: NodeId) -> dict[NodeId, None]:
    """A publisher that crashes may have been the only link between two parts."""
    reached, waiting = {source: None}, [source]
    while waiting:
        for other in system.inspect([waiting.pop()]).popitem()[1]["neighbours"]:
            if other not in reached:
                reached[other] = None
                waiting.append(other)
    return reached


def _questions(system: System) -> int:
    return system.simulation.sent[Q].count
