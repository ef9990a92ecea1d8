"""Covering, overlap and satisfiability: sound always, exact where value sets say everything."""

import pytest
from hypothesis import given, settings

from brute import NOON, Maker, Universe
from recado.filters.covering import covers, equivalent, overlaps, satisfiable
from recado.filters.evaluate import matches
from recado.filters.normal import filter_key
from recado.filters.terms import is_covered, terms_of
from recado.model import Event
from recado.model.filter import FALSE, TRUE, And, Between, Compare, Exists, In, Not, Or, Regex, Similar, Sql, Text
from strategies import events, filters


def check_pairs(maker, count, make, exact):
    yes = 0
    for _ in range(count):
        one, two = make(maker), make(maker)
        if maker.rng.random() < 0.3:
            two = And((one, two))
        universe = Universe(one, two)
        mine, theirs = universe.mask(one), universe.mask(two)
        truth, told = not theirs & ~mine, covers(one, two)
        assert truth or not told, (one, two)
        assert not exact or told is truth, (one, two)
        meet, told_meet = universe.meet(mine, theirs), overlaps(one, two)
        assert told_meet or not meet, (one, two)
        assert not exact or told_meet is meet, (one, two)
        possible = satisfiable(one)
        assert possible is not False or not mine, one
        assert not exact or possible is bool(mine), one
        yes += told
    return yes


def conjunction(maker):
    return maker.conjunction()


def tree(maker):
    return maker.tree(depth=2)


def opaque(maker):
    return maker.conjunction(opaque=0.6) if maker.rng.random() < 0.7 else maker.tree(depth=2, opaque=0.5)


@pytest.mark.parametrize("seed", range(4))
def test_exact_for_conjunctions_of_simple_predicates(seed):
    assert check_pairs(Maker(seed), 900, conjunction, exact=True) > 200


@pytest.mark.parametrize("seed", range(3))
def test_exact_for_trees_of_simple_predicates(seed):
    assert check_pairs(Maker(seed), 700, tree, exact=True) > 200


@pytest.mark.parametrize("seed", range(3))
def test_sound_with_opaque_predicates(seed):
    assert check_pairs(Maker(seed), 450, opaque, exact=False) > 100


def test_exact_with_a_name_that_is_never_an_array():
    assert check_pairs(Maker(1, names=["type", "x"]), 900, conjunction, exact=True) > 200
    assert check_pairs(Maker(2, names=["time", "x"]), 450, opaque, exact=False) > 100


def test_exact_over_three_attributes():
    assert check_pairs(Maker(1, names="abc"), 60, conjunction, exact=True) > 10


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(50, 60))
def test_at_length(seed):
    check_pairs(Maker(seed), 5_000, conjunction, exact=True)
    check_pairs(Maker(seed), 2_500, tree, exact=True)
    check_pairs(Maker(seed), 2_500, opaque, exact=False)


@settings(max_examples=120)
@given(filters(max_leaves=4, sql=True), filters(max_leaves=4, sql=True), events())
def test_no_event_speaks_against_it(one, two, event):
    here, there = matches(one, event), matches(two, event)
    if covers(one, two):
        assert here or not there
    assert covers(Or((one, two)), one)
    if here:
        assert satisfiable(one) is not False


