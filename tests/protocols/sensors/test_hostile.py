"""Hostile radio: garbage, forged answers, replays and floods do bounded harm, and are counted."""

from random import Random

import msgspec
import pytest

from protocols.sensors.world import ANY, Bench, event, line, sends
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.protocols.machine import Deliver, Received
from recado.protocols.pubsub import Publish, Subscribe
from recado.protocols.sensors import SensorSettings
from recado.protocols.sensors.delivery import way_of
from recado.protocols.sensors.messages import (
    Data,
    Flood,
    Group,
    Hello,
    Item,
    Lookup,
    Query,
    Reply,
    RouteError,
    RouteReply,
    RouteRequest,
    Store,
    check_message,
    item_bytes,
)

SMALL = SensorSettings(
    remembered=64, max_seen=64, max_routes=64, max_gathers=32, max_items=16, max_handovers=32, capacity=20,
    sender_per_second=0, aodv="rfc3561", route_expiry=True,
)  # fmt: skip


def anything(rng):
    """A message that passes the check, with any content."""
    name, number, hops = (lambda: rng.randrange(200)), (lambda: rng.randrange(500)), (lambda: rng.randint(1, 255))
    made = lambda: (name(), number())  # noqa: E731
    item = lambda: Item(made(), number(), rng.choice(["", "a1 >= 1", f"a1 > {number()}"]), rng.choice([0.0, 5.0]))  # noqa: E731
    items = lambda: tuple(item() for _ in range(rng.randint(1, 30)))  # noqa: E731
    return rng.choice(
        [
            lambda: Store(made(), items(), rng.randrange(5)),
            lambda: Query(made(), event(f"e{number()}"), hops(), hops()),
            lambda: Lookup(made(), made(), hops(), hops()),
            lambda: Reply(made(), items(), items()),
            lambda: Flood(made(), event()),
            lambda: RouteRequest(made(), number(), name(), number(), hops(), hops()),
            lambda: RouteReply(name(), number(), name(), hops(), rng.choice([1.0, 1e9])),
            lambda: RouteError(tuple((name(), number()) for _ in range(rng.randint(1, 20)))),
            lambda: Hello(number()),
            lambda: Group(made(), event(), tuple({name() for _ in range(rng.randint(1, 20))}), hops()),
            lambda: Data(made(), event(), name(), name(), hops()),
        ]
    )()


def test_forged_answers_are_dropped_and_counted():
    bench = Bench()
    bench.ask(Publish(event("e", 1)))
    (id,) = bench.node.cache.gathers
    bench.hear(3, Reply((9, 9), (Item((5, 1), 1, "a1 >= 1"),)))
    assert bench.node.context.counts["refused.reply"] == 1
    bench.hear(3, Reply(id, (Item((5, 1), 1, "a1 > 5"), Item((6, 1), 1, ""))))
    assert bench.node.context.counts["refused.item"] == 2
    assert sends(bench.wait(5)) == []


def test_an_answer_with_too_many_items_is_cut():
    bench = Bench(SensorSettings(max_items=10))
    bench.ask(Publish(event("e", 1)))
    (id,) = bench.node.cache.gathers
    bench.hear(3, Reply(id, tuple(Item((node, 1), 1, "a1 >= 1") for node in range(100, 200))))
    assert bench.node.context.counts["refused.items"] == 90


@pytest.mark.parametrize("limits", [{"max_stored": 200}, {"max_stored_bytes": 4_000}])
def test_announcements_of_a_liar_take_bounded_memory(limits):
    """Even where ``capacity`` has no limit, as by default."""
    bench = Bench(SensorSettings(sender_per_second=0, **limits))
    bench.ask(Subscribe(Subscription("own", parse(ANY))))
    for number in range(20):
        items = tuple(Item((node, number), 1, f"a1 >= {node}") for node in range(100, 200))
        bench.hear(3, Store((3, number), items, 5))
        bench.wait(1)
    zone = bench.node.cache.zone
    assert len(zone) <= 200
    assert (0, 1) in zone
    assert bench.node.context.counts["refused.stored"] >= 1_700
    bench.ask(Subscribe(Subscription("another", parse(ANY))))  # its own it keeps all the same
    assert (0, 2) in zone


