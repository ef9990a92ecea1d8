"""Every number that the tree document prints or that was derived from it, from runs on its own networks.

Links take one time unit, nodes none. M is the messages of an operation, T the time of its last arrival.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines import make_baseline
from recado.protocols.machine import NodeId
from recado.protocols.topology import NET_5_1, NET_13, NET_16, Topology, complete, line
from recado.protocols.trees import TreeNode, TreeSettings
from recado.sim.system import Cost, System

Numbers = dict[str, float | str]


def system(
    topology: Topology,
    publishers: Mapping[str, Sequence[NodeId]],
    settings: TreeSettings = TreeSettings(),  # noqa: B008  # frozen
) -> System:
    """A network of trees with its publishers in place."""
    found = System(topology, lambda node: TreeNode(node, settings))
    for type, nodes in publishers.items():
        for node in nodes:
            found.become_publisher(node, type)
    return found


def subscribe(found: System, node: NodeId, event_type: str = "x") -> Cost:
    """A subscription called after its node, to all events of a type."""
    return found.subscribe(node, Subscription(f"I({node})", type=event_type))


def publish(found: System, node: NodeId, event_type: str = "x") -> Cost:
    return found.publish(node, Event(f"event {len(found.deliveries)} of {node}", event_type))


def worked(settings: TreeSettings = TreeSettings()) -> System:  # noqa: B008  # frozen
    """NET-16 with its four subscriptions, as in sections 4.2 and 4.3."""
    found = system(NET_16, {"y": "F", "z": "BL"}, settings)
    for node, type in (("O", "y"), ("R", "y"), ("K", "z"), ("E", "z")):
        subscribe(found, node, type)
    return found


def golden(quick: bool) -> Numbers:
    """All of them; a quick run is the same, since this takes no time."""
    numbers: Numbers = {}
    for part in (_printed, _subscribing, _four, _fork, _small, _roles, _flooding, _tables):
        numbers |= part()
    return numbers


def _put(numbers: Numbers, name: str, cost: Cost) -> None:
    numbers[f"{name}.M"], numbers[f"{name}.T"] = cost.messages, cost.time


def _printed() -> Numbers:
    numbers: Numbers = {}
    _put(numbers, "E1", subscribe(system(NET_5_1, {"x": "L"}), "K"))
    second = system(NET_13, {"x": "F"})
    subscribe(second, "K")
    _put(numbers, "E2", second.unsubscribe("K", "I(K)"))
    third = system(NET_16, {"x": "F"})
    numbers["setup.M"] = sum(subscribe(third, node).messages for node in "ORK")
    numbers["E3.rows"] = _rows(third)
    trees = [tree_edges(third, f"I({node})", "x") for node in "ORK"]
    _put(numbers, "E3", publish(third, "F"))
    numbers["E5.bound.M"] = sum(map(len, trees)) - 1
    numbers["E5.bound.T"] = max(depth(third, f"I({node})", "x") for node in "ORK")
    numbers["E5.slack"] = float(numbers["E5.bound.M"]) - float(numbers["E3.M"])
    for size in (3, 4, 6):
        _put(numbers, f"E4.K{size}", subscribe(system(complete(size), {"x": range(1, size)}), 0))
    return numbers


def _subscribing() -> Numbers:
    numbers: Numbers = {}
    for publishers in ("L", "LB", "F"):
        _put(numbers, f"CAI.{publishers}", subscribe(system(NET_13, {"x": publishers}), "K"))
    return numbers


def _four() -> Numbers:
    """The four subscriptions of NET-16: created, notified, cancelled."""
    numbers: Numbers = {}
    found = system(NET_16, {"y": "F", "z": "BL"})
    roots = (("O", "y"), ("R", "y"), ("K", "z"), ("E", "z"))
    for node, type in roots:
        _put(numbers, f"CAI.{node}", subscribe(found, node, type))
    for node, type in (("F", "y"), ("B", "z"), ("L", "z")):
        _put(numbers, f"NE.{node}", publish(found, node, type))
    for node, _ in roots:
        _put(numbers, f"CI.{node}", worked().unsubscribe(node, f"I({node})"))
    return numbers


def _fork() -> Numbers:
    numbers: Numbers = {}
    found = system(NET_16, {"x": "B"})
    subscribe(found, "K")
    subscribe(found, "R")
    _put(numbers, "fork", publish(found, "B"))
    return numbers


def _small() -> Numbers:
    numbers: Numbers = {}
    for edges in (3, 7):
        _put(numbers, f"path{edges}", subscribe(system(line(edges + 1), {"x": [edges]}), 0))
    _put(numbers, "triangle", subscribe(system(complete(3), {}), 0))
    return numbers


def _roles() -> Numbers:
    numbers: Numbers = {}
    for mode in ("stream", "aggregate", "graft"):
        found = system(NET_13, {}, TreeSettings(mpp=mode))
        subscribe(found, "K")
        subscribe(found, "A")
        _put(numbers, f"MPP.{mode}", found.become_publisher("I", "x"))
        _put(numbers, f"MPP.{mode}.event", publish(found, "I"))
    leaving = worked()
    _put(numbers, "MPB", leaving.become_broker("B", "z"))
    _put(numbers, "MPB.event", publish(leaving, "L", "z"))
    numbers["MPB.reached"] = " ".join(sorted(str(delivery.node) for delivery in leaving.deliveries))
    return numbers


def _flooding() -> Numbers:
    numbers: Numbers = {}
    for name, topology in (("NET-13", NET_13), ("NET-16", NET_16)):
        for kind in ("flooding", "flooding-tree"):
            found = System(topology, make_baseline(kind, topology))
            found.become_publisher("F", "x")
            _put(numbers, f"{kind}.{name}", publish(found, "F"))
    numbers["break-even.flooding"] = _break_even("flooding")
    numbers["break-even.flooding-tree"] = _break_even("flooding-tree")
    return numbers


def _break_even(kind: str) -> float:
    """From which event on the three trees of E3 have cost less than flooding, counted event by event."""
    trees = system(NET_16, {"x": "F"})
    flood = System(NET_16, make_baseline(kind, NET_16))
    flood.become_publisher("F", "x")
    ahead = sum(subscribe(trees, node).messages - subscribe(flood, node).messages for node in "ORK")
    for number in range(1, 1_000):
        ahead += publish(trees, "F").messages - publish(flood, "F").messages
        if ahead <= 0:
            return number
    return math.inf


def _tables() -> Numbers:
    """The routing tables of NET-16, as ``next / origin``, and how many rows there are in all."""
    found = worked()
    numbers: Numbers = {"rows": _rows(found)}
    for node in NET_16.nodes:
        for table in found.inspect([node])[node]["tables"].values():
            for id, row in table.items():
                numbers[f"TR.{node}.{id}"] = f"{','.join(sorted(row['next']))} / {','.join(sorted(row['origin']))}"
    return numbers


def _rows(found: System) -> int:
    return sum(len(table) for state in found.inspect().values() for table in state["tables"].values())


def tree_edges(found: System, sub_id: str, event_type: str) -> list[tuple[NodeId, NodeId]]:
    """The links of one subscription's tree, child first."""
    return [
        (node, toward)
        for node, state in found.inspect().items()
        for toward in state["tables"].get(event_type, {}).get(sub_id, {}).get("next", ())
        if toward != node
    ]


def depth(found: System, sub_id: str, event_type: str) -> int:
    """How far the farthest node of a subscription's tree is from its root, along the tree."""
    parents = dict(tree_edges(found, sub_id, event_type))
    longest = 0
    for node in parents:
        steps, at = 0, node
        while at in parents and steps <= len(parents):
            at, steps = parents[at], steps + 1
        longest = max(longest, steps)
    return longest
