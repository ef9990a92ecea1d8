"""The kernel against its plain twin, its accounts against what was really sent, and what a crash takes."""

import gc
from random import Random

import pytest

from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
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
from recado.sim import kernel as agenda
from recado.sim.draws import uniform
from recado.sim.faults import Duplication, Loss
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.network import Links, Mesh, UnitDelay
from sim.machines import Flood, Recorder, Restless, two
from sim.plain import PlainSimulation


def networks(seed):
    delay = uniform(0.0, 2.0, stream(seed, "delay"))
    return {
        "unit": UnitDelay(),
        "links": Links(delay),
        "mesh": Mesh(delay),
        "lossy mesh": Loss(Mesh(delay), 0.2, stream(seed, "loss")),
        "twice": Duplication(Links(delay), 0.3, stream(seed, "twice"), 2.0),
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["unit", "links", "mesh", "lossy mesh", "twice"])
def test_the_kernel_takes_the_steps_of_its_plain_twin(kind, seed, monkeypatch):
    if seed % 2:  # with so few entries the agenda would be a plain heap
        monkeypatch.setattr(agenda, "CROWD", 3)
        monkeypatch.setattr(agenda, "USUAL", 2)
    nodes = list(range(5))
    real_steps = []
    real = Simulation(
        networks(seed)[kind],
        seed,
        watch=lambda s: real_steps.append((s.time, s.number, s.node, s.stimulus, [*s.effects])),
    )
    plain = PlainSimulation(networks(seed)[kind], seed)
    for simulation in (real, plain):
        for node in nodes:
            simulation.add(node, Restless(node, nodes))
        disturb(simulation, nodes, Random(seed))
        simulation.run()
    assert real_steps == plain.steps
    assert {node: real.nodes[node].saved for node in nodes} == {node: plain.nodes[node].saved for node in nodes}


@pytest.mark.parametrize("seed", range(40))
def test_whatever_an_experiment_does_meanwhile(seed, monkeypatch):
    """Calls, listeners and stops between runs: they ask, lose, crash, restart and call again, often for this moment."""
    monkeypatch.setattr(agenda, "CROWD", 3)
    monkeypatch.setattr(agenda, "USUAL", 2)
    kind = ("unit", "links", "mesh", "lossy mesh", "twice")[seed % 5]
    real_steps = []
    watch = lambda s: real_steps.append((s.time, s.number, s.node, s.stimulus, [*s.effects]))  # noqa: E731  # short
    real = Simulation(networks(seed)[kind], seed, watch=watch, deliver=lambda *_: meddle(*meddling[0]))
    plain = PlainSimulation(networks(seed)[kind], seed, deliver=lambda *_: meddle(*meddling[1]))
    meddling = [(simulation, Random(seed), [60]) for simulation in (real, plain)]
    for simulation, rng, budget in meddling:
        for node in range(5):
            simulation.add(node, Restless(node, range(5)))
            for second in range(8):
                simulation.ask(node, "something", at=float(second))
        for _ in range(12):
            meddle(simulation, rng, budget)
            simulation.run(until=simulation.now + rng.choice([0.0, 0.3, 1.0, 2.0]))
        simulation.run()
    assert real_steps == plain.steps
    assert real.now == plain.now
    assert len(real_steps) > 20


def meddle(simulation, rng, budget):
    budget[0] -= 1
    if budget[0] < 0:
        return
    node, other, later = rng.randrange(5), rng.randrange(5), rng.choice([0.0, 0.0, 1.0, rng.uniform(0, 3)])
    match rng.randrange(5):
        case 0:
            simulation.ask(node, "something", at=simulation.now + later)
        case 1:
            simulation.lose(node, other)
        case 2 if simulation.nodes[node].alive:
            simulation.crash(node)
        case 2 | 3 if not simulation.nodes[node].alive:
            simulation.add(node, Restless(node, range(5), 30))
        case _:
            simulation.at(simulation.now + later, lambda: meddle(simulation, rng, budget))


def disturb(simulation, nodes, rng):
    """Three nodes crash and come back, each some time later."""
    for node in rng.sample(nodes, 3):
        crash = rng.uniform(0.5, 6.0)
        simulation.at(crash, lambda node=node: simulation.crash(node))
        simulation.at(crash + 2, lambda node=node: simulation.add(node, Restless(node, nodes, 20)))


def test_time_then_order_of_scheduling_decides():
    simulation, a, b = two()
    simulation.ask("a", [Send("b", 1), Send("b", 2), SetTimer("x", 1.0)], at=5.0)
    simulation.ask("b", [Send("b", 3)], at=4.5)
    simulation.run()
    assert b.messages() == [(5.5, 3), (6.0, 1), (6.0, 2)]
    assert a.of(TimerFired) == [(6.0, TimerFired("x"))]
    assert simulation.last_arrival == 6.0


