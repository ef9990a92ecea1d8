"""Word and lemma frequencies of a corpus of any size: what ``freq(word)`` and the corpus size N are read from.

A semantic similarity weighs a word by how much it tells, ``I(x) = 1 - ln(freq(x) + 1) / ln(N + 1)``, with ``freq``
from a corpus of N words. The table is a folder:

    words.parquet/      word, lemma, count: one row a word, sorted by word
    frequencies.json    tokens (N), language, words, lemmas, and what happened while the corpus was read

The frequency of a lemma is the sum over its words. ``frequencies.json`` is written last: a folder with it is complete.
Executors read files, cut them into words (``recado.semantics.names``) and send sums; Spark adds those up. Each
different word is brought to its lemma once, after that.
"""

from __future__ import annotations

import gzip
import os
import zlib
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recado.errors import RecadoError
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import HadoopPath, Location, for_spark, literal, locate, remove_file, write_file
from recado.pipeline.report.digest import batch_of_rows
from recado.semantics.names import WORD_CHARS, in_word, lemmatiser, words

# --- A corpus as files, read piece by piece in bounded memory --------------------------------------------------------
#
# Files are plain text, or JSON lines with the text in a named member; ``.gz`` of either. Plain files are cut into
# splits that different tasks read: a split has the lines that begin in it. A compressed file is one split. No line is
# ever held whole unless it is JSON, and then only up to ``LINE_BYTES``.
#
# What is wrong with a corpus does not stop the count. Bytes that are not UTF-8 are replaced by U+FFFD, which separates
# words, and counted. A JSON line that cannot be read, or a file that ends too early or is no gzip file, is a *problem*
# with its place and reason; what could be read before it counts.


SPLIT_BYTES = 32 << 20
PIECE_BYTES = 1 << 20
LINE_BYTES = 16 << 20
"""A longer line of JSON is left out."""
PROBLEMS = 20
"""So many problems of a split are told; the others are only counted."""
_LONG_RUN = 16 * WORD_CHARS
_JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


class Split(NamedTuple):
    """The lines of a file that begin from ``start`` up to (without) ``end``; -1 is the end of the file."""

    path: str
    start: int
    end: int


