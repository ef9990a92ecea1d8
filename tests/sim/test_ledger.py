"""The ledger against the kernel's own accounts and against what was really sent."""

from collections import Counter
from random import Random

import msgspec

from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Send
from recado.protocols.topology import random_graph
from recado.protocols.trees import TreeNode
from recado.protocols.wire import wire_size
from recado.sim.draws import uniform
from recado.sim.faults import Loss
from recado.sim.kernel import Simulation, stream
from recado.sim.ledger import Ledger
from recado.sim.network import Links, UnitDelay
from recado.sim.radio import IdealRadio
from recado.sim.system import System
from sim.machines import Beacon, Recorder, two

SIZES = {int: 10, str: 100}


def size_of(message):
    return SIZES[type(message)]


def test_every_node_and_type_by_itself():
    ledger = Ledger(size_of)
    network = Loss(Links(uniform(0, 1, Random(1))), 0.3, Random(2))
    simulation = Simulation(network, size_of=size_of, watch=ledger)
    machines = {node: Recorder(node) for node in range(5)}
    for node, machine in machines.items():
        simulation.add(node, machine)
    rng, sent = Random(3), Counter()
    for _ in range(200):
        node, message = rng.randrange(5), rng.choice([1, "one"])
        sent[node, type(message)] += 1
        simulation.ask(node, [Send(rng.randrange(5), message)], at=rng.uniform(0, 9))
    simulation.run()
    got = Counter((node, type(message)) for node, machine in machines.items() for _, message in machine.messages())
    assert figures(ledger.up) == {key: (count, count * SIZES[key[1]]) for key, count in sent.items()}
    assert figures(ledger.down) == {key: (count, count * SIZES[key[1]]) for key, count in got.items()}


def figures(flows):
    return {(node, cause): (f.messages, f.bytes) for node, causes in flows.items() for cause, f in causes.items()}


def test_the_sums_are_the_accounts_of_the_kernel():
    """With trees, whose messages have many types and sizes."""
    ledger = Ledger(wire_size)
    system = System(random_graph(12, 6, stream(1)), TreeNode, UnitDelay(), size_of=wire_size, watch=ledger)
    system.become_publisher(0, "quote")
    for node in range(1, 12):
        system.subscribe(node, Subscription(f"s-{node}", parse(f"price > {node}"), "quote"))
    system.publish(0, Event("e", "quote", attributes={"price": 6}))
    simulation = system.simulation
    assert len(simulation.sent) > 2
    for kind, total in simulation.sent.items():
        assert total.bytes == sum(causes[kind].bytes for causes in ledger.up.values() if kind in causes)
        assert total.arrived_bytes == sum(causes[kind].bytes for causes in ledger.down.values() if kind in causes)
    for id, node in simulation.nodes.items():
        assert node.up_bytes == sum(flow.bytes for flow in ledger.up.get(id, {}).values())
        assert node.down_bytes == sum(flow.bytes for flow in ledger.down.get(id, {}).values())


def test_a_broadcast_is_sent_once_and_heard_by_many():
    ledger = Ledger(len)
    simulation = Simulation(IdealRadio({0: (0, 0), 1: (9, 0), 2: (0, 9)}, stream(1)), size_of=len, watch=ledger)
    for node in range(3):
        simulation.add(node, Beacon(node, at_start=node == 0))
    simulation.run()
    assert figures(ledger.up) == {(0, str): (1, 5)}
    assert figures(ledger.down) == {(1, str): (1, 5), (2, str): (1, 5)}


class Filters(msgspec.Struct, frozen=True):
    joining: bool


def test_causes_finer_than_types_and_accounts_that_begin_anew():
    ledger = Ledger(lambda message: 7, cause=lambda message: "join" if message.joining else "repair")
    simulation, _, _ = two(watch=ledger)
    simulation.ask("a", [Send("b", Filters(joining=True)), Send("b", Filters(joining=False))])
    simulation.run()
    assert figures(ledger.up) == {("a", "join"): (1, 7), ("a", "repair"): (1, 7)}
    ledger.clear()
    simulation.ask("b", [Send("a", Filters(joining=True))])
    simulation.run()
    assert figures(ledger.up) == {("b", "join"): (1, 7)}
    assert figures(ledger.down) == {("a", "join"): (1, 7)}
