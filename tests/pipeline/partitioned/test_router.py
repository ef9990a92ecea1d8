"""The router reaches every partition that can match, and each once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.partitioned.local import LocalSet
from recado.filters.evaluate import matches
from recado.filters.expression import format_expression, parse
from recado.matching.batch import match_events
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import TRUE
from recado.model.subscription import Subscription
from recado.pipeline.partitioned.plan import Router, accesses, key_filter, make_router, tell
from strategies import events, filters


def keys_of(*texts):
    return {key for text in texts for key in accesses(Subscription("s", parse(text)))[-1]}


def told(most, *texts):
    return sorted(map(format_expression, tell(keys_of(*texts), most)))


def test_few_keys_are_told_as_they_are():
    assert told(10, "x == 1", "x == 7", "x == 1") == ["x == 1", "x == 7"]


def test_many_numbers_become_ranges():
    assert told(2, *(f"x == {number}" for number in range(10))) == ["x between 0 and 4", "x between 5 and 9"]


def test_many_cells_become_wider_ones():
    assert told(1, "x between 0 and 1", "x between 100 and 101") == ["x between 0.0 and 104.0"]


def test_many_strings_become_their_beginnings():
    symbols = [f'x == "{letter}{number}"' for letter in "ab" for number in range(10)]
    assert told(2, *symbols) == ['x startswith "a"', 'x startswith "b"']
    assert told(1, *symbols) == ["exists x"]
    assert told(1, 'x == ""', 'x == "a"') == ["exists x"]


def test_every_dimension_is_told_of():
    assert told(1, "x == 1", "y == 1", 'z == "a"') == ["x == 1", "y == 1", 'z == "a"']


@settings(max_examples=150)
@given(st.lists(filters(max_leaves=4), min_size=1, max_size=12), st.integers(1, 6), st.lists(events(), max_size=4))
def test_what_is_told_covers_every_key(some, most, asked):
    keys = {key for filter in some for access in accesses(Subscription("s", filter)) for key in access}
    wider = tell(keys, most)
    for event in asked:
        if any(matches(key_filter(key), event) for key in keys):
            assert any(matches(filter, event) for filter in wider)


def test_each_visit_is_made_once():
    index = make_router({0: [parse("x == 1"), parse("exists x")], 3: [parse("x > 0")], 7: [TRUE]}, [])
    pairs = match_events(index, [Event("a", attributes={"x": 1}), Event("b"), Event("c", attributes={"x": (1, 2)})])
    rows, partitions = Router(index).visits(pairs)
    assert list(zip(rows.tolist(), partitions.tolist(), strict=True)) == [
        (0, 0), (0, 3), (0, 7), (1, 7), (2, 0), (2, 3), (2, 7),
    ]  # fmt: skip


def test_a_router_knows_the_names_and_still_matches_nothing_by_them():
    names = [f"n{number}" for number in range(300)]
    index = make_router({}, names)
    assert set(names) <= set(index.dictionary.names)
    rows, partitions = Router(index).visits(match_events(index, [Event("a", attributes=dict.fromkeys(names, 1))]))
    assert len(rows) == len(partitions) == 0
    assert rows.dtype == np.int64


@settings(max_examples=60)
@given(
    st.lists(st.tuples(filters(sql=True), st.sampled_from(["", "", "a", "b", "a*"])), max_size=25),
    st.lists(events(), max_size=6),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([1, 3, 1000]),
)
def test_partitions_together_give_what_the_naive_matcher_gives(some, asked, partitions, step, most_keys):
    subscriptions = [Subscription(f"s{n}", filter, type) for n, (filter, type) in enumerate(some)]
    naive = NaiveMatcher()
    for subscription in subscriptions:
        naive.add(subscription)
    expected = sorted((row, id) for row, event in enumerate(asked) for id in naive.match(event))
    assert LocalSet(subscriptions, partitions, most_keys, step).match(asked) == expected
