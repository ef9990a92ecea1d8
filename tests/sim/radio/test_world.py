"""What is around the channels: placements, movement, energy, batteries, duty cycles, and what is counted."""

import math
from itertools import pairwise

import pytest

from recado.protocols.machine import Broadcast, Received, Send, SendFailed
from recado.sim.faults import schedule_node_failures
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.radio import (
    CC2420,
    CC2420_LISTENING,
    Batteries,
    CsmaRadio,
    EnergyMeter,
    IdealRadio,
    RandomWaypoint,
    Sleep,
    clusters,
    connected_scatter,
    draw_batteries,
    grid_places,
    hop_counts,
    line_places,
    radio_topology,
    random_phases,
    scatter,
)
from recado.sim.runs.run import execute_run
from recado.sim.runs.scenario import ScenarioError, parse_scenario
from sim.machines import Recorder

LINE = {0: (0.0, 0.0), 1: (200.0, 0.0), 2: (400.0, 0.0)}


def world(radio, size=58):
    simulation = Simulation(radio, size_of=lambda message: size)
    machines = {node: Recorder(node) for node in radio.places}
    for node, machine in machines.items():
        simulation.add(node, machine)
    simulation.run()
    return simulation, machines


# -- placements


@pytest.mark.parametrize("seed", range(5))
def test_connectivity_and_hops_are_those_that_networkx_finds(seed):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed: pip install networkx")
    places = scatter(range(60), 1100.0, stream(seed, "places"))
    graph = networkx.Graph()
    graph.add_nodes_from(places)
    graph.add_edges_from((a, b) for a in places for b in places if a < b and math.dist(places[a], places[b]) <= 250.0)
    assert hop_counts(places) == {node: dict(far) for node, far in networkx.all_pairs_shortest_path_length(graph)}
    assert radio_topology(places).connected == networkx.is_connected(graph)