class Tally:
    """Words counted, and what happened on the way."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.facts: Counter[str] = Counter()
        self.problems: list[str] = []

    def add(self, text: str) -> None:
        found = words(text)
        self.counts.update(found)
        if len(text) > WORD_CHARS:
            self._drop_long(found)

    def _drop_long(self, found: list[str]) -> None:
        for word in [word for word in found if len(word) > WORD_CHARS]:
            self.facts["overlong_words"] += 1
            self.counts.pop(word, None)

    def problem(self, place: str, reason: str) -> None:
        self.facts["problems"] += 1
        if len(self.problems) < PROBLEMS:
            self.problems.append(f"{place}: {reason}")


# -- which files -------------------------------------------------------------------------------------------------------


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[Location]:
    """The files that paths, folders and patterns come to, each once, in order; hidden ones are left out."""
    found: dict[Location, None] = {}
    for path in (os.fspath(path) for path in paths):
        place = locate(path)
        if isinstance(place, HadoopPath):
            far = sorted(_inside_url(place), key=str)
            if not far:
                raise PipelineError(f"there is no file to read at {path}")
            found.update(dict.fromkeys(far))
            continue
        path = str(place)
        is_pattern = has_magic(path) and not Path(path).exists()
        places = sorted(glob(path, recursive=True)) if is_pattern else [path]  # noqa: PTH207  # it may be absolute
        files = [file for place in places for file in _inside(Path(place))]
        if not files:
            raise PipelineError(f"there is no file to read at {path}")
        found.update(dict.fromkeys(file.absolute() for file in files))
    return list(found)


def _inside(path: Path) -> list[Path]:
    if path.is_dir():
        inside = (file for file in sorted(path.rglob("*")) if file.is_file())
        return [file for file in inside if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    return [path] if path.is_file() else []


def _inside_url(place: HadoopPath) -> Iterator[HadoopPath]:
    for path in place.matches() if has_magic(str(place)) else [place]:
        if path.is_dir():
            for inner in path.iterdir():
                if inner.name[0] not in "._":
                    yield from _inside_url(inner)
        elif path.exists():
            yield path


def _refuse_json(files: Iterable[Location], text_field: str | None) -> None:
    for file in files:
        if text_field is None and file.name.removesuffix(".gz").endswith(_JSON_ENDINGS):
            raise PipelineError(f"{file} looks like JSON lines: say which member holds the text (text_field)")


def splits_of(files: Iterable[Path], split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """How tasks share the files."""
    out: list[Split] = []
    for file in files:
        if file.suffix == ".gz":
            out.append(Split(str(file), 0, -1))
        else:
            size = file.stat().st_size
            out += [Split(str(file), at, min(at + split_bytes, size)) for at in range(0, size, split_bytes)]
    return out


# -- what is in them ---------------------------------------------------------------------------------------------------


def read_split(split: Split, text_field: str | None, tally: Tally) -> Iterator[str]:
    """Texts that end between two words, a piece at a time."""
    try:
        with _open(split.path) as file:
            pieces = _counted(_lines(file, split), tally)
            yield from _plain(pieces, tally) if text_field is None else _members(pieces, text_field, split, tally)
    except (OSError, EOFError, zlib.error) as error:
        tally.problem(split.path, f"cannot be read on: {error}")


def _open(path: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.endswith(".gz") else Path(path).open("rb")


def _lines(file: BinaryIO, split: Split) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and its bytes; a long line comes in pieces, and only the last ends with a newline."""
    if split.start:
        file.seek(split.start - 1)
        while (skipped := file.readline(PIECE_BYTES)) and not skipped.endswith(b"\n"):
            pass
    begin = at = file.tell()
    while begin < split.end or split.end < 0:
        piece = file.readline(PIECE_BYTES)
        if not piece:
            return
        yield begin, piece
        at += len(piece)
        if piece.endswith(b"\n"):
            begin = at


def _counted(pieces: Iterable[tuple[int, bytes]], tally: Tally) -> Iterator[tuple[int, bytes]]:
    for begin, piece in pieces:
        tally.facts["bytes"] += len(piece)
        tally.facts["lines"] += piece.endswith(b"\n")
        yield begin, piece


def _plain(pieces: Iterable[tuple[int, bytes]], tally: Tally) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")("replace")
    tail = ""
    for _, piece in pieces:
        text = decoder.decode(piece)
        tally.facts["bad_utf8"] += max(0, text.count("\ufffd") - piece.count("\ufffd".encode()))
        text = tail + text
        cut = _boundary(text)
        yield text[:cut]
        tail = text[cut:][:_LONG_RUN]  # what is longer stays too long for a word
    yield tail + decoder.decode(b"", final=True)


def _boundary(text: str) -> int:
    """The place after the last character that is part of no word."""
    at = len(text)
    while at and in_word(text[at - 1]):
        at -= 1
    return at


def _members(pieces: Iterable[tuple[int, bytes]], field: str, split: Split, tally: Tally) -> Iterator[str]:
    line, size, begin = b"", 0, 0
    for begin, piece in pieces:
        size += len(piece)
        line = line + piece if size <= LINE_BYTES else b""
        if piece.endswith(b"\n"):
            yield from _member(line, size, field, f"{split.path}, byte {begin}", tally)
            line, size = b"", 0
    if size:
        yield from _member(line, size, field, f"{split.path}, byte {begin}", tally)


def _member(line: bytes, size: int, field: str, place: str, tally: Tally) -> Iterator[str]:
    if size > LINE_BYTES:
        tally.problem(place, f"the line has {size:,} bytes; the limit is {LINE_BYTES:,}")
    elif line.strip():
        try:
            text = _text_of(line, field, tally)
        except (msgspec.DecodeError, RecursionError, LookupError, TypeError) as error:
            tally.problem(place, str(error) or "the JSON is nested far too deep")
        else:
            yield text


