"""AODV: discovery, what is kept meanwhile, links that fail, routes that expire; in the way of ns-2 and of the RFC."""

import math

import pytest

from protocols.sensors.world import ANY, Bench, World, event, line, sends
from recado.protocols.sensors import SensorSettings
from recado.protocols.sensors.messages import Data, Hello, RouteError, RouteReply, RouteRequest


def packet(dst=9, src=0, ttl=30, id="e"):
    return Data((src, 1), event(id), src, dst, ttl)


def asking(bench, dst=9):
    """Give the node a packet for a node that it knows no route to."""
    bench.node.context.now, bench.node.context.rng = bench.now, bench.rng
    bench.node.context.out = out = []
    bench.node.aodv.send(packet(dst))
    for effect in out:
        if type(effect).__name__ == "SetTimer":
            bench.timers[effect.timer] = bench.now + effect.after_seconds
    return out


def request(id=1, src=5, dst=9, hop_count=1, ttl=30, src_seq=4, dst_seq=0, **rest):
    return RouteRequest((src, id), src_seq, dst, dst_seq, hop_count, ttl, **rest)


def reply(dst=9, seq=4, orig=0, hop_count=1, lifetime=math.inf):
    return RouteReply(dst, seq, orig, hop_count, lifetime)


def request_times(bench, seconds):
    times, end = [], bench.now + seconds
    while bench.timers and min(bench.timers.values()) <= end:
        before = bench.now
        effects = bench.wait(min(bench.timers.values()) - bench.now)
        assert bench.now >= before
        times += [(round(bench.now, 6), message.ttl) for _, message in sends(effects, RouteRequest)]
    bench.now = end
    return times


# -- discovery


def test_ns2_asks_the_whole_network_at_once():
    bench = Bench()
    ((to, message),) = sends(asking(bench))
    assert to is None
    assert message == RouteRequest((0, 1), 4, 9, 0, 1, 30)
    assert bench.timers == {}  # and does not repeat it, as in the paper


def test_a_second_packet_waits_for_the_first_request():
    bench = Bench()
    asking(bench)
    assert sends(asking(bench)) == []
    assert len(bench.node.aodv.buffer) == 2
    bench.now = 1.9
    assert len(sends(asking(bench), RouteRequest)) == 1


def test_requests_are_repeated_at_the_times_of_ns2_and_given_up():
    bench = Bench(SensorSettings(rreq_retry="on"))
    asking(bench)
    times = request_times(bench, 40.0)
    assert [ttl for _, ttl in times] == [30, 30, 30]
    for (time, _), exact, late in zip(times, (1.8, 5.4, 10.8), (0.5, 1.0, 1.5), strict=True):
        assert exact <= time <= exact + late
    assert bench.node.aodv.buffer == []
    assert bench.node.context.counts["dropped.unreachable"] == 1
    assert bench.node.aodv.routes[9].wait_until > 18  # backs off


def test_rfc_uses_rings_and_doubles_its_patience():
    bench = Bench(SensorSettings(aodv="rfc3561"))
    first = sends(asking(bench), RouteRequest)
    assert first[0][1] == RouteRequest((0, 1), 3, 9, 0, 0, 1, unknown=True)
    times = request_times(bench, 60.0)
    assert [ttl for _, ttl in times] == [3, 5, 7, 35, 35, 35]
    waits = [0.24, 0.4, 0.56, 0.72, 2.8, 5.6]
    assert [time for time, _ in times] == [pytest.approx(sum(waits[: n + 1])) for n in range(6)]


def test_a_reply_flushes_what_waited():
    bench = Bench()
    asking(bench)
    effects = bench.hear(3, reply(hop_count=4))
    assert sends(effects) == [(3, packet())]
    route = bench.node.aodv.routes[9]
    assert (route.next_hop, route.hops, route.seq, route.state) == (3, 4, 4, "up")
    assert sends(asking(bench)) == [(3, packet())]


def test_an_older_or_longer_reply_is_suppressed():
    bench = Bench()
    bench.hear(5, request(src=5))
    bench.hear(3, reply(orig=5, hop_count=2))
    assert sends(bench.hear(4, reply(orig=5, hop_count=2))) == []
    assert sends(bench.hear(4, reply(orig=5, seq=2, hop_count=1))) == []
    assert bench.node.aodv.routes[9].next_hop == 3
    assert sends(bench.hear(4, reply(orig=5, hop_count=1))) == [(5, reply(orig=5, hop_count=2))]
    assert bench.node.aodv.routes[9].next_hop == 4
    assert sends(bench.hear(6, reply(orig=5, seq=6, hop_count=9)))[0][1].hop_count == 10


