"""Files piece by piece: every split reads its own lines, and damage is told and survived."""

import gzip
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.pipeline import frequencies as corpus
from recado.pipeline.errors import PipelineError
from recado.pipeline.frequencies import Split, Tally, find_files, read_split, run_frequencies, splits_of
from recado.semantics.names import WORD_CHARS, words


def counted(files, text_field=None, split_bytes=corpus.SPLIT_BYTES):
    tally = Tally()
    for split in splits_of(files, split_bytes):
        for text in read_split(split, text_field, tally):
            tally.add(text)
    return tally


def plain(text):
    return Counter(word for word in words(text) if len(word) <= WORD_CHARS)


@given(text=st.text(alphabet="ab é'日\n -", max_size=80), split_bytes=st.integers(1, 30), piece=st.integers(1, 9))
def test_splits_and_pieces_leave_no_trace(tmp_path_factory, text, split_bytes, piece):
    file = tmp_path_factory.mktemp("corpus") / "text.txt"
    file.write_text(text, encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "PIECE_BYTES", piece)
        tally = counted([file], split_bytes=split_bytes)
    assert tally.counts == plain(text)
    assert tally.facts["bytes"] == file.stat().st_size
    assert tally.facts["lines"] == text.count("\n")


def test_one_enormous_line(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "PIECE_BYTES", 1000)
    file = tmp_path / "line.txt"
    file.write_text("the wind " * 5000 + "x" * 20_000 + " and rain", encoding="utf-8")
    tally = counted([file], split_bytes=4096)
    assert tally.counts == {"the": 5000, "wind": 5000, "and": 1, "rain": 1}
    assert tally.facts["overlong_words"] == 1
    longest = max(map(len, read_split(Split(str(file), 0, -1), None, Tally())))
    assert longest <= 1000 + 16 * WORD_CHARS


def test_bytes_that_are_no_text_are_counted_and_separate_words(tmp_path):
    file = tmp_path / "latin.txt"
    file.write_bytes(b"caf\xe9 wind\nreal \xef\xbf\xbd end \xff\xfe")
    tally = counted([file])
    assert tally.counts == {"caf": 1, "wind": 1, "real": 1, "end": 1}
    assert tally.facts["bad_utf8"] == 3


def test_json_lines_and_what_is_wrong_with_some(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "LINE_BYTES", 200)
    file = tmp_path / "some.jsonl"
    lines = [
        b'\xef\xbb\xbf{"text": "wind and rain", "id": 1}',
        b"",
        b'{"title": "no text"}',
        b'{"text": 5}',
        b"{not json",
        b'{"text": "' + b"long " * 60 + b'"}',
        b'{"text": "caf\xe9"}',
        b'["text"]',
        b'{"text": "wind"}',
    ]
    file.write_bytes(b"\n".join(lines))
    tally = counted([file], "text", split_bytes=64)
    assert tally.counts == {"wind": 2, "and": 1, "rain": 1, "caf": 1}
    assert tally.facts["problems"] == 5
    told = "\n".join(tally.problems)
    assert f"{file}, byte 39: there is no member 'text'" in told
    assert "the member 'text' is no string" in told
    assert "the line has 313 bytes; the limit is 200" in told
    assert tally.facts["bad_utf8"] == 1


def test_compressed_files_and_broken_ones(tmp_path):
    whole, cut, fake = tmp_path / "a.txt.gz", tmp_path / "b.txt.gz", tmp_path / "c.jsonl.gz"
    text = "".join(f"wind {number}\n" for number in range(50_000))
    whole.write_bytes(gzip.compress(b"wind and rain\n"))
    cut.write_bytes(gzip.compress(text.encode())[:-4000])
    fake.write_bytes(b'{"text": "wind"}\n')
    tally = counted([whole, cut])
    assert 1 < tally.counts["wind"] < 50_000
    assert tally.problems == [
        f"{cut}: cannot be read on: Compressed file ended before the end-of-stream marker was reached"
    ]
    assert "Not a gzipped file" in counted([fake], "text").problems[0]


def test_empty_files_and_hidden_ones(tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / ".hidden.txt").write_text("secret")
    (tmp_path / "_SUCCESS").write_text("spark")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.txt").write_text("wind")
    files = find_files([tmp_path, str(tmp_path / "*.txt"), tmp_path / "deep" / "b.txt"])
    assert [file.name for file in files] == ["b.txt", "empty.txt"]
    assert counted(files).counts == {"wind": 1}


@pytest.mark.parametrize("path", ["nowhere", "no*thing", ""])
def test_no_file(tmp_path, path):
    with pytest.raises(PipelineError, match="there is no file to read at"):
        find_files([tmp_path / path])


def test_json_lines_need_a_field(tmp_path):
    (tmp_path / "x.jsonl.gz").touch()
    with pytest.raises(PipelineError, match="say which member holds the text"):
        run_frequencies(None, [tmp_path], tmp_path / "out")


def test_only_so_many_problems_are_told():
    tally = Tally()
    for number in range(50):
        tally.problem("here", json.dumps(number))
    assert (tally.facts["problems"], len(tally.problems)) == (50, corpus.PROBLEMS)
