"""Families that are too large for one list (setting ``family_most``)."""

from collections import Counter

from protocols.supernodes.world import World, check, check_settled, family, quick
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.state import household

LARGE = quick(family_most=3, event_repair=False, keepalive_seconds=15.0, watchdog_grace_seconds=5.0)


def depth(world, node):
    child = world.state(node).child
    return 0 if child is None else 1 + depth(world, child.father)


def test_a_family_becomes_a_tree_in_which_nobody_has_many_children():
    world = World(LARGE)
    members = family(world, 40)
    world.run(60)
    check_settled(world)
    assert [world.role(node) for node in members].count("super") == 1
    assert max(len(household(one).children) for one in world.states() if household(one)) <= LARGE.family_most
    assert 3 <= max(depth(world, node) for node in members) <= 7
    assert max(len(one[3].children) for one in world.sent(m.Promotion)) <= LARGE.family_most


def test_an_event_reaches_all_of_it_once_wherever_it_comes_from():
    world = World(LARGE)
    members = family(world, 40)
    world.run(60)
    for number, publisher in enumerate((0, 1, 17, 40)):
        world.publish(publisher, f"e{number}", f=1)
        world.run(10)
        assert world.who_got(f"e{number}") == members


def test_the_first_child_of_a_head_that_dies_takes_its_place():
    world = World(LARGE)
    family(world, 40)
    world.run(60)
    counts = Counter(one.child.father for one in world.states() if one.child is not None)
    head = next(node for node in counts if node != 1 and counts[node] == 3)
    entries = len(world.activations())
    world.go(head)
    world.run(90)
    check_settled(world)
    assert len(world.activations()) == entries  # nobody entered the layer for that
    world.publish(0, "e", f=1)
    world.run(10)
    assert world.who_got("e") == [node for node in range(1, 41) if node != head]


def test_super_node_and_heads_may_die_one_after_the_other():
    world = World(LARGE)
    family(world, 40)
    world.run(60)
    for _ in range(5):
        father = next(one.me for one in world.states() if one.role == "super" and one.name == world.state(40).name)
        world.go(father)
        if father != 1:
            world.go(next(one.me for one in world.states() if one.brood is not None and one.brood.children))
        world.run(150)
        check(world)
        check_settled(world)
        assert max(len(household(one).children) for one in world.states() if household(one)) <= 3 * LARGE.family_most


def test_ten_thousand_equal_subscriptions():
    """The event's way is logarithmic, and what a node pays for keep-alives does not grow with the family."""
    world = World(quick(family_most=16, event_repair=False))
    world.come(0, "f == 0")
    world.run(5)
    world.come(1, "f == 1")
    world.run(15)
    for node in range(2, 10_002):
        world.come(node, "f == 1", seeds=(0,))
        if node % 40 == 0:
            world.run(1)
    world.run(60)
    assert Counter(one.role for one in world.states()) == {"super": 2, "sub": 10_000}
    before = {node: one.up_bytes for node, one in world.simulation.nodes.items()}
    world.run(90)
    paid = max(one.up_bytes - before[node] for node, one in world.simulation.nodes.items() if node > 1)
    assert paid / 90 < 45  # bytes a second
    begun = world.simulation.now
    world.publish(0, "e", f=1)
    world.run(10)
    times = [time - begun for time, _, event in world.deliveries if event == "e"]
    assert len(times) == 10_001
    assert max(times) < 0.1 * 30