def test_a_request_leaves_a_route_back_and_is_relayed_once():
    bench = Bench()
    assert sends(bench.hear(3, request(hop_count=2, ttl=5))) == []
    ((to, relayed),) = sends(bench.wait(0.01))
    assert (to, relayed.hop_count, relayed.ttl) == (None, 3, 4)
    assert bench.hear(4, request(hop_count=1, ttl=6)) == []
    route = bench.node.aodv.routes[5]
    assert (route.next_hop, route.hops, route.seq) == (3, 2, 4)
    assert 9 not in bench.node.aodv.routes


def test_a_newer_or_shorter_request_changes_the_route_back():
    bench = Bench()
    bench.hear(3, request(1, hop_count=3))
    bench.hear(4, request(2, hop_count=5))
    assert bench.node.aodv.routes[5].next_hop == 3
    bench.hear(4, request(3, hop_count=2))
    assert bench.node.aodv.routes[5].next_hop == 4
    bench.hear(6, request(4, hop_count=9, src_seq=6))
    assert (bench.node.aodv.routes[5].next_hop, bench.node.aodv.routes[5].hops) == (6, 9)


def test_the_route_back_serves_packets_that_waited_for_the_source():
    bench = Bench()
    asking(bench, 5)
    assert sends(bench.hear(3, request(src=5))) == [(3, packet(5))]


def test_a_request_ends_with_its_ttl():
    bench = Bench()
    bench.hear(3, request(ttl=1))
    assert sends(bench.wait(1)) == []


def test_the_destination_answers_with_an_even_number():
    bench = Bench()
    ((to, answer),) = sends(bench.hear(3, request(dst=0, dst_seq=7)))
    assert (to, answer) == (3, RouteReply(0, 8, 5, 1, math.inf))
    assert sends(bench.hear(3, request(2, dst=0)))[0][1].dst_seq == 10
    assert sends(bench.wait(1)) == []


def test_the_destination_answers_in_the_way_of_the_rfc():
    bench = Bench(SensorSettings(aodv="rfc3561"))
    ((to, answer),) = sends(bench.hear(3, request(dst=0, dst_seq=7, hop_count=1)))
    assert (to, answer) == (3, RouteReply(0, 7, 5, 0, math.inf))
    assert bench.node.aodv.routes[5].hops == 2
    assert bench.node.aodv.routes[3].hops == 1  # the neighbour is known too


def test_ns2_learns_no_route_to_the_previous_hop():
    bench = Bench()
    bench.hear(3, request(hop_count=2))
    assert list(bench.node.aodv.routes) == [5]


def test_who_knows_a_route_that_is_new_enough_answers_and_does_not_relay():
    bench = Bench()
    bench.hear(5, request(1))
    bench.wait(0.01)
    bench.hear(3, reply(orig=5, seq=6, hop_count=4))
    ((to, answer),) = sends(bench.hear(7, request(1, src=8, dst_seq=6)))
    assert (to, answer) == (7, RouteReply(9, 6, 8, 5, math.inf))
    assert sends(bench.wait(0.01)) == []
    assert sends(bench.hear(7, request(2, src=8, dst_seq=7))) == []
    ((_, relayed),) = sends(bench.wait(1))
    assert relayed.dst_seq == 7
    assert list(bench.node.aodv.routes[9].precursors) == [5, 7]


def test_a_relay_tells_the_newest_number_that_it_knows():
    bench = Bench()
    bench.hear(5, request(1))
    bench.hear(3, reply(orig=5, seq=6))
    bench.fail(3, packet(src=5))
    bench.hear(7, request(2, dst_seq=2))
    assert [m.dst_seq for _, m in sends(bench.wait(1), RouteRequest) if m.id == (5, 2)] == [7]


def test_with_the_d_flag_only_the_destination_answers():
    bench = Bench(SensorSettings(aodv="rfc3561"))
    bench.hear(5, request(1))
    bench.hear(3, reply(orig=5, seq=6))
    assert sends(bench.hear(7, request(2, destination_only=True)), RouteReply) == []
    wants = Bench(SensorSettings(aodv="rfc3561", destination_only=True))
    assert sends(asking(wants))[0][1].destination_only


def test_an_own_request_that_comes_back_is_ignored():
    bench = Bench()
    asking(bench)
    assert sends(bench.hear(3, RouteRequest((0, 1), 4, 9, 0, 2, 29))) == []
    bench.now = 7.0  # forgotten
    assert sends(bench.hear(3, RouteRequest((0, 1), 4, 9, 0, 2, 29))) == []
    assert 0 not in bench.node.aodv.routes


