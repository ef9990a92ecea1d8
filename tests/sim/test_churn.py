"""Arrivals, sessions, and how many nodes that makes."""

from statistics import fmean

import pytest

from recado.protocols.machine import Send, SendFailed
from recado.sim.draws import constant, exponential, truncated, weibull
from recado.sim.kernel import Simulation, stream
from recado.sim.network import Mesh
from recado.sim.workload import Churn
from sim.machines import Recorder


def test_nodes_come_and_go_at_their_times():
    simulation = Simulation(Mesh(constant(0.1)))
    machines, left = {}, []
    churn = Churn(
        simulation,
        lambda node: machines.setdefault(node, Recorder(node)),
        constant(2.0),
        constant(3.0),
        seconds=9.0,
        first=100,
        left=left.append,
    )
    simulation.run(until=5.0)
    assert list(churn.live) == [101]
    simulation.ask(101, [Send(100, "are you there?")], at=5.5)
    simulation.run()
    assert churn.arrived == 4
    assert [(s.node, s.arrived, s.leaves) for s in left] == [
        (100, 2.0, 5.0), (101, 4.0, 7.0), (102, 6.0, 9.0), (103, 8.0, 11.0),
    ]  # fmt: skip
    assert [what for _, what in machines[101].of(SendFailed)] == [SendFailed(100, "are you there?")]
    assert not any(node.alive for node in simulation.nodes.values())


def test_the_population_is_arrivals_times_session():
    """An arrival every 36 s and sessions of 3.66 h on average make 366 nodes."""
    simulation = Simulation(Mesh(constant(0.1)))
    hour = 3600.0
    joined, counts = [], []
    churn = Churn(
        simulation,
        Recorder,
        exponential(36.0, stream(1, "arrivals")),
        truncated(weibull(1.8, 4 * hour, stream(1, "sessions")), 8 * hour),
        seconds=60 * hour,
        joined=joined.append,
    )
    for step in range(100):
        simulation.at(10 * hour + step * hour / 2, lambda: counts.append(len(churn.live)))
    simulation.run(until=60 * hour)
    assert fmean(counts) == pytest.approx(366, rel=0.05)
    assert churn.arrived == len(joined) == pytest.approx(6000, rel=0.05)
    assert len(churn.live) == sum(node.alive for node in simulation.nodes.values())


def test_streams_of_their_own_keep_arrivals_when_sessions_change():
    def arrivals(sessions):
        simulation, joined = Simulation(Mesh(constant(0.1))), []
        Churn(simulation, Recorder, exponential(5.0, stream(2, "arrivals")), sessions, 200.0, joined=joined.append)
        simulation.run()
        return [session.arrived for session in joined]

    assert arrivals(constant(1.0)) == arrivals(exponential(50.0, stream(2, "sessions")))
