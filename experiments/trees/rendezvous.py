"""C10: what filters at the nodes of Hermes do to its tables and to the load of the rendezvous node."""

from __future__ import annotations

from random import Random

from recado.model.event import Event
from recado.model.filter import And, Compare
from recado.model.subscription import Subscription
from recado.protocols.baselines import make_baseline
from recado.protocols.topology import random_graph
from recado.sim.kernel import stream
from recado.sim.system import System

NETWORKS, QUICK_NETWORKS = 100, 10
NODES, EVENTS, SUBSCRIPTIONS, WIDTH = 50, 40, 15, 0.2


def rendezvous(quick: bool) -> dict[str, float | str]:
    """Means over random graphs: messages that the rendezvous node gets for an event, and rows of a node."""
    count = QUICK_NETWORKS if quick else NETWORKS
    answers: dict[str, float | str] = {}
    for name in ("hermes", "hermes-type"):
        found = [_one(name, stream(number, "rendezvous")) for number in range(count)]
        answers[f"{name}.load"] = sum(load for load, _ in found) / count
        answers[f"{name}.rows"] = sum(rows for _, rows in found) / count
    return answers


def _one(name: str, rng: Random) -> tuple[float, float]:
    topology = random_graph(NODES, NODES, rng)
    middle, *publishers = rng.sample(topology.nodes, 3)
    system = System(topology, make_baseline(name, topology, rendezvous={"x": middle}))
    for node in publishers:
        system.become_publisher(node, "x")
    for number, node in enumerate(rng.sample(topology.nodes, SUBSCRIPTIONS)):
        low = rng.uniform(0, 1 - WIDTH)
        filter = And((Compare("a", ">=", low), Compare("a", "<", low + WIDTH)))
        system.subscribe(node, Subscription(f"s{number}", filter, "x"))
    before = system.simulation.nodes[middle].down_messages
    for number in range(EVENTS):
        system.publish(rng.choice(publishers), Event(f"e{number}", "x", attributes={"a": rng.random()}))
    rows = sum(state["rows"] for state in system.inspect().values()) / NODES
    return (system.simulation.nodes[middle].down_messages - before) / EVENTS, rows
