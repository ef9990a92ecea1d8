"""Faults by their rates, by what they do to order, and by who can still talk to whom."""

import pytest

from recado.protocols.machine import Send, SendFailed
from recado.sim.draws import constant
from recado.sim.faults import Cuts, Duplication, Loss, Reordering
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.network import Links, Mesh, UnitDelay
from sim.machines import Recorder

COUNT = 4000


class Air(UnitDelay):
    """Three hearers for everybody."""

    def audience(self, sender, size_bytes, now):
        return [(node, now + 1.0, -60.0) for node in "abc"]


def rng():
    return stream(1, "fault")


def send_many(network):
    return [network.arrivals("a", "b", 0, float(number)) for number in range(COUNT)]


def test_loss():
    arrived = send_many(Loss(Links(constant(1.0)), 0.25, rng()))
    assert sum(len(times) for times in arrived) / COUNT == pytest.approx(0.75, abs=0.03)
    assert send_many(Loss(UnitDelay(), 0, rng())) == send_many(UnitDelay())
    assert set(send_many(Loss(UnitDelay(), 1, rng()))) == {()}


def test_each_hearer_loses_a_broadcast_by_itself():
    heard = [len(Loss(Air(), 0.5, stream(seed)).audience("x", 0, 0.0)) for seed in range(400)]
    assert {0, 1, 2, 3} == set(heard)
    assert sum(heard) / 400 == pytest.approx(1.5, abs=0.2)


def test_a_lost_message_is_told_where_the_network_tells():
    simulation = Simulation(Loss(Mesh(constant(1.0)), 1, rng()))
    a, b = Recorder(), Recorder()
    simulation.add("a", a)
    simulation.add("b", b)
    simulation.ask("a", [Send("b", "x")])
    simulation.run()
    assert a.of(SendFailed) == [(0.0, SendFailed("b", "x"))]
    assert b.messages() == []


def test_duplication():
    arrived = send_many(Duplication(UnitDelay(), 0.25, rng(), 5.0))
    assert sum(len(times) == 2 for times in arrived) / COUNT == pytest.approx(0.25, abs=0.03)
    assert all(0 <= times[-1] - times[0] <= 5 for times in arrived)
    assert set(send_many(Duplication(Loss(UnitDelay(), 1, rng()), 1, rng(), 5.0))) == {()}


def test_reordering():
    arrived = [times[0] for times in send_many(Reordering(Links(constant(1.0)), 0.25, rng(), 3.0))]
    late = [time - number - 1.0 for number, time in enumerate(arrived)]
    assert sum(seconds > 0 for seconds in late) / COUNT == pytest.approx(0.25, abs=0.03)
    assert all(0 <= seconds <= 3 for seconds in late)
    assert arrived != sorted(arrived)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability(probability):
    with pytest.raises(SimulationError, match="between 0 and 1, not"):
        Loss(UnitDelay(), probability, rng())


def pairs(cuts, nodes="abcd"):
    """Who reaches whom."""
    return {one + other for one in nodes for other in nodes if one != other and cuts.arrivals(one, other, 0, 0.0)}


ALL = {one + other for one in "abcd" for other in "abcd" if one != other}


def test_one_direction_can_be_blocked():
    cuts = Cuts(UnitDelay())
    cuts.block("a", "b")
    assert pairs(cuts) == ALL - {"ab"}
    cuts.unblock("a", "b")
    cuts.unblock("a", "c")
    assert pairs(cuts) == ALL


def test_a_partition():
    cuts = Cuts(UnitDelay())
    cuts.split("ab", "c")
    assert pairs(cuts) == {"ab", "ba"}
    cuts.split("ab")
    assert pairs(cuts) == {"ab", "ba", "cd", "dc"}
    cuts.join()
    assert pairs(cuts) == ALL


def test_a_partition_in_one_direction():
    cuts = Cuts(UnitDelay())
    cuts.split_one_way("ab", "cd")
    cuts.block("d", "c")
    assert pairs(cuts) == ALL - {"ac", "ad", "bc", "bd", "dc"}
    cuts.join()
    assert pairs(cuts) == ALL - {"dc"}


def test_broadcasts_meet_the_same_cuts():
    cuts = Cuts(Air())
    cuts.block("x", "b")
    assert [node for node, _, _ in cuts.audience("x", 0, 0.0)] == ["a", "c"]