def _text_of(line: bytes, field: str, tally: Tally) -> str:
    text = line.decode("utf-8-sig", "replace")
    tally.facts["bad_utf8"] += text.count("\ufffd") - line.count("\ufffd".encode())
    record: Any = msgspec.json.decode(text)
    if not isinstance(record, dict) or field not in record:
        raise LookupError(f"there is no member {field!r}")
    if not isinstance(record[field], str):
        raise TypeError(f"the member {field!r} is no string")
    return str(record[field])


# --- Word and lemma frequencies of a corpus of any size: what ``freq(word)`` and the corpus size N are read from

WORDS = "words.parquet"
ABOUT = "frequencies.json"
FORMAT = "recado-frequencies-1"
FLUSH_WORDS = 200_000
"""A task sends what it counted when it knows this many different words."""

_WORD, _FACT, _PROBLEM = "word", "fact", "problem"
_COUNTED = "kind string, word string, count long"
_COUNTED_SCHEMA = pa.schema([("kind", pa.string()), ("word", pa.string()), ("count", pa.int64())])
_LEMMAS = "word string, lemma string, count long"
_LEMMAS_SCHEMA = pa.schema([("word", pa.string()), ("lemma", pa.string()), ("count", pa.int64())])
_FACTS = ("bytes", "lines", "bad_utf8", "overlong_words", "problems")


def run_frequencies(
    spark: SparkSession,
    paths: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    language: str = "en",
    text_field: str | None = None,
) -> dict[str, Any]:
    """Count the files, folders and patterns ``paths`` and write the table; the content of ``frequencies.json``.

    With ``text_field`` the files are JSON lines, and it names the member that holds the text. Files at URLs are read by
    Spark, line by line: one that is damaged ends the job there.
    """
    with user_errors():
        files = find_files(paths)
    _refuse_json(files, text_field)
    _check_language(language)
    near, far = [f for f in files if isinstance(f, Path)], [f for f in files if isinstance(f, HadoopPath)]
    with user_errors():
        counted = count_splits(spark, splits_of(near), text_field)
        if far:
            counted = _summed(counted.unionByName(count_lines(spark, far, text_field)))
        counted = counted.persist()
        try:
            table = with_lemmas(_words(counted), language)
            return _write(table, counted, locate(folder), {"language": language, "files": len(files)})
        finally:
            counted.unpersist()


def word_frequencies(texts: DataFrame, column: str = "text", language: str = "en") -> DataFrame:
    """word, lemma and count of the texts in a column, however they were read."""
    _check_language(language)
    counted = texts.select(column).mapInArrow(_count_texts, _COUNTED)
    return with_lemmas(_words(_summed(counted)), language)


def lemma_frequencies(table: DataFrame) -> DataFrame:
    """lemma, count, and how many words it has, from a table of words."""
    return table.groupBy("lemma").agg(F.sum("count").alias("count"), F.count("*").alias("words"))


# -- the plan ----------------------------------------------------------------------------------------------------------


def count_splits(spark: SparkSession, splits: list[Split], text_field: str | None) -> DataFrame:
    """kind, word and count: words, facts about the reading, and problems."""
    rows = spark.createDataFrame(splits or [Split("", 0, 0)], "path string, start long, end long")
    spread = rows.repartition(max(1, len(splits)))
    return _summed(spread.mapInArrow(lambda batches: _count_files(batches, text_field), _COUNTED))


def count_lines(spark: SparkSession, files: list[HadoopPath], text_field: str | None) -> DataFrame:
    """The same of files at URLs, not added up yet."""
    lines = spark.read.text([literal(file) for file in files])
    as_read = lines.select(F.col("value").cast("binary"), "_metadata.file_path")  # it may be no UTF-8
    return as_read.mapInArrow(lambda batches: _count_lines(batches, text_field), _COUNTED)


