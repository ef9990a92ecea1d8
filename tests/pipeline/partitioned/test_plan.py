"""The plan: one home for every subscription, equal shares, few visits."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.workloads import Stock, Wide, to_events
from pipeline.partitioned.local import LocalSet
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline.partitioned.plan import HEAVY, accesses, key_filter, make_plan
from strategies import filters


def offers(*texts):
    return [accesses(Subscription(f"s{number}", parse(text))) for number, text in enumerate(texts)]


def chosen(plan, text):
    access = plan.choose(accesses(Subscription("s", parse(text))))
    return [key_filter(key) for key in access]


def shares(plan, sample):
    homes = [plan.partition(f"s{number}", plan.choose(offered), offered) for number, offered in enumerate(sample)]
    return Counter(homes)


@settings(max_examples=60)
@given(st.lists(filters(), max_size=25), st.integers(1, 6), st.integers(1, 3))
def test_every_subscription_has_one_home_that_stays(some, partitions, step):
    offered = [accesses(Subscription(f"s{number}", filter)) for number, filter in enumerate(some)]
    plan = make_plan(offered[::step], partitions)
    again = make_plan(offered[::step], partitions)
    for number, each in enumerate(offered):
        access = plan.choose(each)
        assert access in each
        home = plan.partition(f"s{number}", access, each)
        assert 0 <= home < partitions
        assert again.partition(f"s{number}", again.choose(each), each) == home


@pytest.mark.parametrize("partitions", [2, 5, 16])
def test_light_keys_are_packed_into_equal_shares(partitions):
    rng = random.Random(1)
    sample = offers(*(f"k == {int(rng.expovariate(0.01))}" for _ in range(4_000)))
    found = shares(make_plan(sample, partitions), sample)
    assert max(found.values()) <= (1 + HEAVY) * len(sample) / partitions
    assert min(found.values()) >= (1 - HEAVY) * len(sample) / partitions


def test_a_heavy_key_is_split_over_the_partitions_it_fills():
    sample = offers(*["k == 0"] * 3_000, *(f"k == {number}" for number in range(1, 1_001)))
    plan = make_plan(sample, 8)
    homes = {plan.partition(f"s{number}", sample[0][0], sample[0]) for number in range(3_000)}
    assert len(homes) in (6, 7)
    assert max(shares(plan, sample).values()) <= (1 + HEAVY) * len(sample) / 8


def test_subscriptions_without_keys_are_shared_as_well():
    sample = offers(*["not x == 1"] * 1_000)
    found = shares(make_plan(sample, 4), sample)
    assert len(found) == 4
    assert max(found.values()) < 1.25 * 250


def test_filters_that_never_match_are_spread():
    sample = offers(*["false"] * 1_000)
    assert len(shares(make_plan(sample, 4), sample)) == 4


def test_one_attribute_that_finds_everybody_is_preferred_to_many():
    sample = offers(*(f"a{number % 5} == {number} and symbol == {number % 100}" for number in range(1_000)))
    plan = make_plan(sample, 4)
    assert chosen(plan, "a3 == 3 and symbol == 3") == [parse("symbol == 3")]


def test_a_value_that_nearly_all_share_is_not_a_key():
    sample = offers(*(f'status == "open" and symbol == {number % 100}' for number in range(1_000)))
    assert chosen(make_plan(sample, 4), 'status == "open" and symbol == 3') == [parse("symbol == 3")]


def test_equality_is_preferred_to_ranges():
    sample = offers(*(f"price between {number} and {number + 3} and k == {number % 50}" for number in range(500)))
    assert chosen(make_plan(sample, 4), "price between 1 and 4 and k == 1") == [parse("k == 1")]


def test_keys_that_the_sample_lacks_lie_beside_their_neighbours():
    sample = offers(*(f"k == {number}" for number in range(0, 2_000, 2)))
    plan = make_plan(sample, 4)
    for number in range(1, 2_000, 2):
        offered = offers(f"k == {number}")[0]
        assert plan.partition("s", offered[0], offered) == min(number // 500, 3)


def test_an_unknown_attribute_does_not_all_go_to_one_partition():
    plan = make_plan(offers(*(f"k == {number}" for number in range(100))), 4)
    offered = offers("other == 1")[0]
    assert len({plan.partition(f"s{number}", offered[0], offered) for number in range(100)}) == 4


def test_an_event_visits_few_partitions():
    stock, wide = Stock(size=4_000, symbols=500), Wide(size=4_000)
    for workload, most in ((stock, 1.5), (wide, 2.5)):
        held = LocalSet(list(workload.subscriptions()), 8, step=2)
        events = to_events(workload.events(300))
        assert len(held.visits(events)) <= most * len(events)
