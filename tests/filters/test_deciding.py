"""The evaluator in steps against the plain one; what is asked once; and costs that bound what is done."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recado.filters import evaluate as module
from recado.filters.cost import cost_of, cost_on
from recado.filters.evaluate import STEPS, Work, decide, matches, names_of
from recado.filters.expression import parse
from recado.filters.nodes import cost_of_sql
from recado.filters.patterns import is_similar, similarity
from recado.model.event import Event, expansions
from recado.model.filter import And, Compare, In, Regex, Similar, Sql, Text
from strategies import events, filters, strings

LONG = "ab" * 20_000


def decided(filter, event, work=None):
    """The truth, and the costs that were told on the way."""
    steps = decide(filter, expansions(event, names_of(filter)), work or Work())
    told = []
    while True:
        try:
            told.append(next(steps))
        except StopIteration as end:
            return end.value, told


@given(filters(sql=True), events())
def test_it_says_what_the_evaluator_says(filter, event):
    assert decided(filter, event)[0] is matches(filter, event)


@given(st.lists(filters(sql=True), max_size=5), events())
def test_what_is_known_of_an_event_changes_no_answer(several, event):
    work = Work()
    assert [decided(filter, event, work)[0] for filter in several] == [matches(filter, event) for filter in several]


def test_a_predicate_is_asked_about_a_value_once(monkeypatch):
    asked = []
    holds = module.holds
    monkeypatch.setattr(module, "holds", lambda predicate, value: asked.append(predicate) or holds(predicate, value))
    costly = Similar("text", "x" * 900, 0.01)
    event = Event("e", attributes={"text": ("y" * 40_000, "z" * 40_000), "other": (1, 2, 3)})
    work = Work()
    for number in range(50):
        assert not decided(And((Compare("other", "!=", number + 10), costly)), event, work)[0]
    assert asked.count(costly) == 2  # one for each string


def test_cheap_parts_come_first(monkeypatch):
    asked = []
    holds = module.holds
    monkeypatch.setattr(module, "holds", lambda predicate, value: asked.append(predicate) or holds(predicate, value))
    filter = And((Regex("text", ".*a.{300}b"), Compare("other", "==", 1)))
    assert not decided(filter, Event("e", attributes={"text": LONG, "other": 2}))[0]
    assert asked == [Compare("other", "==", 1)]


def test_it_stops_before_what_is_costly():
    filter = parse('text matches ".*a.{900}c" or text similar to "' + "b" * 900 + '" at 0.01')
    event = Event("e", attributes={"text": LONG})
    steps = decide(filter, expansions(event), Work())
    assert next(steps) >= len(LONG) * 6_300 // 256  # and nothing is done yet
    assert next(steps) >= len(LONG) * 14 // 32


def test_many_cheap_parts_are_told_in_sums():
    filter = parse(" or ".join(f"x == {number}" for number in range(200)))
    event = Event("e", attributes={"x": (1_000, 1_001, 1_002, 1_003)})
    truth, told = decided(filter, event)
    assert (truth, len(told)) == (False, 3)
    assert all(STEPS <= cost < 2 * STEPS for cost in told)


@pytest.mark.parametrize(
    ("predicate", "growing"),
    [
        (Text("x", "contains", "abc"), True),
        (Text("x", "like", "*a?b*"), True),
        (Text("x", "prefix", "abc", fold=True), True),
        (Regex("x", "a.*b"), True),
        (Similar("x", "a" * 500, 0.1), False),  # beyond ten times the length nothing is similar any more
        (In("x", ("a", "b")), False),
        (Compare("x", "==", "a"), False),
    ],
)
def test_the_cost_grows_with_the_value(predicate, growing):
    short, long = cost_on(predicate, "a" * 3_000), cost_on(predicate, "a" * 60_000)
    assert (long > 10 * short) is growing


def test_a_pattern_costs_what_it_compiles_to():
    assert cost_of(Regex("x", "abc")) < 50
    assert cost_of(Regex("x", ".*a.{990}b")) > 1_500
    assert cost_of(Text("x", "like", "*a" + "?" * 1_000)) > 800
    assert cost_of(Sql("x LIKE '%a" + "_" * 1_000 + "'")) > 1_800
    assert cost_of_sql("x LIKE '%a" + "_" * 1_000 + "'", 60_000) > 1_000_000
    assert cost_of_sql("x = 'a'", 10) < 100


def test_similar_texts_cost_the_product_of_their_lengths():
    many, few = (cost_on(Similar("x", "a" * chars, 0.5), "b" * 1_000) for chars in (1_000, 100))
    assert few < many / 4  # too short to be similar
    assert many >= 1_000 * 1_000 // 64 // 32


@given(strings(), strings(), st.sampled_from([0, 0.1, 0.25, 0.3, 1 / 3, 0.5, 0.6, 2 / 3, 0.75, 0.8, 0.9, 1]))
@example("a", "sb\u0390as\u00dfs", 0.09999999999999998)
@example("\u0390", "\u0399\u0308\u0301" * 2, 0.5)
def test_similarity_is_given_up_only_where_it_is_out_of_reach(left, right, threshold):
    exact = similarity(left, right)
    for one in (threshold, exact, max(exact - 1e-9, 0), min(exact + 1e-9, 1)):
        assert is_similar(left, right, one) is (exact >= one)


@pytest.mark.parametrize("values", [(True, 1), (1, True), (1.0, True), (False, 0)])
def test_what_is_known_of_a_number_is_not_taken_for_a_truth_value(values):
    """Python takes 1 and true for equal, in values and in the sets of filters; nobody else does."""
    event = Event("e", attributes={"x": values, "y": "abc"})
    numbers, truths = tuple(range(60)), (True, False, *(f"{at}" for at in range(58)))
    work = Work()
    for some in (numbers, truths, (1, *truths[2:]), (True, *truths[2:])):
        filter = And((In("x", some), Regex("y", "a.*")))
        assert decided(filter, event, work)[0] is matches(filter, event)
