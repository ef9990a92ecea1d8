import json

import pytest

from recado.filters import expression
from recado.filters.nodes import KINDS, show


def test_check_accepts(recado):
    run = recado("filter", "check", 'Price < 25 and Stock in {"PETR4", "VALE3"}')
    assert run.code == 0
    (record,) = run.records
    assert record["ok"] is True
    assert record["predicates"] == 2
    assert record["names"] == ["Price", "Stock"]
    assert record["satisfiable"] is True
    assert record["cost"] > 0


def test_check_on_a_terminal(recado):
    run = recado("filter", "check", "Price < 25 and Price > 30", terminal=True)
    assert run.code == 0
    assert run.out.startswith("ok: Price < 25 and Price > 30\ncost ")
    assert "note: no event can match this filter" in run.out


def test_check_refuses_with_a_caret(recado):
    run = recado("filter", "check", "Price < 25 adn Volume > 3", terminal=True)
    assert run.code == 2
    assert run.out == ""
    _, text, caret, *_ = run.err.splitlines()
    assert text[caret.index("^") :].startswith("adn")


def test_check_refuses_in_json(recado):
    (record,) = recado("filter", "check", "Price < 25 adn Volume > 3").records
    assert record["ok"] is False
    assert record["position"] == 11
    assert record["reason"]


def test_check_refuses_what_costs_too_much(recado):
    run = recado("filter", "check", " or ".join(f"a == {n}" for n in range(1000)))
    assert run.code == 2


@pytest.mark.parametrize(
    ("text", "syntax"),
    [
        ("{umidade, GT, 60; temperatura média, LE, 25}", "auto"),
        ("Price < 25", "expression"),
        ("subject LIKE 'sensor-%'", "cesql"),
    ],
)
def test_every_syntax(recado, text, syntax):
    assert recado("filter", "check", text, "--syntax", syntax).code == 0


def test_a_filter_from_standard_input(recado):
    assert recado("filter", "check", "-", stdin="Price < 25\n").records[0]["filter"] == "Price < 25"


def test_explain_says_it_in_words(recado):
    text = 'type == "t" and not (Price >= 25 or a in {1, 2}) and exists b and c prefix "x"'
    run = recado("filter", "explain", text, terminal=True)
    assert run.code == 0
    for words in ("all of these", 'type equals "t"', "not", "at least one of these", "Price is at least 25"):
        assert words in run.out
    assert "names: Price, a, b, c, type" in run.out
    assert "the index decides it in compiled code" in run.out
    assert "the index finds it by the value of type" in run.out


def test_explain_with_an_event_that_matches(recado):
    event = '{"Price": [30, 20], "Stock": "PETR4"}'
    run = recado("filter", "explain", 'Price < 25 and Stock == "PETR4"', "--event", event, terminal=True)
    assert run.code == 0
    assert "✓ Price is less than 25   Price = 20" in run.out
    assert "the event matches" in run.out


def test_explain_with_an_event_that_does_not(recado):
    run = recado("filter", "explain", "Price < 25 and Volume > 3", "--event", '{"Price": "cheap"}', terminal=True)
    assert run.code == 1
    assert '✗ Price is less than 25   Price = "cheap", a string and not a number' in run.out
    assert "✗ Volume is greater than 3   Volume is absent" in run.out
    assert "the event does not match" in run.out


def test_explain_in_json(recado):
    run = recado("filter", "explain", "not (Price < 25)", "--event", '{"Price": 30}')
    (record,) = run.records
    assert record["matches"] is True
    part = {"says": "Price is less than 25", "holds": False, "met": "Price = 30"}
    assert record["explanation"] == {"says": "not", "holds": True, "parts": [part]}
    assert record["access"] is None


@pytest.mark.parametrize(
    ("text", "line", "access"),
    [
        ('a == 1 or b prefix "xyz"', "finds it by the value of a or the beginning of b", ["value", "beginning"]),
        ("not a == 1", "compares every event with it", None),
        ("a == 1 and false", "never looks at it", []),
    ],
)
def test_explain_names_the_access_path(recado, text, line, access):
    assert f"the index {line}" in recado("filter", "explain", text, terminal=True).out
    (record,) = recado("filter", "explain", text).records
    assert (record["access"] and [path["by"] for path in record["access"]]) == access


def test_explain_a_filter_that_nothing_can_match(recado):
    assert "no event can match" in recado("filter", "explain", "a < 1 and a > 2", terminal=True).out


