"""The braces syntax and its data files: readings, round trip, refusals."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import EventError, FilterError
from recado.filters.braces import event_line, format_braces, label_line, parse, read_pairs, subscription_line
from recado.filters.evaluate import matches
from recado.model import Event
from recado.model.filter import TRUE, And, Between, Compare, Exists, In, Not, Or, Similar, Text
from strategies import STRINGS, TIMES, names, values

READINGS = [
    (
        "{umidade, GT, 60; temperatura média, LE, 25}",
        And((Compare("umidade", ">", 60), Compare("temperatura média", "<=", 25))),
    ),
    ("{a, EQ, 1}", Compare("a", "==", 1)),
    ("{a,eq,1}", Compare("a", "==", 1)),
    ("{a, NE, 1}", And((Exists("a"), Not(Compare("a", "==", 1))))),
    ("{a, LT, 1.5; b, GE, -2}", And((Compare("a", "<", 1.5), Compare("b", ">=", -2)))),
    ("{a, PF, Ab}", Text("a", "prefix", "Ab", fold=True)),
    ("{a, SF, 60}", Text("a", "suffix", "60", fold=True)),
    ("{a, SS, x, y}", Text("a", "contains", "x, y", fold=True)),
    ("{a, SM, 12}", Similar("a", "12")),
    ("{a, ANY}", Exists("a")),
    ("{a, ANY, }", Exists("a")),
    ("{a, ANY, 5; b, ANY}", And((Exists("a"), Exists("b")))),
    ("{a, EQ, TRUE; b, EQ, False}", And((Compare("a", "==", True), Compare("b", "==", False)))),
    ("{a, EQ, 2147483648}", Compare("a", "==", 2147483648)),
    ("{a, EQ, 18446744073709551616}", Compare("a", "==", float(2**64))),
    ("{a, EQ, .5; b, EQ, 1e3}", And((Compare("a", "==", 0.5), Compare("b", "==", 1000.0)))),
    (
        "{a, EQ, R$ 6000.00; b, GT, 2017-01-01}",
        And((Compare("a", "==", "R$ 6000.00"), Compare("b", ">", "2017-01-01"))),
    ),
    ('{a, EQ, "60"}', Compare("a", "==", "60")),
    (r'{a, EQ, "x;}\"\\\n"}', Compare("a", "==", 'x;}"\\\n')),
    ("{a=b, GT, 5}", Compare("a=b", ">", 5)),
    ("  { a , EQ , x }  ", Compare("a", "==", "x")),
    ("{type=sale, country=Germany}", And((Compare("type", "==", "sale"), Compare("country", "==", "Germany")))),
    ("{price=60}", Compare("price", "==", 60)),
    ('{price="60", on=true}', And((Compare("price", "==", "60"), Compare("on", "==", True)))),
    (
        "{endereço=Avenida Rio Branco, 1000. Rio de Janeiro - RJ, n=1}",
        And((Compare("endereço", "==", "Avenida Rio Branco, 1000. Rio de Janeiro - RJ"), Compare("n", "==", 1))),
    ),
]


@pytest.mark.parametrize(("text", "tree"), READINGS)
def test_reads(text, tree):
    assert repr(parse(text)) == repr(tree)


def test_values_may_be_similar():
    found = parse("{type=sale event, n=5}", values="similar")
    assert found == And((Similar("type", "sale event"), Compare("n", "==", 5)))


def test_the_sale_of_the_semantic_work():
    sale = {
        "produto": "Macbook Air",
        "preço": 6000.0,
        "ocorrência": "2017-06-15",
        "comprador": "João da Silva",
        "endereço": "Avenida Rio Branco, 1000. Rio de Janeiro - RJ",
    }
    assert matches(
        parse("{ocorrência, GT, 2017-01-01; endereço, SF, Rio de Janeiro - RJ}"), Event("1", attributes=sale)
    )
    assert not matches(parse("{endereço, EQ, Rio de Janeiro - RJ}"), Event("1", attributes=sale))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, False), (1.0, False), (2, True), ("1", True), (True, True), (math.nan, True), (None, False)],
)
def test_unequal_is_true_between_kinds_and_false_if_absent(value, expected):
    attributes = {} if value is None else {"a": value}
    assert matches(parse("{a, NE, 1}"), Event("1", attributes=attributes)) is expected


def test_text_operators_ignore_case():
    event = Event("1", attributes={"a": "Straße"})
    assert all(matches(parse(f"{{a, {rest}}}"), event) for rest in ("PF, STR", "SF, SSE", "SS, RASS"))


NAMES = (names() | st.text(min_size=1, max_size=8)).filter(
    lambda name: name == name.strip() and not set(name) & set(",;{}")
)
VALUES = (values() | st.text(max_size=8)).filter(
    lambda value: value not in TIMES and value not in (math.inf, -math.inf)
)
TEXTS = st.sampled_from(STRINGS) | st.text(max_size=8)
CONSTRAINTS = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(["==", "<", "<=", ">", ">="]), VALUES),
    st.builds(lambda name, value: And((Exists(name), Not(Compare(name, "==", value)))), NAMES, VALUES),
    st.builds(Text, NAMES, st.sampled_from(["prefix", "suffix", "contains"]), TEXTS, st.just(True)),
    st.builds(Similar, NAMES, TEXTS),
    st.builds(Exists, NAMES),
)


@settings(max_examples=300)
@given(CONSTRAINTS | st.lists(CONSTRAINTS, min_size=2, max_size=5).map(lambda parts: And(tuple(parts))))
def test_reads_back_what_it_writes(tree):
    text = format_braces(tree)
    back = parse(text)
    assert back == tree
    assert format_braces(back) == text


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Compare("a", "!=", 1), "'!='"),
        (Compare("a", "==", TIMES[0]), "no timestamps"),
        (Compare("a", "<", math.inf), "no infinity"),
        (Text("a", "prefix", "x"), "minds case"),
        (Text("a", "like", "x*", fold=True), "wildcard"),
        (Similar("a", "x", 0.5), "threshold"),
        (Or((Exists("a"), Exists("b"))), "Or"),
        (Not(Exists("a")), "Not"),
        (Between("a", 1, 2), "Between"),
        (In("a", (1,)), "In"),
        (TRUE, "Constant"),
        (And(()), "at least one"),
        (And((Exists("a"), And((Exists("b"), Exists("c"))))), "And"),
        (Exists("a, b"), "attribute name"),
        (Exists(" a"), "attribute name"),
    ],
)
def test_says_what_it_cannot_express(tree, words):
    with pytest.raises(FilterError, match="braces syntax") as caught:
        format_braces(tree)
    assert words in str(caught.value)


ERRORS = [
    ("a, EQ, 1", 0, "opening brace"),
    ("{a, EQ, 1", 9, "never closed"),
    ("{a=1", 4, "never closed"),
    ("{a, EQ, 1} x", 11, "behind the closing brace"),
    ("{}", 1, "name is missing"),
    ("{, EQ, 1}", 1, "name is missing"),
    ("{a, EQ, 1;}", 10, "name is missing"),
    ("{a}", 2, "expected ',' and an operator"),
    ("{a, EG, 1}", 4, "EQ NE GT LT GE LE PF SF SS SM ANY"),
    ("{a, EQ}", 6, "only ANY takes no value"),
    ("{a, EQ, }", 8, "a value is missing"),
    ('{a, EQ, "x}', 8, "never closed"),
    ('{a, EQ, "x" y}', 12, "after the quoted value"),
    ("{a, EQ, 1e999}", 8, "too large"),
    ("{a, PF, " + "x" * 1025 + "}", 1033, "the limit is 1,024"),
    ("{" + "a" * 257 + ", ANY}", 1, "the limit is 256"),
    ("{a=1, b=}", 8, "has no value"),
    ('{a="x" y=2}', 7, "after the quoted value"),
    ("{=1}", 1, "name is missing"),
    ('{a, EQ, "\ud800"}', 9, "surrogate"),
]


@pytest.mark.parametrize(("text", "position", "words"), ERRORS)
def test_refuses_with_a_place_and_a_reason(text, position, words):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        ";" * 65_400,
        "{" + ";" * 16_000 + "}",
        "{" + "a,ANY;" * 2_000 + "a,ANY}",
        "{" * 16_000,
        "{a=1" + ",b=1" * 4_000 + "}",
        "{a, EQ, " + " " * 16_000,
        '{a, EQ, "' + "\\" * 16_000,
        "{a=" + "," * 16_000,
    ],
)
def test_hostile_texts_are_refused_in_milliseconds(text):
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        with pytest.raises(FilterError):
            parse(text)
        best = min(best, time.process_time() - start)
    assert best < 0.05


@settings(max_examples=300)
@given(st.text(max_size=40) | st.text(alphabet='{}ab,;=" \\1.EQANY', max_size=30).map(lambda body: "{" + body + "}"))
def test_random_text_raises_nothing_but_filter_errors(text):
    try:
        parse(text)
    except FilterError:
        return


def test_a_line_of_an_event_file():
    line = (
        "136-2\t{type=atmospheric pressure increase event, measurement unit=pascals, continent=European countries, "
        "residential area=Lubeck, country=Germany}\n"
    )
    event = event_line(line)
    assert (event.id, event.type) == ("136-2", "atmospheric pressure increase event")
    assert event.attributes == {
        "measurement unit": "pascals",
        "continent": "European countries",
        "residential area": "Lubeck",
        "country": "Germany",
    }
    id, tree = subscription_line("11-1\t{country=Germany}")
    assert id == "11-1"
    assert matches(tree, event)


def test_a_line_of_a_label_file():
    assert label_line("11-1\t[75-32, 75-33,75-30]\n") == ("11-1", ("75-32", "75-33", "75-30"))
    assert label_line("11-1\t[]") == ("11-1", ())


def test_pairs_keep_their_order():
    assert read_pairs("{b=1, a=x}") == [("b", 1), ("a", "x")]


@pytest.mark.parametrize("line", ["no tab", "\t{a=1}", "1\t{a=1, a=2}", "1\t{a}", "1\ta=1", "1\t{time=now}"])
def test_bad_event_lines_are_refused(line):
    with pytest.raises(EventError):
        event_line(line)


@pytest.mark.parametrize("line", ["11-1 [75-32]", "11-1\t75-32", "11-1\t[75-32"])
def test_bad_label_lines_are_refused(line):
    with pytest.raises(FilterError):
        label_line(line)
