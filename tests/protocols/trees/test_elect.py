"""Election: who takes the place of a publisher, at what price, and who stands down again."""

from random import Random

import pytest

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, Started
from recado.protocols.pubsub import (
    BecomeBroker,
    BecomeCandidate,
    BecomePublisher,
    Elected,
    Settled,
    StoodDown,
    Unpublished,
)
from recado.protocols.registry import find_protocol
from recado.protocols.topology import Topology, line, ring
from recado.protocols.trees import TreeError, TreeNode, TreeSettings
from recado.protocols.trees.messages import Q
from recado.sim.faults import Cuts, Outages
from recado.sim.network import UnitDelay
from recado.sim.system import System

SETTINGS = TreeSettings(elect=True)


def machine(node):
    return TreeNode(node, SETTINGS)


def overlay(topology, *candidates, publisher=0, subscribers=(), network=None):
    system = System(topology, machine, network)
    system.become_publisher(publisher, "t")
    for node in candidates:
        system.do(node, BecomeCandidate("t"))
    for node in subscribers:
        system.subscribe(node, Subscription(f"s{node}", type="t"))
    system.facts.clear()
    return system


def facts(system, kind):
    return [(node, fact) for _, node, fact in system.facts if isinstance(fact, kind)]


def receivers(system, node, event):
    system.deliveries.clear()
    system.publish(node, Event(event, "t"))
    return sorted(delivery.node for delivery in system.deliveries)


def sent(system, kind):
    counter = system.simulation.sent.get(kind)
    return counter.count if counter else 0


def test_a_publisher_that_leaves_hands_over_without_a_gap():
    system = overlay(ring(8), 2, subscribers=(4, 6))
    questions = sent(system, Q)
    system.become_broker(0, "t")
    assert facts(system, Elected) == [(2, Elected("t"))]
    assert facts(system, Unpublished) == []
    assert sent(system, Q) == questions  # no subscription was made again, by nobody
    assert receivers(system, 2, "e") == [4, 6]
    with pytest.raises(TreeError, match="does not publish"):
        system.publish(0, Event("late", "t"))


def test_the_candidate_on_most_trees_is_elected_and_among_equals_the_nearest():
    #        1 - 5
    #   4 -- 0 - 2 - 3 - 6      4 stands by next to the leaving publisher, 3 on the trees of both subscribers
    topology = Topology(range(7), [(0, 4), (0, 1), (1, 5), (0, 2), (2, 3), (3, 6)])
    system = overlay(topology, 4, 3, subscribers=(6,))
    system.become_broker(0, "t")
    assert facts(system, Elected) == [(3, Elected("t"))]
    nearest = overlay(topology, 5, 4, subscribers=(6,))
    nearest.become_broker(0, "t")
    assert facts(nearest, Elected) == [(4, Elected("t"))]


def test_after_a_crash_the_subscribers_call():
    cuts = Cuts(UnitDelay())
    system = overlay(ring(10), 3, 7, subscribers=(4, 5, 6), network=cuts)
    outages = Outages(system.simulation, system.topology, machine, cuts)
    outages.crash(0)
    system.run_until_quiet()
    (winner,) = [node for node in (3, 7) if "t" in system.inspect([node])[node]["publishes"]]
    elected, stood_down = ({node for node, _ in facts(system, kind)} for kind in (Elected, StoodDown))
    assert elected - stood_down == {winner}  # two subscribers may have called at the same moment
    assert {node for node, _ in facts(system, Unpublished)} == {4, 5, 6}
    assert {node for node, fact in facts(system, Settled) if fact.published} == {4, 5, 6}
    assert receivers(system, winner, "e") == [4, 5, 6]
    outages.restart(0)
    system.run_until_quiet()
    assert facts(system, StoodDown)[-1] == (winner, StoodDown("t"))
    assert receivers(system, 0, "again") == [4, 5, 6]
    with pytest.raises(TreeError, match="does not publish"):
        system.publish(winner, Event("late", "t"))


def test_nobody_is_elected_while_another_publishes_or_nobody_wants_it():
    system = overlay(ring(6), 2, subscribers=(3,))
    system.become_publisher(5, "t")
    system.become_broker(0, "t")
    assert facts(system, Elected) == []
    assert receivers(system, 5, "e") == [3]
    unwanted = overlay(ring(6), 2)
    unwanted.become_broker(0, "t")
    assert facts(unwanted, Elected) == []
    unwanted.subscribe(3, Subscription("s", type="t"))  # whoever comes later calls
    assert facts(unwanted, Elected) == [(2, Elected("t"))]
    assert receivers(unwanted, 2, "e") == [3]


def test_a_new_candidate_serves_those_who_wait():
    system = overlay(line(5), subscribers=(4,))
    system.become_broker(0, "t")
    assert facts(system, Unpublished) == [(4, Unpublished("s4"))]
    system.do(1, BecomeCandidate("t"))
    assert facts(system, Elected) == [(1, Elected("t"))]
    assert receivers(system, 1, "e") == [4]


