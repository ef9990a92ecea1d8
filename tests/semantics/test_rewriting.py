"""Filters in the event's words and events in the subscriber's."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.filters import cesql
from recado.filters.evaluate import matches, names_of
from recado.filters.syntax import parse_filter
from recado.model.event import ENVELOPE, Event
from recado.model.filter import FALSE, TRUE, And, Compare, Exists, Not, Or, Sql
from recado.semantics.alignment import Alignment, Pair, constraint_names, rename_event, rewrite
from strategies import events, filters

A, B, X = Compare("a", ">", 1), Compare("b", "==", "x"), Exists("x")


def alignment(mapping, unmatched="fail"):
    pairs = tuple(Pair(name, attribute, 1.0, "similar") for name, attribute in mapping.items())
    return Alignment(pairs, "test", 0.5, unmatched)


def test_names_stand_in_the_order_of_the_filter():
    assert constraint_names(parse_filter("{b, GT, 1; a, LE, 2; b, LT, 5}")) == ("b", "a")
    assert constraint_names(TRUE) == ()
    assert constraint_names(Sql("b = a AND specversion = '1.0'")) == ("a", "b")


def test_names_are_replaced_everywhere():
    filter = parse_filter('(a > 1 or not b == "x") and c in {1, 2} and exists a')
    found = rewrite(filter, alignment({"a": "price", "b": "sale price", "c": "c"}))
    assert found == parse_filter('(price > 1 or not `sale price` == "x") and c in {1, 2} and exists price')


@pytest.mark.parametrize(
    ("filter", "fail", "ignore"),
    [
        (And((A, X)), And((A, FALSE)), A),
        (Or((A, X)), Or((A, FALSE)), A),
        (And((A, Not(X))), And((A, Not(FALSE))), A),
        (And((A, X, A)), And((A, FALSE, A)), And((A, A))),
        (And((A, Or((X, X)))), And((A, Or((FALSE, FALSE)))), A),
        (And((A, And(()))), And((A, And(()))), And((A, And(())))),
        (X, FALSE, FALSE),
        (And((X, TRUE)), And((FALSE, TRUE)), FALSE),
        (Not(X), Not(FALSE), FALSE),
        (TRUE, TRUE, TRUE),
    ],
)
def test_what_has_no_counterpart(filter, fail, ignore):
    assert rewrite(filter, alignment({"a": "a", "x": None})) == fail
    assert rewrite(filter, alignment({"a": "a", "x": None}, "ignore")) == ignore


def test_cesql_is_renamed_inside():
    text = "LEFT(`b c`, 2) = 'x' AND NOT (a + 1 > -a) AND (a IN (1, b) OR b LIKE 'x%' OR EXISTS a)"
    filter = Sql(text.replace("`b c`", "b"))
    found = rewrite(filter, alignment({"a": "price", "b": "sale price"}))
    assert cesql.names(found.text) == {"price", "sale price"}
    assert cesql.names(rewrite(filter, alignment({"a": "price", "b": None})).text) == {"price", "b"}
    assert rewrite(And((A, filter)), alignment({"a": "price", "b": None}, "ignore")) == Compare("price", ">", 1)
    assert rewrite(Sql("a + 1 > 2"), alignment({"a": "x" * 20_000})) == FALSE


NAMES = st.sampled_from(["a", "b", "c", "price", None])


@given(filters(), events(), st.dictionaries(st.sampled_from(["a", "b", "c", "price", "A"]), NAMES))
def test_the_rewritten_filter_asks_what_the_filter_asks_of_a_renamed_event(filter, event, chosen):
    """With ``fail``: as if each attribute had the name that it stands for, and the others were absent."""
    there = dict(event.items())
    names = [name for name in constraint_names(filter) if name not in ENVELOPE]
    mapping = {name: chosen.get(name, name) for name in names}
    mapping = {name: attribute if attribute in there else None for name, attribute in mapping.items()}
    full = mapping | {name: name if name in there else None for name in names_of(filter) if name in ENVELOPE}
    attributes = {name: there[attribute] for name, attribute in mapping.items() if attribute is not None}
    arrays = [attribute for attribute in mapping.values() if isinstance(there.get(attribute), tuple)]
    if len(arrays) != len(set(arrays)):
        return  # two names for one array would choose their elements apart
    as_asked = msgspec.structs.replace(event, attributes=attributes, extensions=())
    assert matches(rewrite(filter, alignment(full)), event) == matches(filter, as_asked)


@given(filters(sql=True), events())
def test_with_identical_names_nothing_changes(filter, event):
    there = dict(event.items())
    mapping = {name: name if name in there else None for name in constraint_names(filter)}
    assert matches(rewrite(filter, alignment(mapping)), event) == matches(filter, event)


def test_an_event_under_the_subscribers_names():
    event = Event("e", "sale", attributes={"price": 60, "product": "book"})
    found = rename_event(event, alignment({"sale price": "price", "product": "product", "kind": "type", "x": None}))
    assert found.attributes == {"price": 60, "product": "book", "sale price": 60, "kind": "sale"}
    assert rename_event(event, alignment({"time": "price", "specversion": "price", "product": "price"})) is event