def test_explain_a_bad_event(recado):
    run = recado("filter", "explain", "a < 1", "--event", "{")
    assert run.code == 2
    assert "the JSON text ends too early" in run.err


def test_explain_cesql_that_has_no_other_form(recado):
    run = recado("filter", "explain", "LENGTH(c) > 2", "--syntax", "cesql", "--event", '{"c": "abc"}', terminal=True)
    assert run.code == 0
    assert "the CESQL expression" in run.out
    assert "the index leaves a part of it to the plain evaluator" in run.out
    assert 'c = "abc"' in run.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a == 1", "a equals 1"),
        ("a != 10_000", "a is present and differs from 10,000"),
        ("a between 1 and 2", "a is from 1 to 2, both included"),
        ('a in {1, "x", true}', 'a is one of 1, "x", true'),
        ("a in {}", "a is one of nothing"),
        ('a suffix "x"', 'a ends with "x"'),
        ('a like "x*"', 'a looks like "x*"'),
        ('a matches "x+"', "a is a string that the regular expression x+ describes whole"),
        ('a similar to "x"', 'a is similar to "x" (at least 0.8)'),
        ("exists a", "a is present"),
        ("true", "every event"),
        ("false", "no event"),
        ('a < t"2026-11-15T10:00:00Z"', "a is before 2026-11-15T10:00:00Z"),
    ],
)
def test_predicates_in_words(text, words):
    node = expression.parse(text)
    assert KINDS[type(node)].describe(node) == words


def test_values_in_words():
    assert [show(value) for value in ("x", True, 1, 1.5, 12345, -99999)] == [
        '"x"',
        "true",
        "1",
        "1.5",
        "12,345",
        "-99,999",
    ]


def test_normal_forms_of_equal_filters_are_equal(recado):
    one = recado("filter", "normal", "a >= 1 and not (b == 2)").records
    other = recado("filter", "normal", "not (b == 2) and (a > 1 or a == 1)").records
    assert one == other
    assert recado("filter", "check", one[0]["normal"]).code == 0


def test_normal_on_a_terminal(recado):
    assert recado("filter", "normal", "b == 2 and a == 1", terminal=True).out.startswith("a == 1 and b == 2\nkey: ")


def test_covers_yes(recado):
    run = recado("filter", "covers", "Price < 30", 'Price < 25 and Stock == "PETR4"')
    assert run.code == 0
    assert run.records == [{"covers": True, "counterexample": None}]
    assert recado("filter", "covers", "Price < 30", "Price < 25", terminal=True).out.startswith("yes: ")


def test_covers_no_with_a_counterexample(recado):
    run = recado("filter", "covers", "Price < 25", "Price < 30")
    assert run.code == 1
    (record,) = run.records
    assert 25 <= record["counterexample"]["Price"] < 30
    shown = recado("filter", "covers", "Price < 25", "Price < 30", terminal=True)
    assert (shown.code, shown.out.splitlines()[1]) == (1, f"  Price = {record['counterexample']['Price']}")


def test_covers_no_because_of_an_event_without_attributes(recado):
    run = recado("filter", "covers", "exists a", "true", terminal=True)
    assert run.code == 1
    assert "without any attribute" in run.out


def test_covers_not_proven(recado):
    run = recado("filter", "covers", 'a matches "(x|y)+z"', 'a matches "xz|yz"', terminal=True)
    assert run.code == 1
    assert run.out == "no, or not proven: no counterexample was found\n"


def test_merge(recado):
    assert recado("filter", "merge", "Price < 25", "Price between 20 and 30").records == [
        {"merged": "Price <= 30", "perfect": True}
    ]
    (record,) = recado("filter", "merge", "a < 5 and b < 5", "a < 7 and b < 3").records
    assert record["perfect"] is False
    assert "imperfect" in recado("filter", "merge", "a < 5 and b < 5", "a < 7 and b < 3", terminal=True).out
    assert "perfect: matches exactly" in recado("filter", "merge", "a < 5", "a < 7", terminal=True).out


@pytest.mark.parametrize(
    "verb", [["explain", "a <"], ["normal", "a <"], ["covers", "a <", "a < 1"], ["merge", "a < 1", "a <"]]
)
def test_a_bad_filter_is_exit_code_2(recado, verb):
    run = recado("filter", *verb)
    assert (run.code, run.out) == (2, "")
    assert "^" in run.err


def test_json_output_is_one_line(recado):
    run = recado("filter", "normal", "a == 1", "--json", terminal=True)
    assert json.loads(run.out)["normal"] == "a == 1"