@pytest.mark.parametrize("limits", [{"max_stored_bytes": 4_000}, {"capacity_bytes": 4_000}])
def test_newer_versions_that_are_larger_take_no_more_memory_than_others(limits):
    """Whether a copy is made anew, far from others, or stays though others are near."""
    longer = " or ".join(f"a1 == {n}" for n in range(100, 200))
    for least_dfs in (5, 0):
        bench = Bench(SensorSettings(sender_per_second=0, **limits))
        for version, filter, dfs in ((1, "a1 >= 1", 5), (2, longer, least_dfs)):
            for node in range(100, 150):
                item = Item((node, 1), version, filter)
                bench.hear(3, Store((3, version * 1_000 + node), (item,), dfs))
                bench.wait(1)
        cache = bench.node.cache
        assert sum(item_bytes(one.item) for one in cache.zone.values()) == cache._bytes <= 4_000
        assert cache.zone


def test_replays_change_nothing():
    world = line(5)
    heard = []
    world._extra = lambda step: heard.append(step.stimulus) if step.node == 2 else None
    world.subscribe(4)
    world.run()
    world.publish(0, "e")
    world.run()
    before = dict(world.sent)
    frames = [one for one in heard if type(one).__name__ == "Received" and type(one.message).__name__ != "Data"]
    for one in frames * 3:
        world.give(2, one.sender, one.message)
    world.run()
    replayed = [message for _, _, _, message in world.log[sum(before.values()) :]]
    assert [m for m in replayed if type(m) is not RouteReply and type(m) is not Reply] == []
    assert world.who_got("e") == [4]


def test_a_neighbour_that_floods_is_cut_off_and_others_are_not():
    bench = Bench(SensorSettings(sender_burst=20, sender_per_second=1.0))
    for number in range(100):
        bench.hear(3, Query((3, number), event(), 2, 1))
    assert bench.node.context.counts["refused.too_many"] == 80
    assert bench.hear(4, Query((4, 1), event(), 2, 1)) != []
    bench.wait(10)
    assert bench.hear(3, Query((3, 1_000), event(), 2, 1)) != []


def test_a_group_that_claims_more_hops_than_there_are_goes_no_further_than_others():
    bench = Bench()
    bench.hear(3, RouteRequest((5, 1), 4, 9, 0, 1, 5))
    ((to, data),) = sends(bench.hear(7, Group((8, 1), event(), (5,), 255)), Data)
    assert (to, data.ttl) == (3, 30)
    check_message(data)
    group = Received(7, Group((8, 2), event(), (0,), 255))
    assert way_of(group, bench.node.context.settings) == (8, 1)


def test_what_is_no_message_is_counted():
    bench = Bench()
    assert bench.hear(3, "garbage") == []
    assert bench.hear(3, None) == []
    assert bench.node.context.counts["refused.garbage"] == 2


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_heard_the_tables_stay_bounded(seed):
    rng = Random(seed)
    bench = Bench(msgspec.structs.replace(SMALL, shuffle=True, covering=seed % 2 == 0, repair="local"))
    bench.ask(Subscribe(Subscription("own", parse(ANY))))
    notified = []
    for _ in range(3_000):
        message = anything(rng)
        effects = bench.hear(rng.randrange(200), message)
        if rng.random() < 0.1:
            effects += bench.fail(rng.randrange(200), anything(rng))
        if rng.random() < 0.02:
            bench.ask(Publish(event(f"own{rng.random()}")))
        effects += bench.wait(rng.choice([0.0, 0.01, 0.1]))
        notified += [effect.notification for effect in effects if type(effect) is Deliver]
    node = bench.node
    assert len(node.pampa.heard) <= 64
    assert len(node.aodv.seen) <= 64
    assert len(node.aodv.routes) <= 64
    assert len(node.aodv.buffer) <= 64
    assert len(node.aodv._relays) <= 64
    assert len(node.cache.gathers) <= 32
    assert all(len(gather.items) <= 16 + 20 for gather in node.cache.gathers.values())
    assert all(len(gather.moved) <= 16 + 30 for gather in node.cache.gathers.values())
    assert len(node.cache.zone) <= 20
    assert (0, 1) in node.cache.zone
    assert len(node.cache.gone) <= 1_024
    assert len(node.delivery.queue) <= 32
    assert len(node.delivery.notified) <= 64
    assert len(node.delivery._groups) <= 64
    assert len(bench.timers) < 1_000
    assert all(one.subscriptions == ("own",) for one in notified)
    bench.wait(10_000)
    assert not bench.node.inspect()["pending"]
