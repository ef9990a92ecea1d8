"""PCACHE: who stores, what a query gathers, and what becomes of copies that are full, cancelled, old or covered."""

import pytest

from protocols.sensors.world import ANY, Bench, World, event, line, random_world, sends
from recado.model.subscription import Subscription
from recado.protocols.machine import Report
from recado.protocols.pubsub import Publish, Subscribe
from recado.protocols.sensors import Find, Found, SensorSettings
from recado.protocols.sensors.messages import Data, Item, Lookup, Query, Reply, RouteRequest, Store, check_message

ITEM = Item((5, 1), 1, "a1 >= 1")
OTHER = Item((6, 1), 1, "a1 >= 1")
NO = Item((7, 1), 1, "a1 > 5")


def store(dfs, id=1, items=(ITEM,)):
    return Store((5, id), tuple(items), dfs)


def query(ttl=2, hops=1, id=1, *values):
    return Query((8, id), event("e", *values), ttl, hops)


# -- dissemination


@pytest.mark.parametrize("dfs", [0, 1, 2, 3])
def test_a_node_stores_if_no_copy_is_near_enough(dfs):
    bench = Bench()
    bench.hear(4, store(dfs))
    assert not bench.node.cache.zone
    ((to, message),) = sends(bench.wait(1))
    assert to is None
    assert message.dfs == (0 if dfs >= 2 else dfs + 1)
    assert list(bench.node.cache.zone) == ([(5, 1)] if dfs >= 2 else [])


def test_the_nearest_copy_that_was_heard_of_counts():
    bench = Bench()
    bench.hear(4, store(3))
    bench.hear(6, store(0))
    ((_, message),) = sends(bench.wait(1))
    assert message.dfs == 1
    assert not bench.node.cache.zone


def test_who_stores_always_transmits_and_others_only_if_few_copies_were_heard():
    for dfs, sent in ((2, 1), (1, 0)):
        bench = Bench()
        for sender in (3, 4, 5, 6):
            bench.hear(sender, store(dfs))
        assert len(sends(bench.wait(1))) == sent


def test_a_second_announcement_of_a_key_is_no_second_copy():
    bench = Bench()
    bench.hear(4, store(2))
    bench.wait(1)
    bench.hear(4, store(2, 2, [Item((5, 1), 2, "a1 >= 2")]))
    bench.wait(1)
    (stored,) = bench.node.cache.zone.values()
    assert (stored.item.version, stored.own) == (2, False)
    bench.hear(4, store(2, 3, [Item((5, 1), 1, "a1 >= 1")]))
    bench.wait(1)
    assert stored.item.version == 2


@pytest.mark.parametrize("evict", ["random", "oldest", "none"])
def test_an_own_item_takes_the_place_of_a_copy(evict):
    bench = Bench(SensorSettings(capacity=2, evict=evict))
    for number in (10, 11):
        bench.hear(4, store(2, number, [Item((number, 1), 1, "a1 > 1")]))
        bench.wait(1)
    bench.ask(Subscribe(Subscription("own")))
    zone = bench.node.cache.zone
    assert len(zone) == 2
    assert zone[0, 1].own
    assert evict == "random" or (11, 1) in zone


@pytest.mark.parametrize("evict", ["random", "oldest", "none"])
def test_a_full_store_makes_room_but_never_of_its_own(evict):
    bench = Bench(SensorSettings(capacity=3, evict=evict))
    bench.ask(Subscribe(Subscription("own")))
    for number in range(10, 20):
        bench.hear(4, store(2, number, [Item((number, 1), 1, "a1 > 1")]))
        bench.wait(1)
    keys = list(bench.node.cache.zone)
    assert len(keys) == 3
    assert (0, 1) in keys
    assert {"random": True, "oldest": keys[1:] == [(18, 1), (19, 1)], "none": keys[1:] == [(10, 1), (11, 1)]}[evict]
    for number in (2, 3, 4, 5):
        bench.ask(Subscribe(Subscription(f"own{number}")))
    assert [key for key in bench.node.cache.zone if key[0] == 0] == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert len(bench.node.cache.zone) == 5


def test_memory_can_be_limited_in_bytes():
    bench = Bench(SensorSettings(capacity_bytes=100, evict="oldest"))
    for number in range(10, 20):
        bench.hear(4, store(2, number, [Item((number, 1), 1, "a1 > 10")]))
        bench.wait(1)
    assert len(bench.node.cache.zone) == 5
    assert bench.node.cache._bytes == 95


# -- collection


def holding(*items, settings=None):
    bench = Bench(settings)
    for number, item in enumerate(items, 100):
        bench.hear(4, store(2, number, [item]))
        bench.wait(1)
    return bench