def test_a_timer_that_is_set_again_fires_once_at_its_new_time():
    simulation, a, _ = two()
    simulation.ask("a", [SetTimer("x", 1.0), SetTimer("x", 3.0), SetTimer("y", 1.0), CancelTimer("y")])
    simulation.ask("a", [SetTimer("z", 2.0)], at=0.5)
    simulation.ask("a", [SetTimer("z", 0.0)], at=1.0)
    simulation.run()
    assert a.of(TimerFired) == [(1.0, TimerFired("z")), (3.0, TimerFired("x"))]


def test_a_crowd_at_one_time_keeps_its_order():
    simulation, a, _ = two()
    rng = Random(6)
    delays = [rng.choice([0.0, 0.1, rng.uniform(0, 0.4)]) for _ in range(9000)]
    simulation.ask("a", [SetTimer(number, delay) for number, delay in enumerate(delays)], at=0.5)
    simulation.run()
    fired = [(now, what.timer) for now, what in a.of(TimerFired)]
    assert fired == sorted((0.5 + delay, number) for number, delay in enumerate(delays))


def test_accounts_are_exact():
    sizes = {int: 10, str: 100}
    network = Loss(Links(uniform(0, 1, Random(1))), 0.3, Random(2))
    simulation = Simulation(network, 3, size_of=lambda message: sizes[type(message)])
    rng = Random(4)
    sent, machines = [], {node: Recorder(node) for node in range(6)}
    for node, machine in machines.items():
        simulation.add(node, machine)
    for _ in range(300):
        node, other, message = rng.randrange(6), rng.randrange(6), rng.choice([1, "one"])
        sent.append((node, other, message))
        simulation.ask(node, [Send(other, message)], at=rng.uniform(0, 9))
    simulation.run()
    got = [(node, message) for node, machine in machines.items() for _, message in machine.messages()]
    assert 0 < len(got) < len(sent)
    for kind, size in sizes.items():
        counter = simulation.sent[kind]
        assert counter.count == sum(type(message) is kind for _, _, message in sent)
        assert counter.arrived == sum(type(message) is kind for _, message in got)
        assert (counter.bytes, counter.arrived_bytes) == (counter.count * size, counter.arrived * size)
    for id, node in simulation.nodes.items():
        up = [sizes[type(message)] for sender, _, message in sent if sender == id]
        down = [sizes[type(message)] for receiver, message in got if receiver == id]
        assert (node.up_messages, node.up_bytes) == (len(up), sum(up))
        assert (node.down_messages, node.down_bytes) == (len(down), sum(down))


def test_a_crash_takes_all_but_what_was_persisted():
    simulation, a, b = two()
    simulation.ask("a", [Persist("k", 1), Persist("gone", 2), Persist("gone", None), SetTimer("x", 5.0)])
    simulation.ask("b", [Send("a", "in time")])
    simulation.ask("b", [Send("a", "late")], at=1.5)
    simulation.at(2.0, lambda: simulation.crash("a"))
    again = Recorder("a")
    simulation.at(2.25, lambda: simulation.add("a", again, ("b",)) and None)
    simulation.ask("b", [Send("a", "to the new one")], at=2.5)
    simulation.run()
    assert a.messages() == [(1.0, "in time")]
    assert again.seen == [(2.25, Started(("b",), {"k": 1})), (3.5, Received("b", "to the new one"))]
    assert simulation.nodes["a"].down_messages == 2
    assert b.of(SendFailed) == []


def test_a_dead_node_has_no_state_left():
    simulation, _, _ = two()
    simulation.crash("a")
    simulation.ask("a", [Send("b", 1)])
    simulation.run()
    assert simulation.nodes["a"].machine.inspect() == {}
    with pytest.raises(SimulationError, match="crashed"):
        simulation.nodes["a"].machine.handle(Asked(()), 0.0, Random())
    assert simulation.sent == {}


def test_the_sender_learns_of_failures_where_the_network_tells():
    simulation, a, b = two(Mesh(lambda: 2.0))
    simulation.ask("a", [Send("b", "x"), Send("b", "y")], at=1.0)
    simulation.at(2.0, lambda: simulation.crash("b"))
    simulation.run()
    assert a.of(SendFailed) == [(3.0, SendFailed("b", "x")), (3.0, SendFailed("b", "y"))]
    assert b.messages() == []


