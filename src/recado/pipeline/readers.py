"""Events and subscriptions from where people keep them, as DataFrames.

Events: Parquet (typed columns), NDJSON (one event a line, either form), CloudEvents batch files (one JSON array a
file), a Recado log; files, folders and globs alike, once or as a stream that follows a folder or log as it grows.
Subscriptions: NDJSON or Parquet. JSON is read as text and decoded by Recado itself, so that events mean the same here
as everywhere else, and so that one bad line is one rejected row. So is a position of a log that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import has_magic, iglob
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recado.errors import EventError
from recado.model.codec import split_batch
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import HadoopPath, Location, for_spark, locate
from recado.pipeline.session import is_remote
from recado.pipeline.source import read_log, register
from recado.store.log.manifest import MANIFEST, SEGMENTS

Format = Literal["auto", "parquet", "ndjson", "cloudevents", "log"]

_MARK = "^\N{ZERO WIDTH NO-BREAK SPACE}"
_LOOKED_AT = 1000
"""How many files of a folder are looked at to tell what it holds."""


class Source(NamedTuple):
    """Events, what ``match`` must be told of their form, and of a stream where they come from."""

    events: DataFrame
    form: dict[str, Any]
    place: str = ""


def read_events(spark: SparkSession, path: str, format: Format = "auto") -> Source:
    """All events at a path."""
    place = locate(path)
    kind = _kind(spark, place) if format == "auto" else format
    read = for_spark(place)
    with user_errors():
        match kind:
            case "parquet":
                return Source(spark.read.parquet(read), {})
            case "ndjson":
                return Source(_lines(spark.read.text(read)), {"json": "value"})
            case "cloudevents":
                return Source(elements(spark.read.text(read, wholetext=True)), {"json": "value"})
            case _:
                return Source(_told(read_log(spark, place, damage="rows")), {"json": "event"})


def follow_events(spark: SparkSession, path: str, format: Format = "auto", most: int | None = None) -> Source:
    """The events at a path and all that will come; ``most`` files, or rows of a log, in one micro-batch."""
    place = locate(path)
    kind = _kind(spark, place) if format == "auto" else format
    path, read = str(place), for_spark(place)
    if (isinstance(place, Path) or not is_remote(spark)) and place.is_file():
        raise PipelineError(
            f"{path} is a file; a stream follows a folder or a log (a file is for recado pipeline match)"
        )
    if most is not None and most < 1:
        raise PipelineError(f"at most {most} in one micro-batch would be none; give a number from 1 on")
    if kind == "log":
        register(spark)
        reader = spark.readStream.format("recado").option("damage", "rows").option("path", str(_local_log(place)))
        followed = (reader.option("maxRowsPerBatch", most) if most else reader).load()
        return Source(_told(followed), {"json": "event"}, path)
    reader = spark.readStream
    if most:
        reader = reader.option("maxFilesPerTrigger", most)
    with user_errors():
        match kind:
            case "parquet":
                return Source(reader.schema(spark.read.parquet(read).schema).parquet(read), {}, path)
            case "ndjson":
                return Source(_lines(reader.text(read)), {"json": "value"}, path)
            case _:
                return Source(elements(reader.text(read, wholetext=True)), {"json": "value"}, path)


def _told(log: DataFrame) -> DataFrame:
    """A log in which what cannot be read stands as a row that is no event, so that it is rejected with its position."""
    told = F.concat(F.lit("position "), F.col("position"), F.lit(" cannot be read: "), F.col("damage"))
    return log.withColumn("event", F.coalesce("event", told)).drop("damage")


def read_subscriptions_at(spark: SparkSession, path: str) -> DataFrame:
    """A DataFrame with a subscription in each row."""
    place = locate(path)
    kind = _kind(spark, place)
    read = for_spark(place)
    with user_errors():
        return spark.read.parquet(read) if kind == "parquet" else _lines(spark.read.text(read))


def subscription_files(path: str, scratch: Path) -> Iterator[tuple[str, Path]]:
    """The file at a path or URL, or the files of a folder, as what they are called and where they are on this host.

    Those at a URL are copied to ``scratch`` one at a time; beside Parquet nothing else counts. A PipelineError if there
    is none.
    """
    place = locate(path)
    try:
        if isinstance(place, Path):
            found: list[Location] = list(_files(str(place)))
        else:
            found = list(_files_at(place))
        if not found:
            raise PipelineError(f"{path} {'is an empty folder' if place.is_dir() else 'does not exist'}")
        packed = [file for file in found if file.suffix == ".parquet"]
        for file in sorted(packed or found, key=str):
            if isinstance(file, Path):
                yield str(file), file
                continue
            copy = scratch / file.name
            file.fetch(copy)
            yield str(file), copy
            copy.unlink()
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}") from None


def is_parquet(file: Path) -> bool:
    """Does the file begin as Parquet does?"""
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def _local_log(place: Location) -> Path:
    if isinstance(place, Path):
        return place
    raise PipelineError(
        f"{place}: a stream follows a log in a folder that the driver and the executors mount; at a URL there is only "
        "its sealed part, which `recado pipeline match` reads"
    )


def elements(files: DataFrame) -> DataFrame:
    """Whole files to the elements of the JSON arrays in them; a file that is none stays one row, to be rejected."""
    return files.mapInArrow(_split, "value string")


def _split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column("value").to_pylist():
            yield pa.RecordBatch.from_arrays([pa.array(_elements_of(text), pa.string())], names=["value"])


def _elements_of(text: str) -> list[str]:
    try:
        return [element.decode() for element in split_batch(text.removeprefix(_MARK[1:]))]
    except EventError:
        return [text]


def _lines(texts: DataFrame) -> DataFrame:
    """Lines that are not blank, without the mark that some editors put first."""
    return texts.select(F.regexp_replace("value", _MARK, "").alias("value")).where(F.trim("value") != "")


def _kind(spark: SparkSession, place: Location) -> Format:
    """What a path holds, told from names and first bytes; over Spark Connect, a URL's name alone tells."""
    if isinstance(place, HadoopPath) and is_remote(spark):
        return "parquet" if place.suffix == ".parquet" else "ndjson"
    try:
        if (place / "tail.sqlite").exists() if isinstance(place, Path) else _is_sealed_log(place):
            return "log"
        files = _files(str(place)) if isinstance(place, Path) else _files_at(place)
    except OSError as error:
        raise PipelineError(f"{place} cannot be read: {error.strerror}") from None
    if not files:
        what = "is an empty folder; say what will come with --format" if place.is_dir() else "does not exist"
        raise PipelineError(f"{place} {what}")
    if any(file.suffix == ".parquet" for file in files):
        return "parquet"
    plain = [file for file in files if file.suffix in (".json", "")]
    return "cloudevents" if plain and _begins_with_bracket(plain[0]) else "ndjson"


def _is_sealed_log(place: HadoopPath) -> bool:
    return not has_magic(str(place)) and (place / MANIFEST).is_file() and (place / SEGMENTS).is_dir()


def _files(path: str) -> list[Path]:
    place = Path(path)
    if has_magic(path):
        names = iglob(path, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
        return [Path(name) for name in islice(names, _LOOKED_AT)]
    if not place.is_dir():
        return [place] if place.exists() else []
    visible = (p for p in place.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
    return list(islice(visible, _LOOKED_AT))


def _files_at(place: HadoopPath) -> list[HadoopPath]:
    """Some files at a URL, which may be a pattern."""
    waiting = place.matches() if has_magic(str(place)) else [place] if place.exists() else []
    found: list[HadoopPath] = []
    while waiting and len(found) < _LOOKED_AT:
        path = waiting.pop()
        if path.is_dir():
            waiting += [inner for inner in path.iterdir() if not inner.name.startswith((".", "_"))]
        else:
            found.append(path)
    return found


def _begins_with_bracket(path: Location) -> bool:
    try:
        if isinstance(path, Path):
            with path.open("rb") as file:
                begin = file.read(4096)
        else:
            begin = path.read_bytes(4096)
        return begin.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None
