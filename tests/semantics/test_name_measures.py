"""Name measures: the document's values, plain twins of the fast ones, and what all of them promise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.semantics.engine import Semantics, get_measure
from recado.semantics.measures import measure_names, register, registry
from recado.semantics.measures.base import Measured
from recado.semantics.measures.names import SCORERS
from recado.semantics.settings import SemanticSettings

PARTS = [
    "sale",
    "price",
    "cost",
    "unit",
    "measurement",
    "residential",
    "area",
    "city",
    "wind",
    "speed",
    "velocity",
    "direction",
    "air",
    "conditioner",
    "customer",
    "buyer",
    "humidity",
    "relative",
    "energy",
    "consumption",
    "power",
    "usage",
    "of",
    "the",
    "2",
    "qwzxrt",
    "atmospheric",
    "pressure",
]
NAMES = st.lists(st.sampled_from(PARTS), min_size=0, max_size=4).map(" ".join)
FAST = [("mean", {"mode": "best"}), ("mean", {"mode": "all", "word": "wup"}), ("feng", {}), ("levenshtein", {})]


@pytest.mark.parametrize(
    ("a", "b", "best", "all_pairs"),
    [
        ("price", "sale price", 0.7674, 0.5349),
        ("measurement unit", "unit of measurement", 1.0, 0.5562),
        ("residential area", "city", 0.2092, 0.1395),
        ("cat", "dog", 0.5374, 0.5374),
        ("invoice number", "measurement unit", 0.398, None),
    ],
)
def test_reference_values_of_the_mean(semantics, a, b, best, all_pairs):
    assert semantics.similarity(a, b, SemanticSettings("mean", vetoes=False)) == pytest.approx(best, abs=1e-3)
    if all_pairs is not None:
        found = semantics.similarity(a, b, SemanticSettings("mean", {"mode": "all"}, vetoes=False))
        assert found == pytest.approx(all_pairs, abs=1e-3)


def test_reference_values_of_feng(semantics):
    """Those that do not depend on the corpus within 1e-3, the others within what another corpus changes."""
    feng = SemanticSettings("feng")
    assert semantics.similarity("measurement unit", "unit of measurement", feng) == pytest.approx(0.925, abs=1e-3)
    assert semantics.similarity("cat", "dog", feng) == pytest.approx(0.5374, abs=5e-3)
    assert semantics.similarity("price", "sale price", feng) == pytest.approx(0.8377, abs=0.02)
    assert semantics.similarity("residential area", "city", feng) == pytest.approx(0.2996, abs=5e-3)


# -- plain twins -------------------------------------------------------------------------------------------------------


def plain_mean(word, a, b, mode):
    if not a.own or not b.own:
        return 0.0
    table = [[word(x, y) for y in b.own] for x in a.own]
    if mode == "all":
        return sum(map(sum, table)) / len(a.own) / len(b.own)
    columns = list(zip(*table, strict=True))
    return (sum(map(max, table)) / len(table) + sum(map(max, columns)) / len(columns)) / 2


def plain_feng(word, a, b, share=0.85):
    if not a.own or not b.own:
        return 0.0

    def sig(x, y):
        best = [max(word(one, other) for other in y.enriched) for one in x.enriched]
        weights = [one.weight for one in x.enriched]
        return math.fsum(w * v for w, v in zip(weights, best, strict=True)) / math.fsum(weights)

    m, n = len(a.enriched), len(b.enriched)
    direct = m / (m + n) * sig(a, b) + n / (m + n) * sig(b, a)
    table = [[0.0] * (len(b.own) + 1) for _ in range(len(a.own) + 1)]
    for i, x in enumerate(a.own, 1):
        for j, y in enumerate(b.own, 1):
            table[i][j] = max(table[i - 1][j - 1] + word(x, y), table[i - 1][j], table[i][j - 1])
    return share * direct + (1 - share) * table[-1][-1] / max(len(a.own), len(b.own))


@settings(max_examples=40)
@given(st.lists(NAMES, min_size=1, max_size=4), st.lists(NAMES, min_size=1, max_size=4))
def test_the_fast_measures_agree_with_the_plain_ones(semantics, left, right):
    a, b = ([semantics.reader.read(name) for name in names] for names in (left, right))
    word = get_measure("mean")._words.similarity
    for measure, twin in [
        (get_measure("mean"), lambda x, y: plain_mean(word, x, y, "best")),
        (get_measure("mean", mode="all"), lambda x, y: plain_mean(word, x, y, "all")),
        (get_measure("feng"), lambda x, y: plain_feng(word, x, y)),
    ]:
        np.testing.assert_allclose(measure.matrix(a, b), [[twin(x, y) for y in b] for x in a], rtol=0, atol=1e-9)


# -- what every measure promises ---------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(NAMES, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=5))
def test_symmetry_bounds_identity_and_company(semantics, left, right):
    for name, options in FAST:
        measure = get_measure(name, **options)
        a, b = ([semantics.reader.read(one) for one in names] for names in (left, right))
        found = measure.matrix(a, b)
        assert found.shape == (len(a), len(b))
        assert (found == measure.matrix(b, a).T).all()
        assert ((found >= 0) & (found <= 1)).all()
        assert found[0, 0] == measure.similarity(a[0], b[0])
        if a[0].own and options.get("mode") != "all":
            assert measure.similarity(a[0], a[0]) == 1


def test_the_embedding_and_the_hybrid_promise_the_same(semantics):
    names = ["price", "sale price", "country", "wind speed", "", "😀", "qwzxrt", "measurement unit"]
    words = [semantics.reader.read(name) for name in names]
    for measure in (get_measure("embedding"), get_measure("hybrid")):
        found = measure.matrix(words, words)
        assert (found == found.T).all()
        assert ((found >= 0) & (found <= 1)).all()
        assert [found[i, i] for i in range(len(names))] == [float(bool(word.own)) for word in words]
        alone = [[measure.similarity(a, b) for b in words[:3]] for a in words]
        assert (found[:, :3] == alone).all()


def test_the_hybrid_is_the_mean_of_its_parts(semantics):
    pair = semantics.reader.read("buyer"), semantics.reader.read("customer")
    parts = get_measure("embedding").similarity(*pair), get_measure("feng", information="semcor-add1").similarity(*pair)
    assert get_measure("hybrid").similarity(*pair) == pytest.approx(sum(parts) / 2, abs=1e-9)
    assert get_measure("hybrid", share=1).similarity(*pair) == pytest.approx(parts[0], abs=1e-9)


def test_strings(semantics):
    one, other = semantics.reader.read("wind_speed"), semantics.reader.read("speedWind")
    scores = {name: get_measure(name).similarity(one, other) for name in SCORERS}
    assert scores["token-sort"] == scores["token-set"] == 1
    assert 0 < scores["levenshtein"] < 1
    assert get_measure("jaro-winkler").similarity(one, one) == 1


def test_words_that_tell_nothing_count_alike(semantics):
    import msgspec

    name = semantics.reader.read("wind speed")
    silent = msgspec.structs.replace(
        name, own=tuple(msgspec.structs.replace(word, weight=0.0) for word in name.own), synonyms=()
    )
    assert get_measure("feng").similarity(silent, silent) == 1


# -- names and options -------------------------------------------------------------------------------------------------


class Initials(Measured):
    key = "initials"

    def matrix(self, a, b):
        return np.array([[float(one.text[:1] == other.text[:1]) for other in b] for one in a])


def test_measures_of_ones_own(monkeypatch):
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    register("initials", lambda resources: Initials(), threshold=0.9)
    assert "initials" in measure_names()
    alignment = Semantics().align(["pris"], ["cost", "price"], SemanticSettings("initials"))
    assert (alignment.mapping(), alignment.threshold) == ({"pris": "price"}, 0.9)


def make_initials(resources, weight=1.0):
    return Initials()


make_initials.threshold = 0.9


class Plugin:
    name = "initials"
    value = "package:make_initials"

    @staticmethod
    def load():
        return make_initials


class Damaged(Plugin):
    @staticmethod
    def load():
        raise ImportError("no module named package")


class Plugins(tuple):
    names = ["initials"]  # noqa: RUF012


def test_measures_of_other_packages(monkeypatch):
    found = Plugins([Plugin])
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(registry, "entry_points", lambda group, name="initials": found if name == "initials" else ())
    assert "initials" in measure_names()
    assert get_measure("initials", weight=2).key == "initials"
    assert registry.options_of("initials") == {"weight": 1.0}
    assert registry.find("initials").threshold({}) == 0.9


def test_a_measure_that_cannot_be_loaded(monkeypatch):
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(registry, "entry_points", lambda group, name: Plugins([Damaged]))
    with pytest.raises(RecadoError, match=r"'initials' \(package:make_initials\) cannot be loaded: no module named"):
        registry.find("initials")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("men", {}, "no measure 'men'; did you mean 'mean'"),
        (None, {}, "no measure None; there are hybrid"),
        ("mean", {"words": "jcn"}, "'mean' has no option 'words'; it has word, mode, information"),
        ("embedding", {"word": "jcn"}, "it has none"),
        ("mean", {"word": "path"}, "no word measure 'path'"),
        ("mean", {"mode": "worst"}, "no mode 'worst' of the mean; there are best, all"),
        ("mean", {"information": "nowhere"}, "no information content called 'nowhere'"),
        ("feng", {"lambda": 2}, "lambda must be from 0 to 1"),
        ("feng", {"lambda": "x"}, "the option 'lambda' must be a number"),
        ("hybrid", {"share": -1}, "share of the embedding must be from 0 to 1"),
    ],
)
def test_wrong_names_and_options(name, options, message):
    with pytest.raises(RecadoError, match=message):
        get_measure(name, **options)


def test_lambda_is_an_option_by_its_own_name(semantics):
    pair = semantics.reader.read("unit measurement"), semantics.reader.read("measurement unit")
    assert get_measure("feng", **{"lambda": 1.0}).similarity(*pair) == 1
    assert get_measure("feng", **{"lambda": 0.0}).similarity(*pair) == 0.5
