"""Workloads against what is known of their distributions."""

from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest

from recado.protocols.machine import Asked
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.network import UnitDelay
from recado.sim.workload import Zipf, poisson, schedule, steady
from sim.machines import Recorder

COUNT = 20_000


def test_zipf_draws_follow_the_ranks():
    zipf = Zipf("abcd", 1.0, stream(1, "zipf"))
    counts = Counter(zipf() for _ in range(COUNT))
    for index, thing in enumerate("abcd"):
        expected = (1 / (index + 1)) / (1 + 1 / 2 + 1 / 3 + 1 / 4)
        assert zipf.probability(index) == pytest.approx(expected)
        assert counts[thing] / COUNT == pytest.approx(expected, abs=0.015)


def test_exponent_0_is_uniform():
    zipf = Zipf(range(5), 0.0, stream(1, "zipf"))
    assert [zipf.probability(index) for index in range(5)] == pytest.approx([0.2] * 5)


def test_ranges_of_the_sensor_network():
    """Ranges [y, y + 3] with y in 1 to 6 by Zipf: how probable it is that a value is inside."""
    zipf = Zipf(range(1, 7), 1.0, stream(1))
    inside = [
        sum(zipf.probability(index) for index, low in enumerate(zipf.things) if low <= value <= low + 3)
        for value in range(1, 10)
    ]
    assert inside == pytest.approx([0.408, 0.612, 0.748, 0.850, 0.524, 0.388, 0.252, 0.150, 0.068], abs=0.0006)


def test_there_must_be_something_to_choose():
    with pytest.raises(SimulationError, match="nothing to choose"):
        Zipf([], 1.0, stream(1))


def test_poisson_times():
    times = list(poisson(2.0, 5000.0, stream(3, "times"), start=100.0))
    assert times == sorted(times)
    assert times[0] > 100
    assert times[-1] < 5100
    assert len(times) == pytest.approx(10_000, rel=0.04)
    gaps = [second - first for first, second in pairwise(times)]
    assert fmean(gaps) == pytest.approx(0.5, rel=0.04)
    assert sum(gap > 0.5 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.02)


def test_steady_times():
    assert list(steady(0.5, 2.0, start=1.0)) == [1.0, 1.5, 2.0, 2.5]
    assert list(steady(1.0, 2.5)) == [0.0, 1.0, 2.0]
    assert len(list(steady(0.29, 29.0))) == 100


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_rates_are_more_than_0(rate):
    with pytest.raises(SimulationError, match="the rate of a Poisson process is more than 0, not"):
        next(poisson(rate, 1.0, stream(1)))
    with pytest.raises(SimulationError, match="the time between two requests is more than 0, not"):
        next(steady(rate, 1.0))


def test_requests_are_asked_for_at_their_times():
    simulation = Simulation(UnitDelay())
    machine = Recorder()
    simulation.add("a", machine)
    simulation.add("b", Recorder())
    simulation.at(2.5, lambda: simulation.crash("a"))
    taken = []
    schedule(simulation, ((taken.append(time) or time, "a", ()) for time in (1.0, 2.0, 3.0)))
    assert taken == [1.0]
    simulation.run(until=1.5)
    assert taken == [1.0, 2.0]
    simulation.run()
    assert machine.of(Asked) == [(1.0, Asked(())), (2.0, Asked(()))]
    assert taken == [1.0, 2.0, 3.0]
