"""CESQL in common nodes means what CESQL means."""

from __future__ import annotations

import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cesql_texts import atoms, expressions
from recado.errors import FilterError
from recado.filters import cesql
from recado.filters.cost import check_filter
from recado.filters.evaluate import evaluate, matches, walk
from recado.model import LIMITS, Event, Limits
from recado.model.filter import (
    FALSE,
    TRUE,
    And,
    Between,
    Compare,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Regex,
    Sql,
    Text,
)
from strategies import events, values
from work import calls_of


def lowered(text: str) -> Filter | None:
    try:
        return cesql.to_filter(text)
    except FilterError:  # it yields no Boolean
        return None


def agree(text: str, event: Event) -> bool:
    filter = lowered(text)
    return filter is None or matches(filter, event) == matches(Sql(text), event)


@settings(max_examples=400)
@given(atoms(), events())
def test_an_atom_keeps_its_meaning(text, event):
    assert agree(text, event)


@settings(max_examples=300)
@given(expressions(), st.lists(events(), min_size=1, max_size=4))
def test_an_expression_keeps_its_meaning(text, some):
    assert all(agree(text, event) for event in some)


@pytest.mark.long
@settings(max_examples=100_000)
@given(expressions(max_leaves=8), st.lists(events(), min_size=1, max_size=4))
def test_every_expression_keeps_its_meaning(text, some):
    assert all(agree(text, event) for event in some)


@settings(max_examples=80)
@given(expressions())
def test_what_is_compiled_passes_the_gate(text):
    filter = lowered(text)
    if filter is not None:
        check_filter(filter)


ODD_STRINGS = [
    "05", "+5", "-5", "--5", "5 ", " 5", "٥", "5.0", "", "+", "-0", "00", "0" * 9000 + "5", "tRUE", "falſe", "FALSE",
]  # fmt: skip
EDGES = [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 5.0, 5.5, -5, 0, 1, True, False, -0.0, 1e300, float("nan")]
EDGE_ATOMS = [
    "x = 5", "x != 5", "x = -5", "x = 0", "x = 1", "x != 1", "x < 5", "x <= 5", "x > 5", "x >= 5", "5 < x", "x = TRUE",
    "x = FALSE", "x != TRUE", "x AND TRUE", "NOT x", "5 = x", "0 = x", "TRUE = x", "FALSE != x", "'5' = x", "'05' = x",
    "'abc' != x", "x = '5'", "x = '2147483648'", "x = '-2147483649'", "x = '5.5'", "x = '1e+300'", "x = 'NaN'",
    "x IN (5, 'a')", "x IN ('a', 5)", "x NOT IN ('a', 'b')", "x NOT IN (5, 1)", "x NOT IN ('5', TRUE)", "x LIKE '5%'",
    "x LIKE '%5'", "x LIKE 'tr%'", "x NOT LIKE '%a%'", "x LIKE '%'", "x LIKE '05'", "x < '5'", "x < 'five'", "x",
    "x XOR TRUE", "x = 2 + 3", "LENGTH(x) = 1",
]  # fmt: skip


@pytest.mark.parametrize("text", EDGE_ATOMS)
def test_edges(text):
    filter = cesql.to_filter(text)
    for value in [*ODD_STRINGS, *EDGES]:
        view = {"x": value}
        assert evaluate(filter, view) == cesql.accepts(text, view), value
    assert evaluate(filter, {}) == cesql.accepts(text, {})


@settings(max_examples=150)
@given(st.sampled_from(EDGE_ATOMS), values(nan=True))
def test_edges_at_random(text, value):
    assert evaluate(cesql.to_filter(text), {"x": value}) == cesql.accepts(text, {"x": value})


COMPOSITES = [
    "x = 'a' AND y = 'a' AND z = 'a'",
    "x = 'a' OR y = 'a' OR z = 'a'",
    "NOT (x = 'a' AND y = 'a' AND z = 'a')",
    "NOT (x = 'a' OR y = 'a' OR z = 'a')",
    "NOT ((x = 'a' AND y = 'a') AND z = 'a')",
    "(x = 'a' OR y = 'a') AND z = 'a'",
    "NOT ((x = 'a' OR y = 'a') AND z = 'a')",
    "x = 'a' AND (y = 'a' OR z = 'a')",
    "NOT (x = 'a' AND (y = 'a' OR z = 'a'))",
    "(x = 'a' AND y = 'a') OR z = 'a'",
    "NOT ((x = 'a' AND y = 'a') OR z = 'a')",
    "(x = 'a' XOR y = 'a') AND z = 'a'",
    "NOT (x = 'a' XOR y = 'a' XOR z = 'a')",
    "(x = 'a' XOR y = 'a') OR z = 'a'",
    "x = 'a' OR EXISTS y AND z = 'a'",
    "NOT (EXISTS x AND y = 'a') OR z = 'a'",
    "x = 1 OR y = 1 OR z = 1",
    "NOT (x = 1 AND y < 1) OR z = 'a'",
    "x OR y OR z",
    "NOT (x AND y AND z)",
    "(LENGTH(x) = 1 OR y = 'a') AND NOT z = 'a'",
]


