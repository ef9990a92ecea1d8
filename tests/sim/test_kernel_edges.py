"""The kernel where things go wrong: impossible times, machines that raise, crashes in the middle of a step."""

import pytest

from recado.protocols.machine import Asked, Deliver, Send, SetTimer, Started, TimerFired
from recado.sim import kernel as agenda
from recado.sim.kernel import SimulationError
from recado.sim.network import Mesh
from sim.machines import Recorder, two


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan"), 1e200])
def test_impossible_times_are_refused_and_the_run_can_go_on(seconds):
    simulation, _, b = two(Mesh([1.0, seconds, 1.0].pop))
    simulation.ask("a", [Send("b", "in time"), Send("b", "never"), Send("b", "not tried")], at=2.0)
    with pytest.raises(SimulationError, match=r"the network lets 'never' from 'a' arrive at 'b' at .*; it is 2\.0"):
        simulation.run()
    simulation.ask("a", [SetTimer("x", seconds)])
    with pytest.raises(SimulationError, match=r"TimerFired\(timer='x'\) at node 'a' cannot be scheduled for"):
        simulation.run()
    simulation.ask("a", [Send("b", "again")])
    simulation.run()
    assert b.messages() == [(3.0, "in time"), (3.0, "again")]


@pytest.mark.parametrize("time", [1e-300, 5e-324, 1e15, 1e100, 1e150])
def test_times_may_be_tiny_and_huge(time, monkeypatch):
    monkeypatch.setattr(agenda, "CROWD", 3)
    monkeypatch.setattr(agenda, "USUAL", 2)
    simulation, a, _ = two()
    delays = [time * part for part in (1.0, 0.5, 0.0, 0.25, 1.0, 0.75)] * 3
    simulation.ask("a", [SetTimer(number, delay) for number, delay in enumerate(delays)])
    simulation.run()
    fired = [(now, what.timer) for now, what in a.of(TimerFired)]
    assert fired == sorted((delay, number) for number, delay in enumerate(delays))


def test_a_machine_that_raises_does_not_spoil_what_comes_after():
    class Moody(Recorder):
        def handle(self, stimulus, now, rng):
            if isinstance(stimulus, Asked) and stimulus.request == "nonsense":
                raise SimulationError("this makes no sense")
            return super().handle(stimulus, now, rng)

    simulation, a, _ = two()
    simulation.add("c", Moody())
    simulation.ask("c", [Send("a", number) for number in range(5)])
    simulation.ask("c", "nonsense")
    with pytest.raises(SimulationError, match="no sense"):
        simulation.run()
    before = simulation.steps
    simulation.ask("c", [Send("a", number) for number in range(5, 10)])
    assert simulation.run() == 11
    assert a.messages() == [(1.0, number) for number in range(10)]
    assert simulation.steps == before + 11


def test_what_a_run_calls_cannot_run():
    simulation, _, _ = two()
    simulation.at(1.0, simulation.run)
    with pytest.raises(SimulationError, match="a run is going on"):
        simulation.run()
    assert simulation.run() == 0


@pytest.mark.parametrize("restart", [False, True])
def test_a_node_that_crashes_in_the_middle_of_its_effects(restart):
    def deliver(now, node, notification):
        simulation.crash(node)
        if restart:
            simulation.add(node, again)

    again = Recorder("a")
    simulation, a, b = two(deliver=deliver)
    simulation.ask("a", [Send("b", 1), SetTimer("x", 1.0), Deliver(1), SetTimer("y", 1.0), Send("b", 2)], at=1.0)
    simulation.run()
    assert a.of(TimerFired) == []
    assert b.messages() == [(2.0, 1)]
    assert again.seen == ([(1.0, Started())] if restart else [])


def test_a_watch_may_crash_the_node_before_its_effects_and_ask_another():
    def watch(step):
        if step.node == "a" and isinstance(step.stimulus, Asked):
            simulation.crash("a")
            simulation.ask("b", [SetTimer("x", 1.0)])

    simulation, _, b = two(watch=watch)
    simulation.ask("a", [Send("b", 1)], at=1.0)
    simulation.run()
    assert simulation.sent == {}
    assert b.of(TimerFired) == [(2.0, TimerFired("x"))]


def test_applications_ask_the_node_that_is_there_by_then():
    simulation, a, _ = two()
    again = Recorder("a")
    simulation.ask("a", [], at=1.0)
    simulation.ask("a", [Send("b", 1)], at=3.0)
    simulation.at(0.5, lambda: simulation.crash("a"))
    simulation.at(2.0, lambda: simulation.add("a", again) and None)
    simulation.run()
    assert a.of(Asked) == []
    assert again.seen == [(2.0, Started()), (3.0, Asked([Send("b", 1)]))]


def test_a_restarted_node_starts_before_it_is_asked():
    simulation, _, _ = two()
    again = Recorder("a")
    simulation.crash("a")
    simulation.ask("a", [])
    simulation.add("a", again)
    simulation.run()
    assert [type(stimulus) for _, stimulus in again.seen] == [Started, Asked]
