"""Distributions against their known means and shapes."""

from statistics import fmean, median

import pytest

from recado.sim.draws import constant, exponential, lognormal, truncated, uniform, weibull
from recado.sim.kernel import SimulationError, stream

COUNT = 20_000
HOUR = 3600.0


def sample(draw):
    return [draw() for _ in range(COUNT)]


def rng():
    return stream(1, "draws")


def test_means():
    assert set(sample(constant(3.0))) == {3.0}
    assert fmean(sample(uniform(1, 3, rng()))) == pytest.approx(2, rel=0.02)
    assert fmean(sample(exponential(5, rng()))) == pytest.approx(5, rel=0.03)
    assert median(sample(lognormal(4, 0.5, rng()))) == pytest.approx(4, rel=0.03)
    assert fmean(sample(weibull(1.8, 7, rng()))) == pytest.approx(7, rel=0.03)


def test_shapes():
    assert all(1 <= value <= 3 for value in sample(uniform(1, 3, rng())))
    longer = sum(value > 5 for value in sample(exponential(5, rng()))) / COUNT
    assert longer == pytest.approx(0.368, abs=0.02)


def test_sessions_of_the_super_node_system():
    """Weibull of shape 1.8 and mean 4 h, truncated to 8 h, has a mean of 3.66 h."""
    sessions = sample(truncated(weibull(1.8, 4 * HOUR, rng()), 8 * HOUR))
    assert max(sessions) <= 8 * HOUR
    assert fmean(sessions) / HOUR == pytest.approx(3.66, abs=0.03)


def test_truncating_everything_is_refused():
    with pytest.raises(SimulationError, match=r"above 1\.0; truncate less"):
        truncated(constant(2.0), 1.0)()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: exponential(0, rng()), "the mean of an exponential distribution is more than 0, not 0"),
        (lambda: lognormal(-1, 1, rng()), "the median of a lognormal distribution is more than 0, not -1"),
        (lambda: weibull(0, 1, rng()), "the shape of a Weibull distribution is more than 0, not 0"),
    ],
)
def test_what_is_no_distribution(make, message):
    with pytest.raises(SimulationError, match=message):
        make()
