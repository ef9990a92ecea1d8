"""The stateful step: one call for each bucket that has rows, one packed value of state for each bucket.

It never reads a clock. With a watermark, state is forgotten as soon as it cannot matter to an event at or after the
watermark, and earlier events are dropped, so forgetting changes no judgement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from recado.pipeline.constraints.freight import from_bytes, to_bytes
from recado.pipeline.constraints.judge import Longs, Terms, judge
from recado.pipeline.constraints.memory import pack_memory, unpack_memory

PARCEL_SCHEMA = "chunk binary"
STATE = "notified"


class ConstraintProcessor(StatefulProcessor):
    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState(STATE, "packed binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        if key[0] < 0:  # decided before
            for row in rows:
                yield Row(chunk=row.chunk)
            return
        table = pa.concat_tables([from_bytes(row.chunk) for row in rows]).combine_chunks()
        wanted = self._judged(table, _watermark(timerValues))
        if len(wanted):
            yield Row(chunk=to_bytes(table.take(wanted)))

    def close(self) -> None:
        pass

    def _judged(self, table: pa.Table, watermark: int | None) -> Longs:
        stored = self._state.get()
        memory = unpack_memory(bytes(stored[0]) if stored else None, self.terms.buckets)
        forgotten = watermark is not None and memory.forget(watermark)
        wanted = judge(table, memory, self.terms, watermark)
        if not memory.notified:
            self._state.clear()
        elif len(wanted) or forgotten:
            self._state.update((pack_memory(memory),))
        return wanted


def _watermark(times: TimerValues) -> int | None:
    """In microseconds; Spark says 0 before there is one, and -1 where there never is."""
    milliseconds = times.getCurrentWatermarkInMs()
    return milliseconds * 1000 if milliseconds > 0 else None
