"""Families in small scripted systems: joining by filter, the keep-alive, watchdogs, promotion, K nodes."""

import pytest

from protocols.supernodes.world import QUICK, World, check, check_settled, family, quick
from recado.protocols.supernodes import messages as m
from recado.sim.draws import constant


def test_the_first_of_a_filter_is_its_super_node_and_the_others_its_children():
    world = World()
    family(world, 4)
    assert [world.role(node) for node in range(5)] == ["super", "super", "sub", "sub", "sub"]
    assert world.children(1) == [2, 3, 4]
    assert all(world.state(node).child.father == 1 for node in (2, 3, 4))
    assert world.state(0).layer.membership.members == world.state(1).layer.membership.members
    assert [one.endpoint for one in world.state(0).layer.membership.by_filter("f == 1")] == [1]
    check_settled(world)


def test_joining_takes_the_messages_of_the_document():
    world = World()
    family(world, 1)
    begun = world.simulation.now
    world.come(2, "f == 1", seeds=(0,))
    world.run(2)
    told = [(type(one).__name__, sender, receiver) for time, sender, receiver, one in world.sends if time >= begun]
    assert [one for one in told if one[0] != "ViewRepair"] == [
        ("FilterCheck", 2, 0),
        ("FilterReply", 0, 2),
        ("JoinNode", 2, 1),
        ("SuperNodeAccept", 1, 2),
        ("Promotion", 1, 2),
        ("LiveNodes", 2, 1),
    ]


def test_equal_filters_need_not_be_written_alike():
    world = World()
    world.come(0, "x < 5")
    world.run(5)
    world.come(1, "x < 3 or x < 5")
    world.run(5)
    assert world.role(1) == "sub"


def test_a_node_without_subscription_belongs_to_the_filter_that_accepts_nothing():
    world = World()
    world.come(0, "f == 0")
    world.run(5)
    for node in (1, 2):
        world.come(node)
        world.run(15)
    assert [world.role(node) for node in (1, 2)] == ["super", "sub"]


def test_without_families_everybody_is_a_member():
    world = World(quick(families=False))
    for node in range(4):
        world.come(node, "f == 1")
        world.run(10)
    assert [world.role(node) for node in range(4)] == ["super"] * 4
    assert not world.sent(m.FilterCheck)
    check_settled(world)


def test_a_joiner_is_sent_elsewhere_until_somebody_has_the_filters():
    world = World(quick(filter_pieces=2, filter_seconds=100.0))
    world.come(0, "f == 0")
    world.run(5)
    world.come(1, "f == 1")
    world.run(15)
    assert world.state(1).layer.active
    assert not world.state(1).layer.filters_loaded
    begun = world.simulation.now
    world.come(2, "f == 1", seeds=(1,))
    world.run(20)
    assert world.sent(m.TryAnother, begun)
    assert world.state(2).child.father == 1
    world.run(200)
    assert world.state(1).layer.filters_loaded


def test_joiners_that_know_only_each_other_ask_for_somebody_else():
    world = World()
    world.come(0, "f == 0")
    world.run(5)
    world.come(1, "f == 1", seeds=(2,))
    world.come(2, "f == 2", seeds=(1,))
    world.run(120)
    assert [world.role(node) for node in (1, 2)] == ["super", "super"]


def test_a_child_does_not_take_itself_for_one_that_it_may_ask():
    """A father may still know it as a member that it was under another filter."""
    world = World()
    family(world, 2)
    world.run(60)
    child = world.state(2).child
    child.seeds = (2,)
    world.go(0)
    world.go(1)
    world.run(200)
    assert 2 not in world.state(2).seeds
    assert world.role(2) == "super"


def test_two_that_join_at_once_with_a_new_filter_both_become_super_nodes():
    world = World()
    world.come(0, "f == 0")
    world.run(5)
    world.come(1, "f == 1")
    world.come(2, "f == 1")
    world.run(30)
    assert [world.role(node) for node in (1, 2)] == ["super", "super"]
    check_settled(world)


# -- keep-alive


