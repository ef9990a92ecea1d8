"""What a word is, and its lemma."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.semantics.names import in_word, languages, lemmatiser, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The wind-speed is 3.14", ["the", "wind", "speed", "is", "3", "14"]),
        ("don't, 'quoted' and rock'n'roll", ["don't", "quoted", "and", "rock'n'roll"]),
        ("a caixa d’água", ["a", "caixa", "d'água"]),
        ("snake_case PETR4 A320-neo", ["snake", "case", "petr4", "a320", "neo"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("tem\u00adpe\u00adra\u00adtura", ["temperatura"]),
        ("ac\u0327a\u0303o AÇÃO", ["ação", "ação"]),
        ("हिन्दी में, 東京 и Москва", ["हिन्दी", "में", "東京", "и", "москва"]),
        ("bad \ufffd bytes\ufffdcut", ["bad", "bytes", "cut"]),
        ("'' - _ . \u0301", []),
        ("", []),
    ],
)
def test_words_of_a_text(text, expected):
    assert words(text) == expected


@given(st.text())
def test_words_are_the_same_however_the_text_is_composed_and_cased(text):
    found = words(text)
    assert words(unicodedata.normalize("NFD", text)) == found
    assert words(" ".join(found)) == found
    assert all(in_word(char) for word in found for char in word)


@given(st.text(), st.sampled_from(" \n.,;_-\ufffd"), st.text())
def test_a_text_may_be_cut_wherever_no_word_can_go_on(left, separator, right):
    assert not in_word(separator)
    assert words(left + separator + right) == words(left) + words(separator + right)


@given(st.text(alphabet="aZ9' -_.,\n"))
def test_the_short_way_for_ascii_agrees_with_the_general_one(text):
    assert words(text) == [word for word in words(text + " é") if word != "é"]


def test_lemmas():
    english, portuguese = lemmatiser("en"), lemmatiser("pt")
    assert [english(word) for word in ("stations", "went", "station's", "2026", "petr4")] == [
        "station",
        "go",
        "station",
        "2026",
        "petr4",
    ]
    assert [portuguese(word) for word in ("estações", "subiram", "voos")] == ["estação", "subir", "voo"]


def test_a_language_without_lemmas():
    assert {"en", "pt"} <= languages()
    with pytest.raises(RecadoError, match=r"no lemmas for the language 'xx'; there are: .*en"):
        lemmatiser("xx")
