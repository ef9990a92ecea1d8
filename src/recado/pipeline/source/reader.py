"""Reading a range of the log in parallel.

A log has dense positions, so a read is a range, fixed when it is planned, and a partition is a part of that range.
``LogReader`` finds each position wherever it is when it is read: sealing in between changes nothing.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.datasource import Filter as Predicate
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.streaming.listener import StreamingQueryProgress

from recado.model.filter import Filter
from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import Columns
from recado.pipeline.source.options import Options
from recado.pipeline.source.pushdown import Pushed, joined, push
from recado.store.log import Damage, Extent, LogError, LogReader, Segment

logger = logging.getLogger("recado.pipeline.source")


class LogRange(InputPartition):
    """The positions from ``start`` to before ``end``."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


class RangeReader(DataSourceReader):
    """A batch read: the range that the options name."""

    def __init__(self, options: Options, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> list[LogRange]:
        options, pushed, log = self._options, self._pushed, LogReader(self._options.path)
        extent = extent_of(options, log)
        starts, ends = [first_position(options, log, extent), pushed.start], [extent.end, options.end, pushed.end]
        if pushed.since is not None:
            starts.append(position_at(options, log, pushed.since))
        if pushed.until is not None:
            ends.append(position_at(options, log, pushed.until))
        start, end = max(starts), min(end for end in ends if end is not None)
        return split(start, end, self._options.rows_per_partition, log.segments()) or [LogRange(start, start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogRange)
        where = joined(self._options.where, self._pushed.where)
        return read_range(self._options, self._columns, partition, where)


class PushingReader(RangeReader):
    """The same, and it takes predicates from Spark.

    Only on request (``pushDown=true``). Spark 4.3 keeps the last planned reader with the loaded table and uses it for
    every later query over that table, also for one with other predicates or none, which then misses rows. A table
    that is loaded for one query is safe.
    """

    def pushFilters(self, filters: list[Predicate]) -> Iterable[Predicate]:  # noqa: N802  # Spark's name
        self._pushed, rest = push(filters, self._columns.types)
        if self._options.damage != "rows":
            return rest
        # A row that tells of damage has nulls for all else; whether those pass is for Spark to say.
        return [filter for filter in filters if filter in rest or getattr(filter, "attribute", ()) != ("position",)]


def first_position(options: Options, log: LogReader, extent: Extent) -> int:
    """Where a read begins: as asked, else at the oldest event; a PipelineError if that is gone."""
    if options.start_time is not None:
        return position_at(options, log, options.start_time)
    if options.start in (None, "earliest"):
        return extent.first
    if options.start == "latest":
        return extent.end
    assert isinstance(options.start, int)
    return kept(options, options.start, extent)


def extent_of(options: Options, log: LogReader) -> Extent:
    """The log's extent; if its end is damaged and that may be passed over, as far as it is known."""
    return log.extent(partial(_refuse if options.damage == "fail" else _warn, options))


def position_at(options: Options, log: LogReader, instant: datetime) -> int:
    """The first position accepted at or after an instant, or before it what is damaged and may have been."""
    if options.damage == "fail":
        return log.position_at(instant, partial(_refuse, options))
    damaged: list[Damage] = []
    position = log.position_at(instant, damaged.append)
    for damage in reversed(damaged):
        if damage.end == position:
            position = damage.first
    return position


def kept(options: Options, start: int, extent: Extent) -> int:
    """``start``, or the oldest position if ``start`` has expired and that may be passed over."""
    return start if start >= extent.first else _pass_over(options, start, extent.first)


def _pass_over(options: Options, start: int, first: int) -> int:
    lost = f"the positions {start:,} to {first - 1:,} of the log {options.path} have expired"
    if options.fail_on_data_loss:
        raise PipelineError(f"{lost}; set failOnDataLoss=false to go on from position {first:,}")
    logger.warning("%s", lost)
    return first


def split(start: int, end: int, rows: int, segments: Sequence[Segment] = ()) -> list[LogRange]:
    """Ranges of at most ``rows``, cut where a segment ends if that is in the second half, to read its file once."""
    borders = [segment.end for segment in segments]
    ranges = []
    while start < end:
        stop = min(start + rows, end)
        border = borders[bisect_right(borders, stop) - 1] if borders and borders[0] <= stop else start
        if stop < end and border > start + rows // 2:
            stop = border
        ranges.append(LogRange(start, stop))
        start = stop
    return ranges


def read_range(options: Options, columns: Columns, part: LogRange, where: Filter | None) -> Iterator[pa.RecordBatch]:
    """The rows of a range; what cannot be read fails, is logged, or becomes rows, as the options say."""
    found: list[Damage] = []

    def on_damage(damage: Damage) -> None:
        if damage.expired:
            _pass_over(options, damage.first, damage.end)
        elif options.damage == "fail":
            _refuse(options, damage)
        else:
            found.append(damage)

    for batch in LogReader(options.path).read(part.start, part.end, where=where, on_damage=on_damage):
        yield from _told(options, columns, found)
        yield columns.build(batch)
    yield from _told(options, columns, found)


def _refuse(options: Options, damage: Damage) -> None:
    raise LogError(f"log {options.path}: {damage}; damage=skip or damage=rows reads the rest", damage)


def _warn(options: Options, damage: Damage) -> None:
    logger.warning("log %s: %s", options.path, damage)


def _told(options: Options, columns: Columns, found: list[Damage]) -> Iterator[pa.RecordBatch]:
    for damage in found:
        _warn(options, damage)
        if options.damage == "rows":
            yield from columns.damaged(damage.first, damage.end, f"{damage.reason} ({damage.place})")
    found.clear()


# --- The log as a stream: an offset is a position --------------------------------------------------------------------
#
# Spark keeps offsets in its checkpoint and asks for ranges between them, so every position is read in exactly one
# micro-batch, and a repeated micro-batch reads the same positions. How far a micro-batch goes is decided by
# ``latestOffset``: to the end of the log, or at most ``maxRowsPerBatch`` further (Spark may ask for everything, and
# then gets everything). ``reportLatestOffset`` is the log's end, whatever the limit, so that progress reports show the
# lag.


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
