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
from recado.pipeline.source import read_log, register

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
    path = located(path)
    kind = _need_path(path) if format == "auto" else format
    with user_errors():
        match kind:
            case "parquet":
                return Source(spark.read.parquet(path), {})
            case "ndjson":
                return Source(_lines(spark.read.text(path)), {"json": "value"})
            case "cloudevents":
                return Source(elements(spark.read.text(path, wholetext=True)), {"json": "value"})
            case _:
                return Source(_told(read_log(spark, path, damage="rows")), {"json": "event"})


def follow_events(spark: SparkSession, path: str, format: Format = "auto", most: int | None = None) -> Source:
    """The events at a path and all that will come; ``most`` files, or rows of a log, in one micro-batch."""
    path = located(path)
    kind = _need_path(path) if format == "auto" else format
    if Path(path).is_file():
        raise PipelineError(
            f"{path} is a file; a stream follows a folder or a log (a file is for recado pipeline match)"
        )
    if most is not None and most < 1:
        raise PipelineError(f"at most {most} in one micro-batch would be none; give a number from 1 on")
    if kind == "log":
        register(spark)
        reader = spark.readStream.format("recado").option("damage", "rows").option("path", path)
        followed = (reader.option("maxRowsPerBatch", most) if most else reader).load()
        return Source(_told(followed), {"json": "event"}, path)
    reader = spark.readStream
    if most:
        reader = reader.option("maxFilesPerTrigger", most)
    with user_errors():
        match kind:
            case "parquet":
                return Source(reader.schema(spark.read.parquet(path).schema).parquet(path), {}, path)
            case "ndjson":
                return Source(_lines(reader.text(path)), {"json": "value"}, path)
            case _:
                return Source(elements(reader.text(path, wholetext=True)), {"json": "value"}, path)


def _told(log: DataFrame) -> DataFrame:
    """A log in which what cannot be read stands as a row that is no event, so that it is rejected with its position."""
    told = F.concat(F.lit("position "), F.col("position"), F.lit(" cannot be read: "), F.col("damage"))
    return log.withColumn("event", F.coalesce("event", told)).drop("damage")


def read_subscriptions_at(spark: SparkSession, path: str) -> DataFrame:
    """A DataFrame with a subscription in each row."""
    path = located(path)
    kind = _need_path(path)
    with user_errors():
        return spark.read.parquet(path) if kind == "parquet" else _lines(spark.read.text(path))


def located(path: str) -> str:
    """The path as a Spark that was started elsewhere understands it; an address stays as it is."""
    return path if ":/" in path else str(Path(path).absolute())


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


def _need_path(path: str) -> Format:
    """What a path holds, told from names and first bytes."""
    place = Path(path)
    if (place / "tail.sqlite").exists():
        return "log"
    files = _files(path)
    if not files:
        what = "is an empty folder; say what will come with --format" if place.is_dir() else "does not exist"
        raise PipelineError(f"{path} {what}")
    if any(file.suffix == ".parquet" for file in files):
        return "parquet"
    plain = [file for file in files if file.suffix in (".json", "")]
    return "cloudevents" if plain and _begins_with_bracket(plain[0]) else "ndjson"


def _files(path: str) -> list[Path]:
    place = Path(path)
    if has_magic(path):
        names = iglob(path, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
        return [Path(name) for name in islice(names, _LOOKED_AT)]
    if not place.is_dir():
        return [place] if place.exists() else []
    visible = (p for p in place.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
    return list(islice(visible, _LOOKED_AT))


def _begins_with_bracket(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None
