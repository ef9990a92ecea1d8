"""*ranges*: nothing but wide ranges: 5 of them on different attributes, 30% of the domain each, over 20 integers.

Events are dense (20 integers from 0 to 9,999, drawn evenly). No single test tells much: each holds for three events in
ten, and only all five together leave 0.3^5 = 0.24% of the subscriptions, 243 of 100,000. So no access path is
selective, and what counts is how fast the other tests are decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload, pick_columns
from recado.model.filter import And, Between, Filter

NAMES = tuple(f"n{number}" for number in range(20))
DOMAIN = 10_000
PREDICATES = 5
WIDTH = 3_000


class Ranges(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "ranges"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        attributes = pick_columns(rng, count, len(NAMES), PREDICATES)
        lows = rng.integers(0, DOMAIN - WIDTH + 1, attributes.shape)
        for row, starts in zip(attributes.tolist(), lows.tolist(), strict=True):
            yield And(tuple(Between(NAMES[at], low, low + WIDTH - 1) for at, low in zip(row, starts, strict=True)))

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        return pa.RecordBatch.from_pydict({name: pa.array(rng.integers(0, DOMAIN, count)) for name in NAMES})
