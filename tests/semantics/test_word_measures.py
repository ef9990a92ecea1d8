"""The four word measures: the document's reference values, and the formulas written plainly beside the fast ones."""

from functools import cache

import numpy as np
import pytest

from recado.errors import RecadoError
from recado.semantics.lexicon.information import load_information
from recado.semantics.measures.wordnet import WORD_MEASURES, WordNetWords
from recado.semantics.names import NameReader, Word

REFERENCE = """\
cat, dog                | 0.8571 | 0.8863 | 0.5374 | 7.2549
price, cost             | 1.0000 | 1.0000 | 1.0000 | 9.8198
price, sale             | 0.5714 | 0.3432 | 0.0697 | 4.0382
buyer, customer         | 0.9524 | 0.8057 | 0.2612 | 7.9371
humidity, moisture      | 0.8571 | 0.8823 | 0.3959 | 9.4632
country, nation         | 1.0000 | 1.0000 | 1.0000 | 8.0281
continent, country      | 0.5000 | 0.1786 | 0.0930 | 1.1692
speed, velocity         | 1.0000 | 1.0000 | 1.0000 | 7.8339
room, office            | 0.7059 | 0.5930 | 0.1848 | 3.9425
rainfall, precipitation | 0.9474 | 0.9746 | 1.0000 | 7.7768
laptop, notebook        | 0.9231 | 0.0000 | 0.0000 | 9.8198
area, city              | 0.7143 | 0.6692 | 0.2790 | 3.6252
measurement, unit       | 0.3750 | 0.2248 | 0.1123 | 1.7798
type, kind              | 0.9474 | 0.9107 | 0.8971 | 5.6813
"""
POOL = [
    "cat",
    "dog",
    "price",
    "cost",
    "sale",
    "buyer",
    "customer",
    "humidity",
    "moisture",
    "country",
    "nation",
    "continent",
    "room",
    "office",
    "laptop",
    "area",
    "city",
    "unit",
    "type",
    "kind",
    "run",
    "move",
    "go",
    "sell",
    "pay",
    "quickly",
    "fast",
    "big",
    "large",
    "average",
    "mean",
    "temperature",
    "rapidly",
    "nosuchword",
    "zyx",
    "heat",
    "sun",
]


@pytest.fixture(scope="module")
def information(lexicon):
    return load_information(lexicon)


@pytest.fixture(scope="module")
def words(lexicon):
    reader = NameReader(lexicon)
    return {lemma: reader.read(lemma).own[0] for lemma in POOL}


@pytest.fixture(scope="module")
def measures(lexicon, information):
    return {name: WordNetWords(name, lexicon, information, {}) for name in WORD_MEASURES}


@pytest.mark.parametrize("line", REFERENCE.splitlines())
def test_reference_values(lexicon, information, measures, line):
    pair, *expected = line.split("|")
    reader = NameReader(lexicon)
    a, b = (reader.read(name).own[0] for name in pair.split(","))
    found = [measures[name].similarity(a, b) for name in ("wup", "lin", "jcn", "res")]
    found[3] *= information.most[0]
    assert found == pytest.approx([float(value) for value in expected], abs=1e-3)


def test_the_add_one_counts_repair_sparse_ones(lexicon, words):
    information = load_information(lexicon, "semcor-add1")
    notebook = NameReader(lexicon).read("notebook").own[0]
    values = [
        WordNetWords(name, lexicon, information, {}).similarity(words["laptop"], notebook) for name in ("lin", "jcn")
    ]
    assert values == pytest.approx([0.880, 0.346], abs=1e-3)


# -- the plain twin ----------------------------------------------------------------------------------------------------


@cache
def links(lexicon, sense):
    above = lexicon.above(sense)
    return dict(zip(lexicon.ancestors[above].tolist(), lexicon.distances[above].tolist(), strict=True))


@cache
def part(lexicon, sense):
    return lexicon.part(sense)


