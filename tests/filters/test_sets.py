"""Value sets: the next value of each kind, and the algebra of sets against membership one by one."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import ALWAYS, NUMBERS, STRINGS, TIMES, Maker, Universe
from recado.filters.evaluate import holds
from recado.filters.normal import set_filter, set_key
from recado.filters.sets import (
    EMPTY,
    FULL,
    MAX_TIME,
    PRESENT,
    after_prefix,
    complement,
    contains,
    join,
    meet,
    next_cut,
    next_number,
    of_compare,
    of_prefix,
    of_values,
    points,
    previous_number,
    within,
)
from recado.filters.terms import atom
from recado.model.filter import Compare, Not
from recado.model.values import INT_MAX, INT_MIN, Kind

numbers = st.one_of(st.integers(INT_MIN, INT_MAX), st.floats(allow_nan=False), st.sampled_from(NUMBERS))


@given(numbers)
def test_no_number_lies_between_neighbours(value):
    above = next_number(value)
    if above is None:
        assert value == math.inf
        return
    assert above > value
    assert previous_number(above) == value
    floats = [float(value), math.nextafter(float(value), math.inf), math.nextafter(float(value), -math.inf)]
    whole = (
        [n for n in (math.floor(value) + 1, math.floor(value)) if INT_MIN <= n <= INT_MAX] if abs(value) < 1e300 else []
    )
    assert not any(value < other < above for other in [*floats, *whole])


@pytest.mark.parametrize(
    ("value", "above"),
    [
        (5, 5.000000000000001),
        (0, 5e-324),
        (2**53, 2**53 + 1),
        (2**53 + 1, 2**53 + 2),
        (INT_MAX, float(2**64)),
        (float(2**64), math.nextafter(2.0**64, math.inf)),
        (-math.inf, -1.7976931348623157e308),
        (1.7976931348623157e308, math.inf),
        (math.inf, None),
    ],
)
def test_next_number(value, above):
    assert next_number(value) == above


@pytest.mark.parametrize("huge", [2**64, 2**64 + 1, -(2**63) - 1, 10**400, -(10**400)])
def test_integers_beyond_64_bits_still_divide_the_numbers(huge):
    less, more = of_compare("<", huge), of_compare(">", huge)
    for number in [*NUMBERS, -math.inf, 1.7976931348623157e308]:
        assert contains(less, number) == (number < huge)
        assert contains(more, number) == (number > huge)
        assert contains(of_compare("==", huge), number) == (number == huge)


def test_instants_outside_the_calendar_still_divide_it():
    late = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
    assert of_compare("<", late) == of_compare(">", early) == of_compare(">=", datetime.min.replace(tzinfo=UTC))
    assert of_compare("==", late) == of_compare(">=", late) == of_compare("<=", early) == EMPTY
    assert next_cut(Kind.TIME, MAX_TIME) is None


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("ab", "ac"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("", None), ("\ud7ff", "\ue000"), ("a\0", "a\1")],
)
def test_after_prefix(prefix, end):
    assert after_prefix(prefix) == end


@given(st.text(max_size=4), st.text(max_size=4))
def test_a_prefix_is_a_range_of_strings(prefix, rest):
    assert contains(of_prefix(prefix), prefix + rest)
    assert contains(of_prefix(prefix), rest) == rest.startswith(prefix)


def test_neighbouring_values_become_one_range():
    assert of_values(["a", "a\0", "a"]) == meet(of_compare(">=", "a"), of_compare("<", "a\0\0"))
    assert of_values([2**53, 2**53 + 1]).numbers == (2**53, 2**53 + 2)
    assert of_values([math.inf, math.inf]) == of_compare("==", math.inf)
    assert points(Kind.STRING, of_values(["b", "a"]).strings) == ["a", "b"]
    assert points(Kind.NUMBER, of_compare(">", 1).numbers) is None


def test_nan_is_in_no_comparison_and_kinds_do_not_mix():
    assert of_compare("==", math.nan) == of_values([math.nan]) == EMPTY
    assert not contains(of_compare("!=", 5), math.nan)
    assert contains(PRESENT, math.nan)
    assert not contains(of_compare("!=", 1), True)
    assert not contains(of_compare("<", True), False)
    assert contains(complement(of_compare("<", 5)), None)
    assert of_compare("==", 1) == of_compare("==", 1.0) != of_compare("==", True)


@pytest.mark.parametrize("seed", range(3))
def test_a_predicate_and_its_set_agree_on_every_state(seed):
    maker = Maker(seed)
    for _ in range(300):
        predicate = maker.simple()
        values = atom(predicate)[1]
        for state in Universe(predicate).states[predicate.name]:
            assert contains(values, state) == (state is not None and holds(predicate, state)), (predicate, state)


@pytest.mark.parametrize("seed", range(3))
def test_the_algebra_of_sets_is_that_of_membership(seed):
    maker = Maker(seed, names="a")
    for _ in range(300):
        one, two = atom(maker.simple())[1], atom(maker.simple())[1]
        for state in [*ALWAYS, *NUMBERS, *STRINGS, *TIMES]:
            here, there = contains(one, state), contains(two, state)
            assert contains(meet(one, two), state) == (here and there)
            assert contains(join(one, two), state) == (here or there)
            assert contains(complement(one), state) != here
        assert complement(complement(one)) == one
        assert within(meet(one, two), one)
        assert within(one, join(one, two))
        assert within(one, two) == (meet(one, complement(two)) == EMPTY)


@pytest.mark.parametrize("seed", range(3))
def test_a_set_is_written_as_a_filter_that_means_it(seed):
    maker = Maker(seed, names="a")
    keys = {}
    for _ in range(300):
        filter = maker.tree(depth=3)
        universe = Universe(filter, Compare("a", "==", 0))
        values = _whole_set(filter)
        if values in (EMPTY, FULL):
            continue
        again = set_filter("a", values)
        assert universe.mask(again) == universe.mask(filter), (filter, again)
        assert keys.setdefault(set_key(values), values) == values


def _whole_set(filter):
    """The set of one attribute's states that a tree over it accepts, built by set operations alone."""
    match filter:
        case Not(part):
            return complement(_whole_set(part))
    if hasattr(filter, "parts"):
        conjunction = type(filter).__name__ == "And"
        out = FULL if conjunction else EMPTY
        for part in filter.parts:
            out = meet(out, _whole_set(part)) if conjunction else join(out, _whole_set(part))
        return out
    if hasattr(filter, "value") and not hasattr(filter, "name"):
        return FULL if filter.value else EMPTY
    return atom(filter)[1]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (of_compare("==", "a"), '="a"'),
        (of_compare("==", 1.0), "=1"),
        (of_compare(">", 5), "(5;)"),
        (of_compare(">=", 5.000000000000001), "(5;)"),
        (of_compare("<=", 0.3), "(;0.3]"),
        (of_compare("!=", 5), "(;5)(5;)"),
        (of_compare(">=", "a\0"), '("a";)'),
        (of_compare(">", datetime(1970, 1, 1, tzinfo=UTC)), "(@0;)"),
        (of_values(["x", 2, 1, True, False]), '="x",1,2,false,true'),
        (of_prefix("ab"), '["ab";"ac")'),
        (PRESENT, "*"),
        (complement(PRESENT), "!*"),
        (complement(of_compare("<", 5)), "!(;5)"),
        (of_compare(">=", ""), "STRING*"),
        (meet(PRESENT, complement(of_compare("<=", math.inf))), "?=false,trueSTRING*TIME*"),
    ],
)
def test_set_keys(values, key):
    assert set_key(values) == key
