"""Generators: the same seed gives the same workload, and the statistics are the stated ones."""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.baselines.bitset import NumpyBitset
from benchmarks.workloads import CHUNK, Boolean, Mix, Ranges, Sensor, Stock, TextMatch, Wide, growth, to_events
from benchmarks.workloads.mix import DOMAIN, INTEGERS, STRINGS, attribute_names, mean_product
from benchmarks.workloads.ranges import PUBLICATIONS
from benchmarks.workloads.stock import symbol_names
from recado.filters.evaluate import walk
from recado.matching.naive import NaiveMatcher
from recado.model.filter import And, Between, Compare, In, Not, Or, Text

ALL = [Sensor, Stock, Mix, Ranges, Wide, TextMatch, Boolean]


def matches_per_event(workload, events, size=None):
    bitset = NumpyBitset()
    bitset.build(workload.subscriptions(0, size or workload.size))
    found, _ = bitset.match_batch(workload.events(events))
    return np.bincount(found, minlength=events)


@pytest.mark.parametrize("kind", ALL)
def test_a_seed_fixes_everything(kind):
    one, same, other = kind(size=300), kind(size=300), kind(size=300, seed=2)
    assert list(one.subscriptions()) == list(same.subscriptions()) != list(other.subscriptions())
    assert one.events(40).equals(same.events(40))
    assert not one.events(40).equals(other.events(40))


@pytest.mark.parametrize("kind", ALL)
def test_subscriptions_do_not_depend_on_the_size_or_on_where_one_starts(kind):
    first = list(kind(size=50).subscriptions())
    assert first == list(kind(size=90).subscriptions(0, 50))
    assert first[20:30] == list(kind(size=90).subscriptions(20, 10))
    assert [s.id for s in first[:2]] == ["s0", "s1"]


def test_subscriptions_go_on_across_chunks():
    workload = Sensor(size=CHUNK + 5)
    ids = [subscription.id for subscription in workload.subscriptions()]
    assert len(set(ids)) == len(ids) == CHUNK + 5
    assert [s.id for s in workload.subscriptions(CHUNK - 1, 2)] == ids[CHUNK - 1 : CHUNK + 1]


@pytest.mark.parametrize("kind", ALL)
def test_both_forms_of_the_events_hold_the_same(kind):
    batch = kind(size=10).events(30)
    events = to_events(batch)
    assert len(events) == len({event.id for event in events}) == len(batch) == 30
    for name in batch.schema.names:
        assert [event.attributes.get(name) for event in events] == batch.column(name).to_pylist()