def test_requests_are_remembered_for_six_seconds_and_not_without_limit():
    bench = Bench(SensorSettings(max_seen=50, sender_per_second=0))
    bench.hear(3, request(1))
    bench.wait(5.9)
    assert bench.hear(4, request(1)) == []
    bench.wait(0.2)
    assert bench.hear(4, request(1)) != []
    for number in range(500):
        bench.hear(3, request(number + 10))
    assert len(bench.node.aodv.seen) <= 50
    assert len(bench.node.aodv._relays) <= 50


def test_the_rfc_limits_requests_by_the_second():
    bench = Bench(SensorSettings(aodv="rfc3561"))
    for dst in range(20, 40):
        asking(bench, dst)
    assert bench.node.aodv._bid == 10
    bench.wait(1.1)
    assert bench.node.aodv._bid >= 20


# -- packets


def test_the_buffer_is_bounded_in_number_and_time():
    bench = Bench()
    for _ in range(70):
        asking(bench)
    assert len(bench.node.aodv.buffer) == 64
    assert bench.node.context.counts["dropped.buffer"] == 6
    bench.wait(31)
    assert sends(bench.hear(3, reply()), Data) == []
    assert bench.node.context.counts["dropped.old"] == 64


def test_a_relay_without_a_route_drops_the_packet_and_says_so():
    bench = Bench()
    assert sends(bench.hear(3, packet(src=5))) == [(None, RouteError(((9, 0),)))]
    assert bench.node.context.counts["dropped.no_route"] == 1


def test_a_packet_does_not_travel_for_ever():
    bench = Bench()
    bench.hear(3, reply())
    assert sends(bench.hear(4, packet(src=5, ttl=2))) == [(3, packet(src=5, ttl=1))]
    assert sends(bench.hear(4, packet(src=5, ttl=1))) == []


# -- links that fail


def routed(settings=None):
    """A relay between 5 (over 4) and 9 (over 3)."""
    bench = Bench(settings)
    bench.hear(4, request(src=5))
    bench.wait(0.1)
    bench.hear(3, reply(orig=5, seq=6, hop_count=2))
    return bench


def test_a_failed_hop_takes_its_routes_down_and_tells_those_who_use_them():
    bench = routed()
    assert sends(bench.fail(3, packet(src=5))) == [(None, RouteError(((9, 7),)))]
    route = bench.node.aodv.routes[9]
    assert (route.state, route.hops, route.last_hops, route.seq) == ("down", 255, 2, 7)
    assert bench.node.aodv.routes[5].state == "up"
    assert sends(bench.fail(3, packet(src=5))) == []


def test_a_route_that_went_down_is_looked_for_near_where_it_was():
    bench = routed()
    bench.fail(3, packet(src=5))
    assert sends(asking(bench), RouteRequest)[0][1].ttl == 4


def test_an_error_is_believed_of_the_next_hop_only_and_passed_on():
    bench = routed()
    assert sends(bench.hear(8, RouteError(((9, 7),)))) == []
    assert bench.node.aodv.routes[9].state == "up"
    assert sends(bench.hear(3, RouteError(((9, 5),)))) == []
    assert bench.node.aodv.routes[9].state == "up"
    assert sends(bench.hear(3, RouteError(((9, 7), (77, 1))))) == [(None, RouteError(((9, 7),)))]
    assert bench.node.aodv.routes[9].state == "down"
    assert sends(bench.hear(3, RouteError(((9, 7),)))) == []


def test_without_repair_the_packet_is_lost():
    bench = Bench()
    bench.hear(3, reply())
    assert sends(bench.fail(3, packet())) == []
    assert bench.node.aodv.buffer == []
    assert bench.node.context.counts["dropped.link"] == 1


def test_the_source_looks_for_another_route():
    bench = Bench(SensorSettings(repair="source"))
    bench.hear(3, reply())
    ((_, asked),) = sends(bench.fail(3, packet()))
    assert (asked.dst, asked.dst_seq) == (9, 5)
    assert sends(bench.hear(4, reply(seq=6))) == [(4, packet())]


def test_a_relay_that_is_near_mends_the_route():
    bench = Bench(SensorSettings(repair="local"))
    bench.hear(4, request(src=5, hop_count=6))
    bench.wait(0.1)
    bench.hear(3, reply(orig=5, seq=6, hop_count=2))
    effects = bench.fail(3, packet(src=5))
    assert sends(effects, RouteError) == []
    assert sends(effects, RouteRequest)
    assert sends(bench.hear(4, packet(src=5, id="second"))) == []
    mended = sends(bench.hear(8, reply(orig=0, seq=8)), Data)
    assert [to for to, _ in mended] == [8, 8]


