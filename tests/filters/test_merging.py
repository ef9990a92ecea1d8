"""Merging: perfect mergers are exact, imperfect ones lose nothing."""

import pytest
from hypothesis import given, settings

from brute import Maker, Universe
from recado.filters.covering import PIECES, covers, merge, merge_imperfect
from recado.filters.evaluate import evaluate, matches
from recado.filters.normal import filter_key, normal_form
from recado.model.filter import FALSE, TRUE, And, Between, Compare, Constant, Exists, In, Not, Or, Sql, Text
from strategies import events, filters


def check_mergers(maker, count, opaque):
    perfect = 0
    for _ in range(count):
        one = maker.conjunction(opaque=opaque, negations=0.1)
        two = maker.conjunction(opaque=opaque, negations=0.1) if maker.rng.random() < 0.7 else maker.tree(2, opaque)
        universe = Universe(one, two)
        union = universe.mask(one) | universe.mask(two)
        merger = merge(one, two)
        if merger is not None:
            perfect += 1
            assert universe.mask(merger) == union, (one, two)
        around = universe.mask(merge_imperfect(one, two))
        assert around & union == union, (one, two)
    return perfect


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("opaque", [0.0, 0.4])
def test_mergers_against_brute_force(seed, opaque):
    assert check_mergers(Maker(seed), 250, opaque) > 60


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(200, 205))
def test_mergers_at_length(seed):
    check_mergers(Maker(seed), 6_000, 0.2)


@settings(max_examples=100)
@given(filters(max_leaves=4, sql=True), filters(max_leaves=4, sql=True), events())
def test_mergers_on_events(one, two, event):
    either = matches(one, event) or matches(two, event)
    merger = merge(one, two)
    if merger is not None:
        assert matches(merger, event) is either
    assert matches(merge_imperfect(one, two), event) or not either


X = Compare("x", "==", 5)


@pytest.mark.parametrize(
    ("one", "two", "merger"),
    [
        (And((X, In("y", (2, 3)))), And((X, In("y", (4, 5)))), And((X, In("y", (2, 3, 4, 5))))),
        (Between("x", 1, 5), Between("x", 5, 9), Between("x", 1, 9)),
        (
            Between("x", 1, 5),
            And((Compare("x", ">", 5), Compare("x", "<", 7))),
            And((Compare("x", ">=", 1), Compare("x", "<", 7))),
        ),
        (Compare("value", "<", 7), Compare("value", "<", 10), Compare("value", "<", 10)),
        (Compare("x", "==", "a"), Compare("x", "==", 1), In("x", ("a", 1))),
        (Compare("x", "<", 5), Not(Compare("x", "<", 5)), Constant(True)),
        (Text("x", "prefix", "a"), Text("x", "prefix", "b"), And((Compare("x", ">=", "a"), Compare("x", "<", "c")))),
        (Text("x", "suffix", "ab"), Text("x", "suffix", "b"), Text("x", "suffix", "b")),
        (
            And((Text("s", "suffix", "b"), X)),
            And((Text("s", "suffix", "b"), Compare("x", "==", 6))),
            And((Text("s", "suffix", "b"), In("x", (5, 6)))),
        ),
        (And((X, Sql("a = 1"))), And((X, Not(Sql("a = 1")))), X),
        (X, FALSE, X),
        (TRUE, X, TRUE),
    ],
)
def test_perfect_mergers(one, two, merger):
    for found in (merge(one, two), merge(two, one)):
        assert found is not None
        assert normal_form(found) == normal_form(merger)
    assert filter_key(merge_imperfect(one, two)) == filter_key(merger)


@pytest.mark.parametrize(
    ("one", "two", "around"),
    [
        (
            And((X, Compare("y", "==", 1))),
            And((Compare("x", "==", 6), Compare("y", "==", 2))),
            And((In("x", (5, 6)), In("y", (1, 2)))),
        ),
        (And((X, Compare("y", "==", 1))), And((X, Exists("z"))), X),
        (X, Compare("y", "==", 1), TRUE),
        (Text("x", "suffix", "a"), Text("x", "suffix", "b"), Compare("x", ">=", "")),
        (
            And((Text("x", "suffix", "ab"), X_Y := Compare("y", "==", 1))),
            And((Text("x", "suffix", "b"), Compare("y", "==", 2))),
            And((Text("x", "suffix", "b"), In("y", (1, 2)))),
        ),
        (
            And((Not(Text("x", "suffix", "b")), X_Y)),
            And((Not(Text("x", "suffix", "b")), Compare("z", "==", 2))),
            Not(Text("x", "suffix", "b")),
        ),
    ],
)
def test_imperfect_mergers(one, two, around):
    assert merge(one, two) is None
    found = merge_imperfect(one, two)
    assert normal_form(found) == normal_form(around)
    assert covers(found, one)
    assert covers(found, two)


def test_an_imperfect_merger_closes_the_gaps_of_a_long_set():
    one = And((In("x", tuple(range(0, 200, 2))), Compare("y", "==", 1)))
    two = And((In("x", tuple(range(1, 200, 2))), Compare("y", "==", 2)))
    assert merge_imperfect(one, two) == And((Between("x", 0, 199), In("y", (1, 2))))
    open_ended = And((Compare("x", ">", 500), Compare("y", "==", 2)))
    assert merge_imperfect(one, open_ended) == And((Compare("x", ">=", 0), In("y", (1, 2))))
    few = In("x", tuple(range(PIECES)))
    assert merge_imperfect(few, Compare("x", "<", -1)) == Or((few, Compare("x", "<", -1)))


def test_filters_that_are_too_large_are_put_side_by_side():
    large = And(tuple(Or((Compare(f"a{i}", "<", i), Compare(f"b{i}", ">", i))) for i in range(30)))
    other = And((Compare("a1", "==", 1), Exists("z")))
    assert merge(large, other) is None
    around = merge_imperfect(large, other)
    assert evaluate(around, {"a1": 1, "z": 1})
    assert evaluate(around, {f"b{i}": 99 for i in range(30)})


def test_two_impossible_filters_merge_into_nothing():
    assert filter_key(merge_imperfect(FALSE, And((X, Compare("x", "==", 6))))) == "false"