def test_what_is_lost_on_its_way_is_told_too():
    simulation, a, b = two(Mesh(lambda: 2.0))
    simulation.ask("a", [Send("b", "x"), Send("b", "y"), Send("a", "z")])
    simulation.ask("b", [Send("a", "back")])
    simulation.at(1.0, lambda: simulation.lose("a", "b"))
    simulation.run()
    assert a.of(SendFailed) == [(1.0, SendFailed("b", "x")), (1.0, SendFailed("b", "y"))]
    assert a.messages() == [(2.0, "z"), (2.0, "back")]
    assert b.messages() == []


def test_news_of_links_reach_both_ends_and_nothing_comes_after():
    simulation, a, b = two()
    simulation.ask("a", [Send("b", "x")])
    simulation.at(0.5, lambda: simulation.link_down("a", "b"))
    simulation.at(0.75, lambda: simulation.link_up("a", "b"))
    simulation.run()
    assert b.seen[1:] == [(0.5, LinkDown("a")), (0.75, LinkUp("a"))]
    assert a.seen[-2:] == [(0.5, LinkDown("b")), (0.75, LinkUp("b"))]


def test_applications_get_notifications_and_facts_and_may_ask_for_more():
    told = []

    def deliver(now, node, notification):
        told.append((now, node, notification))
        if notification < 3:
            simulation.ask(node, [Deliver(notification + 1), Report("fact")])

    simulation = Simulation(UnitDelay(), deliver=deliver, report=lambda *fact: told.append(fact))
    simulation.add("a", Recorder())
    simulation.ask("a", [Deliver(1), SetTimer("x", 1.0)], at=2.0)
    simulation.run()
    assert told == [
        (2.0, "a", 1), (2.0, "a", 2), (2.0, "a", "fact"), (2.0, "a", 3), (2.0, "a", "fact"),
    ]  # fmt: skip


def test_without_listeners_notifications_are_dropped():
    simulation, _, _ = two()
    simulation.ask("a", [Deliver(1), Report(2)])
    assert simulation.run() == 1


def test_a_run_can_be_taken_in_parts():
    def flood(parts):
        simulation = Simulation(Links(uniform(0, 1, Random(5))))
        for node in range(30):
            simulation.add(node, Flood(node), tuple(other for other in range(30) if other != node))
        simulation.ask(0, "word", at=1.0)
        for options in parts:
            simulation.run(**options)
        return simulation

    whole, stepwise = flood([{}]), flood([{"steps": 7}] * 400)
    timewise = flood([{"until": 0.1 * i} for i in range(50)])
    assert whole.steps == stepwise.steps == timewise.steps
    assert whole.last_arrival == stepwise.last_arrival == timewise.last_arrival
    assert whole.pending == stepwise.pending == timewise.pending == 0
    assert timewise.now == pytest.approx(4.9)


def test_time_stands_still_when_steps_run_out():
    simulation, _, _ = two()
    for second in range(5):
        simulation.ask("a", [], at=float(second))
    assert simulation.run(until=3.5, steps=2) == 2
    assert simulation.now == 1.0
    assert simulation.run(until=3.5) == 2
    assert simulation.now == 3.5


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (Send("c", 1), "node 'a' sent 1 to 'c', which is no node"),
        (Broadcast(1), "node 'a' broadcast on a network of links; only a radio can do that"),
        ("nonsense", "node 'a' returned 'nonsense', which is no effect"),
    ],
)
def test_impossible_effects_are_refused(effect, message):
    simulation, _, _ = two()
    simulation.ask("a", [effect])
    with pytest.raises(SimulationError, match=message):
        simulation.run()


def test_impossible_requests_are_refused():
    simulation, _, _ = two()
    with pytest.raises(SimulationError, match="'a' is already there and alive"):
        simulation.add("a", Recorder())
    simulation.ask("a", [], at=2.0)
    simulation.run()
    with pytest.raises(SimulationError, match=r"a call cannot be scheduled for 1\.0; it is 2\.0"):
        simulation.at(1.0, lambda: None)
    for do in (simulation.crash, lambda id: simulation.ask(id, []), lambda id: simulation.link_up("a", id)):
        with pytest.raises(SimulationError, match="there is no node 'c'"):
            do("c")


def test_the_state_of_crashed_nodes_is_freed():
    class Large(Recorder):
        pass

    simulation = Simulation(Mesh(lambda: 0.01))
    for node in range(50):
        simulation.add(node, Large(node))
    simulation.run()
    for node in range(40):
        simulation.crash(node)
    gc.collect()
    assert (
        sum(type(thing) is Large for thing in gc.get_objects()) == 10
    )  # isinstance would ask weak proxies that are dead
