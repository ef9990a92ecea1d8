"""*wide*: many attributes, sparse events: 200 attributes in ten families of twenty.

An event comes from one family and has its twenty attributes, ten strings and ten integers (0 to 9,999); a
subscription has five predicates on different attributes of one family: an equality on a string, a range on an
integer. Nine of ten subscriptions therefore cannot match an event, and no attribute tells which. ``share`` is the
share of all subscriptions that match an event in the mean: with ``words`` values a string attribute, the width of the
ranges is solved from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Ints, Workload, pick_columns, strings
from benchmarks.workloads.mix import mean_product
from recado.model.filter import And, Between, Compare, Filter

FAMILIES = 10
FAMILY_STRINGS = 10
FAMILY_SIZE = 20
ATTRIBUTES = FAMILIES * FAMILY_SIZE
PREDICATES = 5
DOMAIN = 10_000


class Wide(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "wide"
    share: float = 1e-6
    words: int = 100

    @property
    def title(self) -> str:
        return f"wide {self.size:,}, 1 match in {round(1 / self.share):,}"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        families = rng.integers(0, FAMILIES, count)
        members = pick_columns(rng, count, FAMILY_SIZE, PREDICATES)
        attributes = (families[:, None] * FAMILY_SIZE + members).tolist()
        values = rng.integers(0, self.words, members.shape).tolist()
        lows, highs = self._ranges(rng, members.shape)
        names, words = attribute_names(), word_list(self.words)
        for number, row in enumerate(attributes):
            parts: list[Filter] = []
            for place, attribute in enumerate(row):
                if attribute % FAMILY_SIZE < FAMILY_STRINGS:
                    parts.append(Compare(names[attribute], "==", words[values[number][place]]))
                else:
                    parts.append(Between(names[attribute], lows[number][place], highs[number][place]))
            yield And(tuple(parts))

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        families = rng.integers(0, FAMILIES, count)
        columns: dict[str, pa.Array] = {}
        for attribute, name in enumerate(attribute_names()):
            codes = rng.integers(0, DOMAIN, count)
            absent = families != attribute // FAMILY_SIZE
            if attribute % FAMILY_SIZE < FAMILY_STRINGS:
                columns[name] = strings(word_list(self.words), np.ma.masked_array(codes % self.words, absent))
            else:
                columns[name] = pa.array(codes, mask=absent)
        return pa.RecordBatch.from_pydict(columns)

    def range_width(self) -> float:
        """The share of an integer's domain that a range covers in the mean; bisection, the product grows with it."""
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            if mean_product(1 / self.words, middle, PREDICATES) / FAMILIES < self.share:
                low = middle
            else:
                high = middle
        return low

    def _ranges(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
        mean = self.range_width()
        spread = min(mean, 1 - mean) / 2
        widths: Ints = np.maximum(1, DOMAIN * rng.uniform(mean - spread, mean + spread, shape)).astype(np.int64)
        lows = rng.integers(0, DOMAIN - widths + 1)
        return lows.tolist(), (lows + widths - 1).tolist()


def attribute_names() -> list[str]:
    """``f3_s7`` is a string of family three, ``f3_i2`` one of its integers."""
    strings_of = [f"s{number}" for number in range(FAMILY_STRINGS)]
    integers_of = [f"i{number}" for number in range(FAMILY_SIZE - FAMILY_STRINGS)]
    return [f"f{family}_{member}" for family in range(FAMILIES) for member in strings_of + integers_of]


def word_list(count: int) -> list[str]:
    return [f"word{number}" for number in range(count)]
