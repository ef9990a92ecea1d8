"""Means with 95% confidence intervals by Student's t distribution.

The quantile is found by bisection on the distribution function, for which a whole number of degrees of freedom gives
a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4); so no statistics library is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

CONFIDENCE = 0.95
_NORMAL_FROM = 2_000
"""From here on t and the normal distribution agree to more digits than are shown."""


class Estimate(msgspec.Struct, frozen=True):
    """The mean of a sample; the true one lies within ``half_width`` of it in 95 of 100 samples."""

    mean: float
    half_width: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    """With one value alone nothing is known of the spread, and the half width is 0."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, 0.0, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Estimate(mean, t_quantile(count - 1) * math.sqrt(variance / count), count)


@lru_cache(maxsize=1024)
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with ``P(-t < T < t) = confidence``."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < confidence else (low, middle)
    return high


def t_within(t: float, freedom: int) -> float:
    """``P(-t < T < t)`` for so many degrees of freedom."""
    if freedom >= _NORMAL_FROM:
        return math.erf(t / math.sqrt(2))
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    term = total = 1.0 if freedom % 2 == 0 else math.cos(angle)
    for k in range(1 + freedom % 2, freedom - 2, 2):
        term *= square * k / (k + 1)
        total += term
    if freedom % 2 == 0:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
