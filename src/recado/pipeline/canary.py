"""The canary of Spark jobs: some answers of executors compared with the plain evaluator.

In each Python worker a share of the time of matching goes into comparisons (``recado.matching.canary``): of one row of
a batch, with the filters that the subscription set has beside its index. Semantic subscriptions are left out, and so
are sets from before filters were kept.

A difference is a fault of Recado. The executor logs it with filter and event, builds the index anew from the set's
filters, once, and matches the batch again; what is still wrong then has the plain evaluator's answer. The driver learns
of it by ``Verification``, and its job must tell: batches that were not compared may have been wrong before. On Spark
Connect there is no way back to the driver but the executors' log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from time import thread_time
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from recado.filters.evaluate import matches
from recado.matching.batch import Pairs
from recado.matching.canary import SHARE, Canary, Disagreement, Rng
from recado.model.filter import Filter
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import Form, Matched
from recado.pipeline.meanings import events_of
from recado.pipeline.session import is_remote
from recado.pipeline.sets import LoadedSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = 20
"""So many differences are kept as text at the driver, and logged of one row."""
_log = logging.getLogger("recado.pipeline")
_canaries: dict[float, Canary] = {}
"""Of this worker, by share."""


class _Texts(AccumulatorParam[tuple[str, ...]]):
    """The first few texts of all tasks."""

    def zero(self, value: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def addInPlace(self, value1: tuple[str, ...], value2: tuple[str, ...]) -> tuple[str, ...]:  # noqa: N802  # Spark's name
        return (*value1, *value2)[:KEPT]


class Verification:
    """What comparisons have found, counted at the driver of a session. It travels to executors with the job."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        context = None if spark is None or is_remote(spark) else spark.sparkContext
        self._agreements: Any = context and context.accumulator(0)
        self._disagreements: Any = context and context.accumulator(0)
        self._texts: Any = context and context.accumulator((), _Texts())

    @property
    def agreements(self) -> int:
        return self._agreements.value if self._agreements is not None else 0

    @property
    def disagreements(self) -> int:
        return self._disagreements.value if self._disagreements is not None else 0

    @property
    def texts(self) -> tuple[str, ...]:
        """The first differences: event, subscription, filter."""
        return self._texts.value if self._texts is not None else ()

    def add(self, agreements: int, wrong: list[Disagreement]) -> None:
        """In an executor."""
        for one in wrong[:KEPT]:
            _log.error("the index and the plain evaluator differ: %s", one)
        if self._agreements is not None:
            self._agreements.add(agreements)
            self._disagreements.add(len(wrong))
            if wrong:
                self._texts.add(tuple(map(str, wrong[:KEPT])))

    def warning(self) -> str:
        """What a job must say at its end; nothing if all agreed."""
        if not self.disagreements:
            return ""
        pairs = f"{self.disagreements:,} of {self.agreements + self.disagreements:,} compared pairs"
        return (
            f"matching differed from the plain evaluator on {pairs} of an event and a subscription; these were "
            "corrected and the index was built anew, but other results of this job may be wrong: publish the "
            "subscriptions anew and run it again. " + "; ".join(self.texts[:3])
        )


class Watch(msgspec.Struct, frozen=True):
    """What executors are given: the share, and where to count."""

    share: float = SHARE
    verification: Verification = msgspec.field(default_factory=Verification)

    def checked(
        self,
        loaded: LoadedSet,
        batch: pa.RecordBatch,
        form: Form,
        column: str,
        match: Callable[[], Matched],
    ) -> Matched:
        """What ``match`` gives for a batch, one row of it compared; with a new index where it was wrong."""
        begun = thread_time()
        matched = match()
        canary = _canaries.get(self.share)
        if canary is None:
            canary = _canaries[self.share] = Canary(self.share, Random(), thread_time)  # noqa: S311  # what to compare
        canary.earn(thread_time() - begun)
        if not canary.due or not batch.num_rows:
            return matched
        row = canary.choose(batch.num_rows)
        if any(row == bad for bad, _ in matched.rejected):
            return matched
        before = canary.agreements
        event = next(events_of(batch.slice(row, 1), form, column, loaded.index.dictionary.names))
        slots = _slots(matched.pairs, row).tolist()
        wrong = canary.compare(event, [str(slot) for slot in slots], _SetFilters(loaded))
        ids = loaded.column("id")
        wrong = [msgspec.structs.replace(one, subscription=ids[int(one.subscription)].as_py()) for one in wrong]
        self.verification.add(canary.agreements - before, wrong)
        if not wrong:
            return matched
        if not loaded.is_new and loaded.build_anew():
            matched = match()
        return matched._replace(pairs=_correct(loaded, matched.pairs, row, wrong))


def make_watch(share: float, verification: Verification | None) -> Watch | None:
    """None if nothing is to be compared."""
    if not 0 <= share <= 1:
        raise PipelineError(f"verify_share is a share of the time of matching, between 0 and 1, and not {share}")
    return Watch(share, verification or Verification()) if share else None


class _SetFilters:
    """The subscriptions of a set, by slot."""

    def __init__(self, loaded: LoadedSet) -> None:
        self._loaded = loaded

    def filter_of(self, sub_id: str) -> Filter | None:
        return self._loaded.filter(int(sub_id))

    def draw(self, rng: Rng) -> str | None:
        slots = len(self._loaded.details)
        return str(rng.randrange(slots)) if slots else None


def _slots(pairs: Pairs, row: int) -> Any:
    return pairs.slots[pairs.offsets[row] : pairs.offsets[row + 1]]


def _correct(loaded: LoadedSet, pairs: Pairs, row: int, wrong: list[Disagreement]) -> Pairs:
    """The pairs with the plain evaluator's answers about one row, which the index may give itself by now."""
    slots = {loaded.index.registry.slot(one.subscription): matches(one.filter, one.event) for one in wrong}
    held = [slot for slot in _slots(pairs, row).tolist() if slots.get(slot, True)]
    held += [slot for slot, truth in slots.items() if truth and slot not in held]
    start, end = pairs.offsets[row], pairs.offsets[row + 1]
    offsets = pairs.offsets.copy()
    offsets[row + 1 :] += len(held) - (end - start)
    new = np.concatenate((pairs.slots[:start], np.array(held, pairs.slots.dtype), pairs.slots[end:]))
    return Pairs(offsets, new)
