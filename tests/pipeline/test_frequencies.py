"""Frequencies on a real session against a plain Counter."""

import gzip
import json
from collections import Counter
from functools import partial
from importlib.resources import files
from math import log

import pyarrow.parquet as pq
import pytest

from recado.pipeline import frequencies
from recado.pipeline.errors import PipelineError
from recado.pipeline.frequencies import lemma_frequencies, run_frequencies, word_frequencies
from recado.semantics.names import lemmatiser, words

CORPUS = files("recado").joinpath("data", "corpus")


@pytest.mark.parametrize("language", ["en", pytest.param("pt", marks=pytest.mark.long)])
def test_the_sample_corpus(spark, tmp_path, language):
    text = CORPUS.joinpath(f"{language}.txt").read_text(encoding="utf-8")
    summary = run_frequencies(spark, [str(CORPUS.joinpath(f"{language}.txt"))], tmp_path, language)
    table = pq.read_table(tmp_path / "words.parquet").to_pydict()
    expected = Counter(words(text))
    assert dict(zip(table["word"], table["count"], strict=True)) == expected
    assert table["word"] == sorted(table["word"], key=str.encode)
    lemma = lemmatiser(language)
    assert table["lemma"] == [lemma(word) for word in table["word"]]
    assert json.loads((tmp_path / "frequencies.json").read_text()) == summary
    assert summary["tokens"] == sum(expected.values()) > 500
    assert summary["words"] == len(expected)
    assert summary["lemmas"] == len(set(table["lemma"])) < len(expected)
    assert (summary["format"], summary["language"], summary["files"]) == ("recado-frequencies-1", language, 1)
    assert (summary["bytes"], summary["lines"]) == (len(text.encode()), text.count("\n"))
    assert summary["problems"] == summary["bad_utf8"] == summary["overlong_words"] == 0

    def tells(word):  # what the table is for: rare words tell more
        return 1 - log(expected[word] + 1) / log(summary["tokens"] + 1)

    common, rare = ("the", "anemometer") if language == "en" else ("a", "anemômetro")
    assert 0 < tells(common) < 0.5
    assert 0.8 < tells(rare) < tells("never seen") == 1


def test_a_corpus_at_a_url(spark, far_url, tmp_path):
    corpus = tmp_path / "far" / "corpus"
    (corpus / "deep").mkdir(parents=True)
    (corpus / "a.jsonl").write_bytes(b'{"text": "the wind, the sea"}\n{"text": 1}\n{"text": "caf\xe9"}\n')
    (corpus / "deep" / "b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a wind"}\n'))
    (corpus / "_hidden.jsonl").write_text("nonsense")
    (tmp_path / "near.jsonl").write_text('{"text": "near the sea"}\n')
    with pytest.raises(PipelineError, match="there is no file to read at"):
        run_frequencies(spark, [f"{far_url}/nowhere"], f"{far_url}/out")
    summary = run_frequencies(
        spark, [f"{far_url}/corpus", tmp_path / "near.jsonl"], f"{far_url}/out", text_field="text"
    )
    table = spark.read.parquet(f"{far_url}/out/words.parquet").collect()
    assert {row["word"]: row["count"] for row in table} == {"the": 3, "wind": 2, "sea": 2, "a": 1, "caf": 1, "near": 1}
    assert (summary["files"], summary["lines"], summary["problems"], summary["bad_utf8"]) == (3, 5, 1, 1)
    assert "a.jsonl: the member 'text' is no string" in summary["told"][0]


def test_many_files_of_all_sorts(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(frequencies, "splits_of", partial(frequencies.splits_of, split_bytes=5000))
    corpus = tmp_path / "corpus"
    (corpus / "deep").mkdir(parents=True)
    lines = [{"text": f"Wind {n} over the stations", "n": n} for n in range(200)]
    (corpus / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (corpus / "deep" / "b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "the stations"}\n{"text": 1}\nnonsense\n'))
    (corpus / "empty.jsonl").touch()
    (corpus / "c.json.gz").write_bytes(b"not gzip")
    (corpus / "bad.jsonl").write_bytes(b'{"text": "caf\xe9 ' + b"x" * 100 + b'"}\n')
    summary = run_frequencies(spark, [corpus], tmp_path / "out", text_field="text")
    found = pq.read_table(tmp_path / "out" / "words.parquet").to_pydict()
    expected = Counter(word for line in lines for word in words(line["text"])) + Counter(["the", "stations", "caf"])
    assert dict(zip(found["word"], found["count"], strict=True)) == expected
    assert (summary["files"], summary["problems"], summary["bad_utf8"], summary["overlong_words"]) == (5, 3, 1, 1)
    told = "\n".join(summary["told"])
    assert "b.jsonl.gz, byte 25: the member 'text' is no string" in told
    assert "c.json.gz: cannot be read on: Not a gzipped file" in told
    again = run_frequencies(spark, [corpus / "empty.jsonl"], tmp_path / "out", text_field="text")
    assert (again["tokens"], again["words"]) == (0, 0)


def test_texts_from_anywhere(spark, monkeypatch):
    monkeypatch.setattr(frequencies, "FLUSH_WORDS", 2)
    texts = spark.createDataFrame([("the wind went",), (None,), ("The winds go; wind",)], "body string")
    table = word_frequencies(texts, "body")
    assert [tuple(row) for row in table.collect()] == [
        ("go", "go", 1),
        ("the", "the", 2),
        ("went", "go", 1),
        ("wind", "wind", 2),
        ("winds", "wind", 1),
    ]
    assert {row["lemma"]: (row["count"], row["words"]) for row in lemma_frequencies(table).collect()} == {
        "go": (2, 2),
        "the": (2, 1),
        "wind": (3, 2),
    }


def test_what_a_user_can_get_wrong(spark, tmp_path):
    (tmp_path / "a.txt").write_text("wind")
    with pytest.raises(PipelineError, match="there are no lemmas for the language 'klingon'"):
        run_frequencies(spark, [tmp_path], tmp_path / "out", language="klingon")
    with pytest.raises(PipelineError, match="the frequencies cannot be written to"):
        run_frequencies(spark, [tmp_path], tmp_path / "a.txt")
    with pytest.raises(PipelineError, match="there is no file to read"):
        run_frequencies(spark, [tmp_path / "b.txt"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
