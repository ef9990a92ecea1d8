"""What is told of access paths is what an index does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from recado.filters.covering import satisfiable
from recado.filters.expression import parse
from recado.matching.index import Index
from recado.matching.kernels.instructions import ACCESS, ATTRIBUTE_MASK, ATTRIBUTE_SHIFT, LAST, instruction_words
from recado.matching.paths import access_paths
from recado.model.subscription import Subscription
from strategies import conjunctions, filters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Stock == "PETR4" and Price < 25', [("Stock", "value")]),
        ("Price < 25 and exists Stock", [("Price", "range")]),
        ('name prefix "abcdefgh" and Price < 25', [("name", "beginning")]),
        ('name suffix "abcdefgh"', [("name", "end")]),
        ('name contains "abcdefgh"', [("name", "piece")]),
        ("a == 1 or b == 2", [("a", "value"), ("b", "value")]),
        ("(a == 1 or b == 2) and c in {1, 2, 3}", [("a", "value"), ("b", "value")]),
        ("a != 1", [("a", "presence")]),
        ("not a == 1", None),
        ("a == 1 or not b == 1", None),
        ("true", None),
        ("false", []),
    ],
)
def test_the_paths_of_a_filter(text, expected):
    assert access_paths(parse(text)) == expected


def chosen_by_an_index(filter) -> list[str] | None:
    """The attributes of the access tests of the only entry, by name; None if it hangs in the list of all events."""
    index = Index()
    index.add(Subscription("s", filter))
    names, words, at = list(index.dictionary.names), index.store.words.tolist(), int(index.store.starts[0])
    found = []
    while True:
        if words[at] & ACCESS:
            found.append(names[(words[at] >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK])
        if words[at] & LAST:
            break
        at += instruction_words(words[at])
    return None if index.store.lists[0, 1] else list(dict.fromkeys(found))


@given(filters(max_leaves=8, sql=True) | conjunctions())
@settings(max_examples=300)
def test_an_index_goes_the_same_paths(filter):
    told = access_paths(filter)
    if told == []:
        assert satisfiable(filter) is not True
    else:
        names = None if told is None else list(dict.fromkeys(path.name for path in told))
        assert names == chosen_by_an_index(filter)
