"""How a name is cut into tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.semantics.names import NAME_CHARS, NAME_WORDS, content, letters_and_digits, tokens


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("residentialArea", ["residential", "area"]),
        ("AirConditionerConsumption", ["air", "conditioner", "consumption"]),
        ("residential_area", ["residential", "area"]),
        ("Residential-Area", ["residential", "area"]),
        ("data.sale price", ["data", "sale", "price"]),
        ("HTTPServer2Port", ["http", "server2", "port"]),
        ("SALE_PRICE", ["sale", "price"]),
        ("buyer's name", ["buyer", "name"]),
        ("temperatura média", ["temperatura", "média"]),
        ("preçoDeVenda", ["preço", "de", "venda"]),
        ("ÁreaÚtil", ["área", "útil"]),
        ("pm25", ["pm25"]),
        ("3.14", ["3", "14"]),
        ("温度Value", ["温度", "value"]),
        ("😀price😀", ["price"]),
        ("a\x00b\x1b[31m", ["a", "b", "31m"]),
        ("", []),
        ("--- . ---", []),
    ],
)
def test_tokens(name, expected):
    assert tokens(name) == expected


def test_a_name_that_is_no_name_has_no_words():
    assert tokens("a" * (NAME_CHARS + 1)) == []
    assert len(tokens("ab " * NAME_WORDS)) == NAME_WORDS
    assert tokens("ab " * (NAME_WORDS + 1)) == []
    assert tokens("x" * 100) == []


def test_stop_words_are_left_out_unless_there_is_nothing_else():
    assert content(["unit", "of", "measurement"], "eng") == ["unit", "measurement"]
    assert content(["data", "da", "venda"], "por") == ["data", "venda"]
    assert content(["to", "the"], "eng") == ["to", "the"]
    assert content(["of"], "xyz") == ["of"]


def test_letters_and_digits():
    assert letters_and_digits("pm25") == ["pm", "25"]
    assert letters_and_digits("a1b22") == ["a", "1", "b", "22"]
    assert letters_and_digits("") == []


@given(st.text(max_size=60))
def test_any_text_has_tokens_that_are_their_own_tokens(name):
    found = tokens(name)
    assert all(found)
    assert tokens(" ".join(found)) == found
