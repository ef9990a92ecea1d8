"""Where a stream's notifications may go besides folders of Parquet: whatever the session's Spark can write to.

    start_stream(events, alerts, EachBatch(send, name="gateway"), "state")
    start_stream(events, alerts, FormatSink("delta", table="found"), "state")
    start_stream(events, alerts, StreamSink(lambda writer: writer.format("console"), name="console"), "state")

- ``EachBatch`` and ``FormatSink`` are given each micro-batch as a DataFrame. After a crash the micro-batch at hand
  comes again, with the same number and the same rows: what a sink makes of that decides whether it is *exactly once*.
- ``StreamSink`` leaves everything to a sink of Spark's own, which knows micro-batches by itself. Nobody then chooses a
  version of the set at each of them: it stays the one that was the newest at the start.

A sink has a name, since a checkpoint belongs to one: a stream that goes on elsewhere would lose or repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from recado.pipeline.errors import PipelineError
from recado.pipeline.match import count_of

QUERY = "sql.streaming.queryId"
"""The local property in which Spark tells the identity of a query, which stays with its checkpoint."""
_IDEMPOTENT = {"delta": {"txnAppId": "{query}", "txnVersion": "{batch}"}}
"""Options by which a format knows a micro-batch again, and leaves it out."""


@runtime_checkable
class Sink(Protocol):
    """What takes micro-batches."""

    @property
    def name(self) -> str:
        """What a checkpoint belongs to."""
        ...

    def has(self, batch: int) -> bool:
        """Is the micro-batch there, whole? Then it is not written again."""
        ...

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write a micro-batch; how many notifications it has."""
        ...


class EachBatch:
    """A function that is called with each micro-batch and its number: *at least once*.

    It is exactly once if the function does nothing the second time it gets a number, or if ``has`` tells that.
    """

    def __init__(
        self,
        function: Callable[[DataFrame, int], object],
        *,
        name: str,
        has: Callable[[int], bool] | None = None,
    ) -> None:
        self.name = _named(name)
        self._function, self._has = function, has

    def has(self, batch: int) -> bool:
        return self._has is not None and self._has(batch)

    def write(self, rows: DataFrame, batch: int) -> int:
        self._function(rows, batch)
        return _count(rows)


class FormatSink:
    """A format of Spark that a batch can be appended to: Delta, Iceberg, Kafka, JDBC, a Python data source, …

    ``prepare`` brings the rows into the form that it takes. In the values of ``options``, ``{batch}`` stands for the
    number of the micro-batch and ``{query}`` for the identity of the stream, which its checkpoint keeps; for Delta,
    which knows by them what it has, they are given anyway. ``has`` tells of a micro-batch that is there already.
    """

    def __init__(
        self,
        format: str,
        path: str | None = None,
        *,
        table: str | None = None,
        options: Mapping[str, str] | None = None,
        prepare: Callable[[DataFrame], DataFrame] | None = None,
        has: Callable[[int], bool] | None = None,
        name: str | None = None,
    ) -> None:
        if path is not None and table is not None:
            raise PipelineError(f"{format} is written to a path or to a table, not to both")
        self.name = _named(name or ":".join(part for part in (format, path or table) if part))
        self._format, self._path, self._table = format, path, table
        self._options = _IDEMPOTENT.get(format.lower(), {}) | dict(options or {})
        self._prepare, self._has = prepare, has

    def has(self, batch: int) -> bool:
        return self._has is not None and self._has(batch)

    def write(self, rows: DataFrame, batch: int) -> int:
        ready = rows if self._prepare is None else self._prepare(rows)
        query = query_of(rows.sparkSession)
        options = {
            name: value.replace("{batch}", str(batch)).replace("{query}", query)
            for name, value in self._options.items()
        }
        writer = ready.write.format(self._format).mode("append").options(**options)
        if self._table is not None:
            writer.saveAsTable(self._table)
        else:
            writer.save(self._path)
        return _count(rows)


class StreamSink:
    """A sink of Spark's own: ``configure`` gets ``found.writeStream`` and gives it back, with its format and options.

    What is promised is what that sink promises. A row that is no event ends the stream, unless ``bad_rows="keep"``
    is given to ``start_stream``: then it is a row of the result with the column ``rejected``.
    """

    def __init__(self, configure: Callable[[DataStreamWriter], DataStreamWriter], *, name: str) -> None:
        self.name = _named(name)
        self.configure = configure


def query_of(spark: SparkSession) -> str:
    """The identity of the streaming query that this thread works for; it stays the same as long as its checkpoint."""
    return spark.sparkContext.getLocalProperty(QUERY) or ""


def _named(name: str) -> str:
    if not name:
        raise PipelineError("a sink needs a name, which its checkpoint keeps")
    return name


def _count(rows: DataFrame) -> int:
    """The notifications of a micro-batch, whose rows Spark has kept."""
    counted: Any = rows.select(F.sum(count_of(rows)).alias("n")).first()
    return int(counted["n"] or 0)
