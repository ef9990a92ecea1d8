"""Whole runs, told as one line each: what must be the same in every process."""

from __future__ import annotations

from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.pubsub import BecomePublisher, Publish, Subscribe
from recado.protocols.topology import Topology, random_graph
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.wire import wire_size
from recado.sim.draws import uniform
from recado.sim.faults import Cuts, Duplication, Loss, Outages, Reordering, schedule_failures
from recado.sim.kernel import Simulation, stream
from recado.sim.network import Bandwidth, Links
from recado.sim.trace import Trace
from sim.machines import Restless


def graph(seed, nodes, more):
    """The names of nodes are strings, whose hashes differ from process to process."""
    numbered = random_graph(nodes, more, stream(seed, "graph"))
    names = [f"node {number}" for number in range(nodes)]
    return Topology(names, ((names[one], names[other]) for one, other in numbered.edges))


def told(simulation, trace):
    simulation.run()
    return f"{trace.count} {trace.fingerprint} {sum(sent.bytes for sent in simulation.sent.values())}"


def everything(seed):
    """A run in which all models take part, and machines do what they like."""
    network = Links(uniform(0.1, 1.0, stream(seed, "delay")))
    for fault in (Loss, Duplication, Reordering):
        more = () if fault is Loss else (2.0,)
        network = fault(network, 0.1, stream(seed, fault.__name__), *more)
    cuts, trace, topology = Cuts(Bandwidth(network, 1000)), Trace(keep=False), graph(seed, 10, 6)
    simulation = Simulation(cuts, seed, watch=trace, size_of=lambda message: 100)
    for name in topology.nodes:
        simulation.add(name, Restless(name, topology.nodes))
    outages = Outages(simulation, topology, lambda name: Restless(name, topology.nodes), cuts, 0.2)
    schedule_failures(outages, stream(seed, "storm"), 1.0, 20.0)
    return told(simulation, trace)


def trees(seed):
    """Subscription trees at work, while links and nodes (but the publisher) fail and come back."""
    cuts, trace, topology = (
        Cuts(Links(uniform(0.01, 0.1, stream(seed, "delay")))),
        Trace(keep=False),
        graph(seed, 12, 8),
    )
    simulation = Simulation(cuts, seed, watch=trace, size_of=wire_size)
    for name in topology.nodes:
        simulation.add(name, tree_node(name), topology.neighbours(name))
    work(simulation, topology.nodes, stream(seed, "work"))
    outages = Outages(simulation, topology, tree_node, cuts, 0.2)
    for number, target in enumerate([*topology.edges[:6], *topology.nodes[3:7]]):
        for time in (3.0 + number, 4.5 + number):
            simulation.at(time, lambda target=target: outages.toggle(target))
    return told(simulation, trace)


def tree_node(name):
    return TreeNode(name, TreeSettings(buffer=20, share=True))


def work(simulation, nodes, rng):
    for type in ("tide", "wind"):
        simulation.ask(nodes[0], BecomePublisher(type))
    for number in range(40):
        type, level = rng.choice(["tide", "wind"]), rng.randrange(9)
        wanted = Subscription(f"s-{number}", parse(f"level > {level}"), type)
        simulation.ask(rng.choice(nodes), Subscribe(wanted), at=rng.uniform(0.5, 10))
        event = Event(f"e-{number}", type, attributes={"level": level})
        simulation.ask(nodes[0], Publish(event), at=rng.uniform(0.5, 20))
