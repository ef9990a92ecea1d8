"""Distributions: calls without arguments that draw from the stream they were made with.

Latencies, session lengths and gaps between arrivals are all such draws. The gaps of a Poisson process are exponential.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from recado.sim.kernel import SimulationError

Draw = Callable[[], float]

MOST_TRIES = 10_000


def constant(value: float) -> Draw:
    return lambda: value


def uniform(low: float, high: float, rng: Random) -> Draw:
    random, span = rng.random, high - low
    return lambda: low + span * random()


def exponential(mean: float, rng: Random) -> Draw:
    return partial(rng.expovariate, 1 / mean)


def lognormal(median: float, sigma: float, rng: Random) -> Draw:
    """The usual shape of latencies on the Internet: most near the median, a long tail above it."""
    return partial(rng.lognormvariate, math.log(median), sigma)


def weibull(shape: float, mean: float, rng: Random) -> Draw:
    """The usual shape of sessions; the scale follows from the mean."""
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


DRAWS: Mapping[str, Callable[..., Draw]] = {
    "constant": lambda value, rng: constant(value),
    "uniform": uniform,
    "exponential": exponential,
    "lognormal": lognormal,
    "weibull": weibull,
}
"""By name; all take their numbers and then a stream."""


def named_draw(name: str, *numbers: Any, rng: Random) -> Draw:
    """The draw that a scenario names, such as ``named_draw("uniform", 0.01, 0.05, rng=stream(seed, "latency"))``."""
    if name not in DRAWS:
        raise SimulationError(f"{name!r} is no distribution; there are {', '.join(DRAWS)}")
    try:
        return DRAWS[name](*numbers, rng)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"{name} does not take {', '.join(map(str, numbers))}: {error}") from error
