"""Leaving and changing a filter in good order (setting ``graceful``)."""

import pytest

from protocols.supernodes.world import World, check, check_settled, family, quick
from recado.protocols.pubsub import Leave, Left
from recado.protocols.supernodes import messages as m

GRACEFUL = quick(graceful=True)


def leave(world, node):
    """Ask, and stop the node when it says that it can go."""
    world.simulation.ask(node, Leave())
    asked = world.simulation.now
    while not any(one == node and type(fact) is Left for _, one, fact in world.facts):
        world.run(0.5)
        assert world.simulation.now < asked + 90
    world.go(node)
    return world.simulation.now - asked


def publish_every_second(world, publisher, seconds, **attributes):
    for number in range(seconds):
        world.publish(publisher, f"e{publisher}-{world.simulation.now:.0f}-{number}", **attributes)
        world.run(1)


def got(world, node):
    return [event for _, one, event in world.deliveries if one == node]


def test_the_first_child_of_a_super_node_that_leaves_takes_its_place_at_once():
    world = World(GRACEFUL)
    family(world, 5)
    begun = world.simulation.now
    assert leave(world, 1) < 20
    assert world.role(2) == "super"
    assert world.state(2).layer.active
    assert [world.state(node).child.father for node in (3, 4, 5)] == [2, 2, 2]
    assert [one[2] for one in world.sent(m.TakeOver, begun)] == [2]
    world.run(30)
    check_settled(world)


def test_nothing_is_missed_while_a_family_changes_hands():
    missed = {}
    for settings in (GRACEFUL, quick(event_repair=False)):
        world = World(settings)
        family(world, 5)
        world.simulation.ask(1, Leave())
        world.run(0.05)
        if not settings.graceful:
            world.go(1)
        publish_every_second(world, 0, 90, f=1)
        world.run(10)
        missed[settings.graceful] = [90 - len(got(world, node)) for node in (2, 3, 4, 5)]
    assert missed[True] == [0, 0, 0, 0]
    assert min(missed[False]) > 30


def test_a_child_of_the_leaving_father_publishes_meanwhile():
    world = World(GRACEFUL)
    family(world, 5)
    world.simulation.ask(1, Leave())
    publish_every_second(world, 4, 20, f=0)
    world.run(10)
    assert len(got(world, 0)) == 20


def test_a_dead_heir_is_passed_over():
    world = World(GRACEFUL)
    family(world, 5)
    world.go(2)
    leave(world, 1)
    assert world.role(3) == "super"
    world.run(60)
    check_settled(world)


def test_a_sub_node_that_leaves_tells_its_father():
    world = World(GRACEFUL)
    family(world, 4)
    assert leave(world, 3) <= 0.5
    world.run(1)
    assert world.children(1) == [2, 4]


def test_a_stand_by_that_leaves_tells_the_layer_too():
    world = World(quick(graceful=True, k=2))
    family(world, 4)
    world.run(60)
    assert world.role(2) == "k"
    leave(world, 2)
    world.run(20)
    check_settled(world)
    assert 2 not in [one.endpoint for one in world.state(0).layer.membership.members]


def test_a_stand_by_inherits_at_once():
    world = World(quick(graceful=True, k=2))
    family(world, 4)
    world.run(60)
    begun = world.simulation.now
    leave(world, 1)
    changes = [
        (time - begun, fact.role) for time, node, fact in world.facts if node == 2 and type(fact) is m.RoleChanged
    ]
    assert changes[-1] == (pytest.approx(0.1), "super")
    assert world.role(2) == "super"


def test_without_the_setting_a_node_leaves_without_a_word():
    world = World(quick())
    family(world, 3)
    begun = world.simulation.now
    world.simulation.ask(1, Leave())
    world.run(1)
    assert world.role(1) == "left"
    assert not [one for one in world.sends if one[0] >= begun and one[1] == 1]


def change(world, node, filter):
    world.filters[node] = filter
    world.subscribe(node, f"new{node}", filter)
    for id in [id for id in world.state(node).subscriptions if id != f"new{node}"]:
        world.unsubscribe(node, id)


def two_families(settings):
    world = World(settings)
    family(world, 4)
    for node in range(11, 15):
        world.come(node, "f == 2")
        world.run(15 if node == 11 else 2)
    return world


@pytest.mark.parametrize("node", [1, 3])
@pytest.mark.parametrize("filter", ["f == 2", "f == 1 and g == 5", "f == 1 or f == 7"])
def test_a_filter_that_changes_leaves_no_gap(node, filter):
    """Events that the old and the new filter accept go on to be delivered, to the node and to the family it leaves."""
    world = two_families(GRACEFUL)
    world.run(30)
    world.subscribe(node, "both", filter)
    world.filters[node] = filter
    publish_every_second(world, 0, 3, f=1, g=5)
    world.unsubscribe(node, f"s{node}")
    publish_every_second(world, 0, 60, f=1, g=5)
    world.run(10)
    others = [one for one in (1, 2, 3, 4) if one != node]
    assert {one: len(got(world, one)) for one in others} == dict.fromkeys(others, 63)
    if filter != "f == 2":
        assert len(got(world, node)) == 63
    world.run(60)
    check(world)
    check_settled(world)
    event = world.publish(12, "last", f=2)
    world.run(10)
    assert world.who_got("last") == world.who_wants(event)


def test_a_member_stays_a_member_with_another_filter_that_nobody_has():
    world = World(GRACEFUL)
    family(world, 1)
    change(world, 1, "f == 9")
    world.run(30)
    assert world.role(1) == "super"
    assert "joining" not in world.roles_of(1)
    assert sorted(one.filter for one in world.state(0).layer.membership.members) == ["f == 0", "f == 9"]
    check_settled(world)
