"""Views and memberships: values of what was seen, whatever the order and whoever shares them."""

from itertools import permutations
from random import Random

import pytest

from recado.protocols.supernodes.members import NOTHING_SEEN, SPACE, Change, Home, Member, Membership, View
from recado.protocols.wire import WireError


def member(key, filter="true"):
    return Member(key, f"n{key}", filter)


def change(origin, number, joins=(), leaves=()):
    return Change((origin, number), tuple(member(key) for key in joins), tuple(leaves), frozenset(joins))


CHANGES = (
    change(1, 1, joins=(5, 9)),
    change(1, 2, joins=(3,), leaves=(5,)),
    change(2, 1, joins=(7,)),
    change(2, 2, joins=(5,), leaves=(7,)),  # 5 was announced a second time, and is gone all the same
    change(3, 1, leaves=(9, 9)),
)


def test_a_membership_is_the_same_whatever_the_order():
    home = Home()
    start = home.found([member(1)])
    ends = []
    for order in permutations(CHANGES):
        now = start
        for one in order:
            now = now.apply(one)
        ends.append(now)
    assert ends[0].keys == [1, 3]
    assert all(end is ends[0] for end in ends)
    assert ends[0].view.to_wire() == [[(1, 2), (2, 2), (3, 1)], [], [1, 2]]


def test_homes_of_their_own_give_equal_values():
    one, two = Home().found([member(1)]), Home().found([member(1)])
    for a, b in zip(CHANGES, reversed(CHANGES), strict=True):
        one, two = one.apply(a), two.apply(b)
    assert one is not two
    assert one.view == two.view
    assert one.members == two.members
    assert Home().adopt(one).members == one.members


def test_memberships_that_began_differently_are_not_shared():
    home = Home()
    one, two = home.found([member(1)]), home.found([member(2)])
    assert one.apply(CHANGES[0]).keys == [1, 5, 9]
    assert two.apply(CHANGES[0]).keys == [2, 5, 9]


def test_applying_again_changes_nothing():
    now = Home().found([member(1)]).apply(CHANGES[0])
    assert now.apply(CHANGES[0]) is now
    again = change(1, 1, joins=(5, 9))  # another object with the same stamp, as it comes from the wire
    assert now.apply(again) is now


def test_a_view_knows_what_another_lacks():
    rng = Random(4)
    stamps = [(origin, number) for origin in range(4) for number in range(1, 8)]
    for _ in range(200):
        chosen = [[one for one in stamps if rng.random() < 0.6] for _ in range(2)]
        views = []
        for seen in chosen:
            view = NOTHING_SEEN
            for stamp in rng.sample(seen, len(seen)):
                view = view.add(stamp)
            views.append(view)
        one, two = views
        assert one.beyond_of(two) == sorted(set(chosen[0]) - set(chosen[1]))
        assert one.covers(two) == (set(chosen[1]) <= set(chosen[0]))
        assert one.covers(View.from_wire(two.to_wire())) == one.covers(two)
        assert (one == two) == (set(chosen[0]) == set(chosen[1]))
        assert View.from_wire(_plain(one.to_wire())) == one
        assert all((stamp in one) == (stamp in chosen[0]) for stamp in stamps)


def _plain(value):
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def test_events_are_found_again_as_far_as_they_are_kept():
    home = Home(max_log=4)
    now = home.found([member(1)])
    made = [change(9, number, joins=(number + 10,)) for number in range(1, 21)]
    for one in made:
        now = now.apply(one)
    assert now.changes([(9, 20), (9, 18)]) == [made[19], made[17]]
    assert now.changes([(9, 1)]) == []
    assert len(now) == 21


def test_leaders_of_slices():
    quarter = SPACE // 4
    table = Home().found([member(key) for key in (5, quarter + 1, quarter + 9, 3 * quarter)])
    assert table.leader(99, 1).key == 5
    assert table.leader(3 * quarter + 8, 1).key == 5
    assert table.leader(quarter + 30, 4).key == quarter + 1
    assert table.leader(2 * quarter + 1, 4).key == 3 * quarter  # an empty slice: the next one with members
    assert table.leader(3 * quarter, 4).key == 3 * quarter
    assert Home().found([member(5)]).leader(3 * quarter, 4).key == 5


def test_intervals_may_go_over_the_end():
    table = Home().found([member(key) for key in (10, 20, 30, 40)])
    assert table.span(10, 30) == (0, 2)
    assert table.ring(15, 45) == (1, 3)
    assert table.ring(35, 15) == (3, 2)
    assert table.ring(41, 10) == (4, 0)
    assert table.ring(20, 20) == (1, 0)


def test_filters_are_grouped_by_meaning():
    table = Home().found([member(1, "x < 5"), member(2, "x < 7"), member(3, "x < 5 or x < 4"), member(4, "x < 5")])
    assert [one.key for one in table.by_filter("x < 5")] == [1, 3, 4]
    assert table.by_filter("x < 6") == ()
    assert table.piece(0, 1) == (2, 2)
    assert [table.piece(number, 2) for number in (0, 1)] == [(2, 0), (0, 2)]


@pytest.mark.parametrize(
    "plain",
    [
        [[[1, 0]], [], []],
        [[[-1, 1]], [], []],
        [[[1, 1.5]], [], []],
        [[["a", 1]], [], []],
        [[[SPACE, 1]], [], []],
        ["x", [], []],
    ],
)
def test_a_view_that_nobody_could_have_is_refused(plain):
    with pytest.raises(WireError):
        View.from_wire(plain)


def test_a_downloaded_membership_has_to_be_in_order():
    with pytest.raises(WireError, match="order"):
        Membership.from_wire([[[], [], []], [[5, "a", "true"], [4, "b", "true"]]])


def test_a_view_that_claims_a_lot_is_told_from_one_that_is_covered_at_once():
    mine = NOTHING_SEEN.add((1, 1)).add((1, 3))
    claims = View.from_wire([[(1, 1 << 40)], [], [1]])
    assert not mine.covers(claims)
    assert not claims._compared  # no list of what is missing was made
    assert mine.covers(View.from_wire([[(1, 1)], [(1, 3)], [1]]))
    assert not mine.covers(View.from_wire([[(1, 3)], [], [1]]))
