"""CESQL texts that are refused: where, why, what would be right, and how fast."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cesql_texts import expressions
from recado.errors import FilterError
from recado.filters import cesql
from recado.model import LIMITS, Limits
from work import calls_of

REFUSED = [
    ("", 0, "expected a value but found the end"),
    ("   ", 3, "expected a value but found the end"),
    ("a =", 3, "expected a value but found the end"),
    ("a == 1", 3, "equality is a single ="),
    ("= 1", 0, "equality is a single ="),
    ("a b", 2, "expected an operator or the end but found b"),
    ("a = 1 b = 2", 6, "join two conditions with AND, OR or XOR"),
    ("(a = 1", 6, "expected ) but found the end"),
    ("a = 1)", 5, "expected an operator or the end but found )"),
    ("()", 1, "expected a value but found )"),
    ("ABS(", 4, "expected a value but found the end"),
    ("ABS(1", 5, "arguments are separated by commas"),
    ("ABS(1,)", 6, "expected a value but found )"),
    ("ABS(1 2)", 6, "expected ) but found 2"),
    ("'abc", 0, "the string has no closing quote"),
    ('"abc\\"', 0, "the string has no closing quote"),
    ("`abc = 1", 0, "the name has no closing back quote"),
    ("`` = 1", 0, "a name has between 1 and 256 characters, this one 0"),
    (f"{'n' * 257} = 1", 0, "a name has between 1 and 256 characters, this one 257"),
    ("a & b", 2, "write AND"),
    ("a || b", 2, "write OR"),
    ("!a", 0, "write NOT"),
    ("a # b", 2, "unexpected '#'"),
    ("a = 1.5", 4, "1.5 has a fraction"),
    ("a = 2147483648", 4, "2147483648 does not fit 32 bits"),
    ("a = -2147483649", 4, "-2147483649 does not fit 32 bits"),
    ("a = - 2147483648", 6, "2147483648 does not fit 32 bits"),
    (f"a = {'9' * 5000}", 4, "does not fit 32 bits"),
    ("+a", 0, "a + without a left operand"),
    ("+ 5", 0, "write +5, without a space"),
    ("a LIKE b", 7, "expected a string literal after LIKE but found b"),
    ("a LIKE 5", 7, "write LIKE 'abc%'"),
    ("a LIKE", 6, "expected a string literal after LIKE but found the end"),
    ("a LIKE ('x')", 7, "expected a string literal after LIKE"),
    (f"a LIKE '{'x' * 1025}'", 7, "the pattern has 1,025 characters; the limit is 1,024"),
    ("a IN 1", 5, "a set is written IN"),
    ("a IN ()", 6, "expected a value but found )"),
    ("a IN (1 2)", 8, "the values of a set are separated by commas"),
    ("a NOT 1", 6, "expected LIKE or IN after NOT but found 1"),
    ("EXISTS 5", 7, "expected a name but found 5"),
    ("EXISTS (a)", 7, "any name can stand between back quotes"),
    ("EXISTS and", 7, "expected a name but found and"),
    ("like = 1", 0, "expected a value but found like"),
    ("a =\n  1 +\n  * 2", 12, "expected a value but found *"),
    ("a = '\ud800'", 5, "a lone surrogate is not text"),
]


@pytest.mark.parametrize(("text", "position", "message"), REFUSED, ids=[ascii(text[:30]) for text, *_ in REFUSED])
def test_refused(text, position, message):
    with pytest.raises(FilterError) as caught:
        cesql.parse(text)
    assert message in str(caught.value)
    assert caught.value.position == position


def test_the_caret_stands_under_the_place():
    with pytest.raises(FilterError) as caught:
        cesql.parse("level > 3 AND type LIKE 5")
    assert str(caught.value).splitlines() == [
        "expected a string literal after LIKE but found 5, at character 25",
        "  level > 3 AND type LIKE 5",
        "                          ^",
        "hint: write LIKE 'abc%'",
    ]


DEEP = LIMITS.filter_depth

HOSTILE = {
    "parentheses": "(" * 8000 + "a" + ")" * 8000,
    "more text than allowed": "a = 1 OR " * 100_000 + "a",
    "negations": "NOT " * 4000 + "a",
    "minus signs": "-" * 16_000 + "a",
    "calls": "ABS(" * 4000 + "a" + ")" * 4000,
    "sets": "a IN (" * 2500 + "1" + ")" * 2500,
    "likes": "a" + " LIKE 'x'" * 1600,
    "terms": "1" + "+1" * 8000,
    "presences": " OR ".join(["EXISTS a"] * 1300),
    "set values": "a IN (" + ",".join(["1"] * 8000) + ")",
    "unclosed string": "'" + "\\'" * 8000,
    "unclosed name": "`" + "\\`" * 8000,
    "one long word": "a." * 8000,
    "commas": "ABS(" + "," * 16_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_after_little_work(name):
    def refused():
        with pytest.raises(FilterError):
            cesql.parse(HOSTILE[name])

    assert calls_of(refused) < 200_000


@pytest.mark.parametrize(
    ("text", "depth"),
    [("(" * 40 + "a" + ")" * 40, 40), ("NOT " * 40 + "a", 40), ("a" + " LIKE 'x'" * 40, 40), ("-" * 40 + "a", 40)],
)
def test_depth_is_a_limit_and_not_an_accident(text, depth):
    with pytest.raises(FilterError, match=f"nested deeper than {DEEP} levels"):
        cesql.parse(text)
    generous = Limits(filter_depth=depth)
    assert cesql.parse(text, generous)


def test_the_largest_expressions_allowed_are_evaluated():
    wide = " AND ".join(f"a != {i}" for i in range(LIMITS.filter_predicates))
    deep = "a" + " + 0" * 10
    for _ in range(DEEP - 1):
        deep = f"1 * ({deep}) + 0 - 0"
    assert cesql.accepts(wide, {"a": -1})
    assert cesql.evaluate(deep, {"a": 5}).value == 5
    assert cesql.to_filter(f"{deep} = 5") is not None


@pytest.mark.timeout(60)  # with backtracking it would not end
def test_like_takes_linear_time():
    pattern = "%".join("a" * 200)
    value = "a" * 60_000 + "b"
    assert not cesql.accepts(f"x LIKE '{pattern}'", {"x": value})


@settings(max_examples=150)
@given(st.text(alphabet="ab01 '\"`\\()+-*/%=<>!,.ANDORXNTLIKE", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        node = cesql.parse(text)
    except FilterError:
        return
    assert cesql.parse(cesql.format_node(node)) == node


@settings(max_examples=100)
@given(expressions(), st.data())
def test_a_damaged_expression_is_read_or_refused(text, data):
    start = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:start] + data.draw(st.sampled_from(["", "(", "'", " AND ", ")", ",", "NOT ", "\x00"])) + text[start + 1 :]
    )
    try:
        cesql.accepts(damaged, {"a": 1})
    except FilterError as error:
        assert str(error)