def test_a_leaf_answers_after_a_moment_and_does_not_relay():
    bench = holding(ITEM, NO)
    bench.hear(8, query(ttl=1))
    assert sends(bench.wait(0.0)) == []
    assert sends(bench.wait(0.021)) == [(8, Reply((8, 1), (ITEM,)))]
    assert sends(bench.wait(10)) == []


def test_a_leaf_without_matches_does_nothing_at_all():
    bench = holding(NO)
    assert bench.hear(8, query(ttl=1)) == []
    assert bench.node.cache.gathers == {}
    assert bench.timers == {}


def test_a_relay_waits_for_those_below_and_answers_once_without_duplicates():
    bench = holding(ITEM)
    bench.hear(8, query(ttl=3))
    effects = bench.wait(0.11)
    assert sends(effects) == [(None, query(ttl=2, hops=2))]
    bench.hear(11, Reply((8, 1), (ITEM, OTHER)))
    bench.hear(12, Reply((8, 1), (OTHER,)))
    assert sends(bench.wait(0.15)) == []
    assert sends(bench.wait(0.16)) == [(8, Reply((8, 1), (ITEM, OTHER)))]
    assert sends(bench.hear(13, Reply((8, 1), (ITEM, OTHER)))) == []


def test_a_relay_passes_a_straggler_on_at_once():
    bench = holding(ITEM)
    bench.hear(8, query())
    bench.wait(0.4)
    assert sends(bench.hear(11, Reply((8, 1), (OTHER,)))) == [(8, Reply((8, 1), (OTHER,)))]


def test_who_heard_enough_copies_answers_at_the_end_of_the_hold():
    bench = holding(ITEM)
    for sender in (8, 9, 10):
        bench.hear(sender, query())
    assert sends(bench.wait(0.11)) == [(8, Reply((8, 1), (ITEM,)))]


def test_the_parent_is_who_was_heard_first():
    bench = holding(ITEM)
    bench.hear(9, query(ttl=1))
    bench.hear(8, query(ttl=2))
    assert sends(bench.wait(1)) == [(9, Reply((8, 1), (ITEM,)))]


def publishing(settings=None):
    bench = Bench(settings)
    bench.ask(Publish(event()))
    (id,) = bench.node.cache.gathers
    return bench, id


def test_the_publisher_waits_in_proportion_to_the_hops():
    for hops, seconds in ((1, 0.3), (2, 0.45), (3, 0.6)):
        bench, _ = publishing(SensorSettings(q_ttl=hops))
        assert bench.timers[next(iter(bench.timers))] == pytest.approx(seconds)


def test_answers_in_time_are_served_together_and_late_ones_alone():
    bench, id = publishing()
    bench.hear(3, Reply(id, (ITEM,)))
    bench.hear(4, Reply(id, (ITEM, Item((5, 2), 1, "a1 < 5"))))
    assert [m.dst for _, m in sends(bench.wait(0.5), RouteRequest)] == [5]
    bench.hear(4, Reply(id, (OTHER, ITEM)))
    assert [m.dst for _, m in sends(bench.wait(1.1), RouteRequest)] == [6]
    bench.hear(4, Reply(id, (OTHER, Item((6, 2), 1, "a1 < 5"))))
    assert sends(bench.wait(3)) == []
    assert bench.node.context.counts["late"] == 1


def test_a_query_is_forgotten():
    bench, id = publishing()
    bench.wait(1.81)
    assert sends(bench.hear(4, Reply(id, (OTHER,)))) == []
    assert bench.node.context.counts["refused.reply"] == 1
    bench.hear(4, query(ttl=2))
    assert list(bench.node.cache.gathers) == [(8, 1)]


def test_queries_are_bounded():
    bench = Bench(SensorSettings(max_gathers=10, sender_per_second=0))
    for number in range(50):
        bench.hear(4, query(2, 1, number))
    assert len(bench.node.cache.gathers) == 10


# -- lookup by key


def test_lookup_asks_rings_until_somebody_answers():
    world = line(8)
    world.subscribe(0)
    world.run()
    for node, rings, transmissions in ((3, 0, 0), (4, 1, 1), (5, 1, 1), (1, 1, 1), (7, 1, 1)):
        world.log.clear()
        world.find(node, (0, 1))
        world.run()
        asked = [message for _, _, _, message in world.log if type(message) is Lookup]
        assert len({message.id for message in asked}) == rings
        assert len(asked) == transmissions
        assert world.found()[-1].item.filter == ANY


