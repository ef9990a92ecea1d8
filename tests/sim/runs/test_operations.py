"""The workload: drawn for every protocol alike, and judged by a ledger that forgets nothing."""

from collections import Counter

import pytest

from recado.model.event import Event
from recado.model.filter import Compare
from recado.model.subscription import Subscription
from recado.protocols.pubsub import Publish, Subscribe, Unsubscribe
from recado.protocols.topology import grid, line
from recado.sim.runs.operations import (
    Expectation,
    Ledger,
    Observer,
    Operation,
    Travel,
    Workload,
    delays,
    judge,
    measure_travel,
)
from recado.sim.runs.scenario import Mix, ScenarioError, WorkloadPart
from recado.sim.system import Delivery


def drawn(part, topology=None, seed=0):
    workload = Workload(part, topology or grid(5, 5), seed)
    operations = []
    for now, operation in enumerate(workload.operations()):
        workload.ledger.record(operation, float(now))
        operations.append(operation)
    return workload, operations


def test_set_up_comes_first_then_the_mix():
    part = WorkloadPart(types=2, publishers=3, subscriptions="20%", operations=10)
    _, operations = drawn(part)
    assert [operation.kind for operation in operations] == (
        ["become_publisher"] * 6 + ["subscribe"] * 5 + ["publish"] * 10
    )
    assert [operation.setup for operation in operations] == [True] * 11 + [False] * 10


def test_a_share_means_different_nodes_and_a_count_may_ask_more_of_some():
    _, operations = drawn(WorkloadPart(subscriptions="100%", operations=0))
    assert len({operation.node for operation in operations if operation.kind == "subscribe"}) == 25
    _, operations = drawn(WorkloadPart(subscriptions=60, operations=0))
    counts = Counter(operation.node for operation in operations if operation.kind == "subscribe")
    assert sorted(set(counts.values())) == [2, 3]


def test_the_same_seed_draws_the_same():
    part = WorkloadPart(operations=50, mix=Mix(subscribe=1, unsubscribe=1, become_publisher=1, become_broker=1))
    assert drawn(part)[1] == drawn(part)[1]
    assert drawn(part)[1] != drawn(part, seed=1)[1]


def test_a_mix_keeps_one_publisher_and_cancels_only_what_is_there():
    part = WorkloadPart(
        publishers=2, subscriptions=2, operations=300,
        mix=Mix(publish=0, subscribe=1, unsubscribe=2, become_publisher=1, become_broker=3),
    )  # fmt: skip
    workload, operations = drawn(part)
    assert len(workload.ledger.publishers["t0"]) >= 1
    live = set()
    for operation in operations:
        match operation.request:
            case Subscribe(subscription):
                live.add(subscription.id)
            case Unsubscribe(id):
                live.remove(id)
    assert live == set(workload.ledger.live)


def test_popular_types_are_chosen_more_often():
    _, operations = drawn(WorkloadPart(types=4, popularity=2.0, subscriptions=400, operations=0))
    types = Counter(operation.request.subscription.type for operation in operations if operation.kind == "subscribe")
    assert types["t0"] > 2 * types["t1"] > 2 * types["t3"]


def test_filters_have_their_width_and_overlap_makes_them_common():
    workload, _ = drawn(WorkloadPart(subscriptions=200, width=0.1, operations=0))
    filters = [life.subscription.filter for life in workload.ledger.lives.values()]
    assert len(set(filters)) == 200
    for low, high in (filter.parts for filter in filters):
        assert high.value - low.value == pytest.approx(0.1)
        assert 0 <= low.value <= 0.9
    workload, _ = drawn(WorkloadPart(subscriptions=200, overlap=1.0, operations=0))
    assert len({life.subscription.filter for life in workload.ledger.lives.values()}) == 8


