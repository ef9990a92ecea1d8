"""What is known about opaque predicates, each fact tried on many strings."""

from itertools import product

import pytest

from brute import Maker
from recado.filters.evaluate import holds
from recado.filters.sets import EMPTY, STRINGS, ValueSet, contains, meet, of_compare, of_prefix, of_values
from recado.filters.terms import (
    atom,
    conjoin,
    excludes,
    implied_set,
    implies,
    literal_key,
    settle,
    shared_head,
    simplify_predicate,
)
from recado.model.filter import And, Regex, Similar, Sql, Text

WORDS = ["".join(letters) for n in range(5) for letters in product("abB", repeat=n)] + [
    "ß",
    "ss",
    "a*b",
    "x\U0010ffff",
    "*",
]


@pytest.mark.parametrize("seed", range(2))
def test_every_fact_holds_for_every_word(seed):
    maker = Maker(seed, names="x")
    literals = {}
    for _ in range(400):
        raw = maker.opaque()
        one = simplify_predicate(raw)
        for word in WORDS:
            truth = holds(raw, word)
            assert (contains(one, word) if isinstance(one, ValueSet) else holds(one, word)) is truth, (raw, word)
        if not isinstance(one, ValueSet):
            assert literals.setdefault(literal_key(one), one) == one
    accepted = {literal: {word for word in WORDS if holds(literal, word)} for literal in literals.values()}
    for one, two in product(accepted, repeat=2):
        assert not implies(one, two) or accepted[one] <= accepted[two], (one, two)
        assert not excludes(one, two) or not accepted[one] & accepted[two], (one, two)
    for literal, words in accepted.items():
        assert all(contains(implied_set(literal), word) for word in words)
        for values in (of_prefix("ab"), of_values(["ab", "b", 5]), of_compare("<", "b"), STRINGS, of_compare("<", 5)):
            exact = settle(values, literal)
            assert exact is None or {w for w in WORDS if contains(exact, w)} == {
                w for w in words if contains(values, w)
            }


@pytest.mark.parametrize(
    ("values", "head"),
    [
        (of_prefix("ab"), "ab"),
        (of_values(["abc", "abd"]), "ab"),
        (meet(of_compare(">=", "abc"), of_compare("<", "abd")), "abc"),
        (of_compare(">=", "ab"), ""),
        (of_values(["a", "b"]), ""),
        (EMPTY, ""),
        (of_compare("==", 5), ""),
    ],
)
def test_the_beginning_that_all_strings_share(values, head):
    assert shared_head(values) == head


def test_cesql_is_known_by_its_text_alone():
    one, two = Sql("a = 1"), Sql("a = 2")
    assert implies(one, one)
    assert not implies(one, two)
    assert not excludes(one, two)
    assert settle(STRINGS, one) is None
    assert literal_key(one) == 'sql"a = 1"'


def test_literals_on_different_attributes_say_nothing_about_each_other():
    one, two = Text("x", "suffix", "a"), Text("y", "suffix", "a")
    assert not implies(one, two)
    assert not excludes(one, two)


def test_an_attribute_with_very_many_literals_is_left_as_it_is():
    many = [(Text("x", "contains", f"q{i}"), of_values([True])) for i in range(40)]
    term = conjoin({}, many)
    assert term is not None
    assert len(term) == 40


def test_keys_of_literals():
    assert literal_key(Regex("x", "a|b")) == '"x"regex"a|b"'
    assert literal_key(Similar("x", "a", 0.5)) == '"x"similar0.5"a"'


def test_only_predicates_are_atoms():
    with pytest.raises(TypeError, match="And is not a predicate"):
        atom(And(()))