def test_lookup_goes_farther_and_gives_up():
    world = line(8)
    world.subscribe(0)
    world.run()
    for node in (3, 6):
        world.machine(node).cache.zone.clear()
    world.log.clear()
    world.find(3, (0, 1))
    world.run()
    assert world.found()[-1].item is not None
    asked = [message for _, _, _, message in world.log if type(message) is Lookup]
    assert len({message.id for message in asked}) == 3
    assert not [m for _, node, _, m in world.log if type(m) is Lookup and node == 0]  # who has it does not relay
    start = world.simulation.now
    world.find(6, (0, 1))
    world.run()
    assert world.found()[-1] == Found((0, 1), None)
    assert world.simulation.now - start == pytest.approx(0.15 * (2 + 3 + 4 + 5), abs=0.1)


def test_lookup_of_an_own_item_needs_nobody():
    bench = Bench()
    bench.ask(Subscribe(Subscription("own")))
    (report,) = [effect for effect in bench.ask(Find((0, 1))) if type(effect) is Report]
    assert report.fact.item.key == (0, 1)


# -- unsubscribe, lease, refresh


def test_a_cancelled_subscription_is_forgotten_everywhere():
    world = line(8)
    world.subscribe(0)
    world.run()
    world.unsubscribe(0, "s0")
    world.run()
    assert world.holders((0, 1)) == []
    cost = world.cost(world.publish, 5, "e")
    assert cost["pcache.reply"] == cost["aodv.rreq"] == 0
    world.subscribe(0)
    world.run()
    assert world.holders((0, 2)) == [0, 3, 6]


def test_what_was_cancelled_does_not_come_back():
    bench = Bench()
    bench.hear(4, store(0, 1, [Item((5, 1), 2, "")]))
    bench.hear(4, store(2, 2, [ITEM]))
    bench.wait(1)
    assert not bench.node.cache.zone
    assert bench.node.cache.gone == {(5, 1): 2}
    bench.hear(4, store(2, 3, [Item((5, 1), 3, "a1 > 1")]))
    bench.wait(1)
    assert list(bench.node.cache.zone) == [(5, 1)]


def test_nobody_else_cancels_an_own_subscription():
    bench = Bench()
    bench.ask(Subscribe(Subscription("own")))
    bench.hear(4, store(0, 1, [Item((0, 1), 9, "")]))
    assert list(bench.node.cache.zone) == [(0, 1)]


def test_a_copy_is_not_valid_longer_than_its_lease():
    settings = SensorSettings(lease_seconds=60.0)
    world = line(8, settings=settings)
    world.subscribe(0)
    world.run()
    world.run(30)
    world.machine(3).context.now = world.simulation.now
    (answer,) = world.machine(3).cache.local_match((0, 1)).values()
    assert 29 < answer.lease < 60
    world.run(31)
    world.publish(5, "e")
    world.run()
    assert world.who_got("e") == []
    assert world.holders((0, 1)) == [0]


def test_a_lookup_does_not_find_copies_whose_lease_is_over():
    world = line(8, settings=SensorSettings(lease_seconds=60.0))
    world.subscribe(0)
    world.run()
    world.find(3, (0, 1))
    world.run()
    assert world.found()[-1].item is not None
    world.run(61)
    for node in (6, 7):  # one that holds a copy, and one that asks it; the subscriber is too far away
        world.find(node, (0, 1))
        world.run()
        assert world.found()[-1] == Found((0, 1), None)


def test_a_refresh_renews_leases_and_makes_lost_copies_again():
    settings = SensorSettings(lease_seconds=60.0, refresh_seconds=25.0)
    world = line(8, settings=settings)
    world.subscribe(0)
    world.run(200)
    assert world.holders((0, 1)) == [0, 3, 6]
    world.machine(3).cache._remove((0, 1))
    world.run(30)
    world.publish(4, "e")
    world.run(10)
    assert world.who_got("e") == [0]
    assert world.holders((0, 1)) == [0, 3, 6]
    world.unsubscribe(0, "s0")
    world.run()  # ends: nothing is left to refresh
    assert world.holders((0, 1)) == []


def test_a_refresh_without_lease_does_not_add_copies():
    world = line(8, settings=SensorSettings(refresh_seconds=25.0))
    world.subscribe(0)
    world.run(200)
    assert world.holders((0, 1)) == [0, 3, 6]


# -- covering


def test_what_is_covered_is_neither_announced_nor_kept_twice():
    world = line(8, settings=SensorSettings(covering=True))
    world.subscribe(0, "a1 > 5", "narrow")
    world.run()
    world.subscribe(0, "a1 > 1", "wide")
    world.run()
    assert world.holders((0, 1)) == [0]
    assert world.holders((0, 2)) == [0, 3, 6]
    cost = world.cost(world.subscribe, 0, "a1 > 3", "middle")
    assert cost == {}
    world.publish(5, "e", 9, 1, 1, 1)
    world.run()
    assert world.who_got("e") == [0]  # and World checks that all three are named
    cost = world.cost(world.unsubscribe, 0, "wide")
    assert cost == {"pampa.sub": 16}
    world.publish(5, "f", 4, 1, 1, 1)
    world.publish(7, "g", 2, 1, 1, 1)
    world.run()
    assert world.who_got("f") == [0]
    assert world.who_got("g") == []
    assert world.cost(world.unsubscribe, 0, "middle") == {"pampa.sub": 16}
    assert world.cost(world.unsubscribe, 0, "narrow") == {"pampa.sub": 8}
    assert not any(world.machine(node).cache.zone for node in world.places)


