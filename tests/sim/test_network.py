"""Latency, order and bandwidth."""

import pytest

from recado.protocols.machine import Send
from recado.sim.draws import constant, uniform
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.network import Bandwidth, Euclidean, Links, Mesh, NetworkWrapper, UnitDelay
from sim.machines import Recorder


def arrivals(network, messages, size=0):
    """Arrival times of messages ``(time, sender, receiver)``."""
    return [network.arrivals(sender, receiver, size, time)[0] for time, sender, receiver in messages]


def test_unit_delay():
    assert arrivals(UnitDelay(), [(0.0, 1, 2), (0.5, 2, 1)]) == [1.0, 1.5]


def test_no_message_overtakes_another_on_its_link():
    network = Links(uniform(0, 10, stream(1, "delay")))
    times = {}
    for number in range(300):
        sender, receiver = number % 3, (number % 5) + 10
        (time,) = network.arrivals(sender, receiver, 0, number / 10)
        assert number / 10 <= time
        times.setdefault((sender, receiver), []).append(time)
    assert len(times) == 15
    assert all(link == sorted(link) for link in times.values())
    everything = [time for link in times.values() for time in link]
    assert everything != sorted(everything)


def test_links_wait_for_no_other_link():
    delays = iter([5.0, 1.0, 1.0, 1.0])
    network = Links(lambda: next(delays))
    assert arrivals(network, [(0.0, 1, 2), (0.0, 1, 3), (0.0, 2, 1), (0.0, 1, 2)]) == [5.0, 1.0, 1.0, 5.0]


def test_in_a_mesh_messages_overtake():
    delays = iter([5.0, 1.0])
    network = Mesh(lambda: next(delays))
    assert arrivals(network, [(0.0, 1, 2), (0.0, 1, 2)]) == [5.0, 1.0]
    assert network.tells_failure
    assert not Links(constant(1)).tells_failure


def test_distance_costs_time():
    network = Euclidean({1: (0, 0), 2: (30, 40)})
    assert arrivals(network, [(1.0, 1, 2), (1.0, 1, 1)]) == pytest.approx([1.03, 1.005])
    assert Euclidean({}).tells_failure
    assert not Euclidean({}, tells_failure=False).tells_failure
    with pytest.raises(SimulationError, match="node 'a' is nowhere; give it a place"):
        network.arrivals(1, "a", 0, 1.0)


def test_a_line_carries_one_message_after_another():
    network = Bandwidth(Mesh(constant(1.0)), 100)
    assert network.tells_failure
    assert arrivals(network, [(0.0, 1, 2), (0.0, 1, 3), (0.0, 2, 1), (9.0, 1, 2)], 50) == [1.5, 2.0, 1.5, 10.5]


def test_or_one_for_each_link():
    network = Bandwidth(Links(constant(1.0)), 100, each_link=True)
    assert arrivals(network, [(0.0, 1, 2), (0.0, 1, 3), (0.0, 1, 2)], 50) == [1.5, 1.5, 2.0]


def test_a_line_never_exceeds_its_rate():
    network = Bandwidth(Links(constant(0.0)), 1000)
    rng = stream(2, "sizes")
    sizes = [rng.randrange(1, 200) for _ in range(200)]
    times = [network.arrivals("a", "b", size, number / 20)[0] for number, size in enumerate(sizes)]
    for first in range(0, 200, 7):
        for last in range(first + 1, 200, 13):
            assert sum(sizes[first + 1 : last + 1]) <= 1000 * (times[last] - times[first]) + 1e-6


def test_a_line_without_rate_is_refused():
    with pytest.raises(SimulationError, match="more than 0 bytes a second"):
        Bandwidth(UnitDelay(), 0)


def test_sizes_come_from_the_simulation():
    simulation = Simulation(Bandwidth(Links(constant(1.0)), 10), size_of=len)
    machine = Recorder()
    simulation.add("a", Recorder())
    simulation.add("b", machine)
    simulation.ask("a", [Send("b", "x" * 20), Send("b", "y" * 10)])
    simulation.run()
    assert [time for time, _ in machine.messages()] == [3.0, 4.0]


def test_a_model_around_another_changes_nothing_by_itself():
    class Air(UnitDelay):
        def audience(self, sender, size_bytes, now):
            return [(2, now + size_bytes, -50.0)]

    assert NetworkWrapper(Air()).arrivals(1, 2, 0, 3.0) == (4.0,)
    assert NetworkWrapper(Air()).audience(1, 7, 3.0) == [(2, 10.0, -50.0)]
    assert Bandwidth(Air(), 7).audience(1, 7, 3.0) == [(2, 11.0, -50.0)]
