"""Parquet files that Python workers read themselves, row group by row group.

    match(events, alerts, files=find_files(events))

The rows of a DataFrame go from a file into rows of the JVM and from these into Arrow before a worker has them, which
for many columns costs more than matching does. Where a DataFrame is nothing but Parquet files, which executors see
under the paths that the driver sees, workers may as well read the files. Tasks are then runs of row groups.

``find_files`` gives None wherever Spark might read something else than Arrow does: anything between the files and the
DataFrame, columns from the names of folders, files that differ in a column, types beside text, numbers, booleans,
instants in microseconds and structs and arrays of these, options of the reader, files that may be damaged or missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from recado.pipeline.errors import PipelineError
from recado.pipeline.session import is_remote

MOST_FILES = 1_000
"""The driver reads the end of every file."""
TASK_BYTES = 64 << 20
"""About so much of files, before they were packed, is one task, or less if there would be few tasks."""
TASKS_A_CORE = 4

_ARROW = {
    StringType: pa.string(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BooleanType: pa.bool_(),
    TimestampType: pa.timestamp("us", "UTC"),
}
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
_OTHER_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


class Piece(msgspec.Struct, frozen=True):
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]


class ParquetFiles(msgspec.Struct, frozen=True):
    """What a DataFrame consists of: the columns that were looked at, the pieces of each task, the number of rows."""

    columns: tuple[str, ...]
    tasks: tuple[tuple[Piece, ...], ...]
    rows: int


def find_files(events: DataFrame, columns: Collection[str] | None = None) -> ParquetFiles | None:
    """The files of a DataFrame as workers may read them, or None if Spark has to; ``columns`` are those that matter."""
    scan = _scan(events)
    if scan is None or any(str(events.sparkSession.conf.get(name)).lower() == "true" for name in _LENIENT):
        return None
    fields = [field for field in events.schema if columns is None or field.name in columns]
    names = [field.name for field in fields]
    from_folders = {str(name) for name in scan.partitionSchema().fieldNames()}
    if from_folders.intersection(names) or any("." in name for name in names):
        return None
    urls = [urlsplit(str(url)) for url in scan.location().inputFiles()]
    if len(urls) > MOST_FILES or any(url.scheme != "file" for url in urls):
        return None
    groups: list[tuple[str, int, int]] = []
    rows = 0
    for path in (unquote(url.path) for url in urls):
        try:
            with pq.ParquetFile(path) as file:
                if not _is_plain(file, fields):
                    return None
                rows += file.metadata.num_rows
                sizes = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
        except (OSError, pa.ArrowException):  # Spark tells what is wrong with it
            return None
        groups += [(path, number, size) for number, size in enumerate(sizes)]
    cores = events.sparkSession.sparkContext.defaultParallelism
    return ParquetFiles(tuple(names), tuple(_tasks(groups, cores)), rows)


def _scan(events: DataFrame) -> Any:
    """Spark's own description of files of Parquet, if the DataFrame is just those; else None."""
    if is_remote(events.sparkSession) or events.isStreaming:
        return None
    plan = events._jdf.queryExecution().analyzed()  # noqa: SLF001  # PySpark has no public way
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    plain = str(relation.fileFormat().toString()) == "Parquet" and relation.options().removed("path").isEmpty()
    return relation if plain else None


def _is_plain(file: pq.ParquetFile, fields: Iterable[Any]) -> bool:
    """Does Arrow read these columns of a file as what Spark reads?"""
    schema = file.schema_arrow
    if any(mark in (file.metadata.metadata or {}) for mark in _OTHER_CALENDAR):
        return False
    return all(
        schema.names.count(field.name) == 1 and _alike(field.dataType, schema.field(field.name).type)
        for field in fields
    )


def _alike(kind: DataType, arrow: pa.DataType) -> bool:
    if isinstance(kind, ArrayType):
        return pa.types.is_list(arrow) and _alike(kind.elementType, arrow.value_type)
    if isinstance(kind, StructType):
        if not pa.types.is_struct(arrow) or [field.name for field in arrow] != kind.names:
            return False
        return all(_alike(one.dataType, other.type) for one, other in zip(kind, arrow, strict=True))
    return bool(_ARROW.get(type(kind)) == arrow)


def _tasks(groups: Sequence[tuple[str, int, int]], cores: int) -> Iterator[tuple[Piece, ...]]:
    """Neighbouring row groups together, up to a size."""
    enough = min(TASK_BYTES, sum(size for *_, size in groups) // (TASKS_A_CORE * cores))
    held: dict[str, list[int]] = {}
    size = 0
    for number, (path, group, bytes) in enumerate(groups):
        if size and (size + bytes > enough or group in held.get(path, ())):
            yield _pieces(held)
            held, size = {}, 0
        held.setdefault(path, []).append(group)
        size += max(bytes, 1)
        if number == len(groups) - 1:
            yield _pieces(held)


def _pieces(held: dict[str, list[int]]) -> tuple[Piece, ...]:
    return tuple(Piece(path, tuple(groups)) for path, groups in held.items())


def read_pieces(pieces: Iterable[Piece], columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """In an executor: the columns of some row groups, in batches of at most ``size`` rows."""
    for piece in pieces:
        try:
            with pq.ParquetFile(piece.path) as file:
                for batch in file.iter_batches(size, list(piece.groups), list(columns), use_threads=False):
                    yield batch.select(list(columns))
        except (OSError, pa.ArrowException, IndexError, KeyError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            there = "" if Path(piece.path).exists() else " (it is not there, or not on this executor)"
            raise PipelineError(f"{piece.path} cannot be read: {reason}{there}") from None
