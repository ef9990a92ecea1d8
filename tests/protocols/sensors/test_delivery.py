"""Delivery: groups, pacing, duplicates, the publisher's own subscriptions, and what a node tells of itself."""

import json

import pytest

from protocols.sensors.world import ANY, Bench, World, event, line, sends
from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Deliver, Report
from recado.protocols.pubsub import BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.sensors import Collected, SensorError, SensorNode, SensorSettings
from recado.protocols.sensors.messages import Data, Group, Item, Reply, RouteReply, RouteRequest
from recado.protocols.sensors.node import describe_role


def routed(settings=None, **routes):
    """A node with routes: by destination, the next hop."""
    bench = Bench(settings)
    for dst, next_hop in routes.items():
        bench.hear(next_hop, RouteReply(dst, 4, 0, 2, 1e9))
    return bench


def publish(bench, *subscribers, id="e"):
    """A publication whose query finds these."""
    bench.ask(Publish(event(id)))
    gather = list(bench.node.cache.gathers)[-1]
    bench.hear(77, Reply(gather, tuple(Item((name, 1), 1, "a1 >= 1") for name in subscribers)))


def delivered(effects):
    return [effect.notification for effect in effects if type(effect) is Deliver]


def data(effects):
    return sorted((to, message.dst) for to, message in sends(effects, Data))


# -- groups


def test_those_that_share_the_next_hop_travel_together():
    bench = routed(A="n1", B="n1", C="n2")
    publish(bench, "A", "B", "C")
    effects = bench.wait(5)
    (group,) = sends(effects, Group)
    assert group == ("n1", Group((0, 1), event(), ("A", "B"), 30))
    assert data(effects) == [("n2", "C")]
    (report,) = [effect.fact for effect in effects if type(effect) is Report]
    assert report == Collected((0, 1), "e", ("A", "B", "C"), (2,))


def test_without_grouping_everybody_gets_a_packet():
    bench = routed(SensorSettings(grouping=False), A="n1", B="n1", C="n2")
    publish(bench, "A", "B", "C")
    effects = bench.wait(5)
    assert sends(effects, Group) == []
    assert data(effects) == [("n1", "A"), ("n1", "B"), ("n2", "C")]


def test_a_relay_parts_a_group_by_its_own_routes():
    bench = routed(A="x", B="y", C="y")
    effects = bench.hear("p", Group(("p", 1), event(), ("A", "B", "C"), 30))
    assert sends(effects, Group) == [("y", Group(("p", 1), event(), ("B", "C"), 29))]
    assert data(effects) == [("x", "A")]


def test_a_relay_that_is_a_subscriber_is_notified_and_taken_out():
    bench = routed(A="x", B="x")
    bench.ask(Subscribe(Subscription("s", parse(ANY))))
    effects = bench.hear("p", Group(("p", 1), event(), (0, "A", "B"), 30))
    assert [one.subscriptions for one in delivered(effects)] == [("s",)]
    assert sends(effects, Group)[0][1].dests == ("A", "B")
    assert sends(effects, RouteRequest) == []


def test_a_relay_without_a_route_looks_for_one():
    bench = routed(A="x")
    effects = bench.hear("p", Group(("p", 1), event(), ("A", "B"), 30))
    assert [message.dst for _, message in sends(effects, RouteRequest)] == ["B"]
    assert data(effects) == [("x", "A")]


def test_a_group_does_not_travel_in_circles():
    bench = routed(A="x", B="x")
    group = Group(("p", 1), event(), ("A", "B"), 30)
    assert sends(bench.hear("p", group), Group)
    assert sends(bench.hear("q", group)) == []
    assert sends(bench.hear("q", Group(("p", 1), event(), ("B", "A"), 12))) == []
    assert sends(bench.hear("p", Group(("p", 2), event(), ("A", "B"), 0))) == []
    assert bench.node.context.counts["refused.group"] == 3


def test_a_group_that_is_not_acknowledged_is_sent_one_by_one():
    bench = routed(A="n1", B="n1", C="n1")
    effects = bench.fail("n1", Group((0, 1), event(), ("A", "B"), 30))
    effects += bench.wait(3)
    assert [message.dst for _, message in sends(effects, RouteRequest)] == ["A", "B"]
    assert bench.node.aodv.next_hop("C") is None


# -- once, and only what was asked for


def test_a_publication_is_notified_once():
    bench = Bench()
    bench.ask(Subscribe(Subscription("s", parse(ANY))))
    packet = Data((4, 1), event(), 4, 0, 30)
    assert len(delivered(bench.hear(3, packet))) == 1
    assert delivered(bench.hear(3, packet)) == []
    assert delivered(bench.hear(3, Group((4, 1), event(), (0, 9), 30))) == []
    assert len(delivered(bench.hear(3, Data((4, 2), event(), 4, 0, 30)))) == 1


def test_what_nobody_asked_for_is_not_notified():
    bench = Bench()
    bench.ask(Subscribe(Subscription("s", parse("a1 > 5"))))
    assert delivered(bench.hear(3, Data((4, 1), event(), 4, 0, 30))) == []
    assert bench.node.context.counts["refused.unwanted"] == 1


def test_all_subscriptions_that_match_are_named_in_one_notification():
    world = line(3)
    for id, text in (("a", "a1 > 1"), ("b", "a1 > 2"), ("c", "a1 > 5")):
        world.subscribe(2, text, id)
    world.run()
    world.publish(0, "e", 4)
    cost = world.cost()
    assert world.who_got("e") == [2]
    assert cost["data.single"] == 2