def test_one_round_is_one_message_a_child_and_one_back():
    world = World()
    family(world, 5)
    world.run(QUICK.keepalive_seconds)
    begun = world.simulation.now
    world.run(QUICK.keepalive_seconds)
    chain = [(sender, receiver) for _, sender, receiver, _ in world.sent(m.Promotion, begun)]
    assert chain == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert [(sender, receiver) for _, sender, receiver, _ in world.sent(m.LiveNodes, begun)] == [(5, 1)]
    assert world.state(3).child.brothers(3) == [2, 4, 5]
    assert world.sent(m.Promotion, begun)[0][3] is world.sent(m.Promotion, begun)[-1][3]  # passed on as it is


def test_a_dead_child_is_passed_over_and_forgotten():
    world = World()
    family(world, 5)
    world.go(3)
    world.run(2 * QUICK.keepalive_seconds)
    assert world.children(1) == [2, 4, 5]
    assert world.state(5).child.brothers(5) == [2, 4]
    assert [world.role(node) for node in (2, 4, 5)] == ["sub"] * 3


@pytest.mark.parametrize("gone", [(2,), (5,), (2, 3), (4, 5), (2, 3, 4, 5)])
def test_any_children_may_be_gone(gone):
    world = World()
    family(world, 5)
    for node in gone:
        world.go(node)
    world.run(2 * QUICK.keepalive_seconds)
    assert world.children(1) == [node for node in (2, 3, 4, 5) if node not in gone]
    check_settled(world)
    begun = world.simulation.now
    world.run(2 * QUICK.keepalive_seconds)
    assert bool(world.sent(m.Promotion, begun)) == bool(world.children(1))


def test_a_child_that_comes_during_a_round_is_not_dropped_by_it():
    world = World(delay=constant(1.0))
    family(world, 3)
    world.run(60)
    world.come(4, "f == 1", seeds=(0,))
    world.run(0.5)
    layer = world.state(1).layer
    while 4 not in layer.children:
        world.run(0.5)
    layer.children[4] = layer.round  # as if it had come just after a round began
    world.give(1, 2, m.LiveNodes(layer.round, (2, 3)))
    world.run(0.1)
    assert 4 in layer.children
    world.give(1, 2, m.LiveNodes(layer.round + 1, (2, 3)))
    world.run(0.1)
    assert 4 not in layer.children


def test_lifo_reverses_the_list():
    world = World(quick(promotion_policy="lifo"))
    family(world, 4)
    assert world.sent(m.Promotion)[-1][3].children == (4, 3, 2)
    world.go(1)
    world.run(120)
    assert world.role(4) == "super"
    assert sorted(world.children(4)) == [2, 3]


# -- the father dies


def test_exactly_one_child_takes_the_place_of_its_father_with_all_brothers():
    world = World()
    family(world, 6)
    world.run(100)
    world.go(1)
    died = world.simulation.now
    world.run(200)
    assert [node for node in range(2, 7) if world.role(node) == "super"] == [2]
    assert world.children(2) == [3, 4, 5, 6]
    assert [receiver for _, _, receiver, _ in world.sent(m.Promoted, died)] == [3, 4, 5, 6]
    check_settled(world)


def test_watchdogs_are_staggered_by_place():
    world = World()
    family(world, 4)
    world.run(200)
    due = [world.state(node).child.due for node in (2, 3, 4)]
    rounds = world.sent(m.Promotion)[-3:]
    base = QUICK.keepalive_seconds + QUICK.watchdog_grace_seconds
    for place, (deadline, (sent, *_)) in enumerate(zip(due, rounds, strict=True)):
        assert deadline == pytest.approx(sent + 0.1 + base + place * QUICK.eta_step_seconds)


def test_the_successor_may_be_dead_too():
    world = World()
    family(world, 6)
    world.run(100)
    for node in (1, 2, 3):
        world.go(node)
    world.run(250)
    assert world.role(4) == "super"
    assert world.children(4) == [5, 6]
    check_settled(world)


