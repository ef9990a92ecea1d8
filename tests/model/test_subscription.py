import pytest

from recado.filters.evaluate import matches
from recado.model import Event, Subscription
from recado.model.filter import TRUE, And, Compare
from recado.model.subscription import type_filter

CHEAP = Compare("Price", "<", 25)


def test_without_a_type_the_filter_is_all():
    assert Subscription("s", CHEAP).whole_filter() is CHEAP
    assert Subscription("s").whole_filter() is TRUE


def test_the_type_is_joined_to_the_filter():
    assert Subscription("s", CHEAP, "Stock").whole_filter() == And((Compare("type", "==", "Stock"), CHEAP))


@pytest.mark.parametrize(
    ("pattern", "type_", "expected"),
    [
        ("Stock", "Stock", True),
        ("Stock", "StockExchange", False),
        ("Stock*", "StockExchange", True),
        ("*Exchange", "StockExchange", True),
        ("Stock?", "Stocks", True),
        ("Stock?", "Stock", False),
        ("*", "anything", True),
        ("*", "", False),
    ],
)
def test_types_and_patterns_of_types(pattern, type_, expected):
    assert matches(type_filter(pattern), Event("e", type_)) is expected


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        Subscription("s").id = "t"
    with pytest.raises(AttributeError):
        Event("e").id = "f"
