"""The filter dialects of the CloudEvents Subscriptions API."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cesql_texts import expressions
from recado.errors import FilterError
from recado.filters import cesql
from recado.filters.evaluate import matches
from recado.filters.records import dump, parse
from recado.model import LIMITS, Event
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
from strategies import COMMON_NAMES, STRINGS, events, filters
from work import calls_of

PUSH = Compare("type", "==", "com.github.push")
SPEC = Compare("subject", "==", "https://github.com/spec")

READ = [
    ([], TRUE),
    ([{"exact": {"type": "com.github.push"}}], PUSH),
    ({"exact": {"type": "com.github.push"}}, PUSH),
    ([{"exact": {"type": "com.github.push", "subject": "https://github.com/spec"}}], And((PUSH, SPEC))),
    ([{"exact": {"type": "com.github.push"}}, {"exact": {"subject": "https://github.com/spec"}}], And((PUSH, SPEC))),
    ([{"prefix": {"type": "com.github."}}], Text("type", "prefix", "com.github.")),
    ([{"suffix": {"type": ".created"}}], Text("type", "suffix", ".created")),
    ([{"all": [{"exact": {"type": "com.github.push"}}]}], PUSH),
    (
        [{"any": [{"exact": {"type": "com.github.push"}}, {"exact": {"subject": "https://github.com/spec"}}]}],
        Or((PUSH, SPEC)),
    ),
    ([{"not": {"exact": {"type": "com.github.push"}}}], Not(PUSH)),
    ([{"sql": "source LIKE '%cloudevents%'"}], Text("source", "contains", "cloudevents")),
    ([{"sql": "a < b"}], And((Exists("a"), Exists("b"), Sql("a < b")))),
    ([{"exact": {"level": "5"}}], In("level", ("5", 5))),
    ([{"prefix": {"flag": "tr"}}], Or((Text("flag", "prefix", "tr"), Compare("flag", "==", True)))),
    ([{"exact": {"specversion": "1.0"}}], TRUE),
    ([{"exact": {"specversion": "0.3"}}], FALSE),
    ([{"prefix": {"specversion": "1."}}], TRUE),
    ([{"suffix": {"specversion": ".3"}}], FALSE),
]


@pytest.mark.parametrize(("document", "filter"), READ)
def test_read(document, filter):
    assert parse(document) == filter


REFUSED = [
    ("exact", "filters: expected a list of filters but found a string"),
    (None, "filters: expected a list of filters but found null"),
    (["exact"], "filters[0]: expected an object with one member, the dialect, but found a string"),
    ([{}], "filters[0]: expected an object with one member, the dialect, but found 0 members"),
    (
        [{"exact": {"a": "b"}, "prefix": {"a": "b"}}],
        "filters[0]: expected an object with one member, the dialect, but found 2 members",
    ),
    (
        [{"regex": {"a": "b"}}],
        "filters[0]: there is no dialect 'regex'\nhint: the dialects are exact, prefix, suffix, all",
    ),
    ([{"exact": []}], "filters[0].exact: expected an object of attribute names and texts but found a list"),
    ([{"exact": {}}], "filters[0].exact: expected an object of attribute names and texts but found an empty one"),
    ([{"exact": {"a": 5}}], "filters[0].exact.a: the text to compare with must be a string, not a number"),
    ([{"exact": {"a": True}}], "filters[0].exact.a: the text to compare with must be a string, not a boolean"),
    ([{"prefix": {"a": ""}}], "filters[0].prefix.a: the text to compare with must have between 1 and 1,024 characters"),
    ([{"suffix": {"": "b"}}], "filters[0].suffix: an attribute name must have between 1 and 256 characters, not 0"),
    ([{"exact": {"a": "\ud800"}}], "filters[0].exact.a: the text to compare with has a lone surrogate at character 1"),
    ([{"all": []}], "filters[0].all: expected a list of at least one filter but found an empty one"),
    ([{"all": {"exact": {}}}], "filters[0].all: expected a list of at least one filter but found an object"),
    ([{"not": [{"exact": {"a": "b"}}]}], "filters[0].not: expected an object with one member"),
    (
        [{"exact": {"a": "b"}}, {"any": [{"exact": {"a": "b"}}, {"not": {"exact": {"a": None}}}]}],
        "filters[1].any[1].not.exact.a: the text to compare with must be a string, not null",
    ),
    ([{"sql": 5}], "filters[0].sql: expected a CESQL expression in a string but found a number"),
    (
        [{"all": [{"sql": "a = "}]}],
        "filters[0].all[0].sql: expected a value but found the end, at character 5\n  a = \n",
    ),
    ([{"sql": "LENGTH(a)"}], "filters[0].sql: the expression yields an Integer"),
]


@pytest.mark.parametrize(("document", "message"), REFUSED)
def test_refused(document, message):
    with pytest.raises(FilterError) as caught:
        parse(document)
    assert str(caught.value).startswith(message)


def nested(levels: int):
    document = {"exact": {"a": "b"}}
    for _ in range(levels):
        document = {"not": document}
    return [document]


@pytest.mark.parametrize(
    "document",
    [
        nested(LIMITS.filter_depth),
        nested(5000),
        [{"exact": {f"a{i}": "b" for i in range(100_000)}}],
        [{"exact": {"a": "b"}}] * 1_000_000,
        [{"sql": "a = 1"}] * 300,
        [{"exact": {"a": "b" * 1_000_000}}],
    ],
    ids=["deep", "deeper", "wide object", "long list", "many expressions", "long text"],
)
def test_hostile_documents_are_refused_after_little_work(document):
    def refused():
        with pytest.raises(FilterError):
            parse(document)

    assert calls_of(refused) < 100_000


TEXTS = [text for text in [*STRINGS, "2", "2026-01", "Z", "NaN", "Inf", "tr", "e", "0.1", ".5", "false"] if text]


def documents(sql: bool):
    compared = st.builds(
        lambda dialect, attributes: {dialect: attributes},
        st.sampled_from(["exact", "prefix", "suffix"]),
        st.dictionaries(
            st.sampled_from([*COMMON_NAMES, "type", "time", "a b"]), st.sampled_from(TEXTS), min_size=1, max_size=2
        ),
    )
    leaf = compared | expressions(2).filter(_is_filter).map(lambda text: {"sql": text}) if sql else compared
    return st.recursive(leaf, _joined, max_leaves=5)


def _is_filter(text: str) -> bool:
    try:
        return cesql.to_filter(text) is not None
    except FilterError:
        return False


def _joined(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda parts: {"all": parts}),
        several.map(lambda parts: {"any": parts}),
        inner.map(lambda part: {"not": part}),
    )


@settings(max_examples=120)
@given(st.lists(documents(sql=False), max_size=3))
def test_what_is_read_is_written_and_read_back(document):
    filter = parse(document)
    assert parse(dump(filter)) == filter


@settings(max_examples=100)
@given(st.lists(documents(sql=True), max_size=3), events())
def test_what_can_be_written_means_the_same(document, event):
    filter = parse(document)
    try:
        written = dump(filter)
    except FilterError:
        return
    assert matches(parse(written), event) == matches(filter, event)


@settings(max_examples=100)
@given(filters(sql=True), events())
def test_any_filter_that_can_be_written_means_the_same(filter, event):
    try:
        written = dump(filter)
    except FilterError:
        return
    assert matches(parse(written), event) == matches(filter, event)


@settings(max_examples=120)
@given(st.sampled_from(["exact", "prefix", "suffix"]), st.sampled_from(TEXTS), events())
def test_the_text_dialects_are_their_cesql_recreations(dialect, text, event):
    """Where CESQL has a literal for the pattern, both say the same."""
    escaped = text.replace("%", "\\%").replace("_", "\\_")
    pattern = {"exact": escaped, "prefix": f"{escaped}%", "suffix": f"%{escaped}"}[dialect]
    if "\\" in text or "'" in text:
        return
    assert matches(parse([{dialect: {"a": text}}]), event) == matches(Sql(f"a LIKE '{pattern}'"), event)


WRITTEN = [
    (TRUE, []),
    (FALSE, [{"sql": "FALSE"}]),
    (Not(TRUE), [{"not": {"sql": "TRUE"}}]),
    (Exists("a b"), [{"sql": "EXISTS `a b`"}]),
    (Compare("a", "==", True), [{"sql": "a"}]),
    (Text("a", "contains", "x%"), [{"sql": "a LIKE '%x\\%%'"}]),
    (Text("a", "like", "x?z"), [{"sql": "a LIKE 'x_z'"}]),
    (In("a", ("x", "y")), [{"any": [{"exact": {"a": "x"}}, {"exact": {"a": "y"}}]}]),
    (cesql.to_filter("a = 5"), [{"sql": "a = 5"}]),
    (cesql.to_filter("a = 1"), [{"sql": "a = 1"}]),
    (cesql.to_filter("a < 5"), [{"sql": "a < 5"}]),
    (cesql.to_filter("a < 5 AND b = 'x'"), [{"sql": "a < 5"}, {"exact": {"b": "x"}}]),
    (cesql.to_filter("a LIKE '2%'"), [{"prefix": {"a": "2"}}]),
]


@pytest.mark.parametrize(("filter", "document"), WRITTEN)
def test_write(filter, document):
    assert dump(filter) == document


@pytest.mark.parametrize(
    "filter",
    [
        Compare("a", "==", "5"),
        Compare("a", "==", 5),
        Compare("a", "<", 5),
        Between("a", 1, 2),
        In("a", ()),
        In("a", (1, 2)),
        Regex("a", "x+"),
        Similar("a", "x"),
        Text("a", "prefix", "x", fold=True),
        Text("a", "like", "\\\\*x?"),
        Text("a", "contains", "'\\\"\\'"),
        Not(Compare("a", "!=", "x")),
        And(()),
        Exists("specversion"),
    ],
)
def test_what_the_dialects_cannot_say(filter):
    with pytest.raises(FilterError, match="cannot say"):
        dump(filter)


def test_an_absent_attribute_passes_only_a_not():
    event = Event("1", type="t")
    assert not matches(parse([{"prefix": {"subject": "a"}}]), event)
    assert matches(parse([{"not": {"prefix": {"subject": "a"}}}]), event)
