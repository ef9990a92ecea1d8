"""The matcher against the plain oracle: every policy, ties, arrays, CESQL, texts by meaning, changes in between."""

import random

import pytest

from recado.errors import RecadoError, SubscriptionError
from recado.filters.syntax import parse_filter
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.filter import FALSE, TRUE, And, Between, Compare, Exists, In, Not, Or, Similar, Sql, Text
from recado.model.subscription import Subscription
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.settings import SemanticSettings

NAMES = (
    "price",
    "sale price",
    "salePrice",
    "cost",
    "country",
    "nation",
    "type",
    "time",
    "humidity",
    "n1",
    "n2",
    "room",
)
WORDS = ("Germany", "country", "nation", "price", "cost", "lorry", "truck")
SETTINGS = [
    {"measure": measure, "threshold": threshold, "unmatched": unmatched, **more}
    for measure, threshold in (("mean", 0.3), ("levenshtein", 0.35), ("levenshtein", 0.0))
    for unmatched in ("fail", "ignore")
    for more in ({}, {"assignment": "one-to-one"}, {"envelope": True}, {"values": "string"})
]


def draw_value(rng):
    return rng.choice([*WORDS, 1, 2.5, 3, 10, True, False])


def draw_leaf(rng):
    name = rng.choice(NAMES)
    return rng.choice(
        [
            Compare(name, rng.choice(["==", "!=", "<", ">="]), draw_value(rng)),
            Between(name, 1, 5),
            In(name, (draw_value(rng), draw_value(rng))),
            Text(name, "contains", "r"),
            Exists(name),
            Similar(name, rng.choice(WORDS), 0.5),
            Sql(f"{rng.choice(('price', 'cost', 'n1'))} > {rng.randrange(5)}"),
        ]
    )


def draw_filter(rng, depth=2):
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return draw_leaf(rng)
    if kind < 0.4:
        return rng.choice([TRUE, FALSE, And(()), Or(())])
    if kind < 0.55:
        return Not(draw_filter(rng, depth - 1))
    flat = rng.random() < 0.5
    parts = tuple(draw_filter(rng, 0 if flat else depth - 1) for _ in range(rng.randrange(1, 4)))
    return (And if flat or rng.random() < 0.5 else Or)(parts)


def draw_event(rng, id):
    names = rng.sample([name for name in NAMES if name not in ("type", "time")], rng.randrange(4))
    attributes = {}
    for name in names:
        many = rng.random()
        values = tuple(draw_value(rng) for _ in range(rng.randrange(3)))
        attributes[name] = values if many < 0.25 else draw_value(rng)
    return Event(str(id), rng.choice(["", "country", "Sale"]), attributes=attributes)


def draw_subscription(rng, id):
    semantic = rng.choice([None, *SETTINGS])
    return Subscription(str(id), draw_filter(rng), rng.choice(["", "", "Sale", "S*"]), semantic=semantic)


def expected(event, subscriptions, semantics):
    return sorted(s.id for s in subscriptions if semantic_match(event, s, semantics=semantics))


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_it_gives_what_the_oracle_gives(seed, semantics):
    rng = random.Random(seed)
    plain = semantics if seed % 2 else Semantics(cache=SimilarityCache(50))
    matcher = SemanticMatcher(plain, shapes=rng.choice([2, 1000]), pairs=rng.choice([50, 100_000]))
    held, found = {}, 0
    for turn in range(5):
        new = [draw_subscription(rng, rng.randrange(80)) for _ in range(rng.randrange(20))]
        held |= {s.id: s for s in new}
        if turn % 2:
            assert matcher.add_many(new) == len(new)
        else:
            for subscription in new:
                matcher.add(subscription)
        for id in rng.sample(sorted(held), min(len(held), rng.randrange(15))):
            assert matcher.remove(id)
            del held[id]
        assert len(matcher) == len(held)
        events = [draw_event(rng, number) for number in range(40)]
        wanted = [expected(event, held.values(), semantics) for event in events]
        assert [matcher.match(event) for event in events[:12]] == wanted[:12]
        assert [sorted(ids) for ids in matcher.match_many(events)] == wanted
        found += sum(map(len, wanted))
    assert found > 100
    for id in held:
        assert matcher.remove(id)
    assert len(matcher) == 0
    assert not matcher._vocabulary._scopes


