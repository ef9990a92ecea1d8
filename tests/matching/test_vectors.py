"""The evaluator on many events at once gives, pair by pair, what the plain one gives."""

from __future__ import annotations

import random

import pytest

from matching.exact.generator import events, subscriptions
from matching.exact.vectors import Vectors
from recado.filters.cost import check_filter
from recado.filters.evaluate import matches
from recado.model.event import check_event


@pytest.mark.parametrize("seed", range(3))
def test_vectors_equal_the_plain_evaluator(seed):
    rng = random.Random(seed)
    some, them = events(rng, 40), subscriptions(rng, 1_200)
    filters = [check_filter(one.whole_filter()) for one in them]
    found = Vectors([check_event(event) for event in some]).matrix(filters)
    assert found.tolist() == [[matches(filter, event) for event in some] for filter in filters]
    assert 0.02 < found.mean() < 0.6, "hardly anything matches, or nearly everything: that shows little"
