"""A whole log as one DataFrame: sealed segments by Spark's own Parquet reader, the rest by ours.

The manifest is read once, and the log's end after it. Segments are files that never change, so Spark may read them when
it likes; what was not sealed then is a range of positions, which ``LogReader`` finds wherever it is by the time it
is read. So every position of that one extent is there exactly once, also if the log is written, or sealed, in between.
A segment that retention removes in between is missed by Spark with an error, not in silence.

Files that are not whole are given to our reader, which reads what is intact and tells of the rest by position: those
that are gone or have another length, since Spark takes an empty file for one without rows; and, unless ``verify`` is
false, those whose digest is not that of the manifest, which executors compare in parallel. For damage that comes later
Spark is told to check the checksums of Parquet's pages, which it does not by itself: of single bits flipped in pages it
would read half as other values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from recado.pipeline.errors import user_errors
from recado.pipeline.source.columns import DAMAGE, LOG_COLUMNS
from recado.pipeline.source.options import Damaged, Options
from recado.pipeline.source.reader import LogRange, extent_of
from recado.pipeline.source.source import FORMAT, register
from recado.store.log import LogReader, Segment
from recado.store.log.manifest import Manifest, load
from recado.store.log.segments import file_digest

_CHECKS = 64
"""At most so many tasks check digests."""


def read_log(spark: SparkSession, path: str | Path, *, verify: bool = True, damage: Damaged = "fail") -> DataFrame:
    """The events of the log as it is now, in the columns of ``LOG_COLUMNS``; ``damage="rows"`` adds ``damage``."""
    folder = Path(path).absolute()
    manifest = load(folder)
    end = extent_of(Options(str(folder), damage=damage), LogReader(folder)).end
    with user_errors():
        register(spark)
        whole = _whole(manifest, folder)
        good = intact(spark, whole) if verify else whole
        parts = [_seal(spark, good, damage)] if good else []
        parts += [_ours(spark, folder, part, damage) for part in _rest(manifest.first, end, good)]
        return reduce(DataFrame.unionByName, parts)


def intact(spark: SparkSession, segments: Sequence[Segment]) -> list[Segment]:
    """The segments whose files have the digest that the manifest gives them; the executors look."""
    if not segments:
        return []
    rows = [(number, str(segment.path), segment.digest) for number, segment in enumerate(segments)]
    listed = spark.createDataFrame(rows, "number long, path string, digest string")
    spread = listed.repartition(min(len(rows), _CHECKS))
    good = {row["number"] for row in spread.mapInArrow(_undamaged, "number long").collect()}
    return [segment for number, segment in enumerate(segments) if number in good]


def _undamaged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        good = [row["number"] for row in batch.to_pylist() if _digest(row["path"]) == row["digest"]]
        yield pa.record_batch([pa.array(good, pa.int64())], names=["number"])


def _digest(path: str) -> str | None:
    try:
        return file_digest(Path(path))
    except OSError:
        return None


def _whole(manifest: Manifest, folder: Path) -> list[Segment]:
    """The segments that hold every one of their positions; ``repair`` may have given some up, or a file be cut off."""
    segments = [entry.located(folder) for entry in manifest.segments]
    return [
        segment
        for segment in segments
        if _length(segment.path) == segment.bytes
        and not any(lost.first < segment.end and segment.first < lost.end for lost in manifest.lost)
    ]


def _length(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _rest(first: int, end: int, segments: Sequence[Segment]) -> list[LogRange]:
    """The ranges of positions that the segments leave; an empty one if there is nothing at all."""
    ranges, reached = [], first
    for segment in segments:
        if reached < segment.first:
            ranges.append(LogRange(reached, segment.first))
        reached = segment.end
    if reached < end or (not ranges and not segments):
        ranges.append(LogRange(reached, end))
    return ranges


def _seal(spark: SparkSession, segments: Sequence[Segment], damage: Damaged) -> DataFrame:
    reader = spark.read.schema(LOG_COLUMNS).option("parquet.page.verify-checksum.enabled", "true")
    sealed = reader.parquet(*(_literal(segment.path) for segment in segments))
    return sealed.withColumn(DAMAGE.name, lit(None).cast(DAMAGE.dataType)) if damage == "rows" else sealed


def _literal(path: Path) -> str:
    """The path as Spark must be told it: a local file, and no pattern."""
    return "file://" + re.sub(r"([{}\[\]*?\\])", r"\\\1", str(path))


def _ours(spark: SparkSession, folder: Path, part: LogRange, damage: Damaged) -> DataFrame:
    reader = spark.read.format(FORMAT).option("damage", damage)
    return reader.option("startingPosition", part.start).option("endingPosition", part.end).load(str(folder))
