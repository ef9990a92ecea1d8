"""*sensor*: readings of four attributes in 1..9, each subscription a range of four values on every one of them.

A range is [y, y+3] with y Zipf (exponent 1, rank 1 = value 1) in 1..6. Whatever y is, a range covers 4 of 9 values, so
(4/9)^4 = 3.9% of the subscriptions match a publication in the mean; Zipf only adds skew (the most popular publication
matches 52%). The events are all 9^4 = 6,561 publications. There are only 6^4 = 1,296 different filters: a large size
measures how well equal filters are shared, and how fast long answers are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload, draw, zipf_weights
from recado.model.filter import And, Between, Filter

NAMES = ("a1", "a2", "a3", "a4")
VALUES = 9
STARTS = 6
WIDTH = 3
PUBLICATIONS = VALUES ** len(NAMES)


class Sensor(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "sensor"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        starts = 1 + draw(rng, zipf_weights(STARTS, 1.0), count * len(NAMES))
        for row in starts.reshape(count, len(NAMES)).tolist():
            yield And(tuple(Between(name, y, y + WIDTH) for name, y in zip(NAMES, row, strict=True)))

    def events(self, count: int = PUBLICATIONS) -> pa.RecordBatch:
        """``count`` different publications in random order; all of them if ``count`` is no smaller."""
        numbers = self.event_rng().permutation(PUBLICATIONS)[:count]
        digits = {name: 1 + numbers // VALUES**place % VALUES for place, name in enumerate(NAMES)}
        return pa.RecordBatch.from_pydict(digits)
