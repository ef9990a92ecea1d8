"""Covering and joining against the plain way: every pair, asked of the algebra itself."""

from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from recado.filters.covering import covers, merge
from recado.filters.expression import format_expression, parse
from recado.filters.normal import filter_key
from recado.model.filter import FALSE, And, Between, Compare, In, Or
from recado.pipeline.report.redundancy import places
from recado.pipeline.report.shape import ANY_TYPE, Sampled, event_type, hides, shape_of


def close_filters():
    """Filters that have much to do with each other: few attributes, few values, some unions."""
    few = st.integers(0, 3)
    predicate = st.one_of(
        st.builds(Compare, st.sampled_from("ab"), st.sampled_from(["<", ">=", "==", "!="]), few),
        st.builds(lambda name, low, more: Between(name, low, low + more), st.sampled_from("abc"), few, few),
        st.builds(lambda name, values: In(name, tuple(values)), st.sampled_from("abc"), st.sets(few, min_size=1)),
        st.builds(Compare, st.just("s"), st.just("=="), st.sampled_from(["x", "y"])),
    )
    conjunction = st.lists(predicate, min_size=1, max_size=3).map(lambda parts: And(tuple(parts)))
    union = st.lists(conjunction, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts)))
    return st.one_of(conjunction, conjunction, conjunction, union, strategies.filters(max_leaves=4, sql=True))


def sets(max_size=14):
    return st.lists(close_filters() | st.just(FALSE), min_size=1, max_size=max_size)


def shapes_of(filters):
    distinct = {filter_key(filter): format_expression(filter) for filter in filters}
    return [shape_of(key, text) for key, text in sorted(distinct.items())]


def plainly_hides(shape, other):
    """Of filters that cover each other, the one with the least key stays."""
    if shape.key == other.key or not covers(shape.filter, other.filter):
        return False
    return shape.key < other.key or not covers(other.filter, shape.filter)


def plainly_joined(shape, other):
    apart = not covers(shape.filter, other.filter) and not covers(other.filter, shape.filter)
    return apart and merge(shape.filter, other.filter) is not None


@given(sets())
def test_every_covering_filter_is_found(filters):
    shapes = shapes_of(filters)
    sample = Sampled(shapes, [""] * len(shapes))
    for shape in shapes:
        sample.meet(shape, "")
    expected = [sum(plainly_hides(shape, other) for shape in shapes) for other in shapes]
    assert sample.coverers.tolist() == expected


@given(sets(10))
@settings(max_examples=100)
def test_every_join_is_found(filters):
    shapes = shapes_of(filters)
    sample = Sampled(shapes, [""] * len(shapes))
    for shape in shapes:
        sample.meet(shape, "")
    found = [bool(flag) or place.joined for flag, place in zip(sample.joined, places(shapes), strict=True)]
    assert found == [any(plainly_joined(shape, other) for other in shapes if other is not shape) for shape in shapes]


@given(sets())
@settings(max_examples=100)
def test_levels_are_the_longest_chains(filters):
    shapes = [shape for shape in shapes_of(filters) if shape.box is not None]
    found = [place.level for place in places(shapes)]

    def longest(shape):
        return 1 + max((longest(other) for other in shapes if plainly_hides(other, shape)), default=0)

    assert found == [longest(shape) for shape in shapes]


def test_joins_stay_within_a_type():
    shapes = shapes_of(
        [parse("type == 'a' and x == 1"), parse("type == 'b' and x == 1"), parse("type == 'b' and x == 2")]
    )
    sample = Sampled(shapes, ["a", "b", "b"])
    for shape, type in zip(shapes, ("a", "b", "b"), strict=True):
        sample.meet(shape, type)
    assert sample.joined.tolist() == [False, True, True]


@given(close_filters(), close_filters())
def test_hiding_is_covering_with_ties_settled(one, two):
    shape, other = shape_of(filter_key(one), format_expression(one)), shape_of(filter_key(two), format_expression(two))
    assert hides(shape, other) == plainly_hides(shape, other)
    assert not (hides(shape, other) and hides(other, shape))


def test_the_type_of_a_filter():
    assert event_type(parse("type == 'a' and x < 3"), "") == "a"
    assert event_type(parse("type like 'a*' and type == 'abc'"), "a*") == "abc"
    assert event_type(parse("(type == 'a' and x < 3) or (type == 'a' and y > 2)"), "") == "a"
    assert event_type(parse("type in {'a', 'b'}"), "") == ANY_TYPE
    assert event_type(parse("type == 'a' or x == 1"), "") == ANY_TYPE
    assert event_type(parse("type like 'a*'"), "a*") == "a*"
    assert event_type(parse("type == true"), "") == ANY_TYPE