def test_locality_makes_neighbours_want_the_same():
    def spread(locality):
        part = WorkloadPart(subscriptions="100%", width=0.01, locality=locality, operations=0)
        workload, _ = drawn(part, line(40))
        low = {life.node: life.subscription.filter.parts[0].value for life in workload.ledger.lives.values()}
        return sum(abs(low[node] - low[node + 1]) for node in range(39)) / 39

    assert spread(1.0) == pytest.approx(0.99 / 40)
    assert spread(0.0) > 0.2


def test_too_many_publishers():
    with pytest.raises(ScenarioError, match="9 publishers of a type need as many nodes, not 3"):
        Workload(WorkloadPart(publishers=9), line(3), 0)


# -- the ledger


def subscribe(ledger, id, node, now, limit=0.5):
    ledger.record(Operation("subscribe", node, Subscribe(Subscription(id, Compare("x", "<", limit), "t0"))), now)


def publish(ledger, id, now, x=0.2):
    ledger.record(Operation("publish", 0, Publish(Event(id, "t0", attributes={"x": x}))), now)


def test_an_event_is_for_those_who_live_and_match():
    ledger = Ledger()
    subscribe(ledger, "s1", 1, 0.0)
    subscribe(ledger, "s2", 2, 0.0, limit=0.1)
    subscribe(ledger, "s3", 3, 0.0)
    ledger.record(Operation("unsubscribe", 3, Unsubscribe("s3")), 1.0)
    publish(ledger, "e1", 2.0)
    assert ledger.expectations[0].wanted == ("s1",)
    deliveries = [Delivery(3.0, 1, "e1", ("s1",)), Delivery(3.0, 1, "e1", ("s1",)), Delivery(3.0, 2, "e1", ("s2",))]
    assert judge(ledger, deliveries, ledger.expectations) == {
        "deliveries.expected": 1, "deliveries.ok": 1, "deliveries.lost": 0, "deliveries.duplicated": 1,
        "deliveries.unexpected": 1,
    }  # fmt: skip
    assert judge(ledger, [], ledger.expectations)["deliveries.lost"] == 1


def test_while_it_settles_a_subscription_may_or_may_not_get_an_event():
    ledger = Ledger(settling=5.0)
    subscribe(ledger, "young", 1, 8.0)
    subscribe(ledger, "old", 2, 0.0)
    subscribe(ledger, "leaving", 3, 0.0)
    publish(ledger, "e1", 10.0)
    ledger.record(Operation("unsubscribe", 3, Unsubscribe("leaving")), 12.0)
    expected = ledger.expectations[0]
    assert ledger.due_subscriptions(expected) == ["old"]
    assert ledger.is_allowed(expected, "young")
    assert ledger.is_allowed(expected, "leaving")
    assert not ledger.is_allowed(expected, "nobody")
    everybody = [Delivery(11.0, node, "e1", (id,)) for node, id in ((1, "young"), (2, "old"), (3, "leaving"))]
    assert judge(ledger, everybody, [expected])["deliveries.unexpected"] == 0


# -- how events travel


def test_useful_hops_are_those_that_lead_to_a_delivery():
    travel = Travel()
    travel.senders = {1: [0], 2: [1], 3: [1], 4: [3, 2]}
    assert travel.useful([2]) == 2
    assert travel.useful([3]) == 2
    assert travel.useful([4]) == 4
    assert travel.hops(4, 0) == 3


def test_a_journey_in_numbers():
    observer = Observer()
    travel = observer.travels["e1"] = Travel()
    travel.senders = {1: [0, 2], 2: [1, 1], 3: [2]}
    expected = Expectation(10.0, 0, Event("e1", "t0"), ("s",))
    deliveries = [Delivery(12.0, 2, "e1", ("s",))]
    assert measure_travel(observer, line(4), deliveries, [expected]) == {
        "events.notifications": 5, "events.duplicates": 2, "events.false_forwards": 1, "hops.mean": 2.0,
        "hops.max": 2.0, "stretch.mean": 1.0, "stretch.max": 1.0,
    }  # fmt: skip
    assert delays(deliveries, [expected]) == {"delay.mean": 2.0, "delay.max": 2.0}
    assert measure_travel(observer, line(4), [], []) == {}
