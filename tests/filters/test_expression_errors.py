"""The expression syntax refuses: the place, the reason and the hint of every error, and what refusing costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import FilterError
from recado.filters.evaluate import matches
from recado.filters.expression import format_expression, parse, parse_general
from recado.model import LIMITS, Event, Limits
from work import calls_of

ERRORS = [
    # text, the place of the caret, words of the message
    ("", 0, "empty"),
    ("  ", 2, "empty"),
    ("Price = 5", 6, "two signs: =="),
    ("a === 5", 2, "two signs: =="),
    ("a <> 5", 2, "inequality is written !="),
    ("a => 5", 2, "write >="),
    ('a =~ "x"', 2, "matches"),
    ("a is 5", 2, "=="),
    ("a == 1 & b == 2", 7, "write && or 'and'"),
    ("a == 1 | b == 2", 7, "write || or 'or'"),
    ("city == Rio de Janeiro", 12, "a text with spaces needs quotes"),
    ("temperatura média > 3", 12, "back quotes: `temperatura média`"),
    ('city == "Rio', 8, "never closed"),
    ("city == 'Rio", 8, "never closed"),
    ("`a == 1", 0, "never closed"),
    ('a == "x\ny"', 5, "on the same line"),
    ('a startwith "x"', 2, "did you mean 'startswith'?"),
    ("a betwen 1 and 2", 2, "did you mean 'between'?"),
    ("a < Volume", 4, "two attributes cannot be compared"),
    ("a == `b`", 5, "never with another attribute"),
    ("a == nan", 5, "NaN equals nothing"),
    ("a == NULL", 5, "not exists"),
    ("a == 18446744073709551616", 5, "does not fit 64 bits"),
    ("a == -9223372036854775809", 5, "does not fit 64 bits"),
    ("a == " + "9" * 5000, 5, "does not fit 64 bits"),
    ("a == 1e999", 5, "write infinity"),
    ("a == 25kg", 5, 'quotes around a text: "25kg"'),
    ("a == 15:00", 5, 'quotes around a text: "15:00"'),
    ("a == 2017-06-15", 5, 'quotes around a text: "2017-06-15"'),
    ("a == 1__0", 5, "neither a number nor a name"),
    ("a == .5", 5, "write 0.5"),
    ("a == - 5", 5, "directly before the digits"),
    ("a == 1; b == 2", 6, "join predicates with"),
    ("a ~ 3", 2, "has no meaning here"),
    ('a == t"2026-01-01"', 5, "RFC 3339"),
    ('a == t"2026-01-01T00:00:00"', 5, "a time zone is needed"),
    ('a == t"2026-13-01T00:00:00Z"', 5, "is not an instant"),
    ('a == t"0001-01-01T00:00:00+01:00"', 5, "is not an instant"),
    ('a matches "(?=x)"', 10, "RE2"),
    ('b == 1 and a matches "(x"', 21, "is refused"),
    ('a matches "(x{1,1000}){1,1000}"', 10, "is refused"),
    ('a matches "' + "x" * 1025 + '"', 10, "the limit is 1,024"),
    ('a matches i"x"', 10, "(?i)"),
    (r'a == "\d"', 6, r'write \\d for a backslash, or a raw string: r"..."'),
    (r'a == "\ud800"', 6, "half of a pair"),
    ('a == "\ud800"', 6, "lone surrogate"),
    ('a == i"x"', 5, 'name like i"..."'),
    ("(a == 1", 0, "never closed"),
    ("b == 1 and all(a == 1", 11, "never closed"),
    ("a == 1)", 6, "never opened"),
    ("a == 1 and", 10, "found the end"),
    ("a == 1 or or b == 1", 10, "word of the language"),
    ("like == 1", 0, "is written `like`"),
    ("true == a", 5, "on the left"),
    ("25 > a", 0, "put the attribute first"),
    ("a", 1, "for presence write: exists a"),
    ("a and b == 1", 2, "for presence write: exists a"),
    ("(a)", 2, "for presence write: exists a"),
    ("a 5", 2, "expected an operator"),
    ("a ==", 4, "expected a value"),
    ("a == and", 5, 'for the text write "and"'),
    ("a not == 5", 6, "write: not a =="),
    ("a in (1, 2)", 5, "a set is written {1, 2, 3}"),
    ("a in [1]", 7, "an interval has two bounds"),
    ("a in [1, 2, 3]", 10, "an interval has two bounds"),
    ('a in [1, "x"]', 9, "must be of one kind"),
    ("a between 1 and true", 16, "must be of one kind"),
    ("a between 1 or 5", 12, "name between 1 and 5"),
    ("a in {1 2}", 8, "separated by commas"),
    ("a in {1,", 8, "expected a value"),
    ('a similar "x"', 10, "similar to"),
    ('a similar to "x" at 2', 20, "from 0 to 1"),
    ('a similar to "x" at y', 20, "from 0 to 1"),
    ("a startswith 5", 13, "expected a text"),
    ('a startswith t"2026-01-01T00:00:00Z"', 13, "expected a text"),
    ("exists", 6, "expected a predicate"),
    ("exists 5", 7, "begins with an attribute name"),
    ("all == 3", 4, "is written `all`"),
    ("`` == 1", 0, "cannot be empty"),
    ("a" * 257 + " == 1", 0, "the limit is 256"),
    ("sql a", 4, "in quotes"),
    ('b == 1 and sql "a = "', 15, "in the CESQL expression"),
    ("a == 1, b == 2", 6, "commas stand in sets"),
]


@pytest.mark.parametrize(("text", "position", "words"), ERRORS)
def test_refuses_with_a_place_and_a_reason(text, position, words):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.position == position
    assert words in str(caught.value)
    lines = str(caught.value).splitlines()
    assert lines[2].strip() == "^"


def test_the_caret_stands_under_the_wrong_place():
    with pytest.raises(FilterError) as caught:
        parse("Stock == PETR4 and Price = 25")
    assert str(caught.value).splitlines() == [
        "'=' is not an operator, at character 26",
        "  Stock == PETR4 and Price = 25",
        "                           ^",
        "hint: equality is written with two signs: ==",
    ]


HOSTILE = {
    "open parentheses": "(" * 10**5,
    "negations": "not " * 10**5 + "a == 1",
    "terms": "a == 1 or " * 10**6 + "a == 1",
    "separators": ";" * 65_400,
    "calls": "all(" * 4_000,
    "parentheses within the length": "(" * 16_000,
    "negations within the length": "not " * 4_000 + "a == 1",
    "terms within the length": "a==1 or " * 2_000 + "a==1",
    "factors within the length": "a==1 and " * 1_800 + "a==1",
    "a large set": "a in {" + "1," * 8_000 + "1}",
    "a long name": "a." * 8_000 + "a == 1",
    "a long number": "a == 1" + "_1" * 8_000 + "_",
    "backslashes": 'a == "' + "\\" * 16_001,
    "repetition of repetition": 'a matches "((a{1,100}){1,100}){1,100}"',
    "nested groups": 'a matches "' + "(" * 1_000 + ")" * 24 + '"',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_refused_after_little_work(text):
    def refused():
        with pytest.raises(FilterError):
            parse(text)

    assert calls_of(refused) < 50_000


def test_limits_refuse_before_the_text_is_read():
    generous = Limits(filter_chars=10**8)
    text = "a == 1 or " * 10**6 + "a == 1"

    def refused():
        with pytest.raises(FilterError, match="more than 256 predicates"):
            parse(text, generous)

    assert calls_of(refused) < 50_000


@pytest.mark.timeout(60)  # with backtracking it would not end
def test_catastrophic_regexes_run_in_linear_time():
    found = parse('a matches "(x+x+)+y"')
    assert not matches(found, Event("1", attributes={"a": "x" * 20_000}))


PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "a == 1 and",
            "b between 1 and 5",
            "a in [1, 2.5]",
            "==",
            "!=",
            "<",
            "<=",
            ">",
            ">=",
            "=",
            "and",
            "or",
            "not",
            "(",
            ")",
            "{",
            "}",
            "[",
            "]",
            ",",
            "in",
            "between",
            "like",
            'i"x*"',
            '"x"',
            "'y'",
            "`z`",
            "1",
            "2.5",
            "-3",
            "1e9",
            "true",
            't"x"',
            't"2026-01-01T00:00:00Z"',
            "all(",
            "any(",
            "exists",
            "similar",
            "to",
            "at",
            "sql",
            "matches",
            '"("',
            "startswith",
            "&&",
            "||",
            "!",
            ".",
            "-",
            "\\",
            '"',
            "'",
            "`",
            "é",
        ]
    ),
    max_size=14,
)
FRAGMENTS = PIECES.map(" ".join) | PIECES.map("".join) | PIECES.map(lambda pieces: "a == 1 and " + " ".join(pieces))


def _outcome(read):
    try:
        return read()
    except FilterError as error:
        return error.reason, error.position


def _only_filter_errors(text):
    found = _outcome(lambda: parse(text))
    assert found == _outcome(lambda: parse_general(text, LIMITS))  # the shortcut changes nothing
    if isinstance(found, tuple):
        assert found[1] is None or 0 <= found[1] <= len(text)
    else:
        assert parse(format_expression(found)) == found


@settings(max_examples=500)
@given(st.text(max_size=60) | FRAGMENTS)
def test_random_text_raises_nothing_but_filter_errors(text):
    _only_filter_errors(text)


@pytest.mark.long
@settings(max_examples=30_000, deadline=None)
@given(st.text() | FRAGMENTS)
def test_random_text_raises_nothing_but_filter_errors_for_long(text):
    _only_filter_errors(text)
