"""How popular filters are: families of equal filters, and the Zipf exponent of their sizes.

A *family* is all subscriptions with one filter. In a super-node overlay one of them represents the others, so with N
subscriptions and F families the redundancy is ``R = 1 - F / N``, a super node has ``N / F - 1`` children on average,
and the longest list of children is the largest family less one. The Zipf exponent tells whether popularity is even (0)
or concentrated: the family of rank r has a size in proportion to ``r ** -s``. It is fitted by maximum likelihood over
all ranks; ranks by observed size make even popularity look somewhat concentrated, the more so the smaller the families.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lgamma, log

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MOST_EXPONENT = 5.0
_SUMMED = 100_000
"""Ranks that are summed one by one; beyond, the sum is an integral."""


def families(filters: DataFrame) -> DataFrame:
    """How many filters are shared by ``size`` subscriptions; from distinct filters, the smallest size first."""
    counted = filters.groupBy(F.col("subscriptions").alias("size")).agg(F.count("*").alias("filters"))
    return counted.withColumn("subscriptions", F.col("size") * F.col("filters")).orderBy("size")


def popular(filters: DataFrame, limit: int = 20) -> DataFrame:
    """The filters that most subscriptions have."""
    columns = ("filter", "type", "subscriptions")
    return filters.select(*columns).orderBy(F.desc("subscriptions"), "filter").limit(limit)


def zipf_exponent(sizes: Sequence[tuple[int, int]]) -> float:
    """The exponent that fits families given as (size, how many of it) best; 0 if all have one size."""
    ordered = sorted(sizes, reverse=True)
    total = sum(size * number for size, number in ordered)
    ranks = sum(number for _, number in ordered)
    if len(ordered) < 2:
        return 0.0
    logs = _sum_of_logs(ordered)
    return _lowest(lambda s: s * logs + total * log(harmonic(ranks, s)))


def _sum_of_logs(ordered: Sequence[tuple[int, int]]) -> float:
    """The sum over all subscriptions of the logarithm of their family's rank."""
    out, before = 0.0, 0
    for size, number in ordered:
        out += size * (lgamma(before + number + 1) - lgamma(before + 1))
        before += number
    return out


def harmonic(ranks: int, exponent: float) -> float:
    """The sum of ``r ** -exponent`` over the ranks."""
    direct = min(ranks, _SUMMED)
    out = float((np.arange(1, direct + 1, dtype=np.float64) ** -exponent).sum())
    if ranks > direct:
        low, high = direct + 0.5, ranks + 0.5
        rest = log(high / low) if exponent == 1 else (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
        out += rest
    return out


def _lowest(cost: Callable[[float], float]) -> float:
    """Where a function with one valley is lowest between 0 and ``MOST_EXPONENT``, by golden section."""
    ratio = (5**0.5 - 1) / 2
    low, high = 0.0, MOST_EXPONENT
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if cost(left) < cost(right):
            high = right
        else:
            low = left
    return (low + high) / 2
