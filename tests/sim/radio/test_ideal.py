"""The ideal radio: golden values of the signal, who hears whom against a plain search, and the statistics of areas."""

import math
from statistics import fmean

import pytest

from recado.protocols.machine import Received, Send, SendFailed
from recado.sim.faults import Loss
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.radio import (
    CROSSOVER_METRES,
    RANGE_METRES,
    WAVELENGTH_METRES,
    IdealRadio,
    dbm,
    received_watts,
    scatter,
)
from sim.machines import Beacon, Recorder


def test_golden_values_of_two_ray_ground():
    assert pytest.approx(0.328227, rel=1e-5) == WAVELENGTH_METRES
    assert pytest.approx(86.14, abs=0.005) == CROSSOVER_METRES
    assert received_watts(250) == pytest.approx(3.6526e-10, rel=1e-4)
    assert dbm(received_watts(250)) == pytest.approx(-64.37, abs=0.01)
    assert received_watts(550) == pytest.approx(1.559e-11, rel=1e-3)
    assert dbm(0.001) == 0.0


def test_the_signal_falls_with_distance_and_has_no_step_at_the_crossover():
    strengths = [received_watts(metres) for metres in range(1, 600)]
    assert strengths == sorted(strengths, reverse=True)
    assert received_watts(10) / received_watts(20) == pytest.approx(4)
    assert received_watts(100) / received_watts(200) == pytest.approx(16)
    below, above = received_watts(CROSSOVER_METRES * 0.999999), received_watts(CROSSOVER_METRES)
    assert below == pytest.approx(above, rel=1e-4)
    assert received_watts(0) == received_watts(0.001) < math.inf


@pytest.mark.parametrize("seed", range(10))
def test_hearers_are_those_in_range(seed):
    places = scatter(range(80), 1300.0, stream(seed, "places"))
    radio = IdealRadio(places, stream(seed, "radio"))
    mover = stream(seed, "moves")
    for _ in range(5):
        for node in radio.places:
            near = {
                other: dbm(received_watts(math.dist(radio.places[node], radio.places[other])))
                for other in radio.places
                if other != node and math.dist(radio.places[node], radio.places[other]) <= RANGE_METRES
            }
            assert radio.hearers(node) == near
        radio.move(mover.randrange(80), (mover.uniform(-500, 1300), mover.uniform(-500, 1300)))


@pytest.mark.parametrize(("side", "degree"), [(500, 48.0), (1000, 15.6), (1500, 7.5), (2000, 4.4)])
def test_mean_degrees_of_the_areas(side, degree):
    degrees = []
    for seed in range(60):
        radio = IdealRadio(scatter(range(100), side, stream(seed, side)), stream(seed))
        degrees += [len(radio.hearers(node)) for node in range(100)]
    assert fmean(degrees) == pytest.approx(degree, rel=0.03)


def on_a_line(make, count=8, apart=200.0, around=lambda radio: radio):
    radio = IdealRadio({node: (node * apart, 0.0) for node in range(count)}, stream(1, "radio"))
    simulation = Simulation(around(radio), size_of=len)
    machines = {node: make(node) for node in range(count)}
    for node, machine in machines.items():
        simulation.add(node, machine)
    return simulation, machines


def test_a_broadcast_reaches_the_neighbours_with_its_strength():
    simulation, machines = on_a_line(Beacon)
    simulation.run()
    signal = dbm(received_watts(200))
    assert machines[0].heard == {1: signal}
    assert machines[3].heard == {2: signal, 4: signal}
    assert 0.001 <= simulation.last_arrival <= 0.0011
    hello = simulation.sent[str]
    assert (hello.count, hello.bytes, hello.arrived, hello.arrived_bytes) == (8, 40, 14, 70)
    assert (simulation.nodes[0].up_messages, simulation.nodes[3].down_bytes) == (1, 10)


def test_the_dead_hear_nothing_and_nobody_is_told():
    simulation, machines = on_a_line(lambda node: Beacon(node, at_start=node == 1))
    simulation.crash(0)
    simulation.run()
    assert (machines[0].heard, list(machines[2].heard)) == ({}, [1])
    assert simulation.sent[str].arrived == 1


def test_unicast_takes_longer_and_the_sender_learns_that_nobody_is_there():
    simulation, machines = on_a_line(Recorder)
    simulation.ask(0, [Send(1, "near"), Send(2, "far")], at=1.0)
    simulation.at(1.5, lambda: simulation.crash(1))
    simulation.ask(0, [Send(1, "dead")], at=2.0)
    simulation.run()
    ((time, heard),) = machines[1].of(Received)
    assert heard == Received(0, "near")
    assert 1.002 <= time <= 1.0031
    assert [what for _, what in machines[0].of(SendFailed)] == [SendFailed(2, "far"), SendFailed(1, "dead")]


def test_faults_go_around_a_radio():
    simulation, machines = on_a_line(Beacon, around=lambda radio: Loss(radio, 1.0, stream(1)))
    simulation.run()
    assert not any(machine.heard for machine in machines.values())


def test_a_node_needs_a_place():
    radio = IdealRadio({}, stream(1))
    with pytest.raises(SimulationError, match="'a' is nowhere; give it a place"):
        radio.hearers("a")
    radio.move("a", (0, 0))
    assert radio.hearers("a") == {}


def test_a_place_may_be_known_before_its_node_comes():
    simulation = Simulation(IdealRadio({"a": (0, 0), "b": (9, 0), "c": (0, 9)}, stream(1)))
    simulation.add("a", Beacon("a"))
    simulation.add("b", Beacon("b", at_start=False))
    simulation.run()
    assert simulation.nodes["b"].machine.inspect() == {"heard": ["a"]}
    simulation.add("c", Beacon("c", at_start=False))
    simulation.ask("a", ())
    simulation.run()
    assert simulation.nodes["c"].machine.inspect() == {"heard": ["a"]}


class LateRadio(IdealRadio):
    def audience(self, sender, size_bytes, now):
        return [(node, now - 1.0, signal) for node, signal in self.hearers(sender).items()]


def test_nothing_is_heard_before_it_is_said():
    simulation = Simulation(LateRadio({"a": (0, 0), "b": (9, 0)}, stream(1)))
    simulation.add("a", Beacon("a"))
    simulation.add("b", Beacon("b"))
    with pytest.raises(SimulationError, match=r"the network lets 'hello' from 'a' arrive at 'b' at -1\.0; it is 0\.0"):
        simulation.run()