def test_a_child_that_just_came_does_not_promote_itself():
    world = World()
    family(world, 2)
    world.go(1)
    world.run(10)
    world.come(3, "f == 1", seeds=(0,))
    world.run(60)
    assert world.role(3) != "joining"
    world.run(200)
    check_settled(world)


def test_a_super_node_without_children_leaves_no_trace():
    world = World()
    family(world, 1)
    world.go(1)
    world.run(100)
    assert [one.endpoint for one in world.state(0).layer.membership.members] == [0]
    world.come(2, "f == 1")
    world.run(20)
    assert world.role(2) == "super"


def test_a_father_that_was_only_slow_ends_without_children():
    world = World()
    family(world, 4)
    world.run(60)
    old = world.state(1)
    world.simulation.nodes[1].timers.pop("keepalive")  # as if it hung
    world.run(100)
    assert world.role(2) == "super"
    world.fire(1, "keepalive")
    world.run(5)
    assert old.layer.children == {}
    assert old.role == "super"
    assert world.children(2) == [3, 4]
    check_settled(world)


# -- K nodes


def test_the_first_children_stand_by_until_there_are_k_super_nodes():
    world = World(quick(k=3))
    family(world, 5)
    world.run(30)
    assert [world.role(node) for node in range(1, 6)] == ["super", "k", "k", "sub", "sub"]
    assert len(world.state(0).layer.membership.by_filter("f == 1")) == 3
    assert world.children(1) == [2, 3, 4, 5]
    check_settled(world)
    check(world)


def test_a_k_node_sends_joiners_to_its_father():
    world = World(quick(k=2))
    family(world, 2)
    world.run(30)
    world.come(3, "f == 1", seeds=(0,))
    joiner = None
    for _ in range(20):  # which of the two is told is a draw; ask until it was the stand-by
        world.run(5)
        if world.sent(m.ParentNode):
            break
        joiner = 4 if joiner is None else joiner + 1
        world.come(joiner, "f == 1", seeds=(0,))
    assert world.sent(m.ParentNode)[0][3] == m.ParentNode(1, world.state(1).name)
    world.run(5)
    assert all(world.state(node).child.father == 1 for node in world.live() if node > 1)


def test_who_asks_for_another_filter_is_sent_away():
    world = World()
    family(world, 3)
    other = world.state(0).name
    begun = world.simulation.now
    world.give(1, 0, m.JoinNode(other))
    world.run(0.05)
    assert [(sender, receiver) for _, sender, receiver, _ in world.sent(m.TryAnother, begun)] == [(1, 0)]
    assert 0 not in world.children(1)


def test_redirects_that_lead_nowhere_end():
    """Two stand-bys that take each other for the father: the joiner waits for a promotion after a while (R9)."""
    world = World(quick(k=2))
    family(world, 2)
    world.come(9, "f == 1", seeds=(0,))
    world.run(0.25)  # it has been told whom to ask
    joining = world.state(9).joining
    for _ in range(world.settings.redirects + 1):
        asked = joining.contact
        assert joining.representative
        world.give(9, asked, m.ParentNode(3 - asked, world.state(9).name))
        world.simulation.run(steps=1)
    assert joining.contact is None
    world.run(120)
    check_settled(world)


def test_a_k_node_is_active_at_once_when_its_father_dies():
    world = World(quick(k=2))
    family(world, 4)
    world.run(60)
    entries = len(world.activations())
    world.go(1)
    world.run(100)
    assert world.role(2) == "super"
    assert world.children(2) == [3, 4]
    assert len(world.activations()) == entries  # it did not enter again
    check_settled(world)


def test_a_changed_filter_moves_a_node():
    world = World()
    family(world, 3)
    world.run(30)
    world.filters[3] = "f == 0"
    world.unsubscribe(3, "s3")
    world.subscribe(3, "other", "f == 0")
    world.run(150)
    assert world.state(3).child.father == 0
    assert world.children(1) == [2]
    world.unsubscribe(1, "s1")
    world.subscribe(1, "other", "f == 0")
    world.run(250)
    assert world.role(1) == "sub"
    assert world.role(2) == "super"
    check_settled(world)