def test_shapes_are_bounded_and_terms_are_given_back(semantics):
    matcher = SemanticMatcher(semantics, SemanticSettings("levenshtein"), shapes=10)
    for number in range(300):
        matcher.add(Subscription("same", parse_filter(f"name{number} > 1"), semantic={}))
        assert matcher.match(Event("e", attributes={f"name{number}": 2, "other": number})) == ["same"]
    assert matcher.shapes <= 10
    assert len(matcher._vocabulary.terms) < 200


def test_the_order_of_attributes_counts_only_between_equals(semantics):
    matcher = SemanticMatcher(semantics)
    matcher.add(Subscription("s", parse_filter("nation == 1"), semantic={"measure": "mean"}))
    assert matcher.match(Event("e", attributes={"country": 1, "land": 2})) == ["s"]
    assert matcher.match(Event("e", attributes={"land": 2, "country": 1})) == []
    assert matcher.shapes == 1


def test_a_match_explains_itself(semantics):
    matcher = SemanticMatcher(semantics)
    matcher.add(Subscription("s", parse_filter("{sale price, GT, 50}"), semantic={"rename": True}))
    matcher.add(Subscription("t", parse_filter("price > 50")))
    event = read_event('{"id": "e", "price": 60}')
    assert matcher.match(event) == ["s", "t"]
    assert "'sale price' is 'price'" in matcher.explain(event, "s").explain()[0]
    assert matcher.explain(event, "t") is None
    assert matcher.explain(event, "nobody") is None
    assert matcher.renames("s")
    assert not matcher.renames("t")
    assert matcher.renamed(event, "s").attributes == {"price": 60, "sale price": 60}
    assert matcher.renamed(event, "t") is event


def test_the_kind_of_a_subscription_can_change(semantics):
    matcher = SemanticMatcher(semantics)
    event = read_event('{"id": "e", "price": 60}')
    plain, other = Subscription("s", parse_filter("cost > 1")), parse_filter("cost > 1")
    for _ in range(2):
        matcher.add(Subscription("s", other, semantic={"measure": "mean"}))
        assert matcher.match(event) == ["s"]
        assert matcher.semantic == 1
        matcher.add(plain)
        assert matcher.match(event) == []
        assert len(matcher) == 1
        assert "s" in matcher


def test_long_cesql_is_matched_by_hand(semantics):
    text = " AND ".join(["cost > 5"] * 20)
    matcher = SemanticMatcher(semantics)
    subscription = Subscription("s", Sql(text), semantic={"measure": "mean"})
    matcher.add(subscription)
    event = read_event('{"id": "e", "price": 60}')
    assert matcher.match(event) == ["s"] == expected(event, [subscription], semantics)
    assert matcher.match_many([event]) == [["s"]]
    assert matcher.remove("s")
    assert matcher.match(event) == []


def test_without_a_lexicon_exact_matching_goes_on(tmp_path):
    matcher = SemanticMatcher(Semantics(data=tmp_path))
    matcher.add(Subscription("exact", parse_filter("price > 1")))
    with pytest.raises(SubscriptionError, match=r"\$\.semantic: cannot be used here"):
        matcher.add(Subscription("s", parse_filter("cost > 1"), semantic={"measure": "mean"}))
    with pytest.raises(RecadoError, match="threshold"):
        matcher.check(Subscription("s", parse_filter("cost > 1"), semantic={"threshold": 7}))
    matcher.add(Subscription("letters", parse_filter("prices > 1"), semantic={"measure": "levenshtein"}))
    assert matcher.match(Event("e", attributes={"price": 2})) == ["exact", "letters"]
