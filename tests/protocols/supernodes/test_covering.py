"""Attachment by covering (setting ``covering``)."""

import pytest

from protocols.supernodes.world import World, check_settled, quick
from recado.protocols.supernodes import SettingsError
from recado.protocols.supernodes import messages as m

COVERING = quick(covering=True, event_repair=False)


def nested(settings=COVERING):
    """A wide filter, an equal one, and three narrower ones of which one is not covered."""
    world = World(settings)
    world.come(0, "w == 1")
    world.run(5)
    for node, filter in enumerate(("v < 9", "v < 5", "v < 9", "v < 3", "v < 12"), 1):
        world.come(node, filter)
        world.run(15)
    return world


def test_a_covered_filter_hangs_below_the_narrowest_that_covers_it():
    world = nested()
    assert [world.role(node) for node in range(6)] == ["super", "super", "sub", "sub", "sub", "super"]
    assert [world.state(node).child.father for node in (2, 3, 4)] == [1, 1, 1]
    assert [world.state(node).child.covered for node in (2, 3, 4)] == [True, False, True]
    world.come(6, "v < 11")
    world.run(15)
    assert world.state(6).child.father == 5
    check_settled(world)


def test_the_chain_asks_only_those_that_accept_the_event():
    world = nested()
    for value, wanting in ((2, [1, 2, 3, 4, 5]), (4, [1, 2, 3, 5]), (7, [1, 3, 5]), (10, [5]), (20, [])):
        begun = world.simulation.now
        event = world.publish(0, f"e{value}", v=value)
        world.run(10)
        assert world.who_got(event.id) == wanting
        assert {one[2] for one in world.sent(m.TurmoilSubnode, begun)} <= set(wanting)


def test_an_equal_child_inherits_the_covered_ones_and_learns_what_they_want():
    world = nested()
    world.run(60)
    world.go(1)
    world.run(150)
    assert [world.role(node) for node in (2, 3, 4)] == ["sub", "super", "sub"]
    assert world.state(3).layer.covered == {2: "v < 5", 4: "v < 3"}
    check_settled(world)
    world.publish(0, "e", v=4)
    world.run(10)
    assert world.who_got("e") == [2, 3, 5]


def test_covered_children_without_an_equal_brother_find_another_place():
    world = nested()
    world.run(60)
    world.go(3)
    world.run(60)
    world.go(1)
    world.run(250)
    check_settled(world)
    world.publish(0, "e", v=2)
    world.run(10)
    assert world.who_got("e") == [2, 4, 5]


def test_covered_children_repair_with_their_father():
    world = nested(quick(covering=True, event_repair_seconds=5.0))
    begun = world.simulation.now
    for number in range(10):
        world.publish(0, f"e{number}", v=number)
        world.run(3)
    world.run(30)
    asked = [one[2] for one in world.sent(m.RepairTurmoil, begun) if one[1] in (2, 4)]
    assert set(asked) == {1}
    assert [len([1 for _, node, _ in world.deliveries if node == one]) for one in (2, 4)] == [5, 3]


def test_a_stranger_is_not_taken():
    world = nested()
    for message in (m.JoinNode("some name", "v < 5"), m.JoinNode(world.state(5).name, "v < 12")):
        world.give(1, 5, message)
        world.run(1)
        assert 5 not in world.children(1)


def test_not_with_ordered_events():
    with pytest.raises(SettingsError):
        quick(covering=True, ordered=True)
