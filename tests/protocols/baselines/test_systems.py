"""The systems of section 3.8: Hermes (figures 3.22 and 3.23), virtual groups (3.26), JEDI's causal order, groups."""

from __future__ import annotations

from random import Random

import pytest

from protocols.baselines.common import delivered, event, links, random_delays, random_overlay, recorded, sub
from recado.protocols.baselines import BaselineError, make_baseline
from recado.protocols.baselines.node import Grouped, Interests, Routed
from recado.protocols.baselines.plan import Groups, Rendezvous, Tree
from recado.protocols.pubsub import BecomePublisher, Publish, Subscribe
from recado.protocols.topology import NET_16, parse_edges
from recado.sim.kernel import Simulation
from recado.sim.system import System

HERMES = parse_edges("B1-R B1-B2 B1-B3 R-B4 R-B5 B5-B6")


def hermes(name):
    return recorded(name, HERMES, rendezvous={"news": "R"})


def test_figure_3_22_type_based_hermes():
    system, sent = hermes("hermes-type")
    assert system.become_publisher("B1", "news").messages == 1
    assert system.subscribe("B3", sub("S1")).messages == 2
    assert system.subscribe("B6", sub("S2")).messages == 2
    sent.clear()
    system.publish("B1", event("e"))
    assert sorted(links(sent)[:2]) == [("B1", "B3"), ("B1", "R")]
    assert links(sent)[2:] == [("R", "B5"), ("B5", "B6")]
    assert delivered(system) == [("B3", "e", ("S1",)), ("B6", "e", ("S2",))]


def test_figure_3_23_hermes_with_attributes():
    system, sent = hermes("hermes")
    assert system.become_publisher("B1", "news").messages == 1  # A1
    assert system.become_publisher("B2", "news").messages == 1  # A2: R has been told that there are publishers
    sent.clear()
    system.subscribe("B3", sub("S1", "x > 1"))
    assert sorted(links(sent)) == [("B1", "B2"), ("B1", "R"), ("B3", "B1")]
    sent.clear()
    system.subscribe("B6", sub("S2", "x > 5"))
    assert links(sent) == [("B6", "B5"), ("B5", "R"), ("R", "B1")]  # to P1, and dropped there
    sent.clear()
    system.publish("B1", event("e1", x=7))
    assert sorted(links(sent)) == [("B1", "B3"), ("B1", "R"), ("B5", "B6"), ("R", "B5")]
    sent.clear()
    system.publish("B1", event("e2", x=3))
    system.publish("B2", event("e3", x=0))
    assert links(sent) == [("B1", "B3")]  # need not reach R
    assert delivered(system)[0] == ("B3", "e1", ("S1",))


def test_a_publisher_that_comes_late_meets_the_subscriptions_and_one_that_goes_takes_its_pointers_along():
    system, _ = hermes("hermes")
    system.subscribe("B4", sub("S", "x > 1"))
    system.become_publisher("B3", "news")
    system.publish("B3", event("e", x=2))
    assert delivered(system) == [("B4", "e", ("S",))]
    rows = sum(state["rows"] for state in system.inspect().values())
    system.become_broker("B3", "news")
    assert not any(state["advertisements"] for state in system.inspect().values())
    assert sum(state["rows"] for state in system.inspect().values()) == rows - 2  # at B1 and B3


def test_rendezvous_nodes_are_spread_and_do_not_depend_on_the_run():
    plan = Rendezvous(NET_16, {"news": "K"})
    assert plan.node("news") == "K"
    found = [plan.node(f"type {number}") for number in range(200)]
    assert found[:4] == ["L", "I", "H", "J"]
    assert len(dict.fromkeys(found)) == 16


VIRTUAL = parse_edges("R-K0 R-K1 K0-L0 K0-L3 K1-L1 K1-L2")


def test_figure_3_26_virtual_groups():
    system, sent = recorded("virtual-groups", VIRTUAL, root="R")
    system.become_publisher("R", "news")
    for id, node, value in [("a", "L0", "{1, 3}"), ("b", "L1", "{1}"), ("c", "L2", "{3}")]:
        system.subscribe(node, sub(id, f"value in {value}"))
    sent.clear()
    system.publish("R", event("first", value=3))
    assert sorted(links(sent)) == [("K0", "L0"), ("K1", "L2"), ("R", "K0"), ("R", "K1")]
    matched = {node: state["matched"] for node, state in system.inspect().items()}
    system.publish("R", event("again", value=3))
    assert links(sent)[4:] == links(sent)[:4]
    assert matched == {node: state["matched"] for node, state in system.inspect().items()}
    sent.clear()
    system.publish("R", event("other", value=1))
    groups = {message.group for _, _, message in sent if isinstance(message, Grouped)}
    (group,) = groups
    members = [node for node, state in system.inspect().items() if group in state["groups"]]
    assert sorted(members) == ["K0", "K1", "L0", "L1", "R"]  # G1


