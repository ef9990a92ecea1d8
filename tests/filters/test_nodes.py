"""The table of node kinds: what does not know a kind says so; a complete kind goes through the whole language."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from recado.errors import FilterError
from recado.filters import braces, records, template
from recado.filters.cost import check_filter, cost_of, cost_on
from recado.filters.covering import covers, find_witness, merge, merge_imperfect, overlaps, satisfiable
from recado.filters.evaluate import Work, decide, evaluate, holds, matches, names_of, walk
from recado.filters.expression import format_expression
from recado.filters.lexer import format_name
from recado.filters.nodes import KINDS, NUMBERS, JoinKind, NodeKind, PredicateKind, register
from recado.filters.normal import filter_key, normal_form, simplify
from recado.filters.patterns import TEXT_OPERATORS
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.matching.program import COMPILERS, Compiler
from recado.model.event import Event, expansions
from recado.model.filter import And, Compare, Exists, Filter, Node, Not, Or, Predicate, Text, TextOp
from recado.model.subscription import Subscription
from recado.model.values import Kind


class Multiple(Node, frozen=True, tag="multiple"):
    """A number that ``of`` divides."""

    name: str
    of: int


class MultipleKind(PredicateKind):
    def holds(self, node, value):
        return type(value) is int and value % node.of == 0

    def cost(self, node):
        return 3

    def cost_on_value(self, node, value):
        return 3

    def check_constants(self, node, where, limits):
        if node.of <= 0:
            raise FilterError(f"{where}: a divisor is greater than 0")

    def write(self, node):
        return [f"{format_name(node.name)} multiple of {node.of}"]

    def describe_condition(self, node):
        return f"is a multiple of {node.of}"

    def wanted_kind(self, node):
        return Kind.NUMBER

    def simplify(self, node):
        return node

    def examples(self, node):
        return (node.of, node.of + 1)


class Unknown(Node, frozen=True, tag="unknown"):
    name: str


@pytest.fixture
def toy():
    """A complete kind of node, in all tables."""
    kind = MultipleKind(Multiple, 99)
    register(kind)
    COMPILERS[Multiple] = Compiler.compile_opaque
    yield kind
    del KINDS[Multiple], NUMBERS[99], COMPILERS[Multiple]


def test_the_table_is_complete():
    assert set(KINDS) == set(get_args(Filter))
    assert {node for node, kind in KINDS.items() if isinstance(kind, PredicateKind)} == set(get_args(Predicate))
    assert set(TEXT_OPERATORS) == set(get_args(TextOp))


def test_the_tables_of_the_rooms_above_are_complete():
    from recado.pipeline.partitioned.plan import ACCESSES

    leaves = {node for node, kind in KINDS.items() if not isinstance(kind, JoinKind)}
    assert leaves - set(COMPILERS) == set()
    assert leaves - set(ACCESSES) == set()


@pytest.mark.parametrize("base", [NodeKind, PredicateKind])
def test_a_kind_that_lacks_anything_cannot_be_made(base):
    """Leave out one method after the other: the error names the one that is missing."""
    whole = {name: getattr(MultipleKind, name) for name in base.__abstractmethods__ if hasattr(MultipleKind, name)}
    assert type("Whole", (base,), whole)(Multiple, 99)
    assert set(whole) == base.__abstractmethods__
    for missing in whole:
        rest = {name: method for name, method in whole.items() if name != missing}
        with pytest.raises(TypeError, match=rf"abstract methods? '?{missing}'?"):
            type("Part", (base,), rest)(Multiple, 99)


def test_every_concern_must_be_told():
    """What has a body in the base classes is right for any kind: nothing can be forgotten silently."""
    told = {name for name, method in inspect.getmembers(PredicateKind, inspect.isfunction) if name[0] != "_"}
    assert told - PredicateKind.__abstractmethods__ == {
        "evaluate", "cost_on", "check", "names", "describe",  # by what the kind tells of its condition
        "parts", "fields", "make",  # a predicate has no parts; its fields are MessagePack's own
        "is_costly", "literal_key", "fixed",  # cheap, opaque, and nothing known: never wrong
    }  # fmt: skip


def test_no_class_and_no_number_twice(toy):
    with pytest.raises(ValueError, match="Multiple, number 100, is taken"):
        register(MultipleKind(Multiple, 100))
    with pytest.raises(ValueError, match="Unknown, number 3, is taken"):
        register(MultipleKind(Unknown, 3))


PLACES = {
    "evaluate": lambda node: evaluate(node, {"x": 1, "y": 1}),
    "holds": lambda node: holds(node, 1),
    "matches": lambda node: matches(node, Event("e", attributes={"y": 1})),
    "decide": lambda node: next(decide(node, [{"x": 1, "y": 1}], Work())),
    "names": names_of,
    "cost": cost_of,
    "cost on a value": lambda node: cost_on(node, 1),
    "check": check_filter,
    "expression": format_expression,
    "braces": braces.format_braces,
    "template": lambda node: template.format_template(And((Compare("type", "==", "a"), node))),
    "dialects": records.dump,
    "packed": records.pack,
    "normal form": normal_form,
    "key": filter_key,
    "simplify": simplify,
    "covers": lambda node: covers(node, Exists("x")),
    "overlaps": lambda node: overlaps(node, Exists("x")),
    "satisfiable": satisfiable,
    "merge": lambda node: merge(node, Exists("x")),
    "witness": find_witness,
    "walk": lambda node: list(walk(node)),
    "index": lambda node: Index().add(Subscription("s", node)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_kind_that_is_in_no_table_is_refused_by_name(place):
    with pytest.raises((TypeError, FilterError), match="Unknown"):
        PLACES[place](Unknown("x"))


_NO_JOINS = {"holds", "cost on a value", "template"}  # these refuse the join itself


@pytest.mark.parametrize("place", sorted(set(PLACES) - _NO_JOINS))
def test_it_is_refused_inside_others(place):
    with pytest.raises((TypeError, FilterError), match="Unknown"):
        PLACES[place](And((Exists("y"), Unknown("x"))))


def test_the_rooms_above_refuse_what_they_do_not_know(toy):
    from recado.pipeline.partitioned.plan import accesses

    del COMPILERS[Multiple]
    try:
        with pytest.raises(TypeError, match=r"Multiple is not known to recado\.matching\.program\.COMPILERS"):
            Index().add(Subscription("s", Multiple("x", 3)))
        with pytest.raises(TypeError, match=r"Multiple is not known to recado\.pipeline\.partitioned\.plan\.ACCESSES"):
            accesses(Subscription("s", And((Exists("x"), Multiple("x", 3)))))
    finally:
        COMPILERS[Multiple] = Compiler.compile_opaque


@pytest.mark.parametrize("place", ["evaluate", "cost", "expression", "key", "index"])
def test_a_text_operator_is_refused_by_name_where_it_is_unknown(place):
    look = {**PLACES, "evaluate": lambda node: evaluate(node, {"x": "abc"})}[place]
    with pytest.raises((KeyError, FilterError), match="infix"):
        look(Text("x", "infix", "a"))


EVENTS = [
    Event(f"e-{value}", attributes={"x": value, "y": 1}) for value in (0, 1, 3, 6, 7, "3", True, 6.5, (1, 9), (1, 2))
] + [Event("without", attributes={"y": 1})]


def test_a_complete_kind_goes_through_the_language(toy):
    three, six = Multiple("x", 3), Multiple("x", 6)
    assert [matches(three, event) for event in EVENTS] == [value in (0, 3, 6, (1, 9)) for value in _values()]
    assert names_of(And((three, Exists("y")))) == {"x", "y"}
    assert cost_of(And((three, six))) == 7
    assert check_filter(three) is three
    with pytest.raises(FilterError, match="the condition on 'x': a divisor is greater than 0"):
        check_filter(Multiple("x", 0))
    assert format_expression(Not(And((three, Exists("y"))))) == "not (x multiple of 3 and exists y)"
    assert KINDS[Multiple].describe(three) == "x is a multiple of 3"
    both = Or((And((three, Not(six))), Compare("y", "==", 2)))
    assert records.unpack(records.pack(both)) == both
    assert find_witness(And((three, Not(six)))) == {"x": 3}
    for event in EVENTS:
        steps = decide(both, expansions(event, names_of(both)), Work())
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value is matches(both, event)


def test_the_algebra_takes_it_as_opaque(toy):
    three, six = Multiple("x", 3), Multiple("x", 6)
    assert normal_form(And((three, three, Exists("y")))) == normal_form(And((Exists("y"), three)))
    assert filter_key(three) != filter_key(six)
    assert filter_key(three) == filter_key(Not(Not(three)))
    assert covers(Exists("x"), three)
    assert covers(three, And((three, Exists("y"))))
    assert not covers(three, six)  # true, and not known
    assert satisfiable(And((three, Not(three)))) is False
    assert overlaps(three, six)
    for one in (normal_form, simplify):
        for filter in (And((three, Compare("x", ">=", 3))), Or((Not(three), six)), Not(And((three, Not(six))))):
            assert [matches(one(filter), event) for event in EVENTS] == [matches(filter, event) for event in EVENTS]
    around = merge_imperfect(three, six)
    assert all(matches(around, event) for event in EVENTS if matches(three, event))


def test_the_index_and_the_plain_matcher_agree_on_it(toy):
    three, six = Multiple("x", 3), Multiple("x", 6)
    filters = [three, Not(three), And((three, Not(six))), Or((six, Compare("x", "==", 7))), And((Exists("y"), six))]
    index, naive = Index(), NaiveMatcher()
    for number, filter in enumerate(filters):
        for matcher in (index, naive):
            matcher.add(Subscription(f"s-{number}", filter))
    for event in EVENTS:
        assert sorted(index.match(event)) == sorted(naive.match(event))
    assert any(index.match(event) for event in EVENTS)


def _values():
    return [event.attributes.get("x") for event in EVENTS]
