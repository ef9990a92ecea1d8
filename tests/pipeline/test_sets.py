"""Versions of a subscription set: complete or absent, unchangeable, and equal to what a fresh index gives."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError
from recado.pipeline.partitioned.folder import ROUTER
from recado.pipeline.sets import ABOUT, DETAILS, INDEX, SubscriptionSet
from strategies import events, filters

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CHEAP = Subscription("cheap", parse("Price < 25"), owner="sip:ana@example.com", expires_at=NOON)
RATED = Subscription("rated", parse("Price > 1"), constraints=({"kind": "frequency", "amount": 5, "unit": "minutes"},))


def details(loaded):
    return {row["id"]: row for row in loaded.details.to_pylist() if row["id"] is not None}


def test_a_published_version_can_be_loaded_with_all_its_details(tmp_path):
    version = SubscriptionSet(tmp_path / "set").publish([CHEAP, RATED])
    assert (version.number, version.subscriptions, version.expiring, version.constrained) == (1, 2, 1, 1)
    assert version.names == ("Price",)
    loaded = SubscriptionSet(tmp_path / "set").load(1)
    assert loaded.index.match(Event("e", attributes={"Price": 20})) == ["cheap", "rated"]
    found = details(loaded)
    assert found["cheap"]["owner"] == "sip:ana@example.com"
    assert found["cheap"]["expires_at"] == NOON
    assert found["cheap"]["constraints"] is None
    assert '"frequency"' in found["rated"]["constraints"]


def test_a_change_starts_from_the_current_version_and_leaves_it_alone(tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([CHEAP, RATED])
    version = subscription_set.change(add=[Subscription("new", parse("Volume > 3"), owner="o")], remove=["cheap"])
    assert (version.number, version.parent, version.subscriptions) == (2, 1, 2)
    assert sorted(details(subscription_set.load(2))) == ["new", "rated"]
    assert sorted(details(subscription_set.load(1))) == ["cheap", "rated"]
    assert subscription_set.versions() == [1, 2]
    assert subscription_set.current().number == 2


def test_removing_what_is_not_there_is_refused_and_publishes_nothing(tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([CHEAP])
    with pytest.raises(PipelineError, match="no subscription 'absent' to remove"):
        subscription_set.change(remove=["absent"])
    assert subscription_set.versions() == [1]


def test_a_set_without_versions_says_so(tmp_path):
    with pytest.raises(PipelineError, match=r"holds no version .* publish one first"):
        SubscriptionSet(tmp_path / "nothing").current()


def test_a_partitioned_set_is_not_taken_for_one_without_versions(tmp_path):
    (tmp_path / ROUTER).touch()
    with pytest.raises(PipelineError, match="it is a partitioned set, for match_partitioned"):
        SubscriptionSet(tmp_path).current()


def test_a_version_that_is_not_there_is_named_with_those_that_are(tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([CHEAP])
    with pytest.raises(PipelineError, match="has no version 7; there are: 1"):
        subscription_set.version(7)


def test_wrong_constraints_are_refused_with_the_subscription(tmp_path):
    bad = Subscription("bad", parse("a > 1"), constraints=({"kind": "sometimes"},))
    with pytest.raises(RecadoError, match="'bad'"):
        SubscriptionSet(tmp_path).publish([CHEAP, bad])
    assert SubscriptionSet(tmp_path).versions() == []


def test_two_changes_of_one_version_do_not_both_succeed(tmp_path, monkeypatch):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([CHEAP])
    other = SubscriptionSet(tmp_path)
    first = other.current()
    subscription_set.change(add=[RATED])
    monkeypatch.setattr(other, "current", lambda: first)
    with pytest.raises(PipelineError, match="published meanwhile"):
        other.change(remove=["cheap"])
    assert sorted(details(subscription_set.load(2))) == ["cheap", "rated"]


def test_prune_keeps_the_newest(tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    for _ in range(4):
        subscription_set.publish([CHEAP])
    assert subscription_set.prune(keep=2) == [1, 2]
    assert subscription_set.versions() == [3, 4]


@pytest.mark.parametrize("name", [INDEX, DETAILS, ABOUT])
def test_a_damaged_version_is_refused_by_name(tmp_path, name):
    subscription_set = SubscriptionSet(tmp_path)
    subscription_set.publish([CHEAP])
    path = subscription_set.path(1) / name
    path.write_bytes(b"\x00" * 40)
    read = subscription_set.version if name == ABOUT else subscription_set.load
    with pytest.raises(RecadoError, match=name):
        read(1)


def test_an_empty_set_matches_nothing(tmp_path):
    subscription_set = SubscriptionSet(tmp_path)
    assert subscription_set.publish([]).subscriptions == 0
    assert subscription_set.load(1).index.match(Event("e", attributes={"Price": 1})) == []


ids = st.sampled_from(["a", "b", "c", "d"])
subscriptions = st.builds(Subscription, ids, filters(max_leaves=3), owner=st.sampled_from(["", "ana", "rui"]))


def several(most):
    return st.lists(subscriptions, max_size=most, unique_by=lambda one: one.id)


@given(several(5), several(3), st.data())
@settings(max_examples=60, deadline=None)
def test_publish_and_change_equal_the_oracle(tmp_path_factory, first, then, data):
    subscription_set = SubscriptionSet(tmp_path_factory.mktemp("set"))
    subscription_set.publish(first)
    held = {subscription.id: subscription for subscription in first}
    gone = data.draw(st.lists(st.sampled_from(sorted(held)), unique=True)) if held else []
    subscription_set.change(add=then, remove=gone)
    held = {id: subscription for id, subscription in held.items() if id not in gone}
    held |= {subscription.id: subscription for subscription in then}
    loaded = subscription_set.load(2)
    assert {id: row["owner"] for id, row in details(loaded).items()} == {id: s.owner for id, s in held.items()}
    naive = NaiveMatcher()
    for subscription in held.values():
        naive.add(subscription)
    event = data.draw(events())
    assert loaded.index.match(event) == naive.match(event)
    for slot in loaded.index.match_slots(event).tolist():
        assert loaded.column("id")[slot].as_py() == loaded.index.id_of(slot)
