"""What the ends of a link get to know when links and nodes fail, and that a storm leaves no trace of itself."""

import pytest

from recado.protocols.machine import LinkDown, LinkUp, Received, Send, Started
from recado.protocols.topology import line, parse_edges, random_graph
from recado.sim.draws import uniform
from recado.sim.faults import Cuts, Outages, schedule_failures
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.network import Links, UnitDelay
from sim.machines import Flood, Recorder


class Stage:
    """A line a - b - c of recorders; restarted ones are kept apart."""

    def __init__(self, notice=0.5, edges="a-b b-c"):
        topology = parse_edges(edges)
        cuts = Cuts(UnitDelay())
        self.simulation = Simulation(cuts)
        self.made = {}
        for node in topology.nodes:
            self.simulation.add(node, self.make(node), topology.neighbours(node))
        self.outages = Outages(self.simulation, topology, self.make, cuts, notice)
        self.simulation.run()

    def make(self, node):
        machine = Recorder(node)
        self.made.setdefault(node, []).append(machine)
        return machine

    def at(self, time, call, *arguments):
        self.simulation.at(time, lambda: call(*arguments))

    def send(self, time, sender, receiver):
        self.simulation.ask(sender, [Send(receiver, time)], at=time)

    def seen(self, node, incarnation=0):
        kinds = (LinkDown, LinkUp, Received)
        return [(now, what) for now, what in self.made[node][incarnation].seen if isinstance(what, kinds)]


def test_both_ends_learn_of_a_cut_and_of_its_end():
    stage = Stage()
    stage.at(1.0, stage.outages.cut, "a", "b")
    stage.at(3.0, stage.outages.heal, "b", "a")
    stage.simulation.run()
    assert stage.seen("a") == [(1.5, LinkDown("b")), (3.5, LinkUp("b"))]
    assert stage.seen("b") == [(1.5, LinkDown("a")), (3.5, LinkUp("a"))]
    assert stage.seen("c") == []


def test_nothing_passes_between_the_two_words():
    stage = Stage()
    for tenth in range(60):
        stage.send(tenth / 10, "a", "b")
    stage.at(2.0, stage.outages.cut, "a", "b")
    stage.at(3.0, stage.outages.heal, "a", "b")
    stage.simulation.run()
    sent = [what.message for _, what in stage.seen("b") if isinstance(what, Received)]
    assert sent == [tenth / 10 for tenth in (*range(10), *range(36, 60))]
    down, up = (stage.seen("b").index((time, kind("a"))) for time, kind in ((2.5, LinkDown), (3.5, LinkUp)))
    assert up == down + 1


def test_a_short_cut_is_told_all_the_same():
    stage = Stage()
    stage.at(1.0, stage.outages.cut, "a", "b")
    stage.at(1.2, stage.outages.heal, "a", "b")
    stage.simulation.run()
    assert stage.seen("a") == [(1.5, LinkDown("b")), (1.5, LinkUp("b"))]


def test_cutting_and_healing_twice_is_once():
    stage = Stage()
    for time in (1.0, 1.1):
        stage.at(time, stage.outages.cut, "a", "b")
    for time in (2.0, 2.1):
        stage.at(time, stage.outages.heal, "a", "b")
    stage.simulation.run()
    assert [type(what) for _, what in stage.seen("a")] == [LinkDown, LinkUp]


def test_neighbours_notice_a_crash_and_the_return():
    stage = Stage()
    stage.send(0.9, "b", "a")
    stage.send(1.1, "a", "b")
    stage.at(1.0, stage.outages.crash, "b")
    stage.at(4.0, stage.outages.restart, "b")
    stage.send(4.6, "a", "b")
    stage.simulation.run()
    assert stage.seen("a") == [(1.5, LinkDown("b")), (4.5, LinkUp("b"))]
    assert stage.made["b"][1].seen == [
        (4.0, Started((), {})), (4.5, LinkUp("a")), (4.5, LinkUp("c")), (5.6, Received("a", 4.6)),
    ]  # fmt: skip
    assert stage.outages.is_live("b")


def test_what_a_node_sent_before_its_crash_may_arrive_until_it_is_noticed():
    stage = Stage(notice=0.95)
    stage.send(0.9, "b", "a")
    stage.send(1.0, "b", "a")
    stage.at(1.0, stage.outages.crash, "b")
    stage.simulation.run()
    assert stage.seen("a") == [(1.9, Received("b", 0.9)), (1.95, LinkDown("b"))]


def test_a_restart_before_the_crash_was_noticed_is_told_in_order():
    stage = Stage(notice=2.0)
    stage.at(1.0, stage.outages.crash, "b")
    stage.at(1.5, stage.outages.restart, "b")
    stage.simulation.run()
    assert stage.seen("a") == [(1.5, LinkDown("b")), (3.0, LinkUp("b"))]
    assert [what for _, what in stage.made["b"][1].seen] == [Started((), {}), LinkUp("a"), LinkUp("c")]


