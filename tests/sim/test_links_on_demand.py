"""Links that machines ask for: in a plain simulation, and where links and nodes fail."""

import pytest

from recado.protocols.machine import Asked, Connect, Disconnect, LinkDown, LinkUp, Received, Send, Started
from recado.protocols.topology import line
from recado.sim.faults import Cuts, Outages
from recado.sim.kernel import Simulation
from recado.sim.network import UnitDelay


class Caller:
    """Asks for the links that its application names, and writes down what happens to it."""

    def __init__(self, me):
        self.me, self.story = me, []

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Asked(("connect", peer)):
                return [Connect(peer)]
            case Asked(("disconnect", peer)):
                return [Disconnect(peer)]
            case Asked(("say", peer)):
                return [Send(peer, "hello")]
            case LinkUp(peer):
                self.story.append(f"up {peer}")
            case LinkDown(peer):
                self.story.append(f"down {peer}")
            case Received(sender, _):
                self.story.append(f"heard {sender}")
            case Started():
                self.story.append("started")
        return ()

    def inspect(self):
        return {}


def world(faults):
    """Nodes 0 - 1 - 2 - 3; with faults, both ends learn of a change after half a time unit."""
    cuts = Cuts(UnitDelay())
    simulation = Simulation(cuts)
    for node in range(4):
        simulation.add(node, Caller(node), line(4).neighbours(node))
    outages = Outages(simulation, line(4), Caller, cuts, 0.5) if faults else None
    simulation.run()
    return simulation, outages


def ask(simulation, node, *request):
    simulation.ask(node, request)
    simulation.run()


def story(simulation, node):
    return simulation.nodes[node].machine.story[1:]


@pytest.mark.parametrize("faults", [False, True])
def test_a_link_comes_and_goes_as_one_end_wishes(faults):
    simulation, _ = world(faults)
    ask(simulation, 0, "connect", 3)
    ask(simulation, 3, "connect", 0)  # it is there
    ask(simulation, 0, "say", 3)
    assert story(simulation, 0) == ["up 3"]
    assert story(simulation, 3) == ["up 0", "heard 0"]
    ask(simulation, 3, "disconnect", 0)  # it did not ask for it
    assert story(simulation, 3)[2:] == []
    ask(simulation, 0, "disconnect", 3)
    assert (story(simulation, 0)[1:], story(simulation, 3)[2:]) == (["down 3"], ["down 0"])
    ask(simulation, 0, "connect", 3)
    assert story(simulation, 0)[2:] == ["up 3"]


def test_a_link_of_the_topology_is_not_given_up():
    simulation, _ = world(faults=True)
    ask(simulation, 0, "disconnect", 1)
    ask(simulation, 0, "connect", 1)
    ask(simulation, 0, "connect", 99)
    assert story(simulation, 0) == story(simulation, 1) == []


def test_it_fails_and_heals_like_any_other():
    simulation, outages = world(faults=True)
    ask(simulation, 0, "connect", 3)
    assert (0, 3) in outages.targets()
    outages.cut(0, 3)
    simulation.run()
    outages.heal(0, 3)
    simulation.run()
    assert story(simulation, 3) == ["up 0", "down 0", "up 0"]


def test_it_goes_with_the_node_that_asked_and_waits_for_the_other():
    simulation, outages = world(faults=True)
    ask(simulation, 0, "connect", 3)
    outages.crash(3)
    simulation.run()
    outages.restart(3)
    simulation.run()
    assert story(simulation, 0) == ["up 3", "down 3", "up 3"]
    outages.crash(0)
    simulation.run()
    outages.restart(0)
    simulation.run()
    assert story(simulation, 0) == ["up 1"]
    assert story(simulation, 3)[-1] == "down 0"
    assert (0, 3) not in outages.targets()


def test_a_link_that_is_wanted_again_before_its_end_was_told():
    simulation, _ = world(faults=True)
    ask(simulation, 0, "connect", 3)
    simulation.ask(0, ("disconnect", 3))
    simulation.ask(0, ("connect", 3))
    simulation.run()
    assert story(simulation, 3) == ["up 0", "down 0", "up 0"]