@settings(max_examples=80)
@given(filters(max_leaves=4, sql=True), filters(max_leaves=4, sql=True), events())
def test_an_event_in_both_is_an_overlap(one, two, event):
    if matches(one, event) and matches(two, event):
        assert overlaps(one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Between("x", 5, 8), And((Between("x", 4, 7), Between("x", 6, 9)))),
        (Compare("value", "<", 10), Compare("value", "<", 7)),
        (Exists("x"), Compare("x", "!=", 3)),
        (Not(Compare("x", "<", 5)), Not(Exists("x"))),
        (Not(Compare("x", "<", 5)), Compare("x", "==", "text")),
        (In("x", (1, 2, 3)), Or((Compare("x", "==", 1.0), Between("x", 3, 3)))),
        (Or((Compare("x", "<", 5), Compare("x", ">", 3))), Compare("x", "!=", 9)),
        (Or((And((Compare("x", "<", 5), Exists("y"))), Compare("x", ">=", 5))), And((Between("x", 0, 9), Exists("y")))),
        (Text("x", "prefix", "a"), Text("x", "prefix", "ab")),
        (Text("x", "prefix", "a"), In("x", ("ab", "a"))),
        (Text("x", "contains", "b"), Text("x", "prefix", "abc")),
        (Text("x", "contains", "b"), Text("x", "suffix", "abc")),
        (Text("x", "contains", "b"), Text("x", "contains", "abc")),
        (Text("x", "contains", "b"), Text("x", "like", "a*xbx*c")),
        (Text("x", "suffix", "c"), Text("x", "like", "a*bc")),
        (Text("x", "prefix", "a"), Text("x", "like", "ab*c")),
        (Text("x", "suffix", "BC", True), Text("x", "suffix", "abc")),
        (Text("x", "prefix", "A", True), Text("x", "prefix", "ab")),
        (Text("x", "contains", "SS", True), Text("x", "suffix", "ß")),
        (Regex("x", "[ab]+"), In("x", ("ab", "ba"))),
        (Regex("x", "[ab]+"), And((Regex("x", "[ab]+"), Compare("y", "==", 1)))),
        (Similar("x", "Abc", 0.5), Similar("x", "abc", 0.7)),
        (Similar("x", "abc", 0.5), Compare("x", "==", "abd")),
        (Exists("x"), Regex("x", "a|b")),
        (Not(Text("x", "suffix", "b")), Compare("x", "==", 5)),
        (Not(Text("x", "suffix", "b")), Text("x", "suffix", "a")),
        (Not(Text("x", "suffix", "ab")), Not(Text("x", "suffix", "b"))),
        (Or((Text("x", "suffix", "b"), Not(Text("x", "suffix", "b")))), Exists("y")),
        (Sql("a = 1"), And((Sql("a = 1"), Exists("b")))),
        (TRUE, FALSE),
    ],
)
def test_covers(one, two):
    assert covers(one, two)
    assert not covers(And((one, Compare("other", "==", 1))), two) or satisfiable(two) is False


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (And((Between("x", 4, 7), Between("x", 6, 9))), Between("x", 5, 8)),
        (Compare("x", "<", 5), Not(Compare("x", ">=", 5))),
        (Compare("x", "!=", 5), Exists("x")),
        (Text("x", "suffix", "abc"), Text("x", "suffix", "c")),
        (Text("x", "suffix", "abc"), Text("x", "suffix", "ABC", True)),
        (Regex("x", "[ab]+"), In("x", ("ab", "c"))),
        (Similar("x", "abc", 0.9), Similar("x", "abc", 0.7)),
        (Sql("a = 1"), Sql("a = 2")),
        (Compare("x", "==", True), Compare("x", "==", 1)),
    ],
)
def test_does_not_cover(one, two):
    assert not covers(one, two)


@pytest.mark.parametrize(
    ("filter", "answer"),
    [
        (And((Compare("x", ">", 1), Compare("x", "<", 2))), True),
        (And((Compare("x", ">", 1), Compare("x", "<", 1.0000000000000002))), False),
        (And((Compare("x", ">", 2**53), Compare("x", "<", 2**53 + 1))), False),
        (And((Compare("x", ">", "a"), Compare("x", "<", "a\0"))), False),
        (And((Compare("x", "==", 1), Compare("x", "==", True))), False),
        (And((Exists("x"), Not(Exists("x")))), False),
        (And((Text("x", "suffix", "b"), Text("x", "prefix", "a"), Text("x", "contains", "q"))), True),
        (And((Text("x", "suffix", "b"), Compare("x", "<", 5))), False),
        (And((Text("x", "suffix", "b"), Not(Text("x", "contains", "b")))), False),
        (And((Text("x", "like", "a?c*", True), Not(Regex("x", "abc")))), True),
        (Not(Text("x", "suffix", "b")), True),
        (And((Exists("x"), Not(Similar("x", "abc", 0.1)))), True),
        (And((Similar("x", "abc", 0.9), Not(Compare("x", "==", "zz")))), True),
        (And((Regex("x", "[a-c]{3}"), Regex("x", "[x-z]{3}"))), None),
        (Sql("a = 1"), None),
        (Or((Sql("a = 1"), Exists("x"))), True),
    ],
)
def test_satisfiable(filter, answer):
    assert satisfiable(filter) is answer


