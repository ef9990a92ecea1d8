"""The template syntax: the matching table of the tree work, round trip, refusals."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import FilterError
from recado.filters.evaluate import matches
from recado.filters.template import Template, TemplateError, format_template, parse, parse_notification
from recado.model import Event
from recado.model.filter import And, Compare, Exists, Not, Or, Regex, Text
from strategies import REGEXES, STRINGS

NEWS = Template("News", ("Newspaper", "Column", "Subject", "Author"))
SHORT_NEWS = Template("News", ("Newspaper", "Area", "Subject"))
FLIGHT = Template("Flight", ("Company", "Time", "Origin", "Destination"))
SHORT_FLIGHT = Template("Flight", ("Airline", "Origin", "Destination"))
X = Template("X", ("Newspaper", "Area", "Subject"))

TABLE = [
    (NEWS, "<News, [Newspaper-X],[Column-Y],[Subject-A],[Author-*]>", "<News,[X],[Y],[A],[anyone]>", True),
    (FLIGHT, "<Flight, [Company-*],[Time-15:00],[Origin-A],[Destination-B]>", "<Flight,[Z],[15:00],[A],[B]>", True),
    (SHORT_NEWS, "<News, [Newspaper-X],[Area-X],[Subject-X]>", "<News,[X],[X],[X]>", True),
    (SHORT_NEWS, "<News, [Newspaper-X],[Area-*],[Subject-*]>", "<News,[X],[X],[X]>", True),
    (SHORT_FLIGHT, "<Flight, [Airline-X],[Origin-CTBA],[Destination-MG]>", "<Flight,[X],[CTBA],[MG]>", True),
    (X, "<X, [Newspaper-A],[Area-B],[Subject-C]>", "<X,[A],[B],[D]>", False),
]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(("template", "subscription", "notification", "expected"), TABLE)
def test_the_matching_table(template, subscription, notification, expected, declared):
    tree = parse(subscription, template=template if declared else None)
    event = Event("1", template.type, attributes=dict(parse_notification(notification, template)))
    assert matches(tree, event) is expected
    assert not matches(tree, Event("1", "Other", attributes=event.attributes))


def test_reads_every_sort_of_group():
    text = '<News, [Newspaper-X Y], [Column-*] ,[Subject-re:[A-Z]+\\d], [Author-"*"]>'
    assert parse(text) == And(
        (
            Compare("type", "==", "News"),
            Compare("Newspaper", "==", "X Y"),
            Exists("Column"),
            Regex("Subject", "[A-Z]+\\d"),
            Compare("Author", "==", "*"),
        )
    )


def test_a_type_may_stand_alone_or_in_quotes():
    assert parse("<News>") == And((Compare("type", "==", "News"),))
    assert parse('<"a, b">') == And((Compare("type", "==", "a, b"),))


def test_a_notification_may_quote_its_values():
    template = Template("T", ("a", "b"))
    assert parse_notification('<T, ["x],[y"], [*]>', template) == {"a": "x],[y", "b": "*"}


def test_hyphens_in_values_and_names():
    assert parse("<T, [Code-A-320]>") == And((Compare("type", "==", "T"), Compare("Code", "==", "A-320")))
    declared = Template("T", ("air-line", "code"))
    assert parse("<T, [air-line-X-Y],[code-*]>", template=declared) == And(
        (Compare("type", "==", "T"), Compare("air-line", "==", "X-Y"), Exists("code"))
    )


def test_a_regular_expression_describes_the_whole_value():
    tree = parse("<T, [Code-re:A.*]>")
    assert matches(tree, Event("1", "T", attributes={"Code": "A320"}))
    assert not matches(tree, Event("1", "T", attributes={"Code": "xA320"}))


@pytest.mark.parametrize(
    ("notification", "words"),
    [
        ("<News,[X],[Y],[A]>", "has 4 groups"),
        ("<News,[X],[Y],[A],[B],[C]>", "has 4 groups"),
        ("<Flight,[X],[Y],[A],[B]>", "the template describes 'News'"),
    ],
)
def test_a_notification_must_fit_its_template(notification, words):
    with pytest.raises(TemplateError, match="nothing is optional") as caught:
        parse_notification(notification, NEWS)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("subscription", "words"),
    [
        ("<News, [Newspaper-X]>", "has 4 groups"),
        ("<News, [Newspaper-X],[Column-Y],[Subject-A],[Author-*],[More-*]>", "has 4 groups"),
        ("<News, [Newspaper-X],[Area-Y],[Subject-A],[Author-*]>", "begin with 'Column-'"),
        ("<Flight, [Newspaper-X]>", "the template describes 'News'"),
    ],
)
def test_a_subscription_must_fit_its_template(subscription, words):
    with pytest.raises(TemplateError) as caught:
        parse(subscription, template=NEWS)
    assert words in str(caught.value)


TEXTS = st.sampled_from([*STRINGS, "*", "re:x", "]", "a],[b", " a ", "A-320"]) | st.text(max_size=8)
PATTERNS = st.sampled_from([*REGEXES, "[a-c]", "[]x]", "[[:alpha:]]+", "\\]", '"', " ", "[^]]", "\\[a"])
PLAIN_NAMES = st.sampled_from(["Newspaper", "Column", "two words", "preço"])
ODD_NAMES = st.sampled_from(["air-line", "a]b", "Company", "x>"])
TYPES = st.sampled_from(["News", "two words", "a,b", "*", "re:x", '"', " x", "a>b"])


def _groups(names):
    return st.one_of(
        st.builds(Compare, names, st.just("=="), TEXTS), st.builds(Exists, names), st.builds(Regex, names, PATTERNS)
    )


def _trees(names):
    return st.builds(
        lambda type, groups: And((Compare("type", "==", type), *groups)), TYPES, st.lists(_groups(names), max_size=4)
    )


@settings(max_examples=200)
@given(_trees(PLAIN_NAMES))
def test_reads_back_what_it_writes(tree):
    assert parse(format_template(tree)) == tree


@settings(max_examples=200)
@given(_trees(PLAIN_NAMES | ODD_NAMES))
def test_reads_back_what_it_writes_with_a_template(tree):
    template = Template(tree.parts[0].value, tuple(group.name for group in tree.parts[1:]))
    assert parse(format_template(tree, template=template), template=template) == tree


TYPE = Compare("type", "==", "T")


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Exists("a"), "begins with the type"),
        (And(()), "begins with the type"),
        (And((Exists("a"), TYPE)), "begins with the type"),
        (And((TYPE, Not(Exists("a")))), "values, regular expressions and '*' only"),
        (And((TYPE, Or(()))), "values, regular expressions and '*' only"),
        (And((TYPE, Text("a", "prefix", "x"))), "values, regular expressions and '*' only"),
        (And((TYPE, Compare("a", "==", 5))), "texts for equality only"),
        (And((TYPE, Compare("a", "<", "x"))), "texts for equality only"),
        (And((TYPE, Exists("a-b"))), "without a declared template"),
    ],
)
def test_says_what_it_cannot_express(tree, words):
    with pytest.raises(FilterError, match="template syntax") as caught:
        format_template(tree)
    assert words in str(caught.value)


def test_writing_for_another_template_is_refused():
    with pytest.raises(TemplateError, match="'News'"):
        format_template(And((TYPE, Exists("a"))), template=NEWS)


ERRORS = [
    ("News", 0, "expected '<'"),
    ("<>", 1, "type is missing"),
    ("<*, [a-b]>", 1, "type is missing"),
    ("<T", 2, "expected ',' or '>'"),
    ("<T, a-b>", 4, "expected '['"),
    ("<T, [a]>", 5, "no hyphen"),
    ("<T, [-a]>", 5, "name is missing"),
    ("<T, [a-]>", 7, "a value is missing"),
    ("<T, [a-b>", 9, "expected ']'"),
    ("<T, [a-b[1]]>", 8, "brackets inside a value need quotes"),
    ('<T, [a-"b]>', 7, "never closed"),
    ("<T, [a-re:(]>", 10, "is refused"),
    ("<T, [a-b]> x", 11, "behind the closing"),
    ("<T, [a-b] [c-d]>", 10, "expected ',' or '>'"),
    ("<T, [" + "a" * 257 + "-b]>", 5, "the limit is 256"),
]


@pytest.mark.parametrize(("text", "position", "words"), ERRORS)
def test_refuses_with_a_place_and_a_reason(text, position, words):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.position == position


HOSTILE = [
    "<" * 65_400,
    "<T" + ",[a-*]" * 2_700,
    "<T,[a-re:" + "[]" * 8_000,
    "<T,[a-re:" + "(" * 16_000,
    "<T" + "," * 16_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_refused_in_milliseconds(text):
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        with pytest.raises(FilterError):
            parse(text)
        best = min(best, time.process_time() - start)
    assert best < 0.05


@settings(max_examples=200)
@given(st.text(max_size=40) | st.text(alphabet='<>[]a-*,"\\re:( ', max_size=30).map(lambda body: "<T," + body + ">"))
def test_random_text_raises_nothing_but_filter_errors(text):
    for template in (None, Template("T", ("a",))):
        try:
            parse(text, template=template)
        except FilterError:
            continue
