"""Matching is exact at size: thousands of mixed filters, through every way, against the evaluator, pair by pair.

The pairs compared by the tests below that are not marked ``long`` are some 28 million; the long ones compare 10^10.
What disagrees is made small and printed as a case for ``check`` (``matching.exact.check``).
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from matching.exact.check import SMALL, check, compare, expected, long_lists, smallest
from matching.exact.generator import compiled_filter, events, some_filter, subscriptions
from matching.exact.ways import TYPED, WAYS, together
from recado.matching.kernels.postings import GRID, LISTS_TOP, MATRIX
from recado.model.filter import Filter

SUBSCRIPTIONS, EVENTS = 5_500, 150


class Data:
    def __init__(
        self,
        seed: int,
        many_subscriptions: int,
        many_events: int,
        *,
        mixed: bool = True,
        arrays: bool = True,
        draw: Callable[[random.Random], Filter] = some_filter,
    ) -> None:
        rng = random.Random(seed)
        self.subscriptions = subscriptions(rng, many_subscriptions, draw)
        self.events = events(rng, many_events, mixed=mixed, arrays=arrays)
        self.right = expected(self.subscriptions, self.events)

    def compare(self, name: str) -> None:
        compare(name, (WAYS | TYPED)[name], self.subscriptions, self.events, self.right)


@pytest.fixture(scope="module")
def mixed() -> Data:
    return Data(1, SUBSCRIPTIONS, EVENTS)


@pytest.fixture(scope="module")
def typed() -> Data:
    return Data(2, SUBSCRIPTIONS, EVENTS, mixed=False, arrays=False)


def test_the_data_reach_what_only_size_reaches(mixed):
    """Lists that are split, constants that many filters share, a good share of matches."""
    index = together(mixed.subscriptions)
    lists = index.store.lists[: index.store.state[LISTS_TOP]]
    assert np.count_nonzero(lists[:, GRID] >= 0) >= 2
    assert max(index.dictionary.references) > 200
    assert len(index.opaque) > 100
    assert 0.05 < mixed.right.mean() < 0.5


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_exact(mixed, way):
    mixed.compare(way)


@pytest.mark.parametrize("way", TYPED)
def test_every_way_from_typed_columns_is_exact(typed, way):
    typed.compare(way)


@pytest.mark.parametrize("way", ["Arrow, batches of 64", "Arrow, batches of 1,000"])
def test_typed_columns_with_lists_are_exact(way):
    """Where a column holds lists, rows are taken apart one by one: another way than that of plain columns."""
    Data(3, SUBSCRIPTIONS // 3, EVENTS, mixed=False).compare(way)


@pytest.mark.parametrize("seed", range(6))
def test_small_sets_with_short_lists_split(seed):
    """Where two entries make a list long, small sets go through all that large ones go through."""
    rng = random.Random(100 + seed)
    some, them = subscriptions(rng, 150), events(rng, 60, mixed=bool(seed % 2), arrays=bool(seed % 2))
    right = expected(some, them)
    ways = ["together, batches of 7", "together, batches of 1,000", "with changes, single", "saved, batches of 1,000"]
    with long_lists(SMALL):
        lists = together(some).store.lists
        assert (lists[:, GRID] >= 0).any()
        assert (lists[:, MATRIX] > 0).any()
        for name in ways if seed % 2 else [*ways, "Arrow, batches of 64"]:
            compare(name, (WAYS | TYPED)[name], some, them, right)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_million_pairs(seed):
    """20,000 subscriptions, 8,000 events, seven ways: 1.1 * 10^9 pairs a seed."""
    is_mixed = bool(seed % 2)
    data = Data(1_000 + seed, 20_000, 8_000, mixed=is_mixed, arrays=is_mixed, draw=compiled_filter)
    names = ["together, batches of 1,000", "with changes, batches of 1,000", "together, batches of 8,192"]
    names += ["saved, batches of 1,000", "used before, batches of 1,000"]
    names += (
        ["together, single", "JSON, batches of 1,000"]
        if is_mixed
        else ["Arrow, batches of 8,192", "Arrow, batches of 64"]
    )
    for name in names:
        data.compare(name)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(4))
def test_filters_of_every_kind_at_size(seed):
    """20,000 subscriptions of every kind, 1,000 events."""
    data = Data(2_000 + seed, 20_000, 1_000, mixed=bool(seed % 2), arrays=bool(seed % 2))
    for name in WAYS if seed % 2 else TYPED:
        data.compare(name)


# -- the tool that makes a disagreement small


def test_a_disagreement_is_made_small_and_printed():
    """An engine that loses every second match of ``flag == true``, in a thousand subscriptions."""
    rng = random.Random(3)
    some, them = subscriptions(rng, 400), events(rng, 60)

    def wrong(given, events_):
        found = WAYS["together, batches of 64"](given, events_)
        for row, subscription in enumerate(given):
            if "flag" in repr(subscription.filter):
                found[row, ::2] = False
        return found

    text = smallest("together, batches of 64", wrong, some, them, 1, 0)
    assert len(text.splitlines()) < 16, text
    assert "flag" in text
    scope = {"check": check}
    exec(text[text.index("check(") :], scope)  # it is a test, and the real engine passes it


def test_a_disagreement_that_is_not_there_again_is_told():
    rng = random.Random(4)
    right = WAYS["together, single"]
    text = smallest("together, single", right, subscriptions(rng, 5), events(rng, 5), 1, 0)
    assert "not again when tried a second time" in text


# -- cases that were found


def test_what_one_view_of_an_event_finds_is_not_overwritten_by_the_next():
    check(
        "semantic subscriptions, single",
        [("s114", 'city startswith "日"'), ("s118", 'tags in {""}')],
        ['{"id": "e3", "city": "日本橋", "tags": ["abcabc", "", "a"]}'.encode()],
    )
