"""*mix*: dense events of 10 string (100 values) and 10 integer (0 to 9,999) attributes.

A subscription has 2 to 5 predicates on different attributes, all drawn evenly. On a string attribute a predicate is
an equality or a 5-value set, one as likely as the other; on an integer attribute it is a range of 1 to 20% of the
domain seven times of ten, else an equality or a 5-value set. With these shares 0.07% of the subscriptions match an
event: 7 of 10,000 and 69 of 100,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload, pick_columns, pick_sets, strings
from recado.model.filter import And, Between, Compare, Filter, In

STRINGS = tuple(f"s{number}" for number in range(10))
INTEGERS = tuple(f"i{number}" for number in range(10))
NAMES = STRINGS + INTEGERS
WORDS = [f"word{number:02d}" for number in range(100)]
DOMAIN = 10_000
SET_SIZE = 5
PREDICATES = (2, 5)
RANGE_SHARE = 0.7
RANGE_WIDTH = (0.01, 0.20)


class Mix(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "mix"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        least, most = PREDICATES
        counts = rng.integers(least, most + 1, count).tolist()
        attributes = pick_columns(rng, count, len(NAMES), most)
        drawn = iter(predicates(rng, attributes.reshape(-1).tolist()))
        for wanted in counts:
            parts = tuple(next(drawn) for _ in range(most))
            yield And(parts[:wanted])

    def events(self, count: int) -> pa.RecordBatch:
        return dense_events(self.event_rng(), count)


def predicates(rng: np.random.Generator, attributes: list[int]) -> Iterator[Filter]:
    """One predicate on each of the attributes, given by number."""
    count = len(attributes)
    choices = rng.random(count).tolist()
    words = pick_sets(rng, (count,), len(WORDS), SET_SIZE).tolist()
    numbers = pick_sets(rng, (count,), DOMAIN, SET_SIZE).tolist()
    single_word, single_number = rng.integers(0, len(WORDS), count).tolist(), rng.integers(0, DOMAIN, count).tolist()
    widths = rng.integers(int(RANGE_WIDTH[0] * DOMAIN), int(RANGE_WIDTH[1] * DOMAIN) + 1, count)
    lows = rng.integers(0, DOMAIN - widths + 1)
    highs = (lows + widths - 1).tolist()
    for at, (attribute, choice, low) in enumerate(zip(attributes, choices, lows.tolist(), strict=True)):
        name = NAMES[attribute]
        if attribute < len(STRINGS):
            if choice < 0.5:
                yield Compare(name, "==", WORDS[single_word[at]])
            else:
                yield In(name, tuple([WORDS[word] for word in words[at]]))
        elif choice < RANGE_SHARE:
            yield Between(name, low, highs[at])
        elif choice < (1 + RANGE_SHARE) / 2:
            yield Compare(name, "==", single_number[at])
        else:
            yield In(name, tuple(numbers[at]))


def dense_events(rng: np.random.Generator, count: int) -> pa.RecordBatch:
    """Events that have all twenty attributes, values drawn evenly."""
    columns = {name: strings(WORDS, rng.integers(0, len(WORDS), count)) for name in STRINGS}
    columns |= {name: pa.array(rng.integers(0, DOMAIN, count)) for name in INTEGERS}
    return pa.RecordBatch.from_pydict(columns)


def mean_product(left: float, right: float, size: int, half: int = 10) -> float:
    """The mean of a product of ``size`` factors drawn without replacement from ``half`` lefts and ``half`` rights."""
    ways = comb(2 * half, size)
    return sum(
        comb(half, lefts) * comb(half, size - lefts) / ways * left**lefts * right ** (size - lefts)
        for lefts in range(size + 1)
    )
