"""What a veto promises, for names made up of what vetoes look at: whatever the measure, the language and the order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.model.event import Event
from recado.model.filter import Compare
from recado.model.subscription import Subscription
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.lexicon.information import load_lexicon
from recado.semantics.lexicon.languages import add_language
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.settings import SemanticSettings
from recado.semantics.units import BY_SYMBOL, SYMBOLS, convert
from recado.semantics.vetoes import abbreviates
from semantics.portuguese import SAMPLE

POLES = [
    "min",
    "max",
    "start",
    "end",
    "first",
    "last",
    "in",
    "out",
    "lat",
    "longitude",
    "x",
    "y",
    "old",
    "mínimo",
    "fim",
]
THINGS = [
    "price",
    "temperature",
    "speed",
    "direction",
    "date",
    "humidity",
    "time",
    "name",
    "id",
    "city",
    "country",
    "cat",
]
OTHERS = [
    "temp",
    "hr",
    "wspd",
    "hmdt",
    "umidade",
    "temperatura",
    "preço",
    "data",
    "país",
    "qwzxrt",
    "windspeed",
    "of",
    "de",
]
PARTS = [*POLES, *THINGS, *OTHERS, *sorted(SYMBOLS)[::7]]


@st.composite
def names(draw):
    """Several parts in one of the ways in which people write names."""
    parts = draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4))
    match draw(st.sampled_from(["snake", "camel", "blank", "dot", "glued"])):
        case "camel":
            return parts[0] + "".join(map(str.capitalize, parts[1:]))
        case "glued":
            return "".join(parts)
        case way:
            return {"snake": "_", "blank": " ", "dot": "."}[way].join(parts)


MEASURES = [
    "mean",
    "token-set",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("feng", "jaro-winkler", "hybrid")),
]
"""One that reads names with a lexicon, one without; the others take longer for the same steps."""
LISTS = st.lists(names(), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def two_languages(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECADO_DATA", str(tmp_path_factory.mktemp("words")))
        add_language("por", SAMPLE, load_lexicon())
        made = Semantics()
        made.prepare(SemanticSettings("mean", languages=("eng", "por")))
        yield made


@pytest.mark.parametrize("measure", MEASURES)
@given(LISTS, LISTS, st.booleans())
@settings(deadline=None, max_examples=30)
def test_answers_are_symmetric_and_depend_on_the_two_names_alone(two_languages, measure, a, b, as_values):
    chosen = SemanticSettings(measure, languages=("eng", "por"))
    turned = SemanticSettings(measure, languages=("por", "eng"))
    values = two_languages.similarities(a, b, chosen, as_values=as_values)
    assert ((values >= 0) & (values <= 1)).all()
    assert np.allclose(values, two_languages.similarities(b, a, chosen, as_values=as_values).T, rtol=0, atol=1e-9)
    assert np.array_equal(values, two_languages.similarities(a, b, turned, as_values=as_values)), (
        "in any order of languages"
    )
    cached = Semantics(cache=SimilarityCache())
    for asked in (chosen, turned, chosen):
        assert np.array_equal(cached.similarities(a, b, asked, as_values=as_values), values)
    back = two_languages.similarities(a[::-1], b[::-1], chosen, as_values=as_values)[::-1, ::-1]
    assert np.allclose(values, back, rtol=0, atol=1e-9)
    assert np.array_equal(values == 0, back == 0), "a veto is one in any company"
    for row, one in enumerate(a):
        for column, other in enumerate(b):
            assert two_languages.objection(one, other, chosen) == two_languages.objection(other, one, turned)
            if one == other:
                assert values[row, column] == 1


@pytest.mark.parametrize("measure", MEASURES)
@given(names(), LISTS)
@settings(deadline=None, max_examples=25)
def test_a_veto_never_removes_an_equal_name(two_languages, measure, name, others):
    chosen = {"measure": measure, "language": ["en", "pt"]}
    there = dict.fromkeys([*others, name], 5)
    event = Event("e", attributes=there)
    wanted = Subscription("s", Compare(name, "==", 5), semantic=chosen)
    found = semantic_match(event, wanted, semantics=two_languages)
    assert found is not None
    assert found.alignment.mapping() == {name: name}
    matcher = SemanticMatcher(two_languages, plain=True)
    matcher.add(wanted)
    assert matcher.match(event) == ["s"]


@given(st.sampled_from(sorted(BY_SYMBOL)), st.sampled_from(sorted(BY_SYMBOL)))
def test_units_convert_in_both_directions_or_in_none(one, other):
    there, back = convert(BY_SYMBOL[one], BY_SYMBOL[other]), convert(BY_SYMBOL[other], BY_SYMBOL[one])
    assert (there is None) == (back is None)
    if there is not None:
        assert there.back() == back
        assert back.convert(there.convert(0)) == 0


HOSTILE = [
    "_".join(["min", "max"] * 16),
    "_".join(["hr"] * 32),
    "_".join(["data", "temp", "hr", "no"] * 8),
    "_".join(["c", "f", "m", "in"] * 8),
    "_".join(["aaaa"] * 23),
    "_".join(["aaaaa"] * 31 + ["b"]),
    " ".join(["windspeedmph"] * 32),
    "_".join("minmaxstartendfirstlastinoutcfkm"[at:] for at in range(30)),
    "temperature" * 5 + "_c",
    "_".join(sorted(SYMBOLS)[:32]),
    "_".join(sorted(SYMBOLS)[-32:]),
    "of_" * 31 + "of",
    "x" * 64 + "_" + "y" * 64,
    "".join(["ab", "AB"] * 8),
]  # fmt: skip


@pytest.mark.parametrize("measure", ["mean", "token-set"])
def test_hostile_names_stay_bounded_with_every_step(two_languages, measure):
    """Nothing here may grow with the number of ways to read a name: it would not end."""
    chosen = SemanticSettings(measure, languages=("eng", "por"))
    many = [f"{name}_{number}" if len(name.split("_")) < 31 else name for name in HOSTILE for number in range(2)]
    values = two_languages.similarities(many, [*many, "price"], chosen)
    assert ((values >= 0) & (values <= 1)).all()
    assert np.allclose(values[:, :-1], values[:, :-1].T, rtol=0, atol=1e-9)
    assert len(two_languages.readings(HOSTILE[1], chosen)) <= 6


def test_abbreviations_of_many_words_are_tried_in_steps_not_in_ways():
    for tokens in range(1, 33):  # one by one they are more than could ever be tried
        assert not abbreviates(["aaaa"] * tokens, ["aaaaa"] * 31 + ["b"])
    assert abbreviates(["aaaa"] * 16, ["aaaaa"] * 32)
