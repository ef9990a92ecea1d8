"""Word and lemma frequencies of a corpus of any size: what ``freq(word)`` and the corpus size N are read from.

A semantic similarity weighs a word by how much it tells, ``I(x) = 1 - ln(freq(x) + 1) / ln(N + 1)``, with ``freq``
from a corpus of N words. The table is a folder:

    words.parquet/      word, lemma, count: one row a word, sorted by word
    frequencies.json    tokens (N), language, words, lemmas, and what happened while the corpus was read

The frequency of a lemma is the sum over its words. ``frequencies.json`` is written last: a folder with it is complete.
Executors read files, cut them into words (``recado.semantics.words``) and send sums; Spark adds those up. Each
different word is brought to its lemma once, after that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recado.errors import RecadoError
from recado.pipeline.corpus import Split, Tally, find_files, read_split, splits_of
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.report.arrow import batch_of_rows
from recado.semantics.words import lemmatiser

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

    With ``text_field`` the files are JSON lines, and it names the member that holds the text.
    """
    files = find_files(paths)
    _check_language(language)
    with user_errors():
        counted = count_splits(spark, splits_of(files, text_field), text_field).persist()
        try:
            table = with_lemmas(_words(counted), language)
            return _write(table, counted, Path(folder), {"language": language, "files": len(files)})
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


def _write(table: DataFrame, counted: DataFrame, folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ABOUT).unlink(missing_ok=True)
        table.write.mode("overwrite").parquet(str(folder / WORDS))
        written = table.sparkSession.read.parquet(str(folder / WORDS))
        sums = written.agg(F.sum("count"), F.count("*"), F.countDistinct("lemma")).collect()[0]
        about |= {"format": FORMAT, "tokens": sums[0] or 0, "words": sums[1], "lemmas": sums[2]}
        about |= _what_happened(counted)
        (folder / ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
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
