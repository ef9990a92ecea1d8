"""Names that nobody would give: the answer is a number, and it comes soon."""

import pytest

from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.semantics.match import semantic_match
from recado.semantics.settings import SemanticSettings

HOSTILE = [
    "",
    " ",
    "\x00\x01\x02",
    "\u202eprice",
    "x" * 1_000_000,
    "sale price " * 100_000,
    "aB" * 500_000,
    "é" * 1_000_000,
    "😀" * 1000,
    "👩‍👩‍👧‍👦price",
    "цена продажи",
    "מחיר",
    "价格",
    "priceцена价格",
    "a" + "\u0301" * 5000,
    "'" * 1000,
    "ﷺ" * 200,
    "\ud800",
    "1" * 1024,
    "_" * 1024,
    "aA1_" * 250,
]
SETTINGS = [
    SemanticSettings("mean"),
    SemanticSettings("feng"),
    SemanticSettings("hybrid"),
    SemanticSettings("token-set"),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.measure)
def test_hostile_names(semantics, settings):
    found = semantics.similarities(HOSTILE, [*HOSTILE, "price"], settings)
    assert ((found >= 0) & (found <= 1)).all()
    assert all(found[number, number] == 1 for number in range(len(HOSTILE)))
    assert found[4].sum() == found[5].sum() == 1, "what is no name is alike to itself only"


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("settings", SETTINGS[:2], ids=lambda settings: settings.measure)
def test_many_attributes(semantics, settings, count):
    attributes = [
        f"field {number} of {word}" for number in range(count // 4) for word in ("cat", "dog", "sun", "price")
    ]
    alignment = semantics.align(["cost", "moon", "qwzxrt"], [*attributes, "toll"], settings)
    assert alignment.mapping()["cost"] == "toll"


def test_hostile_names_in_events_and_filters(semantics):
    attributes = {name: number for number, name in enumerate(HOSTILE[2:]) if name != "\ud800"}
    event = Event("e", attributes=attributes)
    filter = parse_filter("{cost, GT, -1; нет, ANY}")
    ignore = SemanticSettings("mean", unmatched="ignore")
    found = semantic_match(event, Subscription("s", filter), ignore, semantics)
    assert found.alignment.mapping() == {"cost": "\u202eprice"}
