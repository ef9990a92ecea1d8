import pytest
from hypothesis import given, settings

from recado.filters import expression
from recado.filters.covering import find_witness
from recado.filters.evaluate import evaluate
from strategies import filters


@settings(max_examples=150)
@given(filters(max_leaves=4))
def test_what_is_found_matches(filter):
    view = find_witness(filter, tries=500)
    assert view is None or evaluate(filter, view)


@pytest.mark.parametrize(
    "text",
    [
        "Price < 25",
        "Price < 30 and not (Price < 25)",
        "a > 3 and a < 5",
        'a != "x" and a prefix "x"',
        'a contains "x" and not (a prefix "x")',
        'a like "a?c*" and not exists b',
        'a similar to "recado"',
        'exists a and not (a suffix "x")',
        "a == true or b == false",
        'a > t"2026-11-15T10:00:00Z"',
        "true",
    ],
)
def test_common_filters_have_one(text):
    filter = expression.parse(text)
    view = find_witness(filter)
    assert view is not None
    assert evaluate(filter, view)


def test_none_for_what_nothing_matches():
    assert find_witness(expression.parse("a < 1 and a > 2")) is None


def test_the_search_is_bounded():
    wide = " and ".join(f"a{n} in {{1, 2, 3}}" for n in range(60)) + " and a0 > 9"
    assert find_witness(expression.parse(wide), tries=100) is None