def test_a_cut_link_stays_down_when_its_node_restarts():
    stage = Stage()
    stage.at(1.0, stage.outages.cut, "a", "b")
    stage.at(1.0, stage.outages.crash, "b")
    stage.at(2.0, stage.outages.restart, "b")
    stage.simulation.run()
    assert stage.seen("b", 1) == [(2.5, LinkUp("c"))]
    assert stage.outages.works("b", "c")
    assert not stage.outages.works("a", "b")
    stage.outages.restore_all()
    stage.simulation.run()
    assert stage.seen("a")[-1][1] == LinkUp("b")


def test_neighbours_that_are_both_down_meet_again_when_the_second_is_back():
    stage = Stage()
    for node in "ab":
        stage.at(1.0, stage.outages.crash, node)
    stage.at(2.0, stage.outages.restart, "a")
    stage.at(5.0, stage.outages.restart, "b")
    stage.simulation.run()
    assert stage.seen("a", 1) == [(5.5, LinkUp("b"))]


def test_a_new_node_joins():
    stage = Stage()
    stage.at(1.0, stage.outages.join, "d", ["a", "c"])
    stage.send(2.0, "a", "b")
    stage.simulation.run()
    assert stage.made["d"][0].seen == [(1.0, Started((), {})), (1.5, LinkUp("a")), (1.5, LinkUp("c"))]
    assert stage.seen("c") == [(1.5, LinkUp("d"))]
    stage.outages.crash("d")
    stage.simulation.run()
    assert stage.seen("c")[-1][1] == LinkDown("d")
    with pytest.raises(SimulationError, match="'d' is already there"):
        stage.outages.join("d", ["a"])
    with pytest.raises(SimulationError, match="'e' cannot have a link to 'z', which is no node"):
        stage.outages.join("e", ["a", "z"])
    assert "e" not in stage.outages.targets()
    for fail in (stage.outages.crash, stage.outages.restart):
        with pytest.raises(SimulationError, match="no node 'e'; a new one comes with join"):
            fail("e")


def test_there_must_be_a_link():
    with pytest.raises(SimulationError, match="no link 'a' - 'c'"):
        Stage().outages.cut("a", "c")


@pytest.mark.parametrize("seed", range(30))
def test_after_a_storm_everybody_knows_the_links_that_work(seed):
    topology = random_graph(12, 8, stream(seed, "graph"))
    cuts = Cuts(Links(uniform(0.01, 0.5, stream(seed, "delay"))))
    heard = []
    simulation = Simulation(cuts, seed, deliver=lambda now, node, word: heard.append((node, word)), watch=orderly())
    for node in topology.nodes:
        simulation.add(node, Flood(node), topology.neighbours(node))
    outages = Outages(simulation, topology, Flood, cuts, notice_seconds=0.3)
    schedule_failures(outages, stream(seed, "storm"), rate=5.0, seconds=20.0)
    for number in range(100):
        simulation.at(number / 5, lambda number=number: simulation.ask(number % 12, f"word {number}"))
    simulation.run()
    assert simulation.now > 20
    for node in topology.nodes:
        assert sorted(simulation.nodes[node].machine.links) == sorted(topology.neighbours(node))
    simulation.ask(0, "at last")
    simulation.run()
    assert sorted(node for node, word in heard if word == "at last") == list(range(12))


def orderly():
    """Every node sees LinkUp and LinkDown of a peer in turn, and messages only while the link is up."""
    up = {}

    def check(step):
        match step.stimulus:
            case Started(neighbours, _):
                up[step.node] = dict.fromkeys(neighbours)
            case LinkUp(peer):
                assert peer not in up[step.node]
                up[step.node][peer] = None
            case LinkDown(peer):
                del up[step.node][peer]
            case Received(sender, _):
                assert sender in up[step.node]

    return check


def test_a_storm_is_the_same_for_the_same_stream():
    def struck(seed):
        turned = []
        topology = line(4)
        cuts = Cuts(UnitDelay())
        simulation = Simulation(cuts)
        for node in topology.nodes:
            simulation.add(node, Recorder())
        outages = Outages(simulation, topology, Recorder, cuts)
        toggle = outages.toggle
        outages.toggle = lambda target: (turned.append((simulation.now, target)), toggle(target))
        schedule_failures(outages, stream(seed), rate=1.0, seconds=30.0)
        simulation.run()
        return turned

    assert struck(1) == struck(1) != struck(2)
    assert {target for _, target in struck(1)} == {0, 1, 2, 3, (0, 1), (1, 2), (2, 3)}
