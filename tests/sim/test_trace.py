"""Traces: the same for the same seed in every process, and stories that lead back to the beginning."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Report,
    Send,
    SendFailed,
    SetTimer,
    Started,
    TimerFired,
)
from recado.protocols.pubsub import Settled
from recado.protocols.topology import NET_13, line
from recado.sim.draws import constant, uniform
from recado.sim.faults import Duplication
from recado.sim.kernel import Simulation, SimulationError, Step, stream
from recado.sim.network import Links, Mesh, UnitDelay
from recado.sim.radio import IdealRadio
from recado.sim.trace import Trace
from sim.machines import Beacon, Flood, Recorder, Restless, two
from sim.whole import everything, trees


def flooded(topology, network=None, seed=0, requests=((0.0, None, "word"),)):
    trace = Trace()
    simulation = Simulation(network or UnitDelay(), seed, watch=trace)
    for node in topology.nodes:
        simulation.add(node, Flood(node), topology.neighbours(node))
    for time, node, word in requests:
        simulation.ask(topology.nodes[0] if node is None else node, word, at=time)
    simulation.run()
    return trace


HERE = Path(__file__).parents[1]


def in_another_process(seed, hash_seed):
    code = f"from sim.whole import everything, trees; print(everything({seed}), trees({seed}), sep=chr(10))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return tuple(done.stdout.splitlines())


def test_a_run_is_the_same_whatever_the_hash_seed_and_the_number_of_processes():
    here = everything(5), trees(5)
    assert all(int(run.split()[0]) > 300 for run in here)
    assert in_another_process(5, "0") == here
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(in_another_process, (5, 5, 6), ("1", "123", "1")))
    assert together[:2] == [here, here]
    assert together[2] == (everything(6), trees(6))
    assert not {*together[2]} & {*here}


def test_the_fingerprint_tells_runs_apart():
    delay = lambda seed: Links(uniform(0.1, 1, stream(seed)))  # noqa: E731  # short
    assert flooded(NET_13, delay(1)).fingerprint == flooded(NET_13, delay(1)).fingerprint
    assert flooded(NET_13, delay(1)).fingerprint != flooded(NET_13, delay(2)).fingerprint
    assert flooded(NET_13).fingerprint != flooded(NET_13, requests=((0.0, None, "other"),)).fingerprint


def test_watching_changes_nothing():
    def account(watch):
        simulation = Simulation(Links(uniform(0, 1, stream(1))), 1, watch=watch)
        for node in range(5):
            simulation.add(node, Restless(node, range(5)))
        simulation.run()
        return simulation.steps, simulation.now, [node.down_messages for node in simulation.nodes.values()]

    assert account(None) == account(Trace()) == account(Trace(keep=False))


def test_one_node_or_one_event():
    trace = flooded(line(4), requests=[(0.0, 0, "first"), (0.5, 3, "second")])
    assert {step.node for step in trace.select(node=2)} == {2}
    about = list(trace.select(about="second"))
    assert [step.node for step in about] == [3, 2, 1, 0]
    assert list(trace.select(node=2, about="second")) == [about[1]]
    assert list(trace.lines(node=0, about="second")) == ["t=3.5 0: received 'second' from 1 -> delivered the same"]
    assert next(trace.lines(node=3)).endswith("-> nothing")


def test_the_story_of_a_message():
    trace = flooded(line(4), requests=[(2.0, 0, "word")])
    ((step, send),) = trace.sends(receiver=3, kind="str")
    assert trace.story(step, send) == (
        "t=4 2 sent 'word' to 3 (the first copy goes on), because it received 'word' from 1\n"
        "t=3 1 sent 'word' to 2 (the first copy goes on), because it received 'word' from 0\n"
        "t=2 0 sent 'word' to 1 (the application wants it known), because it was asked for 'word'"
    )
    assert trace.story(trace.steps[-1]).splitlines()[0] == "t=5 3 received 'word' from 2"
    assert trace.sends(sender=3) == []


@pytest.mark.parametrize("seed", range(10))
def test_every_cause_is_the_step_that_had_the_effect(seed):
    """Against a plain search for the very message, in runs where several are on their way at once."""
    trace = Trace()
    simulation = Simulation(Duplication(Mesh(uniform(0, 3, stream(seed))), 0.2, stream(seed), 2.0), seed, watch=trace)
    for node in range(6):
        simulation.add(node, Restless(node, range(6)))
    simulation.at(3.0, lambda: simulation.crash(0))
    simulation.run()
    kinds = {Received: 0, TimerFired: 0, SendFailed: 0}
    for step in trace.steps:
        cause = trace.cause(step)
        match step.stimulus:
            case Received(sender, message):
                assert cause.node == sender
                assert any(isinstance(e, Send) and e.message is message for e in cause.effects)
            case TimerFired(timer):
                assert cause.node == step.node
                assert any(
                    isinstance(e, SetTimer) and e.timer == timer and cause.time + e.after_seconds == step.time
                    for e in cause.effects
                )
            case SendFailed(_, message):
                assert cause.node == step.node
                assert any(isinstance(e, Send) and e.message is message for e in cause.effects)
            case _:
                assert cause is None
                continue
        assert cause.time <= step.time
        kinds[type(step.stimulus)] += 1
        assert trace.story(step).splitlines()[-1].endswith("started")
    assert min(kinds.values()) > 0


def test_lines_show_what_messages_hold_and_say_nothing_twice():
    trace = Trace()
    simulation, _, _ = two(watch=trace)
    fact = Settled("s", published=False)
    simulation.ask("a", [Send("b", fact, "to tell"), SetTimer("x", 1.5), Persist("k", [1]), Persist("k", None)])
    simulation.at(4.0, lambda: simulation.crash("b"))
    simulation.at(5.0, lambda: simulation.nodes["b"].saved.update(k=1) or simulation.add("b", Echo(), ("a", "c")))
    simulation.ask("a", [Send("b", Settled("", published=True))], at=6.0)
    simulation.run()
    told = [line.partition(" -> ") for line in trace.lines()]
    assert told[2][2] == (
        "sent Settled(subscription='s', published=False) to b (to tell); set timer 'x' for 1.5 s; "
        "saved 'k': [1]; forgot 'k'"
    )
    assert "".join(told[3]) == "t=1 b: received Settled(subscription='s', published=False) from a -> nothing"
    assert told[5][0] == "t=5 b: started with links to a, c and saved k"
    assert "".join(told[7]) == "t=7 b: received Settled(published=True) from a -> sent the same to a"


class Echo(Recorder):
    def handle(self, stimulus, now, rng):
        return [Send(stimulus.sender, stimulus.message)] if isinstance(stimulus, Received) else ()


def stories(simulation, trace):
    simulation.run()
    return [trace.story(step).splitlines() for step in trace.steps]


def test_stories_of_timers_failures_and_links():
    trace = Trace()
    simulation = Simulation(Mesh(constant(1.0)), watch=trace)
    simulation.add("a", Recorder())
    simulation.add("b", Recorder())
    simulation.crash("b")
    simulation.ask("a", [Send("b", "x", "to see"), SetTimer("again", 4.0)])
    simulation.at(9.0, lambda: simulation.link_down("a", "b"))
    simulation.at(9.0, lambda: simulation.link_up("a", "a"))
    told = stories(simulation, trace)
    assert told[2][0] == "t=1 a learnt that 'x' did not reach b"
    assert told[2][1].startswith("t=0 a sent 'x' to b (to see), because it was asked for")
    assert told[3][0] == "t=4 a saw timer 'again' fire"
    assert told[3][1].startswith("t=0 a set timer 'again' for 4 s, because it was asked for")
    assert told[4] == ["t=9 a lost the link to b"]
    assert told[5] == ["t=9 a got a link to a"]
    kinds = [Started, Asked, SendFailed, TimerFired, LinkDown, LinkUp, LinkUp]
    assert [type(step.stimulus) for step in trace.steps] == kinds


def test_stories_of_broadcasts():
    trace = Trace()
    simulation = Simulation(IdealRadio({0: (0, 0), 1: (9, 0)}, stream(1)), watch=trace)
    simulation.add(0, Beacon())
    simulation.add(1, Beacon(at_start=False))
    (*_, last) = stories(simulation, trace)
    assert last[0].endswith("1 received 'hello' from 0 at -26 dBm")
    assert last[1] == "t=0 0 broadcast 'hello', because it started"
    assert isinstance(trace.steps[0].effects[0], Broadcast)


def test_stories_of_deliveries():
    trace = flooded(line(2))
    step = trace.steps[-1]
    assert trace.story(step, step.effects[0]).startswith("t=1 1 delivered 'word', because it received 'word' from 0\n")


def test_stories_of_other_effects():
    trace = Trace()
    simulation = Simulation(UnitDelay(), watch=trace)
    simulation.add("a", Recorder())
    simulation.ask("a", [Report(Settled("s", published=True)), CancelTimer("x")])
    simulation.run()
    step = trace.steps[-1]
    first, second = (trace.story(step, effect) for effect in step.effects)
    assert first.startswith("t=0 a reported Settled, because it was asked for")
    assert second.startswith("t=0 a cancelled timer 'x', because it was asked for")


def test_a_cause_from_before_the_trace_is_unknown():
    trace = flooded(line(2))
    failed = Step(9.0, 99, 0, SendFailed(1, "older than the trace"), (), 99)
    assert trace.cause(failed) is None
    assert trace.story(failed) == "t=9 0 learnt that 'older than the trace' did not reach 1"


def test_a_trace_may_begin_late():
    trace = Trace()
    simulation = Simulation(UnitDelay(), watch=lambda step: trace(step) if step.time > 1.5 else None)
    for node in range(4):
        simulation.add(node, Flood(node), line(4).neighbours(node))
    simulation.ask(0, "word")
    simulation.run()
    assert trace.cause(trace.steps[0]) is None
    assert trace.story(trace.steps[-1]) == (
        "t=3 3 received 'word' from 2\n"
        "t=2 2 sent 'word' to 3 (the first copy goes on), because it received 'word' from 1"
    )


def test_a_trace_without_steps_has_no_story():
    trace = Trace(keep=False)
    simulation = Simulation(UnitDelay(), watch=trace)
    simulation.add("a", Recorder())
    simulation.run()
    assert (trace.count, trace.steps) == (1, [])
    with pytest.raises(SimulationError, match="keep=True"):
        trace.story(None)
