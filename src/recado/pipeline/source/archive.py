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

At a URL lies the sealed part of a log, as somebody copied it: ``segments`` and ``manifest.json``. Spark reads it all; a
segment that is not whole is damage as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import HadoopPath, literal, locate
from recado.pipeline.source.columns import DAMAGE, LOG_COLUMNS, default_schema
from recado.pipeline.source.options import Damaged, Options
from recado.pipeline.source.reader import LogRange, extent_of
from recado.pipeline.source.source import FORMAT, register
from recado.store.log import LogReader, Segment
from recado.store.log.manifest import MANIFEST, SEGMENTS, Manifest, SegmentEntry, decode, load
from recado.store.log.segments import bytes_digest, file_digest

_CHECKS = 64
"""At most so many tasks check digests."""


def read_log(
    spark: SparkSession, path: str | Path | HadoopPath, *, verify: bool = True, damage: Damaged = "fail"
) -> DataFrame:
    """The events of the log as it is now, in the columns of ``LOG_COLUMNS``; ``damage="rows"`` adds ``damage``.

    At a URL that is the sealed part.
    """
    folder = locate(path)
    if isinstance(folder, HadoopPath):
        with user_errors():
            return _read_at_url(spark, folder, verify, damage)
    manifest = load(folder)
    end = extent_of(Options(str(folder), damage=damage), LogReader(folder)).end
    with user_errors():
        register(spark)
        whole = _whole(manifest, folder)
        good = intact(spark, whole) if verify else whole
        parts = [_sealed(spark, [literal(one.path) for one in good], damage)] if good else []
        parts += [_ours(spark, folder, part, damage) for part in _rest(manifest.first, end, good)]
        return reduce(DataFrame.unionByName, parts)


# --- The sealed part of a log at a URL --------------------------------------------------------------------------------


def _read_at_url(spark: SparkSession, folder: HadoopPath, verify: bool, damage: Damaged) -> DataFrame:
    manifest = _manifest_at(folder)
    good: list[SegmentEntry] = []
    bad = [(lost.first, lost.end, lost.reason) for lost in manifest.lost]
    for entry in manifest.segments:
        if any(first < entry.end and entry.first < end for first, end, _ in bad):
            bad.append((entry.first, entry.end, "a part of it was given up by a repair"))
        elif _length_at(folder / SEGMENTS / entry.file) == entry.bytes:
            good.append(entry)
        else:
            bad.append((entry.first, entry.end, f"{entry.file} is missing or has another length"))
    if verify and good:
        whole = _whole_at(spark, folder, good)
        bad += [(one.first, one.end, f"{one.file} is damaged") for one in good if one.file not in whole]
        good = [one for one in good if one.file in whole]
    if bad and damage == "fail":
        first, end, reason = min(bad)
        raise PipelineError(
            f"log {folder}: positions {first:,} to {end - 1:,} cannot be read: {reason}; read_log with damage='skip' "
            "or 'rows' reads the rest"
        )
    parts = [_sealed(spark, [literal(folder / SEGMENTS / one.file) for one in good], damage)] if good else []
    if damage == "rows":
        parts += [_damaged(spark, *one) for one in bad]
    return (
        reduce(DataFrame.unionByName, parts) if parts else spark.createDataFrame([], default_schema(damage == "rows"))
    )


def _manifest_at(folder: HadoopPath) -> Manifest:
    path = folder / MANIFEST
    try:
        return decode(path.read_bytes(), path)
    except FileNotFoundError:
        raise PipelineError(f"there is no event log at {folder}: it has no {MANIFEST}") from None
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}") from None


def _length_at(path: HadoopPath) -> int | None:
    try:
        return path.size()
    except FileNotFoundError:
        return None


def _whole_at(spark: SparkSession, folder: HadoopPath, entries: Sequence[SegmentEntry]) -> set[str]:
    """The names of the segments that have the digest that the manifest gives them; the executors look."""
    urls = [literal(folder / SEGMENTS / entry.file) for entry in entries]
    files = spark.read.format("binaryFile").load(urls).select("_metadata.file_name", "content")
    found = {row["name"]: row["digest"] for row in files.mapInArrow(_digests, "name string, digest string").collect()}
    return {entry.file for entry in entries if found.get(entry.file) == entry.digest}


def _digests(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        digests = [bytes_digest(one.as_buffer()) for one in batch.column(1)]
        yield pa.record_batch([batch.column(0), pa.array(digests, pa.string())], names=["name", "digest"])


def _damaged(spark: SparkSession, first: int, end: int, reason: str) -> DataFrame:
    """A row for each position that cannot be read."""
    known = {"position": col("id"), "damage": lit(reason)}
    fields = default_schema(damage_rows=True)
    return spark.range(first, end).select(
        *(known.get(field.name, lit(None)).cast(field.dataType).alias(field.name) for field in fields)
    )


# --- A log in a folder ------------------------------------------------------------------------------------------------


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


def _sealed(spark: SparkSession, paths: Sequence[str], damage: Damaged) -> DataFrame:
    reader = spark.read.schema(LOG_COLUMNS).option("parquet.page.verify-checksum.enabled", "true")
    sealed = reader.parquet(*paths)
    return sealed.withColumn(DAMAGE.name, lit(None).cast(DAMAGE.dataType)) if damage == "rows" else sealed


def _ours(spark: SparkSession, folder: Path, part: LogRange, damage: Damaged) -> DataFrame:
    reader = spark.read.format(FORMAT).option("damage", damage)
    return reader.option("startingPosition", part.start).option("endingPosition", part.end).load(str(folder))
