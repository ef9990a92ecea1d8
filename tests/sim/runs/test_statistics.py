"""Student's t against printed tables, and intervals against a simulation."""

import random

import pytest

from recado.sim.runs.plot import estimate, t_quantile


@pytest.mark.parametrize(
    ("freedom", "t"),
    [
        (1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (29, 2.045), (30, 2.042),
        (60, 2.000), (120, 1.980), (1999, 1.961), (10_000, 1.960),
    ],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(freedom, t):
    assert t_quantile(freedom) == pytest.approx(t, abs=6e-4)


def test_the_interval_of_a_sample():
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.half_width == pytest.approx(3.182446 * 1.2909944 / 2, rel=1e-5)
    assert (found.low, found.high) == (found.mean - found.half_width, found.mean + found.half_width)


def test_one_value_has_no_spread():
    assert estimate([3.0]).half_width == 0.0


def test_95_of_100_intervals_hold_the_true_mean():
    rng = random.Random(1)
    samples = [estimate([rng.gauss(10, 2) for _ in range(5)]) for _ in range(4_000)]
    inside = sum(found.low <= 10 <= found.high for found in samples)
    assert 0.94 <= inside / len(samples) <= 0.96