@pytest.mark.parametrize("text", COMPOSITES)
def test_composites_on_all_small_views(text):
    """True, false and failing operands at every place: each combination of a few values and absence."""
    filter = cesql.to_filter(text)
    for chosen in product([None, "a", "b", 1, 0, True], repeat=3):
        view = {name: value for name, value in zip("xyz", chosen, strict=True) if value is not None}
        assert evaluate(filter, view) == cesql.accepts(text, view), view


def test_only_the_long_s_folds_into_false_without_being_a_letter_of_it():
    """What ``truthy`` relies on: the characters that casefold to letters of true and false."""
    odd = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if set(char.casefold()) <= set("truefals") and char.casefold() != char.lower()
    ]
    assert [char for char in odd if len(char.casefold()) == 1] == ["ſ"]
    assert all(char.casefold() not in "true" and char.casefold() not in "false" for char in odd if char != "ſ")


X, Y = Exists("x"), Exists("y")
STRING = Text("x", "prefix", "")

COMPILED = [
    ("x = 'a'", Compare("x", "==", "a")),
    ("x = '5'", In("x", ("5", 5))),
    (f"x = '{'5' * 500}'", Compare("x", "==", "5" * 500)),
    ("x = 'true'", In("x", ("true", True))),
    ("x != 'a'", And((X, Not(Compare("x", "==", "a"))))),
    ("x = 5", Or((Compare("x", "==", 5), And((Text("x", "suffix", "5"), Regex("x", "\\+?0*5")))))),
    ("x < 5", And((X, Not(Compare("x", ">=", 5)), Sql("x < 5")))),
    ("5 > x", And((X, Not(Compare("x", ">=", 5)), Sql("x < 5")))),
    ("5 = x", In("x", ("5", 5, True))),
    ("x < 'five'", FALSE),
    ("x", Compare("x", "==", True)),
    ("EXISTS x", X),
    ("NOT EXISTS x", Not(X)),
    ("EXISTS specversion", TRUE),
    ("specversion = '1.0'", Sql("specversion = '1.0'")),
    ("x LIKE 'com.%'", Text("x", "prefix", "com.")),
    ("x LIKE '%.error'", Text("x", "suffix", ".error")),
    ("x LIKE '%cloud%'", Text("x", "contains", "cloud")),
    ("x LIKE 'h_llo*'", Text("x", "like", "h?llo\\*")),
    ("x LIKE '%'", X),
    ("x LIKE 'abc'", Compare("x", "==", "abc")),
    ("x LIKE 'tr%'", Or((Text("x", "prefix", "tr"), Compare("x", "==", True)))),
    ("x LIKE '2%'", Or((Text("x", "prefix", "2"), And((X, Not(STRING), Sql("x LIKE '2%'")))))),
    ("x IN ('a', 2)", In("x", ("a", "2"))),
    ("x IN (2, 'a')", In("x", (2, "2", "a", True))),
    ("x = 'a' OR x = 'b'", Or((Compare("x", "==", "a"), Compare("x", "==", "b")))),
    ("x = 'a' OR y = 'b'", Or((Compare("x", "==", "a"), And((X, Compare("y", "==", "b")))))),
    ("EXISTS x AND x = 'a'", Compare("x", "==", "a")),
    ("x = 'a' AND LENGTH(y) > 2", And((Compare("x", "==", "a"), Y, Sql("LENGTH(y) > 2")))),
    ("x < y", And((X, Y, Sql("x < y")))),
    ("1 = 1", TRUE),
    ("x = 'a' AND 1 / 0 = 1", FALSE),
    ("TRUE AND TRUE", TRUE),
    ("TRUE OR x = 'a'", TRUE),
    ("1 / 0 = 1 OR 1 / 0 = 2", FALSE),
    ("FALSE AND 1 / 0 = 1 OR x = 'a'", Compare("x", "==", "a")),
]


