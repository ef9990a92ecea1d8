"""Routing keys are necessary conditions: whatever event matches a filter meets a key of each access."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.filters.covering import covers
from recado.filters.evaluate import matches
from recado.filters.expression import format_expression, parse
from recado.model.event import Event
from recado.model.filter import Or
from recado.model.subscription import Subscription
from recado.pipeline.partitioned.plan import ALWAYS, MOST_KEYS, accesses, key_filter
from strategies import events, filters, simple_conjunctions


def keys_of(text, type=""):
    """Each access as texts of its keys."""
    return [
        [format_expression(key_filter(key)) for key in access]
        for access in accesses(Subscription("s", parse(text), type))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('symbol == "ACME"', [['symbol == "ACME"']]),
        ("x == 2.0", [["x == 2"]]),
        ("x == true", [["x == true"]]),
        ("x in {1, 1.0, 2}", [["x == 1", "x == 2"]]),
        ("x in {}", [[]]),
        ("x between 10 and 15", [["x between 8.0 and 24.0"]]),
        ("x > 10 and x <= 15", [["x between 8.0 and 24.0"]]),
        ("x between 7 and 7", [["x == 7"]]),
        ("x > 10", [["exists x"]]),
        ("x between -infinity and 5", [["exists x"]]),
        ('x startswith "abc"', [['x startswith "abc"']]),
        ('x startswith "abcdefghij"', [['x startswith "abcdefgh"']]),
        ('x startswith ""', [["exists x"]]),
        ('x startswith i"abc"', [["exists x"]]),
        ('x like "ab*"', [['x startswith "ab"']]),
        ('x like "*b"', [["exists x"]]),
        ('x between "abc" and "abz"', [['x startswith "ab"']]),
        ('x between "a" and "z"', [["exists x"]]),
        ('x contains "b" and y == 1', [["exists x"], ["y == 1"]]),
        ("x == 1 or y == 2", [["x == 1", "y == 2"]]),
        ("x == 1 or not y == 2", [["true"]]),
        ("(x == 1 or not y == 2) and z == 3", [["z == 3"]]),
        ("not x == 1", [["true"]]),
        ("not not x == 1", [["x == 1"]]),
        ("true", [["true"]]),
        ("x == 1 and false", [[]]),
    ],
)
def test_reads_keys_off_the_shape_of_a_filter(text, expected):
    assert keys_of(text) == expected


def test_joins_an_exact_event_type_with_every_key():
    assert keys_of("x == 1 or y == 2", "trade") == [
        ['type == "trade"'],
        ['type == "trade" and x == 1', 'type == "trade" and y == 2'],
    ]
    assert keys_of('type == "trade" and x == 1') == [['type == "trade"'], ['type == "trade" and x == 1']]


def test_a_pattern_of_types_gives_its_beginning():
    assert keys_of("x == 1", "stock.*") == [['type startswith "stock."'], ["x == 1"]]


def test_large_sets_and_disjunctions_are_not_followed_value_by_value():
    many = ", ".join(map(str, range(MOST_KEYS + 1)))
    assert keys_of(f"x in {{{many}}}") == [["exists x"]]
    alternatives = " or ".join(f"x == {number}" for number in range(MOST_KEYS + 1))
    assert keys_of(alternatives) == [["true"]]


def test_cells_of_instants_hold_the_range():
    first, last = datetime(2026, 3, 1, 10, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC)
    held = accesses(Subscription("s", parse('time between t"2026-03-01T10:00:00Z" and t"2026-03-01T12:00:00Z"')))
    (cell,) = held[-1]
    assert cell.low <= first < last <= cell.high
    assert (cell.high - cell.low) <= 4 * (last - first)


def test_ranges_at_the_edge_of_time_and_of_numbers_fall_back_to_presence():
    assert keys_of('time between t"0001-01-01T00:00:00Z" and t"9999-12-31T23:59:59Z"') == [["exists time"]]
    assert keys_of("x between -1e308 and 1.5e308") == [["exists x"]]


@settings(max_examples=300)
@given(filters(sql=True), st.lists(events(), min_size=3, max_size=3), st.sampled_from(["", "a", "a*", "*"]))
def test_an_event_that_matches_meets_a_key_of_every_access(filter, some, event_type):
    subscription = Subscription("s", filter, event_type)
    offered = accesses(subscription)
    assert offered
    for event in some:
        if matches(subscription.whole_filter(), event):
            for access in offered:
                assert any(matches(key_filter(key), event) for key in access)


@settings(max_examples=150)
@given(simple_conjunctions())
def test_every_access_covers_its_filter(filter):
    for access in accesses(Subscription("s", filter)):
        assert covers(Or(tuple(map(key_filter, access))), filter)


def test_an_array_is_found_by_any_of_its_elements():
    (access,) = accesses(Subscription("s", parse('tag == "b"')))
    assert matches(key_filter(access[0]), Event("e", attributes={"tag": ("a", "b")}))


def test_the_key_of_everything_is_true_of_an_empty_event():
    assert matches(key_filter(ALWAYS), Event("e"))
