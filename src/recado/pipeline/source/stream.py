"""The log as a stream: an offset is a position.

Spark keeps offsets in its checkpoint and asks for ranges between them, so every position is read in exactly one
micro-batch, and a repeated micro-batch reads the same positions. How far a micro-batch goes is decided by
``latestOffset``: to the end of the log, or at most ``maxRowsPerBatch`` further (Spark may ask for everything, and then
gets everything). ``reportLatestOffset`` is the log's end, whatever the limit, so that progress reports show the lag.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.streaming.listener import StreamingQueryProgress

from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import Columns
from recado.pipeline.source.options import Options
from recado.pipeline.source.reader import LogRange, extent_of, first_position, kept, read_range, split
from recado.store.log import Extent, LogReader

Offset = dict[str, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's view of the log."""

    def __init__(self, options: Options, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's names, here and below
        log = LogReader(self._options.path)
        return _offset(first_position(self._options, log, extent_of(self._options, log)))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._end()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        extent = self._extent()
        if start["position"] > extent.end:
            raise PipelineError(
                f"the stream has read up to position {start['position']:,}, and the log {self._options.path} ends at "
                f"{extent.end:,}: is it another log? A new log needs a new checkpoint"
            )
        begin = kept(self._options, start["position"], extent)
        end = self._end() if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        if isinstance(limit, ReadMinRows) and self._target is None and end - begin < limit.min_rows:
            end = start["position"]
        return _offset(max(end, start["position"]))

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return _offset(self._end())

    def partitions(self, start: Offset, end: Offset) -> Sequence[LogRange]:
        if start == end:
            return []
        begin = kept(self._options, start["position"], self._extent())
        segments = LogReader(self._options.path).segments()
        return split(begin, end["position"], self._options.rows_per_partition, segments)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogRange)
        return read_range(self._options, self._columns, partition, self._options.where)

    def _extent(self) -> Extent:
        return extent_of(self._options, LogReader(self._options.path))

    def _end(self) -> int:
        end = self._extent().end
        return end if self._options.end is None else min(end, self._options.end)


def lag(progress: StreamingQueryProgress | Mapping[str, Any]) -> int:
    """How many events a query was behind its logs, by a progress report: ``query.lastProgress``, or one as JSON."""
    return sum(_behind(source["endOffset"], source["latestOffset"]) for source in progress["sources"])


def _behind(end: Any, latest: Any) -> int:
    """An offset is text in Spark's own objects and an object in its JSON; other sources have other offsets."""
    end, latest = (json.loads(offset) if isinstance(offset, str) else offset for offset in (end, latest))
    ours = all(isinstance(offset, dict) and offset.keys() == {"position"} for offset in (end, latest))
    return max(0, latest["position"] - end["position"]) if ours else 0


def _offset(position: int) -> Offset:
    return {"position": position}
