"""The expression syntax: what it means, and that it reads back what it writes."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recado.errors import FilterError
from recado.filters.evaluate import matches
from recado.filters.expression import format_expression, parse, parse_general, read_back
from recado.filters.lexer import RESERVED
from recado.model import LIMITS, Event, Limits
from recado.model.filter import (
    FALSE,
    TRUE,
    And,
    Between,
    Compare,
    Exists,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Sql,
    Text,
)
from strategies import events, filters

A, B, C = (Compare(name, "==", 1) for name in "abc")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

READINGS = [
    ("a == 1", A),
    ("(((a == 1)))", A),
    ("a==1 and b==1 and c==1", And((A, B, C))),
    ("a == 1 or b == 1 and c == 1", Or((A, And((B, C))))),
    ("a == 1 and b == 1 or c == 1", Or((And((A, B)), C))),
    ("(a == 1 or b == 1) and c == 1", And((Or((A, B)), C))),
    ("(a == 1 and b == 1) and c == 1", And((And((A, B)), C))),
    ("not a == 1 and b == 1", And((Not(A), B))),
    ("not (a == 1 and b == 1)", Not(And((A, B)))),
    ("not not a == 1", Not(Not(A))),
    ("!a == 1 && b == 1 || c == 1", Or((And((Not(A), B)), C))),
    ("a == 1 AND NOT b == 1 Or c == 1", Or((And((A, Not(B))), C))),
    ("all()", And(())),
    ("any()", Or(())),
    ("all(a == 1)", And((A,))),
    ("any(a == 1, b == 1 and c == 1)", Or((A, And((B, C))))),
    ("not any(all(), a == 1)", Not(Or((And(()), A)))),
    ("true", TRUE),
    ("False or TRUE", Or((FALSE, TRUE))),
    ("a != 1_000_000", Compare("a", "!=", 1_000_000)),
    ("a <= -5", Compare("a", "<=", -5)),
    ("a >= +5.25", Compare("a", ">=", 5.25)),
    ("a < 1e3", Compare("a", "<", 1000.0)),
    ("a > -2.5E-3", Compare("a", ">", -0.0025)),
    ("a < infinity and a > -inf", And((Compare("a", "<", math.inf), Compare("a", ">", -math.inf)))),
    ("a == 18446744073709551615", Compare("a", "==", 2**64 - 1)),
    ("a == -9223372036854775808", Compare("a", "==", -(2**63))),
    ("a == true", Compare("a", "==", True)),
    ("Stock == PETR4", Compare("Stock", "==", "PETR4")),
    ("a == x-1.y", Compare("a", "==", "x-1.y")),
    ("a == 'it''", None),
    (r"a == 'it\'s'", Compare("a", "==", "it's")),
    (r'a == "\n\t\"\\\/\u00e9\ud83d\ude00"', Compare("a", "==", '\n\t"\\/é😀')),
    (r'a == r"\d\"', None),
    (r'a matches r"\d+"', Regex("a", r"\d+")),
    ('a == t"2026-01-01T12:00:00Z"', Compare("a", "==", NOON)),
    ('a == t"2026-01-01 09:00:00.000000-03:00"', Compare("a", "==", NOON)),
    ("a between 1 and 5 and b == 1", And((Between("a", 1, 5), B))),
    ("a in [1, 5]", Between("a", 1, 5)),
    ("a in [0.5,5]", Between("a", 0.5, 5)),
    ("a not between 1 and 5", Not(Between("a", 1, 5))),
    ('a in {1, 2.5, "x", y, true}', In("a", (1, 2.5, "x", "y", True))),
    ("a in {}", In("a", ())),
    ("a not in {1}", Not(In("a", (1,)))),
    ('a startswith "x"', Text("a", "prefix", "x")),
    ("a prefix x", Text("a", "prefix", "x")),
    ('a endswith i"X"', Text("a", "suffix", "X", fold=True)),
    ('a suffix "x"', Text("a", "suffix", "x")),
    ('a not contains "x"', Not(Text("a", "contains", "x"))),
    ('a like i"x*y?"', Text("a", "like", "x*y?", fold=True)),
    ("exists a", Exists("a")),
    ("a exists", Exists("a")),
    ("a any", Exists("a")),
    ("a not exists", Not(Exists("a"))),
    ('a similar to "text"', Similar("a", "text")),
    ('a similar to "text" at 0.5', Similar("a", "text", 0.5)),
    ("`temperatura média` > 20", Compare("temperatura média", ">", 20)),
    (r"`a\`b` exists", Exists("a`b")),
    ("`and` == 1 and `like` == 1", And((Compare("and", "==", 1), Compare("like", "==", 1)))),
    ("data.level.x-y == 1", Compare("data.level.x-y", "==", 1)),
    ("ação == 1", Compare("ação", "==", 1)),
    ("t == 1 and i == 1 and r == 1", And(tuple(Compare(name, "==", 1) for name in "tir"))),
    ("sql \"a = 'x'\"", Sql("a = 'x'")),
    (
        'type == "StockExchange" and Stock == "PETR4" and (Price < 25 or Volume >= 1_000_000)',
        And(
            (
                Compare("type", "==", "StockExchange"),
                Compare("Stock", "==", "PETR4"),
                Or((Compare("Price", "<", 25), Compare("Volume", ">=", 1_000_000))),
            )
        ),
    ),
]


@pytest.mark.parametrize(("text", "tree"), [reading for reading in READINGS if reading[1] is not None])
def test_reads(text, tree):
    assert repr(parse(text)) == repr(tree)
    assert repr(parse_general(text, LIMITS)) == repr(tree)


@pytest.mark.parametrize("text", [text for text, tree in READINGS if tree is None])
def test_a_quote_inside_its_own_string_needs_an_escape(text):
    with pytest.raises(FilterError):
        parse(text)


def test_the_mobility_example():
    found = parse("(Stock == PETR4) and (Price < 25)")
    assert matches(found, Event("1", attributes={"Stock": "PETR4", "Price": 24.9}))
    assert not matches(found, Event("1", attributes={"Stock": "PETR4", "Price": 25}))
    assert not matches(found, Event("1", attributes={"Price": 10}))


@settings(max_examples=400)
@given(filters(max_leaves=12, sql=True))
def test_reads_back_what_it_writes(tree):
    text = format_expression(tree)
    back = parse(text)
    assert back == tree
    assert format_expression(back) == text  # also tells 1 from 1.0 and true, and 0.0 from -0.0
    assert parse_general(text, LIMITS) == tree


@settings(max_examples=200)
@given(filters(), events())
def test_writing_keeps_the_meaning(tree, event):
    assert matches(parse(format_expression(tree)), event) == matches(tree, event)


@settings(max_examples=200)
@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
@example("and", "\u2028\x7f\U000e0001")
@example("\ue000", "\\")
def test_any_name_and_any_text_can_be_written(name, text):
    tree = And((Compare(name, "==", text), Text(name, "like", text), In(name, (text, text))))
    assert parse(format_expression(tree)) == tree


def test_every_word_of_the_language_is_a_name_between_back_quotes():
    for word in [*RESERVED, "to", "at", "AND", "inf"]:
        assert parse(format_expression(Exists(word))) == Exists(word)


def test_only_filters_are_written():
    with pytest.raises(TypeError, match="int is not a node of a filter"):
        format_expression(5)


def test_depth_needs_no_recursion():
    tree = A
    for _ in range(5_000):
        tree = Not(And((tree, B)))
    text = format_expression(tree)
    generous = Limits(filter_chars=10**7, filter_depth=10**6, filter_predicates=10**6)
    assert format_expression(parse(text, generous)) == text


@pytest.mark.long
@settings(max_examples=15_000, deadline=None)
@given(filters(max_leaves=30, sql=True))
def test_reads_back_what_it_writes_for_long(tree):
    assert parse(format_expression(tree)) == tree


def test_what_was_accepted_is_read_back_though_no_one_may_write_so_much():
    deep = A
    for _ in range(LIMITS.filter_depth + 2):
        deep = Not(deep)
    for node in (deep, In("a", tuple(f"{'x' * 30}{n}" for n in range(LIMITS.set_values)))):
        text = format_expression(node)
        with pytest.raises(FilterError):
            parse(text)
        assert read_back(text) == node