def test_a_filter_of_another_subscriber_covers_nothing():
    bench = Bench(SensorSettings(covering=True))
    for number, item in enumerate((Item((5, 1), 1, "a1 > 1"), Item((6, 1), 1, "a1 > 5"), Item((5, 2), 1, "a1 > 5"))):
        bench.hear(4, store(2, number, [item]))
        bench.wait(1)
    assert list(bench.node.cache.zone) == [(5, 1), (6, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_covering_changes_no_notification(seed):
    worlds = [random_world(seed, settings=SensorSettings(covering=on), nodes=20, side=600) for on in (False, True)]
    wanted = {}
    for world in worlds:
        for node in (1, 2, 3):
            for number, low in enumerate((6, 2, 4, 2)):
                world.subscribe(node, f"a1 >= {low}", f"{node}.{number}")
                world.run()
        for round in range(3):
            for publisher in (5, 9, 14):
                for value in (1, 3, 5, 8):
                    made = world.publish(publisher, f"e{round}.{publisher}.{value}", value)
                    wanted[made.id] = world.who_wants(made)
                    world.run()
            if round < 2:
                for node in (1, 2, 3):
                    world.unsubscribe(node, f"{node}.{2 * round + 1}")
                    world.run()
    plain, covering = worlds
    assert {id: covering.who_got(id) for id in wanted} == wanted
    kept = [sum(len(world.machine(node).cache.zone) for node in world.places) for world in worlds]
    assert kept[1] < kept[0]
    assert covering.sent["pampa.sub"] <= 1.1 * plain.sent["pampa.sub"]


# -- shuffling


def test_shuffling_keeps_the_number_of_copies():
    bench = holding(NO, settings=SensorSettings(shuffle=True, p_shuffle=1.0))
    bench.hear(8, query())
    bench.wait(0.11)
    bench.hear(11, Reply((8, 1), (ITEM,)))
    assert list(bench.node.cache.zone) == [ITEM.key]
    assert sends(bench.wait(1)) == [(8, Reply((8, 1), (ITEM,), (NO,)))]
    other, id = publishing()
    other.hear(3, Reply(id, (ITEM,), (NO,)))
    assert list(other.node.cache.zone) == [NO.key]


def test_shuffling_moves_copies_in_a_network_and_loses_no_notification():
    settings = SensorSettings(shuffle=True, p_shuffle=0.5)
    world = random_world(3, settings=settings, nodes=30, side=700)
    for node in range(10):
        world.subscribe(node)
        world.run()
    for number in range(40):
        world.publish(10 + number % 20, f"e{number}")
        world.run()
    assert world.counts("store.shuffled") > 0
    assert len({id for _, _, id in world.deliveries}) == 40
    for node in range(10):
        assert world.holders((node, 1))
        assert world.machine(node).cache.zone[node, 1].own


def test_a_dead_parent_costs_the_answer_and_nothing_else():
    world = World({0: (0, 0), 1: (200, 0), 2: (400, 0)})
    world.subscribe(2)
    world.run()
    world.publish(0, "e")
    world.run(0.1)
    world.simulation.crash(1)
    world.run()
    assert world.who_got("e") == []
    assert not [m for _, _, _, m in world.log if type(m) is Data]


# -- many items


def test_an_answer_of_very_many_or_very_long_items_is_several_messages():
    """A message with more is refused by whoever hears it, and a frame has an end."""
    for items, replies in (
        ([Item((node, 1), 1, "a1 >= 1") for node in range(100, 2_200)], [1_024, 1_024, 52]),
        ([Item((node, 1), 1, f'a1 >= 1 or b == "{"x" * 10_000}"') for node in range(100, 110)], [6, 4]),
        ([ITEM, OTHER], [2]),
    ):
        bench = Bench()
        for start in range(0, len(items), 1_000):
            bench.hear(4, store(2, 10 + start, items[start : start + 1_000]))
        bench.wait(1)
        bench.hear(9, query(1))
        answered = sends(bench.wait(1), Reply)
        assert [(to, len(message.items)) for to, message in answered] == [(9, count) for count in replies]
        for _, message in answered:
            check_message(message)
        assert [item for _, message in answered for item in message.items] == items