def test_sensor_matches_as_the_arithmetic_of_its_ranges_says():
    workload = Sensor(size=10_000)
    shares = np.sort(matches_per_event(workload, PUBLICATIONS)) / workload.size
    assert shares.mean() == pytest.approx((4 / 9) ** 4, rel=1e-9)  # each range covers 4 of 9 values, whatever it is
    assert shares.mean() == pytest.approx(0.03902, abs=1e-5)
    assert shares[-1] == pytest.approx(0.523, abs=0.02)
    assert np.median(shares) == pytest.approx(0.0173, rel=0.1)
    assert np.quantile(shares, 0.9) == pytest.approx(0.106, rel=0.05)
    assert shares[-PUBLICATIONS // 10 :].sum() / shares.sum() == pytest.approx(0.445, abs=0.01)


def test_sensor_events_are_all_publications():
    batch = Sensor(size=1).events()
    rows = {tuple(row.values()) for row in batch.to_pylist()}
    assert len(rows) == PUBLICATIONS == 6_561
    assert {value for row in rows for value in row} == set(range(1, 10))


def test_ranges_match_as_five_times_three_in_ten_say():
    workload = Ranges(size=20_000)
    assert matches_per_event(workload, 300).mean() / workload.size == pytest.approx(0.3**5, rel=0.15)
    for subscription in workload.subscriptions(0, 50):
        parts = subscription.filter.parts
        assert {type(part) for part in parts} == {Between}
        assert len({part.name for part in parts}) == len(parts) == 5
        assert {part.high - part.low for part in parts} == {2_999}


def test_mix_matches_seven_of_ten_thousand():
    word = (0.01 + 0.05) / 2  # an equality or a set of five, of a hundred values
    integer = 0.7 * (0.01 + 0.20) / 2 + 0.15 * 0.0001 + 0.15 * 0.0005
    share = sum(mean_product(word, integer, size) for size in (2, 3, 4, 5)) / 4
    assert share == pytest.approx(7e-4, rel=0.01)
    assert matches_per_event(Mix(size=10_000), 2_000).mean() == pytest.approx(7, rel=0.08)


def test_mix_subscriptions_are_as_described():
    filters = [subscription.filter for subscription in Mix(size=3_000).subscriptions()]
    assert {len(filter.parts) for filter in filters} == {2, 3, 4, 5}
    for filter in filters:
        names = [part.name for part in filter.parts]
        assert len(set(names)) == len(names)
        for part in filter.parts:
            match part:
                case Between(name, low, high):
                    assert name in INTEGERS
                    assert 0.01 <= (high - low + 1) / DOMAIN <= 0.20
                    assert 0 <= low <= high < DOMAIN
                case In(_, values):
                    assert len(set(values)) == 5
                case Compare(name, op, value):
                    assert op == "=="
                    assert isinstance(value, str) == (name in STRINGS)


def test_stock_symbols_follow_zipf():
    column = Stock(size=1).events(20_000).column("Symbol")
    counts = pa.compute.value_counts(column).to_pylist()
    top = max(count["counts"] for count in counts)
    assert top / 20_000 == pytest.approx(1 / 9.095, rel=0.1)  # the harmonic number of 5,000
    assert len(set(symbol_names(5_000))) == 5_000


def test_growth_keeps_matches_equal():
    small, large = (matches_per_event(growth(size), 3_000).mean() for size in (1_000, 5_000))
    assert small == pytest.approx(large, rel=0.2)


@pytest.mark.parametrize(("share", "words"), [(1e-3, 4), (1e-4, 20)])
def test_wide_matches_as_often_as_asked(share, words):
    workload = Wide(size=10_000, share=share, words=words)
    assert matches_per_event(workload, 1_500).mean() == pytest.approx(share * 10_000, rel=0.2)


def test_wide_is_wide_and_sparse():
    workload = Wide(size=500)
    batch = workload.events(50)
    assert batch.num_columns == len(set(attribute_names())) == 200
    assert {len(event.attributes) for event in to_events(batch)} == {20}
    for subscription in workload.subscriptions():
        assert len({part.name for part in subscription.filter.parts}) == 5
        assert len({part.name.partition("_")[0] for part in subscription.filter.parts}) == 1


def test_text_uses_all_four_tests_and_matches_something():
    workload = TextMatch(size=2_000)
    nodes = [node for s in workload.subscriptions() for node in walk(s.filter) if isinstance(node, Text)]
    assert {node.op for node in nodes} == {"prefix", "suffix", "contains", "like"}
    assert {node.name for node in nodes} == {"name", "path", "title"}
    share = naive_share(workload, 20)
    assert 0.0005 < share < 0.005


def test_boolean_trees_are_nested_and_selective():
    workload = Boolean(size=1_000)
    filters = [subscription.filter for subscription in workload.subscriptions()]
    for filter in filters:
        leaves = [node for node in walk(filter) if not isinstance(node, (And, Or, Not))]
        assert 4 <= len(leaves) <= 10
    assert any(isinstance(filter, Or) for filter in filters)
    assert any(isinstance(node, Not) for filter in filters for node in walk(filter))
    assert 0.0005 < naive_share(workload, 25) < 0.005


def naive_share(workload, events):
    naive = NaiveMatcher()
    for subscription in workload.subscriptions():
        naive.add(subscription)
    found = sum(len(naive.match(event)) for event in to_events(workload.events(events)))
    return found / events / workload.size
