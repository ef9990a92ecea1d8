"""Ablation A1: children that find their brothers by asking, and keep-alives without a list."""

import pytest

from protocols.supernodes.world import World, check_settled, family, quick
from recado.protocols.supernodes import SettingsError
from recado.protocols.supernodes import messages as m

ASKING = quick(brothers="enquiry")
PERIOD = ASKING.keepalive_seconds


def asked(count, **changes):
    world = World(quick(brothers="enquiry", **changes))
    family(world, count)
    return world


def chains(world, nodes):
    return [world.state(node).child.chain for node in nodes]


def told(world, since, *kinds):
    return [(type(one).__name__, a, b) for time, a, b, one in world.sends if time >= since and type(one) in kinds]


def test_a_new_child_asks_one_brother_who_tells_the_others():
    world = asked(5)
    begun = world.simulation.now
    world.come(6, "f == 1", seeds=(0,))
    world.run(2)
    (accept,) = [one for _, _, to, one in world.sent(m.SuperNodeAccept, begun) if to == 6]
    first, second = accept.brothers  # two at least, a tenth of the family otherwise
    others = [node for node in (2, 3, 4, 5) if node != first]
    assert told(world, begun, m.BrothersWanted, m.Brothers, m.NewBrother) == [
        ("BrothersWanted", 6, first),
        *(("NewBrother", first, node) for node in others),
        ("Brothers", first, 6),
        ("BrothersWanted", 6, second),
        ("Brothers", second, 6),
    ]
    assert chains(world, (2, 3, 4, 5, 6)) == [(2, 3, 4, 5, 6)] * 5
    assert not world.sent(m.Promotion)
    assert not world.sent(m.LiveNodes)


def test_how_many_a_father_names_is_a_share():
    world = asked(9, brothers_share=0.5)
    named = [len(one.brothers) for *_, one in world.sent(m.SuperNodeAccept)]
    assert named == [0, 1, 2, 2, 2, 3, 3, 4]  # of those that were there before


def test_the_keep_alive_goes_from_child_to_child_without_a_list():
    world = asked(5)
    world.run(PERIOD)
    begun = world.simulation.now
    world.run(PERIOD)
    chain = [(sender, receiver) for _, sender, receiver, _ in world.sent(m.KeepAlive, begun)]
    assert chain == [(1, 2), (2, 3), (3, 4), (4, 5)]
    world.run(5 * PERIOD)
    assert [world.role(node) for node in (2, 3, 4, 5)] == ["sub"] * 4
    check_settled(world)


def test_lifo_turns_the_chain_around():
    world = asked(4, promotion_policy="lifo")
    world.run(2 * PERIOD)
    assert chains(world, (2, 3, 4)) == [(4, 3, 2)] * 3
    world.go(1)
    world.run(120)
    assert world.role(4) == "super"
    assert sorted(world.children(4)) == [2, 3]


@pytest.mark.parametrize("gone", [(2,), (5,), (2, 3), (4, 5), (2, 3, 4, 5)])
def test_who_finds_a_departure_tells_the_father_and_all_brothers(gone):
    world = asked(5)
    for node in gone:
        world.go(node)
    world.run(2 * PERIOD)
    left = [node for node in (2, 3, 4, 5) if node not in gone]
    assert world.children(1) == left
    assert chains(world, left) == [tuple(left)] * len(left)
    check_settled(world)
    begun = world.simulation.now
    world.run(2 * PERIOD)
    assert not world.sent(m.BrotherGone, begun)  # once is enough
    assert bool(world.sent(m.KeepAlive, begun)) == bool(left)


def test_the_round_that_meets_a_dead_child_reaches_those_after_it():
    world = asked(5)
    world.run(PERIOD)
    world.go(3)
    begun = world.simulation.now
    world.run(PERIOD)
    chain = [(sender, receiver) for _, sender, receiver, _ in world.sent(m.KeepAlive, begun)]
    assert chain == [(1, 2), (2, 3), (2, 4), (4, 5)]