def test_a_publisher_that_subscribes_is_notified_by_itself():
    world = line(3)
    world.subscribe(0)
    world.run()
    cost = world.cost(world.publish, 0, "e")
    assert world.who_got("e") == [0]
    assert cost["aodv.rreq"] == cost["data.single"] == 0
    assert world.deliveries[0][0] == pytest.approx(world.simulation.now, abs=2.0)


def test_a_type_is_part_of_the_filter():
    bench = Bench()
    bench.ask(Subscribe(Subscription("s", parse("a1 > 0"), type="Fire")))
    assert delivered(bench.hear(3, Data((4, 1), event(), 4, 0, 30))) == []
    fire = Event("f", "Fire", attributes={"a1": 3})
    assert len(delivered(bench.hear(3, Data((4, 2), fire, 4, 0, 30)))) == 1


# -- pacing


def hand_overs(bench, seconds=10.0):
    times, end = [], bench.now + seconds
    while bench.timers and min(bench.timers.values()) <= end:
        effects = bench.wait(min(bench.timers.values()) - bench.now)
        times += [round(bench.now, 3) for kind in (Group, Data, RouteRequest) for _ in sends(effects, kind)]
    return times


def test_every_copy_takes_a_slot():
    bench = routed(A="n1", B="n2", C="n3")
    publish(bench, "A", "B", "C", "D")
    assert hand_overs(bench) == [0.45, 1.45, 2.45, 3.45]
    publish(bench, "A", id="later")
    bench.now += 10
    assert len(hand_overs(bench)) == 1


def test_slots_are_kept_over_publications():
    bench = routed(A="n1", B="n2")
    publish(bench, "A", "B")
    bench.wait(0.2)
    publish(bench, "A", "B", id="f")
    assert hand_overs(bench) == [0.45, 1.45, 2.45, 3.45]


def test_only_what_asks_for_a_route_takes_a_slot():
    bench = routed(SensorSettings(pace_mode="rreq"), A="n1", B="n2")
    publish(bench, "A", "B", "C", "D")
    assert hand_overs(bench) == [0.45, 0.45, 0.45, 1.45]


def test_the_pace_can_be_set():
    bench = routed(SensorSettings(pace_seconds=0.25), A="n1", B="n2")
    publish(bench, "A", "B", "C")
    assert hand_overs(bench) == [0.45, 0.7, 0.95]


def test_adaptive_pacing_follows_the_answers():
    bench = routed(SensorSettings(pace_mode="adaptive"), A="n1")
    publish(bench, "A", "B", "C", "D")
    first = bench.wait(0.45)
    assert data(first) == [("n1", "A")]
    assert [message.dst for _, message in sends(first, RouteRequest)] == ["B"]
    bench.wait(0.03)
    assert data(bench.hear("n2", RouteReply("B", 4, 0, 2, 1e9))) == [("n2", "B")]
    assert [message.dst for _, message in sends(bench.wait(0.021), RouteRequest)] == ["C"]
    bench.hear("n2", RouteReply("D", 4, 0, 2, 1e9))
    assert sends(bench.wait(0.9)) == []
    assert data(bench.wait(0.2)) == [("n2", "D")]  # a slot after the request for C, which nobody answers


def test_what_waits_for_a_slot_is_bounded():
    for mode in ("all", "adaptive"):
        bench = Bench(SensorSettings(max_handovers=5, pace_mode=mode))
        publish(bench, *(f"n{number}" for number in range(50)))
        bench.wait(0.5)
        assert len(bench.node.delivery.queue) == 5
        assert bench.node.context.counts["dropped.handover"] == 44


# -- requests and what a node tells


def test_requests_that_make_no_sense_change_nothing():
    bench = Bench(SensorSettings(max_subscriptions=2))
    bench.ask(Subscribe(Subscription("a")))
    before = bench.node.inspect()
    for request in (
        Subscribe(Subscription("a")),
        Subscribe(Subscription("")),
        Unsubscribe("b"),
        Publish(Event("")),
        BecomePublisher("t"),
    ):
        with pytest.raises(RecadoError):
            bench.ask(request)
    assert bench.node.inspect() == before
    bench.ask(Subscribe(Subscription("b")))
    with pytest.raises(SensorError, match="max_subscriptions"):
        bench.ask(Subscribe(Subscription("c")))


def test_a_node_needs_a_name():
    with pytest.raises(SensorError, match="no name"):
        SensorNode(("a", 1))


def test_a_node_tells_its_tables_as_plain_data():
    world = line(4)
    world.subscribe(3)
    world.run()
    world.publish(0, "e")
    world.run(0.05)
    told = world.state(0)
    assert json.loads(json.dumps(told)) == told
    assert [one["items"] for one in told["queries"]] == [[[3, 1]]]
    world.run()
    assert world.state(3)["data_zone"][0]["own"]
    assert [route["dst"] for route in world.state(0)["routes"] if route["state"] == "up"] == [3]
    assert describe_role(world.state(3)) == ["subscribed: s3", "keeps 0 subscriptions of others"]
    assert describe_role(world.state(0)) == ["keeps 1 subscription of others"]


def test_no_node_holds_everything():
    places = {n: (n % 10 * 150.0, n // 10 * 150.0) for n in range(100)}
    world = World(places)
    for node in range(0, 100, 5):
        world.subscribe(node)
        world.run()
    kept = [len(world.machine(node).cache.zone) for node in places]
    assert max(kept) < 20
    assert sum(kept) / len(kept) < 0.25 * 20
