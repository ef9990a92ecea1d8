"""What people gave: files of similarities, and the review list."""

import json

import pytest

from recado.errors import RecadoError
from recado.semantics import overrides as review
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.overrides import Given, Open, Overrides, ReviewList, read_pairs
from recado.semantics.settings import SemanticSettings

TOML = """\
[[precomputed]]
a = "laptop"
b = "notebook"
similarity = 0.95

[[precomputed]]
a = "salePrice"
b = "product"
similarity = 0.0

[[precomputed]]
a = "price"
b = "sale"
similarity = 1
kind = "name"
"""
MEASURES = [SemanticSettings("mean"), SemanticSettings("feng"), SemanticSettings("levenshtein")]


def written(tmp_path, text, name="pairs.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_toml_and_json_say_the_same(tmp_path):
    pairs = read_pairs(written(tmp_path, TOML))
    assert pairs == [
        Given("laptop", "notebook", 0.95, "word"),
        Given("salePrice", "product", 0.0, "name"),
        Given("price", "sale", 1.0, "name"),
    ]
    document = {"precomputed": [{"a": p.a, "b": p.b, "similarity": p.similarity, "kind": p.kind} for p in pairs]}
    assert read_pairs(written(tmp_path, json.dumps(document), "pairs.json")) == pairs


@pytest.mark.parametrize("settings", MEASURES)
@pytest.mark.parametrize("cache", [None, SimilarityCache()])
def test_they_win_over_every_measure_with_and_without_cache(tmp_path, settings, cache):
    told = Semantics(overrides=Overrides.load(written(tmp_path, TOML)), cache=cache)
    for _ in range(2):
        assert told.similarity("laptop", "notebook", settings) == 0.95
        assert told.similarity("notebook", "laptop", settings) == 0.95
        assert told.similarity("sale price", "Product", settings) == 0
        assert told.similarity("price", "sale", settings) == 1
    assert told.similarity("laptop", "laptop", settings) == 1


def test_a_pair_of_words_holds_inside_names(tmp_path, semantics):
    told = Semantics(overrides=Overrides.load(written(tmp_path, TOML)))
    settings = SemanticSettings("mean")
    assert told.similarity("laptop energy", "notebook energy", settings) == pytest.approx(0.975)
    assert told.similarity("laptop energy", "notebooks energy", settings) == pytest.approx(0.975)
    assert semantics.similarity("laptop energy", "notebook energy", settings) < 0.7
    assert told.digest != semantics.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[precomputed]", r"pairs\.toml: "),
        ("x = 1", 'lacks the list "precomputed"'),
        ("precomputed = [1]", r"precomputed\[0\]: must be a table"),
        ('[[precomputed]]\na = "x"\nb = 3\nsimilarity = 1', r"precomputed\[0\]\.b: must be a word or a name, not 3"),
        ('[[precomputed]]\na = "x"\nb = "y"', r"precomputed\[0\]\.similarity: must be a number from 0 to 1, not None"),
        ('[[precomputed]]\na = "x"\nb = "y"\nsimilarity = 2', r"similarity: must be a number from 0 to 1, not 2"),
        ('[[precomputed]]\na = "x"\nb = "y"\nsimilarity = 1\nsimilar = 1', r"\.similar: there is no such member"),
        ('[[precomputed]]\na = "x"\nb = "y"\nsimilarity = 1\nkind = "z"', r"\.kind: must be word or name"),
    ],
)
def test_wrong_files_name_the_place(tmp_path, text, message):
    with pytest.raises(RecadoError, match=message):
        Overrides.load(written(tmp_path, text))


def test_hostile_files(tmp_path):
    with pytest.raises(RecadoError, match="cannot be read"):
        Overrides.load(tmp_path / "none.toml")
    with pytest.raises(RecadoError, match=r"pairs\.json: "):
        Overrides.load(written(tmp_path, "[" * 100_000, "pairs.json"))
    many = json.dumps({"precomputed": [1] * 100_001})
    with pytest.raises(RecadoError, match=r"has 100,001 pairs; the limit is 100,000"):
        Overrides.load(written(tmp_path, many, "pairs.json"))


# -- the review list ---------------------------------------------------------------------------------------------------


def open_pair(a, b, similarity=0.3, threshold=0.31):
    return Open(a, b, similarity, "mean", threshold)


def test_decisions_are_remembered(data):
    listed = ReviewList.load()
    listed.note([open_pair("cost", "price"), open_pair("city", "country", 0.35)])
    assert [one.constraint for one in listed.open] == ["cost", "city"]
    listed.decide("cost", "Price", accept=True)
    listed.decide("country", "city", accept=False)
    listed.save()
    again = ReviewList.load()
    assert again.open == []
    assert again.decided() == [
        Given("cost", "Price", 1.0, "name", "accepted"),
        Given("country", "city", 0.0, "name", "refused"),
    ]
    again.note([open_pair("price", "cost")])
    assert again.open == []
    again.decide("price", "cost", accept=False)
    assert [pair.similarity for pair in again.decided()] == [0.0, 0.0]


@pytest.mark.parametrize("settings", MEASURES)
def test_decided_pairs_win_over_overrides(settings):
    decided = [Given("city", "country", 0.0, "name", "refused"), Given("abc", "xyz", 1.0, "name", "accepted")]
    told = Semantics(overrides=Overrides([Given("city", "country", 0.9, "word")]), decided=decided)
    assert told.similarity("city", "country", settings) == 0
    pair = told.align(["abc"], ["country", "xyz"], settings).pairs[0]
    assert (pair.attribute, pair.reason, pair.similarity) == ("xyz", "accepted", 1.0)


def test_the_list_is_bounded_and_keeps_the_nearest(data, monkeypatch):
    monkeypatch.setattr(review, "OPEN_PAIRS", 3)
    listed = ReviewList()
    listed.note([open_pair(f"n{number}", "x", 0.31 + number / 100) for number in range(10)])
    assert [one.constraint for one in listed.open] == ["n0", "n1", "n2"]


@pytest.mark.parametrize("content", ["{", '{"version": "other"}', '{"open": 3}', "\x00"])
def test_a_damaged_list_is_told(data, content):
    review.review_path().parent.mkdir(parents=True)
    review.review_path().write_text(content)
    with pytest.raises(RecadoError, match=r"review\.json: the review list is"):
        ReviewList.load()