def _summed(counted: DataFrame) -> DataFrame:
    return counted.groupBy("kind", "word").agg(F.sum("count").alias("count"))


def _words(counted: DataFrame) -> DataFrame:
    return counted.where(F.col("kind") == _WORD).select("word", "count")


def with_lemmas(counts: DataFrame, language: str) -> DataFrame:
    """word, lemma and count, sorted by word; each word is looked up once."""
    return counts.orderBy("word").mapInArrow(lambda batches: _look_up(batches, language), _LEMMAS)


def _check_language(language: str) -> None:
    try:
        lemmatiser(language)
    except RecadoError as error:
        raise PipelineError(str(error)) from None


def _write(table: DataFrame, counted: DataFrame, folder: Location, about: dict[str, Any]) -> dict[str, Any]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_file(folder / ABOUT)
        table.write.mode("overwrite").parquet(for_spark(folder / WORDS))
        written = table.sparkSession.read.parquet(for_spark(folder / WORDS))
        sums = written.agg(F.sum("count"), F.count("*"), F.countDistinct("lemma")).collect()[0]
        about |= {"format": FORMAT, "tokens": sums[0] or 0, "words": sums[1], "lemmas": sums[2]}
        about |= _what_happened(counted)
        write_file(folder / ABOUT, msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    except OSError as error:
        raise PipelineError(f"the frequencies cannot be written to {folder}: {error.strerror}") from None
    return about


def _what_happened(counted: DataFrame) -> dict[str, Any]:
    rows = counted.where(F.col("kind") != _WORD).orderBy("word").collect()
    facts = {row["word"]: row["count"] for row in rows if row["kind"] == _FACT}
    told = [row["word"] for row in rows if row["kind"] == _PROBLEM]
    return {name: facts.get(name, 0) for name in _FACTS} | {"told": told[:100]}


# -- in executors ------------------------------------------------------------------------------------------------------


def _count_files(batches: Iterator[pa.RecordBatch], text_field: str | None) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for batch in batches:
        for row in batch.to_pylist():
            if row["path"]:
                yield from _count(read_split(Split(**row), text_field, tally), tally)
    yield _batch(tally)


def _count_lines(batches: Iterator[pa.RecordBatch], text_field: str | None) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for batch in batches:
        yield from _count(_texts_of(batch, text_field, tally), tally)
    yield _batch(tally)


def _texts_of(batch: pa.RecordBatch, text_field: str | None, tally: Tally) -> Iterator[str]:
    for line, file in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
        tally.facts["bytes"] += len(line) + 1
        tally.facts["lines"] += 1
        if text_field is None:
            text = line.decode("utf-8", "replace")
            tally.facts["bad_utf8"] += max(0, text.count("\ufffd") - line.count("\ufffd".encode()))
            yield text
        else:
            yield from _member(line, len(line), text_field, file, tally)


def _count_texts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for batch in batches:
        yield from _count((text for text in batch.column(0).to_pylist() if text), tally)
    yield _batch(tally)


def _count(texts: Iterable[str], tally: Tally) -> Iterator[pa.RecordBatch]:
    for text in texts:
        tally.add(text)
        if len(tally.counts) >= FLUSH_WORDS:
            yield _batch(tally)


def _batch(tally: Tally) -> pa.RecordBatch:
    """What was counted so far, which is then forgotten."""
    rows = [(_WORD, word, count) for word, count in tally.counts.items()]
    rows += [(_FACT, name, count) for name, count in tally.facts.items()]
    rows += [(_PROBLEM, text, 1) for text in tally.problems]
    tally.counts.clear()
    tally.facts.clear()
    tally.problems.clear()
    return batch_of_rows(_COUNTED_SCHEMA, rows)


def _look_up(batches: Iterator[pa.RecordBatch], language: str) -> Iterator[pa.RecordBatch]:
    lemma = lemmatiser(language)
    for batch in batches:
        words, counts = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        yield batch_of_rows(_LEMMAS_SCHEMA, zip(words, map(lemma, words), counts, strict=True))
