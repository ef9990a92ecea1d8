"""*sensor* and *ranges*: conjunctions of ranges over a few integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload, draw, pick_columns, zipf_weights
from recado.model.filter import And, Between, Filter

# --- sensor -----------------------------------------------------------------------------------------------------------
# *sensor*: readings of four attributes in 1..9, each subscription a range of four values on every one of them.
#
# A range is [y, y+3] with y Zipf (exponent 1, rank 1 = value 1) in 1..6. Whatever y is, a range covers 4 of 9 values,
# so (4/9)^4 = 3.9% of the subscriptions match a publication in the mean; Zipf only adds skew (the most popular
# publication matches 52%). The events are all 9^4 = 6,561 publications. There are only 6^4 = 1,296 different filters: a
# large size measures how well equal filters are shared, and how fast long answers are written.


SENSOR_NAMES = ("a1", "a2", "a3", "a4")
VALUES = 9
STARTS = 6
SENSOR_WIDTH = 3
PUBLICATIONS = VALUES ** len(SENSOR_NAMES)


class Sensor(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "sensor"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        starts = 1 + draw(rng, zipf_weights(STARTS, 1.0), count * len(SENSOR_NAMES))
        for row in starts.reshape(count, len(SENSOR_NAMES)).tolist():
            yield And(tuple(Between(name, y, y + SENSOR_WIDTH) for name, y in zip(SENSOR_NAMES, row, strict=True)))

    def events(self, count: int = PUBLICATIONS) -> pa.RecordBatch:
        """``count`` different publications in random order; all of them if ``count`` is no smaller."""
        numbers = self.event_rng().permutation(PUBLICATIONS)[:count]
        digits = {name: 1 + numbers // VALUES**place % VALUES for place, name in enumerate(SENSOR_NAMES)}
        return pa.RecordBatch.from_pydict(digits)


# --- ranges -----------------------------------------------------------------------------------------------------------
# *ranges*: nothing but wide ranges: 5 of them on different attributes, 30% of the domain each, over 20 integers.
#
# Events are dense (20 integers from 0 to 9,999, drawn evenly). No single test tells much: each holds for three events
# in ten, and only all five together leave 0.3^5 = 0.24% of the subscriptions, 243 of 100,000. So no access path is
# selective, and what counts is how fast the other tests are decided.


RANGE_NAMES = tuple(f"n{number}" for number in range(20))
RANGE_DOMAIN = 10_000
RANGE_PREDICATES = 5
RANGE_WIDTH = 3_000


class Ranges(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "ranges"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        attributes = pick_columns(rng, count, len(RANGE_NAMES), RANGE_PREDICATES)
        lows = rng.integers(0, RANGE_DOMAIN - RANGE_WIDTH + 1, attributes.shape)
        for row, starts in zip(attributes.tolist(), lows.tolist(), strict=True):
            yield And(
                tuple(Between(RANGE_NAMES[at], low, low + RANGE_WIDTH - 1) for at, low in zip(row, starts, strict=True))
            )

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        return pa.RecordBatch.from_pydict(
            {name: pa.array(rng.integers(0, RANGE_DOMAIN, count)) for name in RANGE_NAMES}
        )
