"""The algorithms as printed, on the document's own examples and on small networks: the hang, the stale rows, the loop.

Errata ER2, ER9, ER11 and ER19. Everything but the printed operation is the corrected protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from experiments.trees.golden import publish, subscribe, system
from experiments.trees.small import small_networks
from recado.protocols.machine import NodeId
from recado.protocols.topology import NET_13, NET_16, Topology, complete
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.trees.printed import printed_node
from recado.sim.system import System

NETWORKS, QUICK_NETWORKS = 3_000, 100
OPERATIONS = 20
CAP = 3_000
"""Messages after which a publication counts as one that does not end."""

Numbers = dict[str, float | str]


def printed(quick: bool) -> Numbers:
    return _subscribe() | _cancel() | _broker() | _triangle() | _notify(QUICK_NETWORKS if quick else NETWORKS)


def _printed_system(
    topology: Topology, operation: str, publishers: Mapping[str, Sequence[NodeId]], cap: int = 100_000
) -> System:
    found = System(topology, lambda node: printed_node(node, operation), cap=cap)
    for type, nodes in publishers.items():
        for node in nodes:
            found.become_publisher(node, type)
    return found


def _subscribe() -> Numbers:
    """ER2: F hears NO from S before YES from C, and keeps silent."""
    found = _printed_system(NET_13, "subscribe", {"x": "LB"})
    cost = subscribe(found, "K")
    hanging = [node for node, state in found.inspect().items() if state["counters"]["questions"]]
    row = found.inspect(["K"])["K"]["tables"]["x"]["I(K)"]
    return {
        "CAI.M": cost.messages,
        "CAI.T": cost.time,
        "CAI.hanging": _names(hanging),
        "CAI.origin": _names(row["origin"]),
    }


def _cancel() -> Numbers:
    """ER9: C stops at the first relay with one origin."""
    found = _printed_system(NET_13, "cancel", {"x": "LB"})
    subscribe(found, "K")
    found.unsubscribe("K", "I(K)")
    return {"CI.left": _names([node for node, state in found.inspect().items() if state["tables"].get("x")])}


def _broker() -> Numbers:
    """ER19: the leaving of B cuts E off from L."""
    found = _printed_system(NET_16, "broker", {"y": "F", "z": "BL"})
    for node, type in (("O", "y"), ("R", "y"), ("K", "z"), ("E", "z")):
        subscribe(found, node, type)
    leaving = found.become_broker("B", "z")
    event = publish(found, "L", "z")
    return {
        "MPB.M": leaving.messages,
        "MPB.T": leaving.time,
        "MPB.event.M": event.messages,
        "MPB.reached": _names([delivery.node for delivery in found.deliveries]),
    }


def _triangle() -> Numbers:
    """Each of three nodes publishes and subscribes: one event, under each way to keep it from circling."""
    numbers: Numbers = {}
    for forwarding in ("seen", "subscriptions"):
        found = system(complete(3), {"x": range(3)}, TreeSettings(forwarding=forwarding))
        for node in range(3):
            subscribe(found, node)
        numbers[f"triangle.{forwarding}.M"] = publish(found, 0).messages
    found = _printed_system(complete(3), "notify", {"x": range(3)}, CAP)
    for node in range(3):
        subscribe(found, node)
    numbers["triangle.printed.loops"] = float(publish(found, 0).messages >= CAP)
    return numbers


def _notify(networks: int) -> Numbers:
    """ER11: how many publications come twice, and how many never end, without a message's identity."""
    count: Counter[str] = Counter()
    for topology, rng in small_networks(networks, "printed"):
        _one_network(topology, rng, count)
    return {
        "NE.publications": count["publications"],
        "NE.duplicates": 100 * count["duplicates"] / count["publications"],
        "NE.loops": 100 * count["loops"] / count["publications"],
        "NE.networks": 100 * count["endless"] / networks,
        "NE.corrected.wrong": count["wrong"],
    }


def _one_network(topology: Topology, rng: Random, count: Counter[str]) -> None:
    """The same random operations on the printed and on the corrected protocol."""
    plain, literal = System(topology, TreeNode), _literal(topology, (), ())
    roots: list[NodeId] = []
    publishers: list[NodeId] = []
    endless = False
    for _ in range(OPERATIONS):
        if rng.random() < 0.5 and publishers:
            node = rng.choice(publishers)
            count["publications"] += 1
            count["wrong"] += _copies(plain, node) != Counter(roots)
            count["duplicates"] += _copies(literal, node) != Counter(roots)
            if literal.simulation.pending:
                count["loops"] += 1
                endless = True
                literal = _literal(topology, roots, publishers)
        else:
            _change(rng, (plain, literal), roots, publishers)
    count["endless"] += endless


def _literal(topology: Topology, roots: Sequence[NodeId], publishers: Sequence[NodeId]) -> System:
    """A new network in the place of one in which a notification circles for ever."""
    found = System(topology, lambda node: printed_node(node, "notify"), cap=CAP)
    for node in publishers:
        found.become_publisher(node, "x")
    for node in roots:
        subscribe(found, node)
    return found


def _change(rng: Random, systems: Sequence[System], roots: list[NodeId], publishers: list[NodeId]) -> None:
    """A node that subscribes or publishes, or stops to."""
    node = rng.choice(systems[0].topology.nodes)
    members = roots if rng.random() < 0.5 else publishers
    leaves = node in members
    for each in systems:
        if members is roots:
            each.unsubscribe(node, f"I({node})") if leaves else subscribe(each, node)
        else:
            each.become_broker(node, "x") if leaves else each.become_publisher(node, "x")
    if leaves:
        members.remove(node)
    else:
        members.append(node)


def _copies(found: System, publisher: NodeId) -> Counter[NodeId]:
    """Who gets an event, and how often."""
    before = len(found.deliveries)
    publish(found, publisher)
    return Counter(delivery.node for delivery in found.deliveries[before:])


def _names(nodes: Sequence[NodeId]) -> str:
    return " ".join(sorted(map(str, nodes)))