def test_an_array_may_match_filters_that_share_no_value():
    one, two = Compare("x", "<", 5), Compare("x", ">=", 5)
    both = Event("e", attributes={"x": (1, 9)})
    assert matches(one, both)
    assert matches(two, both)
    assert overlaps(one, two)
    assert not matches(And((one, two)), both)
    assert satisfiable(And((one, two))) is False
    assert overlaps(Text("x", "prefix", "a"), Text("x", "prefix", "b"))
    assert overlaps(one, Compare("y", ">=", 5))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Compare("type", "==", "a"), Compare("type", "==", "b")),
        (Text("type", "prefix", "a"), Text("type", "prefix", "b")),
        (Text("source", "suffix", "a"), Text("source", "suffix", "b")),
        (And((Compare("time", "<", NOON), Exists("x"))), And((Compare("time", ">=", NOON), Exists("x")))),
        (Sql("LENGTH(id) = 3"), Not(Sql("LENGTH(id) = 3"))),
        (Exists("x"), Not(Exists("x"))),
        (Text("x", "suffix", "a"), Not(Exists("x"))),
        (And((Compare("x", "<", 5), Compare("x", ">", 5))), TRUE),
        (And(tuple(Or((Compare(f"a{i}", "<", i), Exists(f"b{i}"))) for i in range(40))), FALSE),
    ],
)
def test_disjoint_filters_do_not_overlap(one, two):
    assert not overlaps(one, two)
    assert not overlaps(two, one)


def test_opaque_predicates_about_an_array_do_not_exclude_each_other():
    assert overlaps(Text("x", "suffix", "a"), Text("x", "suffix", "b"))
    assert overlaps(Sql("LENGTH(x) = 3"), And((Exists("x"), Not(Sql("LENGTH(x) = 3")))))
    many = [And((Compare("x", "==", i), Compare(f"y{i}", "<", i))) for i in range(200)]
    assert overlaps(Or(tuple(many)), Or(tuple(many[:100])))


def test_equivalent_looks_beyond_the_key():
    assert equivalent(Between("x", 5, 5), Compare("x", "==", 5.0))
    ends = And((Text("x", "suffix", "b"), Compare("x", "!=", "c")))
    same = And((Text("x", "suffix", "b"), Compare("x", "!=", "d")))
    assert filter_key(ends) != filter_key(same)
    assert equivalent(ends, same)
    assert not equivalent(ends, Text("x", "suffix", "bb"))


def _pairs(count, op="<"):
    return tuple(Or((Compare(f"a{i}", op, i), Compare(f"b{i}", ">", i))) for i in range(count))


def test_a_filter_that_is_too_large_is_compared_by_its_parts():
    large = And(_pairs(40))
    assert covers(large, And((*reversed(_pairs(40)), Exists("z"))))
    assert covers(And(_pairs(20)), large)
    assert covers(Or((Exists("a3"), Exists("b3"))), large)
    assert covers(large, And(tuple(Compare(f"a{i}", "<", i - 1) for i in range(40))))
    assert not covers(large, And(_pairs(39)))
    assert not covers(FALSE, large)
    assert satisfiable(large) is None
    assert overlaps(large, Exists("q"))


def test_many_alternatives_are_no_difficulty():
    many = Or(tuple(And((Compare("x", "==", i), Compare(f"y{i}", "<", i))) for i in range(100)))
    assert covers(many, Or(many.parts[20:60]))
    assert not covers(Or(many.parts[20:60]), many)


def test_cutting_a_term_into_pieces_has_a_budget():
    cells = Or(tuple(And(tuple(Compare(f"x{k}", ">" if i >> k & 1 else "<=", k) for k in range(5))) for i in range(32)))
    (space,) = terms_of(And(tuple(Compare(f"x{k}", "!=", 1000) for k in range(5))))
    union = [term for part in cells.parts for term in terms_of(part)]
    assert is_covered(space, union)
    assert not is_covered(space, union, budget=3)
