"""Broker networks in which only some nodes are brokers: what clients hear, what it costs, and that all is delivered."""

from random import Random

import pytest

from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.registry import PROTOCOLS
from recado.protocols.topology import Topology, TopologyError, line, random_tree, with_clients
from recado.sim.runs.run import execute_run
from recado.sim.runs.scenario import ScenarioError, parse_scenario
from recado.sim.system import System

# Brokers a - b - c - d; the clients u and v hang on a, w on d.
NETWORK = Topology("abcduvw", [("a", "b"), ("b", "c"), ("c", "d"), ("u", "a"), ("v", "a"), ("w", "d")], "uvw")


def system_of(name, topology=NETWORK):
    return System(topology, PROTOCOLS[name].configure({}).machines(topology))


def test_a_client_has_one_link():
    with pytest.raises(TopologyError, match="'b' is no client: a client has one link"):
        Topology("abc", [("a", "b"), ("b", "c")], "b")
    assert NETWORK.brokers().nodes == ("a", "b", "c", "d")
    assert len(NETWORK.brokers().edges) == 3
    made = with_clients(line(4), 10, Random(1))
    assert made.clients == tuple(range(4, 10))
    assert all(made.neighbours(client)[0] < 4 for client in made.clients)


def test_simple_routing_tells_brokers_and_no_client():
    system = system_of("simple")
    assert system.become_publisher("w", "t").messages == 1
    assert system.subscribe("u", Subscription("s", parse("x > 1"), "t")).messages == 4  # to a, and from a to b, c, d
    assert system.publish("w", Event("e", "t", attributes={"x": 2})).messages == 5
    assert system.publish("w", Event("f", "t", attributes={"x": 0})).messages == 1  # the client cannot know
    assert [(delivery.node, delivery.event) for delivery in system.deliveries] == [("u", "e")]
    assert system.simulation.nodes["v"].down_messages == 0
    assert system.unsubscribe("u", "s").messages == 4


def test_flooding_reaches_all_brokers_and_the_clients_that_want_it():
    system = system_of("flooding")
    system.become_publisher("v", "t")
    assert system.subscribe("u", Subscription("s", type="t")).messages == 1
    assert system.publish("v", Event("e", "t")).messages == 1 + 3 + 1
    assert [delivery.node for delivery in system.deliveries] == ["u"]


def test_a_client_hears_its_own_events_once():
    system = system_of("covering")
    for node in ("u", "v"):
        system.become_publisher(node, "t")
        system.subscribe(node, Subscription(f"s{node}", type="t"))
    system.publish("u", Event("e", "t"))
    assert sorted(delivery.node for delivery in system.deliveries) == ["u", "v"]
    system.become_broker("u", "t")
    system.publish("v", Event("f", "t"))  # its broker still publishes for the other
    assert sorted(delivery.node for delivery in system.deliveries) == ["u", "u", "v", "v"]


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if PROTOCOLS[name].understands("become_broker")])
@pytest.mark.parametrize("kind", ["random-tree", "random-graph"])
def test_every_protocol_delivers_the_same(name, kind):
    scenario = parse_scenario(
        f"""
        protocol.name = "{name}"
        topology = {{ kind = "{kind}", nodes = 30, brokers = 0.3 }}
        run.repeats = 2
        [workload]
        types = 2
        publishers = 3
        subscriptions = 12
        width = 0.4
        operations = 40
        mix = {{ publish = 4, subscribe = 1, unsubscribe = 1, become_publisher = 1, become_broker = 1 }}
        """
    )
    for run in scenario.runs():
        found = execute_run(run).metrics
        assert found["deliveries.expected"] > 20
        wrong = [found[f"deliveries.{word}"] for word in ("lost", "duplicated", "unexpected")]
        assert wrong == [0, 0, 0]


def test_a_share_of_brokers_needs_a_network_that_is_made():
    scenario = parse_scenario('topology = { kind = "NET-16", brokers = 0.5 }')
    with pytest.raises(ScenarioError, match="networks that are generated, not in NET-16"):
        execute_run(scenario.runs()[0])


def test_the_same_brokers_whatever_the_protocol():
    trees = [with_clients(random_tree(5, Random(3)), 20, Random(4)) for _ in range(2)]
    assert trees[0].edges == trees[1].edges
