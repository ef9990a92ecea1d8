"""The data source: one class that makes readers and writers from options and a schema.

Spark makes an instance in a Python process of its own, pickles it, and sends it to the processes that plan, read and
write; so an instance holds nothing but the options. A schema given by the user reaches ``reader``, not this class,
which is why a wrong column is reported when a query is planned and a wrong option already at ``load``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from recado.model.codec import read_event
from recado.model.event import Event
from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import Columns, check_written, default_schema, events_of
from recado.pipeline.source.options import Options, read_options
from recado.pipeline.source.reader import PushingReader, RangeReader, StreamReader
from recado.store.log import BusyError, LogReader, SqliteEventLog

# --- Writing to the log: executors stage, the driver appends ---------------------------------------------------------
#
# A log has one writer, so a task writes its events to a file of its own in the log's folder ``staging`` and tells the
# driver where it is; the driver opens the log, appends the files in the order of the partitions, and removes them.
#
# The guarantee is **at least once, with stable ids**. A task that is tried again stages a new file and only the last
# one is told of, so within a job there are no repeats. A job or a micro-batch that fails while it appends, or that
# Spark repeats after a crash, appends again events that carry the same ids: whoever reads tells repeats by their id.


APPEND_ROWS = 10_000
APPEND_BYTES = 16 * 1024 * 1024
FORGOTTEN_SECONDS = 24 * 3600.0
"""How old a staged file is that nobody will ask for: its task was killed before it could tell."""


class Staged(WriterCommitMessage):
    """A file of events as flat JSON lines."""

    def __init__(self, path: str, rows: int, size: int) -> None:
        self.path = path
        self.rows = rows
        self.size = size


Told = Sequence[WriterCommitMessage | None]


class Writer:
    """What batch and stream have in common."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_written(schema)
        self._options = options
        self._job = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        folder = staging(self._options)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._job}-{uuid4().hex}.jsonl"
        try:
            return _stage(path, events_of(iterator))
        except BaseException:
            path.unlink(missing_ok=True)
            raise


class BatchWriter(Writer, DataSourceArrowWriter):
    """``df.write.format("recado").mode("append").save(path)``."""

    def commit(self, messages: Told) -> None:
        append(self._options, staged(messages))

    def abort(self, messages: Told) -> None:
        discard(staged(messages))
        for path in staging(self._options).glob(f"{self._job}-*"):  # of tasks that were killed
            path.unlink(missing_ok=True)


class StreamWriter(Writer, DataSourceStreamArrowWriter):
    """The same for each micro-batch. Spark makes another one to commit, so it knows its tasks by what they told."""

    def commit(self, messages: Told, batchId: int) -> None:  # noqa: N803  # Spark's name
        files = staged(messages)
        if any(file.rows for file in files):
            append(self._options, files)
        else:
            discard(files)

    def abort(self, messages: Told, batchId: int) -> None:  # noqa: N803  # Spark's name
        discard(staged(messages))


def staging(options: Options) -> Path:
    return Path(options.path) / "staging"


def staged(messages: Told) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def append(options: Options, files: Sequence[Staged]) -> None:
    """Append what was staged, in its order; seal what is due; leave no file behind."""
    for file in files:  # before the first append, so that a lost file does not leave half a job in the log
        if not Path(file.path).is_file() or Path(file.path).stat().st_size != file.size:
            raise PipelineError(
                f"the staged file {file.path} is not complete; the driver and all executors must share the log's folder"
            )
    with _open(options) as log:
        for chunk in _chunks(files):
            log.append(chunk)
        log.seal()
    discard(files)
    _sweep(staging(options))


def discard(files: Sequence[Staged]) -> None:
    for file in files:
        Path(file.path).unlink(missing_ok=True)


def _stage(path: Path, events: Iterator[bytes]) -> Staged:
    rows = 0
    with path.open("wb") as file:
        for event in events:
            file.write(event + b"\n")
            rows += 1
        size = file.tell()
    return Staged(str(path), rows, size)


def _chunks(files: Sequence[Staged]) -> Iterator[list[Event]]:
    """All staged events in appends of bounded size."""
    chunk: list[Event] = []
    size = 0
    for staged_file in files:
        with Path(staged_file.path).open("rb") as file:
            for line in file:
                chunk.append(read_event(line))
                size += len(line)
                if len(chunk) >= APPEND_ROWS or size >= APPEND_BYTES:
                    yield chunk
                    chunk, size = [], 0
    if chunk:
        yield chunk


def _open(options: Options) -> SqliteEventLog:
    """The log, opened for writing; waits while another process writes to it."""
    give_up = time.monotonic() + options.lock_seconds
    while True:
        try:
            return SqliteEventLog.open(options.path)
        except BusyError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(0.1)


def _sweep(folder: Path) -> None:
    oldest = time.time() - FORGOTTEN_SECONDS
    for path in folder.glob("*.jsonl"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue


# --- The data source: one class that makes readers and writers from options and a schema -----------------------------

FORMAT = "recado"


class RecadoSource(DataSource):
    """``format("recado")``: the event log as a table that can be read, streamed and appended to."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = read_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        LogReader(self._settings.path)  # a missing log is told at load, before any plan
        return default_schema(self._settings.damage == "rows")

    def reader(self, schema: StructType) -> RangeReader:
        kind = PushingReader if self._settings.push_down else RangeReader
        return kind(self._settings, self._columns(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  # Spark's name
        return StreamReader(self._settings, self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(self._settings, _append(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  # Spark's name
        return StreamWriter(self._settings, _append(schema, overwrite))

    def _columns(self, schema: StructType) -> Columns:
        return Columns(schema, self._settings.damage == "rows")


def register(spark: SparkSession) -> None:
    """Make ``format("recado")`` known to the session, and let Spark hand its predicates over."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(RecadoSource)


def _append(schema: StructType, overwrite: bool) -> StructType:
    if overwrite:
        raise PipelineError("a log is only ever appended to: write with mode('append'), or outputMode('append')")
    return schema