def test_contacts_may_be_dead():
    world = asked(4)
    for node in (2, 3, 4):
        world.go(node)
    world.come(5, "f == 1", seeds=(0,))
    world.run(2)
    assert world.state(5).child.chain == (5,)
    assert world.children(1) == [5]
    world.come(6, "f == 1", seeds=(0,))
    world.run(2)
    assert chains(world, (5, 6)) == [(5, 6)] * 2


def test_if_none_of_the_contacts_is_there_the_father_names_others():
    world = asked(6, brothers_least=1)
    begun = world.simulation.now
    for node in (2, 3, 4, 5):
        world.go(node)
    world.come(7, "f == 1", seeds=(0,))
    world.run(5)
    assert len([to for _, _, to, _ in world.sent(m.SuperNodeAccept, begun) if to == 7]) > 1
    assert chains(world, (6, 7)) == [(6, 7)] * 2
    assert world.state(7).child.introduced


def test_a_brother_that_was_missed_is_found_by_the_second_contact():
    world = asked(5)
    world.state(2).child.chain = (2, 3)  # as if it had not heard of the last two
    world.state(4).child.chain = (2, 3, 4)
    newcomer = world.state(5).child  # and as if the last one began only now
    newcomer.contacts, newcomer.introduced, newcomer.chain = (2, 3), False, (5,)
    world.give(2, 5, m.BrothersWanted(1, True))
    world.run(2)
    assert newcomer.chain == (2, 3, 4, 5)
    assert chains(world, (2, 3, 4)) == [(2, 3, 5), (2, 3, 4, 5), (2, 3, 4, 5)]


def test_exactly_one_child_takes_the_place_of_its_father_with_all_brothers():
    world = asked(6)
    world.run(100)
    world.go(1)
    died = world.simulation.now
    world.run(200)
    assert [node for node in range(2, 7) if world.role(node) == "super"] == [2]
    assert world.children(2) == [3, 4, 5, 6]
    assert [receiver for _, _, receiver, _ in world.sent(m.Promoted, died)] == [3, 4, 5, 6]
    world.run(200)
    assert [world.role(node) for node in (3, 4, 5, 6)] == ["sub"] * 4  # the new father's keep-alives reach them
    check_settled(world)


def test_a_successor_that_is_dead_is_passed_over():
    world = asked(6)
    world.run(100)
    for node in (1, 2, 3):
        world.go(node)
    world.run(250)
    assert world.role(4) == "super"
    assert chains(world, (5, 6)) == [(5, 6)] * 2
    check_settled(world)


def test_one_that_has_left_the_family_says_so_and_the_chain_goes_on():
    world = asked(5)
    world.run(PERIOD)
    world.filters[3] = "f == 0"
    world.unsubscribe(3, "s3")
    world.subscribe(3, "other", "f == 0")
    world.run(3 * PERIOD)
    assert world.state(3).child.father == 0
    assert world.children(1) == [2, 4, 5]
    assert chains(world, (2, 4, 5)) == [(2, 4, 5)] * 3
    check_settled(world)


def test_stand_bys_are_children_like_the_others():
    world = asked(5, k=3)
    world.run(60)
    assert [world.role(node) for node in range(1, 6)] == ["super", "k", "k", "sub", "sub"]
    assert chains(world, (2, 3, 4, 5)) == [(2, 3, 4, 5)] * 4
    world.go(1)
    world.run(150)
    assert world.role(2) == "super"
    assert world.children(2) == [3, 4, 5]
    check_settled(world)


def test_a_departure_that_an_event_meets_is_told():
    world = asked(5)
    world.run(PERIOD + 1)
    world.go(3)
    world.publish(0, "e", f=1)
    world.run(3)
    assert world.who_got("e") == [1, 2, 4, 5]
    assert chains(world, (2, 4, 5)) == [(2, 4, 5)] * 3
    assert world.children(1) == [2, 4, 5]


@pytest.mark.parametrize(
    "other", [{"family_most": 4}, {"covering": True}, {"graceful": True}, {"guard": True}, {"brothers_share": 1.5}]
)
def test_it_goes_with_the_plain_protocol_alone(other):
    with pytest.raises(SettingsError):
        quick(brothers="enquiry", **other).__post_init__()