def test_a_change_of_subscriptions_dissolves_the_groups_on_its_way():
    system, _ = recorded("virtual-groups", VIRTUAL, root="R")
    system.become_publisher("L3", "news")
    system.subscribe("L0", sub("a", "value == 3"))
    system.publish("L3", event("e1", value=3))
    system.subscribe("L2", sub("b", "value == 3"))
    system.publish("L3", event("e2", value=3))
    system.unsubscribe("L0", "a")
    system.publish("L3", event("e3", value=3))
    assert delivered(system) == [("L0", "e1", ("a",)), ("L0", "e2", ("a",)), ("L2", "e2", ("b",)), ("L2", "e3", ("b",))]


def conversation(name, topology, answering, delays):
    """Everybody hears everything, some nodes answer what they hear; the order in which each node heard it."""
    heard = {node: [] for node in topology.nodes}
    make = make_baseline(name, topology)

    def deliver(now, node, notified):
        id = notified.event.id
        heard[node].append(id)
        if node in answering and len(id) < 4:
            simulation.ask(node, Publish(event(f"{id}{answering.index(node)}")))

    simulation = Simulation(delays, deliver=deliver)
    for node in topology.nodes:
        simulation.add(node, make(node), topology.neighbours(node))
        simulation.ask(node, BecomePublisher("news"))
        simulation.ask(node, Subscribe(sub(f"s{node}")))
    simulation.run()
    simulation.ask(answering[0], Publish(event("?")))
    simulation.run()
    return heard


@pytest.mark.parametrize("name", ["jedi", "jedi-centralised", "flooding"])
def test_nobody_hears_an_answer_before_what_it_answers(name):
    for seed in range(40):
        rng = Random(seed)
        topology = random_overlay(rng)
        answering = rng.sample(topology.nodes, min(3, len(topology.nodes)))
        heard = conversation(name, topology, answering, random_delays(rng))
        for ids in heard.values():
            assert sorted(ids) == sorted(heard[topology.nodes[0]])
            assert len(set(ids)) == len(ids) > len(answering)
            assert all(id == "?" or id[:-1] in ids[:place] for place, id in enumerate(ids))


def test_groups_are_connected_bounded_and_of_one_interest():
    for seed in range(30):
        rng = Random(seed)
        topology = random_overlay(rng)
        tree = Tree(topology, topology.nodes[0])
        interests = {node: rng.choice("ab") for node in topology.nodes} if seed % 2 else {}
        groups = Groups(tree, 4, interests)
        for root in groups.root_of.values():
            members = [node for node in topology.nodes if groups.root_of[node] == root]
            assert len(members) <= 4
            assert root in members
            assert len({interests.get(node) for node in members}) == 1
            assert all(node == root or tree.parents[node] in members for node in members)


def test_inside_a_group_all_know_all_and_between_groups_events_pass():
    line = parse_edges("A-B B-C C-D D-E E-F")
    system = System(line, make_baseline("groups", line, group_size=3))
    system.become_publisher("A", "news")
    assert system.subscribe("B", sub("s", "x == 1")).messages == 2
    assert [state["rows"] for state in system.inspect().values()] == [1, 1, 1, 0, 0, 0]
    assert system.publish("A", event("e", x=2)).messages == 3  # to the root of the other group, and no further
    assert not system.deliveries


def test_summaries_keep_events_out_of_groups_that_do_not_want_them():
    line = parse_edges("A-B B-C C-D D-E E-F")
    system, sent = recorded("groups-summaries", line, group_size=3, summaries=1)
    system.become_publisher("A", "news")
    sent.clear()
    system.subscribe("F", sub("s1", "x == 1 and y == 1"))
    system.subscribe("F", sub("s2", "x == 2 and y == 2"))
    between = [message for sender, receiver, message in sent if (sender, receiver) == ("D", "C")]
    assert [len(message.subscribe) for message in between if isinstance(message, Interests)] == [1, 1]
    sent.clear()
    system.publish("A", event("e1", x=3, y=1))
    assert not sent
    system.publish("A", event("e2", x=1, y=2))  # the summary lets it pass, the group's own tables do not
    assert [(a, b) for a, b, message in sent if isinstance(message, Routed)] == [("A", "B"), ("B", "C"), ("C", "D")]
    assert not system.deliveries


@pytest.mark.parametrize("name", ["hermes", "hermes-type", "multicast"])
@pytest.mark.parametrize("type", ["", "news.*", "new?"])
def test_systems_with_something_for_each_type_need_one_type(name, type):
    system = System(NET_16, make_baseline(name, NET_16))
    with pytest.raises(BaselineError, match=r"subscription 's' must name one event type, not"):
        system.subscribe("A", sub("s", type=type))
    assert system.inspect(["A"])["A"]["rows"] == 0
