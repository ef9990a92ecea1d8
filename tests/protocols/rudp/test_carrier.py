"""Connections inside machines, run by the simulator: the pure code that the service runs, in virtual time."""

import pytest

from recado.protocols.machine import Asked, CancelTimer, Deliver, Received, Report, Send, SetTimer, TimerFired
from recado.protocols.rudp import Acknowledged, Delivered, Disconnected, Failed, RudpConnection, profile
from recado.protocols.rudp.connection import Carrier
from recado.protocols.rudp.packet import encode_ack
from recado.sim.draws import uniform
from recado.sim.faults import Cuts, Duplication, Loss, Reordering
from recado.sim.kernel import Simulation, stream
from recado.sim.network import Mesh

TOTAL = 60


class Talker:
    """Sends what it is asked to, again after failures. Its address is its node and the place where that is now."""

    def __init__(self, own, other, peer, settings):
        self.place, self.queue, self.open = 0, [], {}
        self.link = Carrier(RudpConnection(settings, own, other, (peer, 0)), "rudp", self._send)

    def _send(self, transmit):
        (peer, place), here = transmit.address, self.place
        return Send(peer, (place, here, transmit.datagram), why="RUDP")

    def handle(self, stimulus, now, rng):
        connection = self.link.connection
        match stimulus:
            case Received(sender, (place, source, datagram)) if place == self.place:
                connection.received(datagram, (sender, source), now)
            case TimerFired("rudp"):
                self.link.fired(now)
            case Asked(("say", message)):
                self.queue.append(message)
            case Asked(("move", place)):
                self.place = place
                connection.resume(now)
            case Asked(("peer is at", peer, place)):
                connection.move((peer, place), now)
        effects, told = self._step(now)
        while self.queue and not connection.failed:
            message = self.queue.pop(0)
            self.open[connection.send(message, now)] = message
            more, told_more = self._step(now)
            effects, told = effects + more, told + told_more
        return effects + [tell for output in told for tell in self._tell(output)]

    def _step(self, now):
        effects, told = self.link.step(now)
        lost = [self.open.pop(output.handle) for output in told if isinstance(output, Failed)]
        self.queue[:0] = lost
        for output in told:
            if isinstance(output, Acknowledged):
                del self.open[output.handle]
        return effects, told

    def _tell(self, output):
        match output:
            case Delivered(message):
                yield Deliver(message)
            case Disconnected(error):
                yield Report(str(error))

    def inspect(self):
        return self.link.connection.inspect()


def play(seed, *, name, loss, moves):
    network = Mesh(uniform(0.01, 0.1, stream(seed, "delay")))
    network = Reordering(network, 0.2, stream(seed, "late"), 0.5)
    network = Duplication(network, 0.2, stream(seed, "twice"), 0.5)
    network = Loss(network, loss, stream(seed, "loss"))
    network = Cuts(network)
    network.tells_failure = False  # as UDP
    heard, facts = {"device": [], "broker": []}, []
    simulation = Simulation(
        network,
        seed,
        deliver=lambda time, node, message: heard[node].append(int(message)),
        report=lambda time, node, fact: facts.append(fact),
    )
    settings = profile(name)
    simulation.add("device", Talker(1, 2, "broker", settings))
    simulation.add("broker", Talker(2, 1, "device", settings))
    for number in range(TOTAL):
        for node in heard:
            simulation.ask(node, ("say", b"%d" % number), at=number * 0.5)
    for number in range(1, moves + 1):
        simulation.ask("device", ("move", number), at=number * 5.0)
        simulation.ask("broker", ("peer is at", "device", number), at=number * 5.0 + 0.3)
    simulation.at(10.0, lambda: network.block("broker", "device"))
    simulation.at(27.0, lambda: network.unblock("broker", "device"))
    for time in range(40, 4000, 20):  # updates of the session, for whoever was cut off
        simulation.ask("device", ("move", moves), at=float(time))
        simulation.ask("broker", ("peer is at", "device", moves), at=time + 0.3)
    simulation.run(until=4000.0)
    return heard, facts


@pytest.mark.parametrize("name", ["classic", "lab", "fast"])
@pytest.mark.parametrize("moves", [0, 6])
def test_nothing_is_lost_in_simulation(name, moves):
    disconnections = 0
    for seed in range(4):
        heard, facts = play(seed, name=name, loss=0.15, moves=moves)
        disconnections += len(facts)
        for messages in heard.values():
            assert list(dict.fromkeys(messages)) == list(range(TOTAL))
    if name == "lab":
        assert disconnections, "the way back was closed for longer than it waits"


def test_a_run_is_repeatable():
    assert play(7, name="lab", loss=0.2, moves=3) == play(7, name="lab", loss=0.2, moves=3)


def test_the_timer_is_set_once_and_cancelled():
    link = Carrier(RudpConnection(profile("lab"), 1, 2, "peer"), "rudp")
    assert link.step(0.0) == ([], [])
    link.connection.send(b"x", 0.0)
    effects, _ = link.step(0.0)
    assert [type(effect) for effect in effects] == [Send, SetTimer]
    assert effects[0].receiver == "peer"
    assert effects[1] == SetTimer("rudp", 0.3)
    assert link.step(0.1) == ([], [])
    link.connection.received(encode_ack(1, 1, 0), "peer", 0.1)
    assert link.step(0.1) == ([CancelTimer("rudp")], [Acknowledged(1)])


def test_a_timer_that_fires_an_ulp_early_is_enough():
    link = Carrier(RudpConnection(profile("lab"), 1, 2, "peer", 0.1), "rudp")
    link.connection.send(b"x", 0.1)
    link.step(0.1)
    link.fired(0.39999999999999997)
    effects, _ = link.step(0.39999999999999997)
    assert [type(effect) for effect in effects] == [Send, SetTimer]