def test_placements():
    assert radio_topology(connected_scatter(range(100), 1500.0, stream(3, "places"))).connected
    with pytest.raises(SimulationError, match="were all in pieces; take more nodes"):
        connected_scatter(range(3), 50_000.0, stream(1))
    assert line_places("abc", 10.0) == {"a": (0.0, 0.0), "b": (10.0, 0.0), "c": (20.0, 0.0)}
    grid = grid_places(range(9), 100.0)
    assert (grid[0], grid[1], grid[8]) == ((0.0, 0.0), (50.0, 0.0), (100.0, 100.0))
    assert grid_places([7], 100.0) == {7: (0.0, 0.0)}
    heaps = clusters(range(200), 2000.0, 4, 50.0, stream(1, "heaps"))
    assert all(0 <= x <= 2000 and 0 <= y <= 2000 for x, y in heaps.values())
    near = [math.dist(heaps[node], heaps[node + 4]) for node in range(196)]
    assert sorted(near)[len(near) // 2] < 150 < math.dist(heaps[0], heaps[1])
    with pytest.raises(SimulationError, match="1 cluster or more"):
        clusters(range(3), 10.0, 0, 1.0, stream(1))


# -- movement


def waypoint(seed, **options):
    places = scatter(range(20), 500.0, stream(seed, "places"))
    rngs = {node: stream(seed, "way", node) for node in places}
    return places, RandomWaypoint(places, 500.0, rngs, **options)


def test_nodes_on_their_way_stay_inside_and_keep_to_their_speed():
    _, moves = waypoint(1, least_speed=1.0, most_speed=3.0, pause_seconds=5.0)
    for node in range(20):
        way = [moves.place(node, float(second)) for second in range(2000)]
        assert all(0 <= x <= 500 and 0 <= y <= 500 for x, y in way)
        steps = [math.dist(a, b) for a, b in pairwise(way)]
        assert max(steps) <= 3.0 + 1e-9
        assert sum(step == 0 for step in steps) > 20  # pauses


def test_a_way_does_not_depend_on_when_it_is_looked_at():
    _, often = waypoint(2)
    _, once = waypoint(2)
    for second in range(900):
        often.place(3, second + 0.5)
    assert often.place(3, 1000.0) == once.place(3, 1000.0)


def test_a_radio_brings_places_up_to_date_before_it_transmits():
    places, moves = waypoint(1, least_speed=1.0, most_speed=1.0)
    for radio in (IdealRadio(places, stream(1)), CsmaRadio(places, stream(1))):
        _, moves = waypoint(1, least_speed=1.0, most_speed=1.0)
        radio.add_process(moves)
        simulation, _ = world(radio)
        simulation.ask(0, [Broadcast("x")], at=100.0)
        simulation.run()
        assert simulation.now < 101
        assert radio.places[5] == moves.place(5, 100.0) != places[5]
        assert radio.hearers(0).keys() == IdealRadio(radio.places, stream(1)).hearers(0).keys()
    with pytest.raises(SimulationError, match="nodes move at 0 < least_speed"):
        waypoint(1, least_speed=0.0)


# -- energy


def test_energy_is_time_multiplied_by_power():
    radio = IdealRadio(LINE, stream(1))
    meter = EnergyMeter(radio)
    simulation, _ = world(radio)
    for second in range(1, 11):
        simulation.ask(1, [Broadcast("x")], at=float(second))
    simulation.ask(0, [Send(1, "y")], at=20.0)
    simulation.run()
    air = 8 * (58 + 17) / 250e3
    sender, hearer = meter.spent(1, 100.0), meter.spent(0, 100.0)
    assert sender.transmit_seconds == pytest.approx(10 * air)
    assert sender.receive_seconds == pytest.approx(air)
    assert (hearer.transmit_seconds, hearer.receive_seconds) == (pytest.approx(air), pytest.approx(10 * air))
    for spent in (sender, hearer):
        seconds = (spent.transmit_seconds, spent.receive_seconds, spent.idle_seconds, spent.sleep_seconds)
        watts = (CC2420.transmit_watts, CC2420.receive_watts, CC2420.idle_watts, CC2420.sleep_watts)
        assert sum(seconds) == pytest.approx(100.0)
        assert spent.joules == pytest.approx(sum(s * w for s, w in zip(seconds, watts, strict=True)))
    assert CC2420.transmit_watts == pytest.approx(0.0522)
    assert CC2420_LISTENING.idle_watts == CC2420.receive_watts == pytest.approx(0.0564)


def test_on_csma_the_time_on_the_air_is_the_channels():
    radio = CsmaRadio(LINE, stream(1))
    meter = EnergyMeter(radio)
    simulation, _ = world(radio)
    simulation.ask(0, [Broadcast("x")])
    simulation.run()
    air = 192e-6 + 8 * (34 + 58) / 1e6
    assert meter.spent(0, 1.0).transmit_seconds == pytest.approx(air)
    assert meter.spent(1, 1.0).receive_seconds == pytest.approx(air)
    assert meter.spent(2, 1.0).receive_seconds == pytest.approx(air)  # 400 m: noticed, not understood


def test_batteries_run_down_and_their_nodes_die_in_order():
    radio = IdealRadio(LINE, stream(1))
    meter = EnergyMeter(radio, CC2420)
    batteries = Batteries(meter, LINE, capacity_joules=0.2, step_seconds=1.0)
    radio.add_process(batteries)
    simulation, machines = world(radio)
    for number in range(2000):
        simulation.ask(0, [Broadcast(number)], at=number / 10)
    simulation.run()
    radio.advance(200.0)
    assert list(batteries.deaths) == [1, 0, 2]  # who hears (which costs most), who speaks, who does neither
    assert batteries.deaths[2] == pytest.approx(0.2 / CC2420.idle_watts, rel=1e-6)
    assert not any(node.alive for node in simulation.nodes.values())
    heard = [now for now, _ in machines[1].of(Received)]
    assert max(heard) <= batteries.deaths[1] + 1.1
    assert meter.joules(0, 1e6) == pytest.approx(0.2, rel=0.02)
    assert batteries.remaining_joules(0, 1e6) == 0.0
    for wrong in (0.0, {0: 1.0}):
        with pytest.raises(SimulationError, match="more than 0 joules"):
            Batteries(meter, LINE, wrong)


def test_batteries_can_differ():
    radio = IdealRadio(LINE, stream(1))
    meter = EnergyMeter(radio, CC2420)
    batteries = Batteries(meter, LINE, {0: 0.3, 1: 0.2, 2: 0.1}, step_seconds=1.0)
    radio.add_process(batteries)
    world(radio)
    for second in range(260):
        radio.advance(float(second))
    assert list(batteries.deaths) == [2, 1, 0]
    assert batteries.deaths[0] == pytest.approx(3 * batteries.deaths[2], rel=1e-6)


def test_drawn_batteries_are_about_their_mean():
    drawn = draw_batteries(range(1_000), 10.0, 0.5, stream(1, "batteries"))
    assert 5.0 <= min(drawn.values()) < 5.2
    assert 14.8 < max(drawn.values()) <= 15.0
    assert set(draw_batteries(range(9), 10.0, 0.0, stream(1)).values()) == {10.0}
    with pytest.raises(SimulationError, match="a share below 1"):
        draw_batteries(range(9), 10.0, 1.0, stream(1))


# -- duty cycles


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_seconds_awake_add_up(share):
    sleep = Sleep(2.0, share, random_phases(range(4), 2.0, stream(1, "phases")))
    for node in range(4):
        samples = [sleep.is_awake(node, step / 1000) for step in range(20_000)]
        assert sleep.awake_until(node, 20.0) == pytest.approx(sum(samples) / 1000, abs=0.02)
        for time in (0.0, 0.3, 1.9, 7.77):
            wakes = sleep.next_awake(node, time)
            assert sleep.is_awake(node, wakes)
            assert time <= wakes < time + 2.0
    with pytest.raises(SimulationError, match="awake for a share of a period"):
        Sleep(1.0, 0.0)


@pytest.mark.parametrize("channel", [IdealRadio, CsmaRadio])
def test_equal_phases_delay_and_other_phases_lose(channel):
    together = Sleep(1.0, 0.2)
    simulation, machines = world(channel(LINE, stream(1), sleep=together))
    simulation.ask(0, [Broadcast("late")], at=10.5)
    simulation.run()
    ((time, _),) = machines[1].of(Received)
    assert 11.0 < time < 11.01
    apart = Sleep(1.0, 0.2, {1: 0.5})
    simulation, machines = world(channel(LINE, stream(1), sleep=apart))
    simulation.ask(0, [Broadcast("lost"), Send(1, "told")], at=10.0)
    simulation.run()
    assert not machines[1].of(Received)
    assert [what for _, what in machines[0].of(SendFailed)] == [SendFailed(1, "told")]


def test_sleep_is_in_the_account():
    sleep = Sleep(1.0, 0.25)
    radio = IdealRadio(LINE, stream(1), sleep=sleep)
    spent = EnergyMeter(radio, CC2420_LISTENING, sleep).spent(0, 100.0)
    assert (spent.idle_seconds, spent.sleep_seconds) == (pytest.approx(25.0), pytest.approx(75.0))


# -- counting, failures, scenario files


@pytest.mark.parametrize("channel", [IdealRadio, CsmaRadio])
def test_transmissions_are_counted_by_class_whether_or_not_they_arrive(channel):
    radio = channel(LINE, stream(1), class_of=lambda message: message.partition(":")[0])
    simulation, _ = world(radio)
    simulation.ask(0, [Broadcast("hello:1"), Send(1, "data:1"), Send(2, "data:too far")])
    simulation.ask(2, [Broadcast("hello:2")])
    simulation.run()
    assert radio.transmissions == {"hello": 2, "data": 2}
    assert radio.sent_bytes == {"hello": 116, "data": 116}


def test_a_radio_belongs_to_one_simulation():
    radio = IdealRadio(LINE, stream(1))
    with pytest.raises(SimulationError, match="is in no simulation"):
        _ = radio.simulation
    Simulation(radio)
    with pytest.raises(SimulationError, match="belongs to one simulation"):
        Simulation(radio)


def test_nodes_fail_and_come_back_unless_they_are_beyond_repair():
    radio = IdealRadio(LINE, stream(1))
    simulation, _ = world(radio)
    options = {"rate": 2.0, "seconds": 30.0, "is_beyond_repair": lambda node: node == 2}
    schedule_node_failures(simulation, list(LINE), Recorder, stream(1, "faults"), **options)
    simulation.run()
    assert [node.alive for node in simulation.nodes.values()] == [True, True, False]
    assert simulation.nodes[0].starts > 1


SCENARIO = """
protocol = "sensor-network"
[topology]
nodes = 25
[network]
kind = "radio"
[radio]
side = 500.0
[workload]
publishers = 3
subscriptions = 6
operations = 10
rate = 0.2
settling = 5.0
"""


def metrics(more=""):
    return execute_run(parse_scenario(SCENARIO + more).runs()[0]).metrics


def test_a_scenario_on_the_ideal_channel_delivers_all_and_counts_by_class():
    found = metrics()
    assert found["deliveries.expected"] == found["deliveries.ok"] > 0
    parts = [count for name, count in found.items() if name.startswith("transmissions.")]
    assert found["transmissions"] == sum(parts) == found["messages"]
    assert found["transmissions.pampa.sub"] >= 6
    assert found == metrics()


def test_a_scenario_with_everything():
    more = """
        [radio.energy]
        measured = true
        battery_joules = 1.5
        battery_spread = 0.2
        idle_watts = 0.0564
        [radio.movement]
        most_speed = 3.0
        [radio.sleep]
        awake = 0.5
        [faults]
        rate = 0.05
        start = 10.0
        duration = 30.0
    """
    found = metrics("[configurations.a]\nradio.channel = 'csma'\n" + more.replace("[", "[configurations.a."))
    assert found["air.broadcast"] > 0
    assert found["energy.deaths"] > 0
    assert found["energy.first_death"] >= 1.2 / 0.0564
    shares = sum(found[f"energy.{state}"] for state in ("transmit", "receive", "idle", "sleep"))
    assert found["energy.total"] == pytest.approx(shares)
    assert found["energy.max"] <= 1.8 * 1.05


@pytest.mark.parametrize("placement", ["uniform", "line", "grid", "clusters"])
def test_scenarios_with_other_placements_run(placement):
    found = metrics(f"[configurations.a]\nradio.placement = '{placement}'\nworkload.operations = 3\n")
    assert found["transmissions"] > 0


def test_a_protocol_for_radio_does_not_run_on_links():
    with pytest.raises(ScenarioError, match=r"needs a radio: write network.kind = .radio. - at `\$.network.kind`"):
        parse_scenario('name = "x"\nprotocol = "sensor-network"\n[network]\nkind = "links"\n')


def test_a_placement_that_cannot_be_connected_is_an_error_with_its_place():
    with pytest.raises(ScenarioError, match=r"were all in pieces.* - at `\$\.radio\.placement`"):
        metrics("[configurations.a]\nradio.side = 90000.0\ntopology.nodes = 3\n")