def test_a_publisher_of_its_own_right_takes_over_from_an_elected_one():
    system = overlay(ring(6), 2, subscribers=(3,))
    system.become_broker(0, "t")
    system.become_publisher(5, "t")
    assert facts(system, StoodDown) == [(2, StoodDown("t"))]
    assert facts(system, Unpublished) == []
    assert receivers(system, 5, "e") == [3]
    system.become_broker(5, "t")  # and it is elected again
    assert facts(system, Elected)[-1] == (2, Elected("t"))


def test_an_elected_publisher_that_leaves_is_followed_by_another():
    system = overlay(ring(8), 2, 5, subscribers=(4,))
    system.become_broker(0, "t")
    ((first, _),) = facts(system, Elected)
    system.become_broker(first, "t")
    second = facts(system, Elected)[-1][0]
    assert {first, second} == {2, 5}
    assert system.inspect([first])[first]["candidate"] == []
    assert receivers(system, second, "e") == [4]


def test_two_parts_that_meet_keep_one_of_two_elected_publishers():
    cuts = Cuts(UnitDelay())
    system = overlay(line(8), 1, 6, subscribers=(2, 5), network=cuts)
    outages = Outages(system.simulation, system.topology, machine, cuts)
    outages.cut(3, 4)
    system.run_until_quiet()
    assert facts(system, Elected) == [(6, Elected("t"))]
    system.become_broker(0, "t")
    assert facts(system, Elected) == [(6, Elected("t")), (1, Elected("t"))]
    outages.heal(3, 4)
    system.run_until_quiet()
    (stood_down,) = [node for node, _ in facts(system, StoodDown)]
    assert receivers(system, 7 - stood_down, "e") == [2, 5]


@pytest.mark.parametrize("seed", range(12))
def test_a_candidate_that_comes_within_reach_serves_those_who_wait(seed):
    """Whichever of two parts takes the name of the other."""
    cuts = Cuts(UnitDelay())
    system = System(line(6), machine, cuts, seed)
    outages = Outages(system.simulation, system.topology, machine, cuts)
    outages.cut(2, 3)
    system.run_until_quiet()
    system.do(5, BecomeCandidate("t"))
    system.subscribe(0, Subscription("s0", type="t"))
    assert facts(system, Elected) == []
    outages.heal(2, 3)
    system.run_until_quiet()
    assert facts(system, Elected) == [(5, Elected("t"))]
    assert receivers(system, 5, "e") == [0]


def test_an_elected_publisher_may_publish_of_its_own_right():
    system = overlay(ring(6), 2, subscribers=(3,))
    system.become_broker(0, "t")
    system.become_publisher(2, "t")
    assert system.inspect([2])[2]["elected"] == []
    assert receivers(system, 2, "e") == [3]


def test_what_a_node_stands_by_for_outlives_a_crash():
    cuts = Cuts(UnitDelay())
    system = overlay(ring(6), 2, subscribers=(3,), network=cuts)
    outages = Outages(system.simulation, system.topology, machine, cuts)
    outages.crash(2)
    outages.restart(2)
    system.run_until_quiet()
    system.become_broker(0, "t")
    assert facts(system, Elected) == [(2, Elected("t"))]


def test_a_publisher_that_comes_back_while_it_leaves_stays():
    system = overlay(ring(6), 2, subscribers=(3,))
    system.simulation.ask(0, BecomeBroker("t"))
    system.simulation.ask(0, BecomePublisher("t"))
    system.run_until_quiet()
    assert receivers(system, 0, "e") == [3]
    assert [node for node, view in system.inspect().items() if "t" in view["publishes"]] == [0]


def test_standing_by_needs_the_setting_and_a_type():
    plain = TreeNode("n")
    plain.handle(Started(), 0.0, Random(0))
    with pytest.raises(TreeError, match="the setting elect is off"):
        plain.handle(Asked(BecomeCandidate("t")), 0.0, Random(0))
    node = TreeNode("n", SETTINGS)
    node.handle(Started(), 0.0, Random(0))
    with pytest.raises(TreeError, match="no event type"):
        node.handle(Asked(BecomeCandidate("t*")), 0.0, Random(0))
    node.handle(Asked(BecomeCandidate("t")), 0.0, Random(0))
    assert node.inspect()["candidate"] == ["t"]
    assert find_protocol("trees").roles(node.inspect())[0] == "stands by for t"
    node.handle(Asked(BecomeBroker("t")), 0.0, Random(0))
    assert node.inspect()["candidate"] == []


def test_other_protocols_do_not_know_candidates():
    assert find_protocol("trees").understands("become_candidate")
    assert not find_protocol("flooding").understands("become_candidate")
