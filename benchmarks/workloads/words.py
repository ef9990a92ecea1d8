"""*words*: five strings an event, 100 words each; a subscription asks for two of them: one match in 10,000.

The easiest of all workloads, so that what surrounds matching is what it costs: reading events from text, and calling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload, pick_columns, strings
from recado.model.filter import And, Compare, Filter

NAMES = ("city", "kind", "brand", "color", "state")
WORDS = [f"word{number}" for number in range(100)]
PREDICATES = 2


class Words(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "words"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        names = pick_columns(rng, count, len(NAMES), PREDICATES).tolist()
        words = rng.integers(0, len(WORDS), (count, PREDICATES)).tolist()
        for chosen, values in zip(names, words, strict=True):
            parts = (Compare(NAMES[name], "==", WORDS[word]) for name, word in zip(chosen, values, strict=True))
            yield And(tuple(parts))

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        return pa.RecordBatch.from_pydict({name: strings(WORDS, rng.integers(0, len(WORDS), count)) for name in NAMES})
