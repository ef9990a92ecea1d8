"""Every engine gives what the oracle gives: random filters, events and update sequences."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from recado.filters.evaluate import matches
from recado.matching import index as snapshot
from recado.matching.batch import match_batch, match_events
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.subscription import Subscription
from strategies import events, filters

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

TYPES = ["", "", "a", "b*", "*", "?"]
many_filters = st.lists(filters(max_leaves=8, sql=True), min_size=1, max_size=30)
many_events = st.lists(events(), min_size=1, max_size=12)
some_ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
relaxed = [HealthCheck.too_slow, HealthCheck.data_too_large]


def indexed(some_filters) -> tuple[Index, NaiveMatcher]:
    index, naive = Index(), NaiveMatcher()
    for number, filter in enumerate(some_filters):
        subscription = Subscription(f"s{number}", filter, type=TYPES[number % len(TYPES)])
        index.add(subscription)
        naive.add(subscription)
    return index, naive


def batch_results(index: Index, pairs) -> list[list[str]]:
    ids = pairs.ids(index).to_pylist()
    return [sorted(ids[start:end]) for start, end in zip(pairs.offsets, pairs.offsets[1:], strict=False)]


def check_all_engines(some_filters, some_events) -> None:
    index, naive = indexed(some_filters)
    expected = [naive.match(event) for event in some_events]
    assert [index.match(event) for event in some_events] == expected
    assert batch_results(index, match_events(index, some_events)) == expected
    index.store.optimize()
    assert [index.match(event) for event in some_events] == expected
    assert batch_results(index, match_events(index, some_events)) == expected


@given(many_filters, many_events)
@settings(max_examples=200, deadline=None, suppress_health_check=relaxed)
def test_every_engine_equals_the_oracle(some_filters, some_events):
    check_all_engines(some_filters, some_events)


@pytest.mark.long
@given(many_filters, many_events)
@settings(max_examples=6_000, deadline=None, suppress_health_check=relaxed)
def test_every_engine_equals_the_oracle_a_million_times(some_filters, some_events):
    check_all_engines(some_filters, some_events)


@given(filters(max_leaves=12, sql=True), st.lists(events(), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None, suppress_health_check=relaxed)
def test_one_deep_filter(filter, some_events):
    index = Index()
    index.add(Subscription("s", filter))
    for event in some_events:
        assert index.match(event) == (["s"] if matches(filter, event) else [])


@given(many_filters, st.lists(events(nan=False), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None, suppress_health_check=relaxed)
def test_a_json_column(some_filters, some_events):
    index, naive = indexed(some_filters)
    batch = pa.RecordBatch.from_pydict({"event": [write_flat(event).decode() for event in some_events]})
    expected = [naive.match(event) for event in some_events]
    assert batch_results(index, match_batch(index, batch, json_column="event")) == expected


class Updates(RuleBasedStateMachine):
    """Add, replace, remove, optimise, save and load in any order; match at every step."""

    ids = Bundle("ids")

    @initialize()
    def start(self):
        self.index, self.naive = Index(), NaiveMatcher()

    @rule(target=ids, id=some_ids, filter=filters(max_leaves=5), type=st.sampled_from(TYPES))
    def add(self, id, filter, type):
        subscription = Subscription(id, filter, type=type)
        self.index.add(subscription)
        self.naive.add(subscription)
        return id

    @rule(id=ids, filter=filters(max_leaves=5))
    def replace(self, id, filter):
        self.add(id, filter, "")

    @rule(id=consumes(ids))
    def remove(self, id):
        assert self.index.remove(id) == self.naive.remove(id)
        assert id not in self.index

    @rule()
    def optimize(self):
        self.index.store.optimize()

    @rule()
    def save_and_load(self):
        self.index = snapshot.from_bytes(snapshot.to_bytes(self.index))

    @rule(some_events=st.lists(events(), min_size=1, max_size=5))
    def match(self, some_events):
        expected = [self.naive.match(event) for event in some_events]
        assert [self.index.match(event) for event in some_events] == expected
        assert batch_results(self.index, match_events(self.index, some_events)) == expected

    @invariant()
    def sizes_agree(self):
        if hasattr(self, "index"):
            assert len(self.index) == len(self.naive)


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=relaxed)


@pytest.mark.long
class TestManyUpdates(Updates.TestCase):
    settings = settings(max_examples=1_500, stateful_step_count=60, deadline=None, suppress_health_check=relaxed)


def test_an_empty_index_matches_nothing():
    index = Index()
    assert index.match(Event("e", attributes={"x": 1})) == []
    assert batch_results(index, match_batch(index, pa.RecordBatch.from_pydict({"x": [1, 2]}))) == [[], []]
    assert len(match_batch(index, pa.RecordBatch.from_pydict({"x": pa.array([], pa.int64())}))) == 0
