"""Normal form, keys and simplification: same meaning, same text; and never a change of meaning."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute import NOON, Maker, Universe
from recado.filters.evaluate import evaluate, matches, walk
from recado.filters.normal import KEY_CHARS, _general_key, filter_key, normal_form, quick_key, simplify
from recado.model.filter import FALSE, TRUE, And, Between, Compare, Exists, In, Not, Or, Regex, Similar, Sql, Text
from strategies import events, filters, simple_conjunctions

X_LOW, X_HIGH, Y = Compare("x", "<", 5), Compare("x", ">=", 5), Compare("y", "==", "a")


# -- against brute force -----------------------------------------------------------------------------------------------


def check_forms(maker, count, opaque):
    for _ in range(count):
        filter = maker.tree(opaque=opaque) if maker.rng.random() < 0.6 else maker.conjunction(opaque=opaque)
        universe = Universe(filter)
        meaning = universe.mask(filter)
        normal = normal_form(filter)
        assert universe.mask(normal) == meaning, filter
        assert normal_form(normal) == normal, filter
        assert universe.mask(simplify(filter)) == meaning, filter
        key = filter_key(filter)
        assert key.startswith("#") or key == _general_key(filter), filter


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("opaque", [0.0, 0.4])
def test_forms_keep_the_meaning(seed, opaque):
    check_forms(Maker(seed), 300, opaque)


def test_forms_keep_the_meaning_over_three_attributes():
    check_forms(Maker(7, names="abc"), 60, 0.1)


def check_keys(maker, count):
    """Rewording keeps the key, and two filters share one exactly if they mean the same."""
    for _ in range(count):
        one, two = maker.tree(), maker.tree(depth=2)
        again = maker.reworded(one)
        universe = Universe(one, two, again)
        assert universe.mask(again) == universe.mask(one)
        assert filter_key(again) == filter_key(one), (one, again)
        assert normal_form(again) == normal_form(one), (one, again)
        same = universe.mask(one) == universe.mask(two)
        assert (filter_key(one) == filter_key(two)) is same, (one, two)


@pytest.mark.parametrize("seed", range(4))
def test_equal_meaning_is_an_equal_key(seed):
    check_keys(Maker(seed), 300)


@pytest.mark.parametrize("seed", range(2))
def test_equal_keys_are_equal_meaning_with_opaque_predicates(seed):
    maker = Maker(seed, names="a")
    seen = {}
    for _ in range(800):
        filter = maker.conjunction(size=2, opaque=0.7)
        other = seen.setdefault(filter_key(filter), filter)
        universe = Universe(filter, other)
        assert universe.mask(filter) == universe.mask(other), (filter, other)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 110))
def test_forms_and_keys_at_length(seed):
    check_keys(Maker(seed), 3_000)
    check_forms(Maker(seed), 3_000, 0.4)


@settings(max_examples=200)
@given(filters(sql=True), events())
def test_forms_match_the_same_events(filter, event):
    expected = matches(filter, event)
    assert matches(normal_form(filter), event) is expected
    assert matches(simplify(filter), event) is expected


@settings(max_examples=200)
@given(simple_conjunctions())
def test_the_short_way_gives_the_same_key(filter):
    text = quick_key(filter)
    assert text is None or text == _general_key(filter)


@settings(max_examples=150)
@given(
    st.lists(
        st.one_of(st.integers(-5, 5), st.floats(allow_nan=False), st.text("ab\0", max_size=2)), min_size=1, max_size=4
    )
)
def test_the_short_way_gives_the_same_key_on_odd_values(values):
    for filter in (
        In("x", tuple(values)),
        Between("x", values[0], values[-1]),
        *(Compare("x", op, values[0]) for op in ("==", "!=", "<", "<=", ">", ">=")),
        And((Compare("x", ">", values[0]), Compare("x", "<=", values[-1]))),
        And((Compare("x", "<", values[0]), Compare("x", ">", values[-1]), Compare("x", "<", values[0]))),
    ):
        text = quick_key(filter)
        assert text is None or text == _general_key(filter)


# -- examples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (And((X_LOW, Y)), And((Y, X_LOW, Y))),
        (And((X_LOW, Y)), Not(Or((Not(X_LOW), Not(Y))))),
        (Between("x", 1, 5), And((Compare("x", "<=", 5.0), Compare("x", ">=", 1)))),
        (In("x", (1,)), Compare("x", "==", 1.0)),
        (In("x", (2, 1, 2.0)), Or((Compare("x", "==", 1), Compare("x", "==", 2)))),
        (Or((X_LOW, And((X_LOW, Y)))), X_LOW),
        (And((X_LOW, Or((X_LOW, Y)))), X_LOW),
        (Or((And((X_LOW, Y)), And((X_HIGH, Y)))), And((Y, Or((Compare("x", "<", 0), Compare("x", ">=", 0)))))),
        (Or((Exists("x"), Not(Exists("x")))), TRUE),
        (And((X_LOW, X_HIGH)), FALSE),
        (And(()), TRUE),
        (Or(()), FALSE),
        (Compare("x", "<", True), FALSE),
        (Between("x", 3, 1), FALSE),
        (Text("x", "like", "ab*"), Text("x", "prefix", "ab")),
        (Text("x", "like", "a\\*"), Compare("x", "==", "a*")),
        (Text("x", "like", "*?*"), Text("x", "like", "?**")),
        (Text("x", "like", "*b*"), Text("x", "contains", "b")),
        (Text("x", "suffix", "B", True), Text("x", "suffix", "b", True)),
        (Text("x", "contains", ""), Compare("x", ">=", "")),
        (Text("x", "prefix", "ab"), And((Compare("x", ">=", "ab"), Compare("x", "<", "ac")))),
        (And((Text("x", "suffix", "b"), Exists("x"))), Text("x", "suffix", "b")),
        (And((Text("x", "suffix", "b"), In("x", ("ab", "ba", 7)))), Compare("x", "==", "ab")),
        (And((Text("x", "prefix", "ab"), Text("x", "contains", "b"))), Text("x", "prefix", "ab")),
        (And((Text("x", "suffix", "ab"), Text("x", "suffix", "b"))), Text("x", "suffix", "ab")),
        (And((Text("x", "suffix", "a"), Text("x", "suffix", "b"))), FALSE),
        (Regex("x", "ab.*"), Text("x", "prefix", "ab")),
        (Regex("x", "a-b"), Compare("x", "==", "a-b")),
        (Similar("x", "a", 0.0), Compare("x", ">=", "")),
        (And((Similar("x", "ab", 0.9), Similar("x", "AB", 0.5))), Similar("x", "aB", 0.9)),
        (Compare("t", "==", NOON), Between("t", NOON, NOON)),
        (And((Sql("a = 1"), Sql("a = 1"))), Sql("a = 1")),
    ],
)
def test_same_key(one, other):
    assert filter_key(one) == filter_key(other)
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Compare("x", "==", 1), Compare("x", "==", True)),
        (Compare("x", "==", 1), Compare("x", "==", "1")),
        (Compare("x", "==", 2**53), Compare("x", "==", 2**53 + 1)),
        (Compare("x", "!=", 1), Not(Compare("x", "==", 1))),
        (Not(X_LOW), X_HIGH),
        (Exists("x"), Or((Compare("x", "<", 0), Compare("x", ">=", 0)))),
        (Compare("x", "==", "y"), Compare('x"="y', "==", "")),
        (Text("x", "suffix", "b"), Text("x", "suffix", "b", True)),
        (Regex("x", "a."), Text("x", "like", "a.")),
        (Compare("a&b", "==", 1), And((Compare("a", "==", 1), Compare("b", "==", 1)))),
    ],
)
def test_different_key(one, other):
    assert filter_key(one) != filter_key(other)


@pytest.mark.parametrize(
    ("filter", "normal"),
    [
        (
            And((Compare("b", ">", 1), Compare("a", "==", 2), Compare("b", "<=", 4.5))),
            And((Compare("a", "==", 2), Compare("b", ">", 1), Compare("b", "<=", 4.5))),
        ),
        (Not(Not(X_LOW)), X_LOW),
        (Not(X_LOW), Not(X_LOW)),
        (And((Exists("x"), Not(X_LOW))), And((Exists("x"), Not(X_LOW)))),
        (Or((Not(Exists("x")), X_LOW)), Or((Not(Exists("x")), X_LOW))),
        (Compare("x", "!=", 5), Compare("x", "!=", 5)),
        (And((Compare("x", "!=", 5), Compare("x", "!=", 6))), And((Compare("x", "!=", 5), Compare("x", "!=", 6)))),
        (And((Between("x", 0, 9), Not(In("x", (1, 2))))), And((Between("x", 0, 9), Not(In("x", (1, 2)))))),
        (
            In("x", (False, True, "a", datetime(2026, 1, 1, tzinfo=UTC))),
            In("x", ("a", datetime(2026, 1, 1, tzinfo=UTC), False, True)),
        ),
        (Text("x", "like", "a?"), Text("x", "like", "a?")),
        (Compare("x", ">=", datetime(2026, 1, 1, tzinfo=UTC)), Compare("x", ">=", datetime(2026, 1, 1, tzinfo=UTC))),
    ],
)
def test_normal_forms_that_a_person_reads(filter, normal):
    assert normal_form(filter) == normal


def test_keys_are_readable():
    filter = And(
        (Compare("Stock", "==", "PETR4"), Compare("Price", "<", 25.5), Between("Volume", 1, 9), Not(Exists("q")))
    )
    assert filter_key(filter) == '"Price"(;25.5)&"Stock"="PETR4"&"Volume"[1;9]&"q"!*'
    assert filter_key(Or((X_LOW, Text("y", "suffix", "b", True)))) == '"x"(;5)|"y"suffix~"b"'


def test_a_long_text_becomes_a_digest():
    filter = In("x", tuple(range(1000)))
    key = filter_key(filter)
    assert key.startswith("#")
    assert len(key) <= KEY_CHARS
    assert filter_key(In("x", tuple(range(1001)))) != key == filter_key(In("x", tuple(reversed(range(1000)))))


def test_keys_do_not_depend_on_the_hash_seed():
    code = (
        "from recado.filters.normal import filter_key, normal_form\n"
        "from recado.model.filter import *\n"
        "part = Or((In('b', ('x', 'y', 1)), Text('a', 'suffix', 'q'), Text('a', 'contains', 'p')))\n"
        "f = And((part, Not(In('c', (1, True)))))\n"
        "print(filter_key(f), normal_form(f))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


# -- simplification ----------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(filters())
def test_simplify_never_grows_a_filter_that_it_understands(filter):
    simple = simplify(filter)
    assert _nodes(simplify(simple)) <= _nodes(simple)


def test_simplify_drops_what_follows_from_the_rest():
    y, z = Compare("y", "<", 5), Compare("z", "<", 5)
    low, high = And((X_LOW, y)), And((Not(X_LOW), z))
    assert simplify(Or((low, high, And((y, z))))) == Or((high, low))
    assert simplify(And((Or((X_LOW, Y)), Or((X_LOW, Not(Y)))))) == X_LOW


def test_simplify_works_on_large_filters():
    parts = tuple(Compare("x", "!=", i) for i in range(100))
    assert simplify(And((*parts, *parts))) == normal_form(And(parts))


def test_simplify_keeps_factors_together():
    a, b, c, d = (Compare(name, "==", 1) for name in "abcd")
    assert simplify(And((Or((a, b)), Or((c, d))))) == And((Or((a, b)), Or((c, d))))


# -- filters that are too large ----------------------------------------------------------------------------------------


def test_a_product_of_many_alternatives_keeps_its_tree():
    ors = [
        Or((Compare(f"a{i}", "<", i), Not(Compare(f"b{i}", "<", i)), Not(And((Text("c", "suffix", "x"), TRUE)))))
        for i in range(12)
    ]
    large = And((*ors, Compare("z", "==", 1), Not(Compare("z", "==", 2)), Not(Or((FALSE, Exists("q"))))))
    again = And((Exists("z"), *reversed(ors), ors[0], Not(Or((Exists("q"),))), Compare("z", "==", 1), TRUE))
    assert filter_key(large) == filter_key(again)
    assert normal_form(large) == normal_form(again)
    views = [{"z": 1}, {"z": 1, "c": "x"}, {"z": 1, "q": 1}, {}, {"z": 1, "c": "x", **{f"b{i}": 5 for i in range(12)}}]
    for view in views:
        assert evaluate(normal_form(large), view) is evaluate(large, view)
    assert filter_key(And((large, FALSE))) == "false"
    assert filter_key(Or((large, Exists("q"), Not(Exists("q"))))) == "true"
    assert filter_key(Not(Not(large))) == filter_key(large)
    assert filter_key(And((large, Compare("z", "==", 7)))) == "false"


def _nodes(filter):
    return sum(1 for _ in walk(filter))


def _boxes(count):
    """Overlapping boxes with very many boxes inside their union."""
    spans = [(i * 7 % 50, i * 11 % 50, i * 13 % 50) for i in range(count)]
    return Or(
        tuple(And(tuple(Between(n, low, low + 10) for n, low in zip("xyz", lows, strict=True))) for lows in spans)
    )


def test_a_union_with_too_many_primes_stays_a_union():
    filter = _boxes(60)
    normal = normal_form(filter)
    for x in range(0, 60, 4):
        for y in range(0, 60, 4):
            for view in ({"x": x, "y": y, "z": 20}, {"x": x, "y": y, "z": y}):
                assert evaluate(normal, view) is evaluate(filter, view)


def test_a_union_of_products_can_have_too_many_terms():
    parts = [
        And(tuple(Or((Compare(f"a{i}{k}", "<", i), Compare(f"b{i}{k}", ">", i))) for i in range(7))) for k in range(5)
    ]
    large = Or(tuple(parts))
    assert filter_key(large) == filter_key(Or(tuple(reversed(parts))))
    assert evaluate(normal_form(large), {f"b{i}3": 9 for i in range(7)})
