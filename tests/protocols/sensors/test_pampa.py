"""PAMPA: how long a message is held, who relays, and what is remembered."""

import pytest

from protocols.sensors.world import ANY, Bench, World, event, line, sends
from recado.protocols.sensors import SensorSettings
from recado.protocols.sensors.messages import Flood
from recado.sim.radio import dbm, received_watts

FLOODING = SensorSettings(system="publication-flooding")


def hold(metres, **options):
    bench = Bench(SensorSettings(**options))
    bench.node.context.rng = bench.rng
    return bench.node.pampa.hold_seconds(dbm(received_watts(metres)))


@pytest.mark.parametrize("case", [(250, 1.1), (200, 2.7), (150, 8.5), (100, 43)])
def test_linear_holds_are_those_of_the_specification(case):
    metres, milliseconds = case
    assert hold(metres) * 1000 == pytest.approx(milliseconds, rel=0.03)


def test_linear_holds_are_bounded_near_the_transmitter():
    assert all(0.1 < hold(metres) <= 0.102 for metres in (75, 40, 1, 0))


def test_db_holds_grow_with_the_strength():
    assert 0 <= hold(250, pampa="sparse") <= 0.0021
    assert 0.072 <= hold(25, pampa="sparse") <= 0.076
    assert 0.1 <= hold(5, pampa="sparse") <= 0.102
    assert 0 <= hold(400, pampa="sparse") <= 0.002
    holds = [hold(metres, pampa="sparse", jitter_seconds=0.0) for metres in (240, 200, 150, 100, 50, 20)]
    assert holds == sorted(holds)


def test_without_a_signal_strength_a_message_is_held_as_at_the_edge():
    bench = Bench()
    bench.node.context.rng = bench.rng
    assert bench.node.pampa.hold_seconds(None) == pytest.approx(hold(250), rel=0.01)


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_a_node_that_heard_enough_copies_is_silent(copies):
    bench = Bench(FLOODING)
    message = Flood((9, 1), event())
    for sender in range(1, copies + 1):
        bench.hear(sender, message)
    assert len(sends(bench.wait(1), Flood)) == (1 if copies < 3 else 0)


def test_what_is_done_is_not_heard_again():
    bench = Bench(FLOODING)
    message = Flood((9, 1), event())
    bench.hear(1, message)
    assert len(sends(bench.wait(1))) == 1
    for sender in (1, 2, 3):
        assert bench.hear(sender, message) == []
    assert sends(bench.wait(10)) == []


def test_one_copy_disables_relaying():
    bench = Bench(SensorSettings(system="publication-flooding", n_copies=1))
    bench.hear(1, Flood((9, 1), event()))
    assert sends(bench.wait(1)) == []


def test_an_own_broadcast_that_comes_back_is_ignored():
    world = line(3, settings=FLOODING)
    world.subscribe(0, ANY)
    world.publish(0, "e")
    world.run()
    assert world.sent == {"pampa.pub": 3}
    assert world.who_got("e") == [0]


def test_a_bounded_broadcast_ends_after_its_hops():
    world = line(8, settings=SensorSettings(q_ttl=3))
    cost = world.cost(world.publish, 0, "e")
    assert cost == {"pampa.query": 3}


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first():
    bench = Bench(SensorSettings(system="publication-flooding", remembered=10, sender_per_second=0))
    for number in range(100):
        bench.hear(1, Flood((9, number), event()))
        bench.wait(1)
    assert [number for _, number in bench.node.pampa.heard] == list(range(90, 100))
    assert bench.hear(1, Flood((9, 95), event())) == []
    assert bench.hear(1, Flood((9, 3), event())) != []


def test_a_hold_that_was_forgotten_ends_without_harm():
    bench = Bench(SensorSettings(system="publication-flooding", remembered=1))
    bench.hear(1, Flood((9, 1), event()))
    bench.hear(1, Flood((9, 2), event()))
    assert [message.id for _, message in sends(bench.wait(1))] == [(9, 2)]


def test_dense_networks_use_a_smaller_share_of_relays():
    places = {n: (n % 7 * 30.0, n // 7 * 30.0) for n in range(49)}
    world = World(places, FLOODING)
    assert world.cost(world.publish, 24, "e")["pampa.pub"] < 15
    blind = World(places, SensorSettings(system="blind-flooding"))
    assert blind.cost(blind.publish, 24, "e") == {"pampa.pub": 49}
