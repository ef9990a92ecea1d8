"""The plain oracle: settings of the subscription, types, arrays, and values that are similar."""

import pytest
from hypothesis import given

from recado.errors import SubscriptionError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.filter import In
from recado.model.subscription import Subscription
from recado.semantics.engine import Semantics
from recado.semantics.match import attribute_names, is_similar, semantic_match
from recado.semantics.settings import SemanticSettings
from strategies import events, filters

MEAN = {"measure": "mean", "threshold": 0.3}
EXACT = SemanticSettings("levenshtein", threshold=1.0, values="string")
EVENT = read_event('{"id": "e", "type": "Sale", "continent": "European countries", "price": [10, 60], "none": []}')


def asked(filter, semantic=MEAN, type=""):
    return Subscription("s", parse_filter(filter), type, semantic=semantic)


def test_the_subscription_turns_it_on():
    assert semantic_match(EVENT, asked("cost > 50")).explain() == [
        "'cost' is 'price': 1.000, similar (cost ~ price)",
    ]
    assert semantic_match(EVENT, asked("cost > 50", None)) is None
    assert semantic_match(EVENT, asked("price > 50", None)).explain() == []
    assert semantic_match(EVENT, asked("cost > 50", {}), default=SemanticSettings("mean")) is not None


def test_the_type_stays_exact():
    assert semantic_match(EVENT, asked("cost > 50", type="Sale"))
    assert semantic_match(EVENT, asked("cost > 50", type="Selling")) is None
    assert semantic_match(EVENT, asked("cost > 50", type="S*"))


def test_an_array_stands_for_one_of_its_elements():
    assert semantic_match(EVENT, asked("cost > 5 and cost < 20"))
    assert semantic_match(EVENT, asked("cost > 20 and cost < 50")) is None
    assert "none" not in attribute_names(EVENT)


def test_values_are_similar_by_meaning_or_by_letters():
    found = semantic_match(EVENT, asked("{landmass, SM, country of Europe}", {**MEAN, "threshold": 0.2}))
    assert found.filter == In("continent", ("European countries",))
    by_letters = {**MEAN, "threshold": 0.2, "values": "string"}
    assert semantic_match(EVENT, asked("{landmass, SM, country of Europe}", by_letters)) is None
    assert semantic_match(EVENT, asked("{landmass, SM, european Countries}", by_letters))
    assert semantic_match(EVENT, asked("{landmass, SM, price}")) is None


def test_only_texts_are_similar():
    semantics = Semantics()
    settings = SemanticSettings("mean")
    assert is_similar("nation", "country", settings, semantics)
    assert not is_similar(5, "5", settings, semantics)
    assert is_similar("😀", "😀", settings, semantics)


def test_wrong_settings_name_their_place():
    with pytest.raises(SubscriptionError, match=r"^\$\.semantic\.threshold"):
        semantic_match(EVENT, asked("cost > 5", {"threshold": 2}))


@given(filters(sql=True), events())
def test_where_only_equal_names_are_alike_it_is_plain_matching(filter, event):
    found = semantic_match(event, Subscription("s", filter), EXACT, Semantics())
    assert (found is not None) == matches(filter, event)


def test_an_event_without_attributes():
    assert semantic_match(Event("e"), asked("cost > 5")) is None
    assert semantic_match(Event("e"), asked("not (cost > 5)"))