@pytest.mark.parametrize(("text", "filter"), COMPILED, ids=[text for text, _ in COMPILED])
def test_what_becomes_of_it(text, filter):
    found = cesql.to_filter(text)
    assert _sorted(found) == _sorted(filter)


def _sorted(filter: Filter) -> Filter:
    """The order of a set's values is not the point."""
    match filter:
        case In(name, values):
            return In(name, tuple(sorted(values, key=repr)))
        case And(parts):
            return And(tuple(map(_sorted, parts)))
        case Or(parts):
            return Or(tuple(map(_sorted, parts)))
        case Not(part):
            return Not(_sorted(part))
    return filter


def test_a_boolean_attribute():
    true = Or((
        Compare("x", "==", True),
        Text("x", "like", "true", fold=True),
        And((Between("x", -(2**31), 2**31 - 1), Not(Compare("x", "==", 0)), Sql("x = TRUE"))),
    ))  # fmt: skip
    assert cesql.to_filter("x = TRUE") == true
    assert cesql.to_filter("NOT (x = FALSE)") == true


def test_a_part_that_is_too_large_is_left_to_cesql():
    large = " XOR ".join(f"x{i} = 'a'" for i in range(20))
    filter = cesql.to_filter(f"type = 't' AND ({large})")
    assert isinstance(filter, And)
    assert filter.parts[0] == Compare("type", "==", "t")
    assert isinstance(filter.parts[-1], Sql)


def test_many_alternatives_of_many_attributes_are_left_to_cesql():
    text = " OR ".join(f"x{i} = 'a'" for i in range(200))
    filter = cesql.to_filter(text)
    assert any(isinstance(node, Sql) for node in walk(filter))
    for present in (range(200), range(150), [7]):
        event = Event("1", attributes={f"x{i}": "a" if i == 150 else "b" for i in present})
        assert matches(filter, event) == matches(Sql(text), event)


@pytest.mark.parametrize("op", ["AND", "OR"])
def test_a_long_chain_of_one_attribute_compiles_whole(op):
    filter = cesql.to_filter(f" {op} ".join(f"x != 'v{i}'" for i in range(100)))
    assert not any(isinstance(node, Sql) for node in walk(filter))


def test_alternating_operators_are_bounded_in_depth_and_work():
    text = "x = 'a'" + " AND y = 'b' OR z = 'c'" * 120
    filter = cesql.to_filter(text)
    assert calls_of(lambda: cesql.to_filter(text)) < 200_000
    check_filter(filter)
    event = Event("1", attributes={"x": "a", "y": "b", "z": "d"})
    assert matches(filter, event) == matches(Sql(text), event)


def test_deep_nesting_is_bounded():
    text = "x = 'a'"
    for level in range(LIMITS.filter_depth - 1):
        text = f"NOT ({text})" if level % 3 == 0 and level < 9 else f"({text} XOR y = 'b')"
        if text.count("(") >= LIMITS.filter_depth - 1:
            break
    assert agree(text, Event("1", attributes={"x": "a", "y": "b"}))


def test_text_that_only_fits_as_a_whole_stays_whole():
    tight = Limits(filter_depth=2)
    text = "LENGTH(x)=1 XOR LENGTH(y)=1 XOR LENGTH(z)=1 XOR EXISTS q"
    assert cesql.to_filter(text, Limits(filter_chars=len(text))) == Sql(text)
    assert cesql.to_filter("NOT (x = 'a' AND y = 'b')", tight) == Sql("NOT (x = 'a' AND y = 'b')")


@pytest.mark.parametrize("text", ["5", "x + 1", "'abc'", "LENGTH(x)", "-x"])
def test_an_expression_without_a_boolean_is_refused(text):
    with pytest.raises(FilterError, match="must yield a Boolean"):
        cesql.to_filter(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LENGHT(x) = 1", "there is no function 'LENGHT'.*\nhint: did you mean LENGTH"),
        ("NOW() = 1", "there is no function 'NOW'"),
        ("x = 'a' OR ABS(x, 1) = 1", r"ABS does not take 2 arguments; there is ABS\(Integer\)"),
        ("SUBSTRING(x) = 'a'", r"SUBSTRING\(String, Integer\) and SUBSTRING\(String, Integer, Integer\)"),
    ],
)
def test_an_unknown_function_is_refused(text, message):
    with pytest.raises(FilterError, match=message):
        cesql.to_filter(text)
