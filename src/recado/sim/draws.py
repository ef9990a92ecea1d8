"""Distributions: calls without arguments that draw from the stream they were made with.

Latencies, session lengths and gaps between arrivals are all such draws. The gaps of a Poisson process are exponential.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from random import Random

from recado.sim.kernel import SimulationError

Draw = Callable[[], float]

MOST_TRIES = 10_000


def constant(value: float) -> Draw:
    return lambda: value


def uniform(low: float, high: float, rng: Random) -> Draw:
    random, span = rng.random, high - low
    return lambda: low + span * random()


def exponential(mean: float, rng: Random) -> Draw:
    positive(mean, "the mean of an exponential distribution")
    return partial(rng.expovariate, 1 / mean)


def lognormal(median: float, sigma: float, rng: Random) -> Draw:
    """The usual shape of latencies on the Internet: most near the median, a long tail above it."""
    positive(median, "the median of a lognormal distribution")
    return partial(rng.lognormvariate, math.log(median), sigma)


def weibull(shape: float, mean: float, rng: Random) -> Draw:
    """The usual shape of sessions; the scale follows from the mean."""
    positive(shape, "the shape of a Weibull distribution")
    return partial(rng.weibullvariate, mean / math.gamma(1 + 1 / shape), shape)


def truncated(draw: Draw, most: float) -> Draw:
    """Drawn again while above the most: the mean becomes less than the one of ``draw``."""

    def inside() -> float:
        for _ in range(MOST_TRIES):
            value = draw()
            if value <= most:
                return value
        raise SimulationError(f"{MOST_TRIES:,} draws in a row were above {most}; truncate less of the distribution")

    return inside


def positive(value: float, what: str) -> None:
    """Refuse what is not more than 0."""
    if not value > 0:
        raise SimulationError(f"{what} is more than 0, not {value}")
