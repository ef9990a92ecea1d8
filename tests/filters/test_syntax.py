"""The one door to all syntaxes."""

from __future__ import annotations

import pytest

from recado.errors import FilterError
from recado.filters import cesql
from recado.filters.syntax import detect, format_filter, parse_filter
from recado.model import Limits
from recado.model.filter import And, Compare, Exists, Or

A = Compare("a", "==", 1)


@pytest.mark.parametrize(
    ("text", "syntax", "tree"),
    [
        ("a == 1", "expression", A),
        (" {a, EQ, 1}", "braces", A),
        ("{a=1}", "braces", A),
        (" <T, [a-*]>", "template", And((Compare("type", "==", "T"), Exists("a")))),
    ],
)
def test_the_first_character_tells_the_syntax(text, syntax, tree):
    assert detect(text) == syntax
    assert parse_filter(text) == tree
    assert parse_filter(text, syntax) == tree


def test_a_syntax_asked_for_by_name_is_not_guessed():
    with pytest.raises(FilterError):
        parse_filter("{a, EQ, 1}", "expression")
    with pytest.raises(FilterError):
        parse_filter("a == 1", "braces")


def test_cesql_is_asked_for_by_name():
    assert parse_filter("a = 1 OR EXISTS b", "cesql") == cesql.to_filter("a = 1 OR EXISTS b")


@pytest.mark.parametrize("syntax", ["auto", "expression", "braces", "template", "cesql"])
def test_every_syntax_minds_the_length(syntax):
    with pytest.raises(FilterError, match="the limit is 5"):
        parse_filter("a == 1", syntax, Limits(filter_chars=5))


def test_an_unknown_syntax_is_refused():
    with pytest.raises(FilterError, match="expression, braces, template, cesql"):
        parse_filter("a == 1", "sql")
    with pytest.raises(FilterError, match="cannot be written as 'cesql'"):
        format_filter(A, "cesql")


def test_writes_in_each_syntax():
    assert format_filter(Or((A, Exists("b")))) == "a == 1 or exists b"
    assert format_filter(A, "expression") == "a == 1"
    assert format_filter(A, "braces") == "{a, EQ, 1}"
    assert format_filter(And((Compare("type", "==", "T"), Exists("a"))), "template") == "<T, [a-*]>"