def plain_senses(name, lexicon, information, a, b):
    """The formula for two concepts of one part of speech, with loops."""
    up_a, up_b = links(lexicon, a), links(lexicon, b)
    common = [concept for concept in up_a if concept in up_b]
    content = information.content
    shared = max((content[concept] for concept in common), default=0.0)
    match name:
        case "wup":
            return max(
                (2 * lexicon.depths[c] / (up_a[c] + up_b[c] + 2 * lexicon.depths[c]) for c in common), default=0.0
            )
        case "res":
            return shared / information.most[part(lexicon, a) == "v"]
    if a == b:
        return 1.0
    if content[a] == 0 or content[b] == 0:
        return 0.0
    if name == "lin":
        return 2 * shared / (content[a] + content[b])
    return 1 / max(1.0, content[a] + content[b] - 2 * shared)


def plain(name, lexicon, information, a, b):
    if a.lemma == b.lemma:
        return 1.0
    best = 0.0
    for one in a.senses:
        for other in b.senses:
            parts = part(lexicon, one), part(lexicon, other)
            if parts in (("n", "n"), ("v", "v")):
                best = max(best, plain_senses(name, lexicon, information, one, other))
            elif one == other:
                best = 1.0
    return best


@pytest.mark.parametrize("name", WORD_MEASURES)
def test_the_fast_way_agrees_with_the_plain_one(lexicon, information, measures, words, name):
    pool = list(words.values())[::2] if name != "jcn" else list(words.values())
    found = measures[name].matrix(pool, pool)
    expected = [[plain(name, lexicon, information, a, b) for b in pool] for a in pool]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", WORD_MEASURES)
def test_symmetry_bounds_and_identity(measures, words, name):
    pool = list(words.values())
    found = measures[name].matrix(pool, pool)
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-12)
    assert found.min() >= 0
    assert found.max() <= 1
    assert (np.diag(found) == 1).all()


@pytest.mark.parametrize("name", WORD_MEASURES)
def test_a_pair_does_not_depend_on_its_company(measures, words, name):
    pool = list(words.values())
    together = measures[name].matrix(pool, pool[::-1])[:, ::-1]
    alone = [[measures[name].similarity(a, b) for b in pool[:6]] for a in pool]
    assert (together[:, :6] == alone).all()


def test_adjectives_are_alike_only_if_they_share_a_concept(measures, words):
    jcn = measures["jcn"]
    assert jcn.similarity(words["big"], words["large"]) == 1.0
    assert jcn.similarity(words["quickly"], words["rapidly"]) == 1.0
    assert jcn.similarity(words["quickly"], words["big"]) == 0.0


def test_unknown_words_are_alike_to_themselves_only(measures, words):
    assert measures["wup"].similarity(words["nosuchword"], words["zyx"]) == 0
    assert measures["wup"].similarity(words["nosuchword"], words["price"]) == 0
    assert measures["wup"].similarity(Word("x", "por"), Word("x", "eng")) == 1


def test_one_spelling_in_two_languages_is_not_one_word(measures, words):
    date = Word("price", "por", "n", words["dog"].senses)
    assert measures["jcn"].similarity(date, words["price"]) < 0.2
    assert measures["jcn"].similarity(date, words["dog"]) == 1


def test_what_people_gave_wins(lexicon, information, words):
    given = {"price": {"cost": 0.1, "price": 0.2}, "cost": {"price": 0.1}}
    measure = WordNetWords("jcn", lexicon, information, given)
    assert measure.similarity(words["price"], words["cost"]) == measure.similarity(words["cost"], words["price"]) == 0.1
    assert measure.similarity(words["country"], words["nation"]) == 1


def test_nothing_gives_an_empty_matrix(measures, words):
    assert measures["jcn"].matrix([], [words["price"]]).shape == (0, 1)
    assert measures["jcn"].matrix([words["price"]], []).shape == (1, 0)


def test_an_unknown_measure(lexicon, information):
    with pytest.raises(RecadoError, match="no word measure 'path'; there are wup, res, lin, jcn"):
        WordNetWords("path", lexicon, information, {})