def test_a_repair_that_fails_is_told():
    bench = Bench(SensorSettings(repair="local"))
    bench.hear(4, request(src=5, hop_count=6))
    bench.wait(0.1)
    bench.hear(3, reply(orig=5, seq=6, hop_count=2))
    bench.fail(3, packet(src=5))
    assert sends(bench.wait(0.2), RouteError) == [(None, RouteError(((9, 7),)))]
    assert bench.node.aodv.buffer == []
    assert bench.node.aodv.routes[9].state == "down"


def test_a_relay_that_is_far_does_not_mend():
    bench = routed(SensorSettings(repair="local"))
    assert sends(bench.fail(3, packet(src=5)), RouteError)


@pytest.mark.parametrize("case", [("ns2", "up"), ("rfc3561", "down")])
def test_a_reply_that_is_not_acknowledged(case):
    aodv, state = case
    bench = routed(SensorSettings(aodv=aodv))
    bench.fail(3, reply(orig=5))
    assert bench.node.aodv.routes[9].state == state


# -- routes that expire


def test_no_route_is_too_old_by_default():
    bench = Bench()
    bench.hear(3, reply(lifetime=10.0))
    bench.wait(100_000)
    assert sends(asking(bench)) == [(3, packet())]


def test_routes_expire_and_use_prolongs_them():
    bench = Bench(SensorSettings(route_expiry=True))
    bench.hear(3, reply(lifetime=10.0))
    for _ in range(3):
        bench.wait(9)
        assert sends(asking(bench)) == [(3, packet())]
    bench.wait(10.1)
    assert sends(asking(bench), RouteRequest)


def test_replies_tell_how_long_a_route_lasts():
    bench = Bench(SensorSettings(route_expiry=True))
    assert sends(bench.hear(3, request(dst=0)))[0][1].lifetime == 10.0
    bench.hear(3, reply(orig=5, lifetime=10.0))
    bench.wait(4)
    assert sends(bench.hear(4, request(2, src=6)))[0][1].lifetime == pytest.approx(6.0)


def test_a_route_back_expires_too():
    bench = Bench(SensorSettings(route_expiry=True))
    bench.hear(3, request())
    bench.wait(6.1)
    assert bench.node.aodv.next_hop(5) is None


def test_the_rfc_forgets_a_route_that_was_down_for_long():
    bench = routed(SensorSettings(aodv="rfc3561"))
    bench.fail(3, packet(src=5))
    bench.wait(15.1)
    assert sends(asking(bench), RouteRequest)[0][1].unknown


def test_hellos_are_sent_while_there_are_routes_and_silence_takes_them_down():
    bench = Bench(SensorSettings(aodv="rfc3561", route_expiry=True, active_route_seconds=100.0))
    bench.hear(3, reply(lifetime=100.0))
    assert len(sends(bench.wait(2.1), Hello)) == 2
    for _ in range(5):
        bench.hear(3, Hello(1))
        bench.wait(1)
    assert bench.node.aodv.next_hop(9) == 3
    bench.wait(4)
    assert bench.node.aodv.next_hop(9) is None
    assert sends(bench.wait(100), Hello) == []
    assert bench.timers == {}


def test_there_are_no_hellos_where_routes_do_not_expire():
    bench = Bench(SensorSettings(aodv="rfc3561"))
    bench.hear(3, reply())
    assert sends(bench.wait(100)) == []


# -- in a network


def test_the_table_is_bounded():
    bench = Bench(SensorSettings(max_routes=20, sender_per_second=0))
    for src in range(10, 200):
        bench.hear(3, request(src=src))
    assert len(bench.node.aodv.routes) <= 20


def test_a_node_that_starts_again_is_newer_than_before():
    first, again = Bench(), Bench(saved={"boots": 1})
    assert first.done[0].value == 1
    assert again.done[0].value == 2
    assert again.node.aodv.seq > first.node.aodv.seq + 1000
    assert sends(asking(again))[0][1].id > sends(asking(first))[0][1].id


def test_a_way_around_a_dead_node_is_found():
    places = {0: (0, 0), 1: (200, 0), 2: (400, 0), 3: (200, 140)}
    world = World(places, SensorSettings(repair="source"))
    world.subscribe(2, ANY)
    world.run()
    world.publish(0, "first")
    world.run()
    over = world.machine(0).aodv.next_hop(2)
    world.simulation.crash(over)
    world.publish(0, "second")
    world.run()
    assert world.who_got("second") == [2]
    assert world.machine(0).aodv.next_hop(2) == 4 - over


def test_hops_are_those_of_the_graph():
    world = line(7)
    world.subscribe(6, ANY)
    world.run()
    world.publish(0, "e")
    world.run()
    assert [world.machine(node).aodv.routes[6].hops for node in range(6)] == [6, 5, 4, 3, 2, 1]
    assert [world.machine(node).aodv.routes[0].hops for node in range(1, 7)] == [1, 2, 3, 4, 5, 6]
