"""What is simulated: a token for each node, handed on for ever, and subscription trees at work.

The trivial machine does nothing but send, so its figure is the kernel's. The tokens of a network of n nodes jump over
the whole of it, so that the memory of a large one is not used in order. The trees' figure is of whole operations, one
after another on a random graph of degree 4: a node subscribes, ten events are published, the node unsubscribes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Effect, NodeId, Rng, Send, Stimulus
from recado.protocols.topology import random_graph
from recado.protocols.trees import TreeNode
from recado.sim.draws import uniform
from recado.sim.kernel import Network, Simulation, stream
from recado.sim.network import Links, UnitDelay
from recado.sim.system import System

SEED = 4
JUMP = 7919  # a prime: node i hands on to i * JUMP + 1
EVENTS_PER_SUBSCRIPTION = 10
TOKENS, TREES = "tokens", "trees"

NETWORKS: dict[str, Callable[[], Network]] = {
    "unit delay": UnitDelay,
    "random delays in order": lambda: Links(uniform(0.5, 1.5, stream(SEED, "delay"))),
}

Advance = Callable[[], int]
"""Goes on for a while and says how many steps that took."""


class Relay:
    """Hands on whatever comes, and one token of its own when it starts."""

    def __init__(self, next: NodeId) -> None:
        self._out = (Send(next, "token"),)

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        return self._out

    def inspect(self) -> dict[str, Any]:
        return {}


def tokens(nodes: int, network: str, steps: int = 20_000) -> tuple[Simulation, Advance]:
    simulation = Simulation(NETWORKS[network](), SEED)
    for node in range(nodes):
        simulation.add(node, Relay((node * JUMP + 1) % nodes))
    return simulation, lambda: simulation.run(steps=steps)


def trees(nodes: int, network: str) -> tuple[Simulation, Advance]:
    system = System(random_graph(nodes, nodes + 1, stream(SEED, "graph")), TreeNode, NETWORKS[network](), SEED)
    rng = stream(SEED, "places")
    publisher = rng.randrange(nodes)
    system.become_publisher(publisher, "quote")
    work = _operations(system, publisher, rng.randrange)

    def advance() -> int:
        before = system.simulation.steps
        next(work)
        return system.simulation.steps - before

    return system.simulation, advance


def _operations(system: System, publisher: NodeId, place: Callable[[int], int]) -> Iterator[None]:
    """A subscription's life, again and again; all events match."""
    wanted = parse("price > 10")
    for number in count():
        node, id = place(len(system.topology.nodes)), f"s-{number}"
        system.subscribe(node, Subscription(id, wanted, "quote"))
        for event in range(EVENTS_PER_SUBSCRIPTION):
            system.publish(publisher, Event(f"e-{number}-{event}", "quote", attributes={"price": 11 + event}))
        system.unsubscribe(node, id)
        system.deliveries.clear()
        yield


CASES: dict[str, Callable[[int, str], tuple[Simulation, Advance]]] = {TOKENS: tokens, TREES: trees}
