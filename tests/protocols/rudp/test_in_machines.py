"""Connections inside machines, run by the simulator: the pure code that the service runs, in virtual time."""

from collections import deque
from random import Random

import pytest

from recado.protocols.machine import Asked, CancelTimer, Received, Report, Send, SetTimer, TimerFired
from recado.protocols.rudp import (
    Acknowledged,
    Disconnected,
    Failed,
    Heard,
    MoveTo,
    Resume,
    RudpConnection,
    SendMessage,
    profile,
)
from recado.protocols.rudp.packet import direction_key, encode_ack
from recado.sim.draws import uniform
from recado.sim.faults import Cuts, Duplication, Loss, Reordering
from recado.sim.kernel import Simulation, stream
from recado.sim.network import Mesh

TOTAL = 60
KEY = bytes(16)


class Talker:
    """Sends what it is asked to, again after failures. Its address is its node and the place where that is now."""

    def __init__(self, own, other, peer, settings):
        self.place, self.queue, self.lost = 0, deque(), []
        self.connection = RudpConnection(settings, own, other, (peer, 0), local_key=KEY, remote_key=KEY)

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Received(sender, (place, source, datagram)):
                told = Received((sender, source), datagram) if place == self.place else None
            case Asked(("say", message)):
                told = self.queue.append(message)
            case Asked(("move", place)):
                self.place = place
                told = Asked(Resume())
            case Asked(("peer is at", peer, place)):
                told = Asked(MoveTo((peer, place)))
            case _:
                told = stimulus
        todo = deque(self.connection.handle(told, now, rng) if told else ())
        out = []
        while todo or (self.queue and not self.connection.failed):
            if not todo:
                message = self.queue.popleft()
                todo.extend(self.connection.handle(Asked(SendMessage(message, message)), now, rng))
                continue
            match effect := todo.popleft():
                case Send((peer, place), datagram):
                    out.append(Send(peer, (place, self.place, datagram), why="RUDP"))
                case Report(Failed(message)):
                    self.lost.append(message)
                case Report(Disconnected(error)):
                    self.queue.extendleft(reversed(self.lost))
                    self.lost.clear()
                    out.append(Report(str(error)))
                case Report(Acknowledged()):
                    pass
                case _:
                    out.append(effect)
        return out

    def inspect(self):
        return self.connection.inspect()


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
    rng, keys = Random(0), {"local_key": KEY, "remote_key": KEY}
    connection = RudpConnection(profile("lab"), 1, 2, "peer", **keys, timer=("rudp", 1))
    first, timer = connection.handle(Asked(SendMessage(b"x", "first")), 0.0, rng)
    assert (type(first), first.receiver, timer) == (Send, "peer", SetTimer(("rudp", 1), 0.3))
    assert connection.handle(Asked(SendMessage(b"y", "second")), 0.1, rng) == []
    key = direction_key((1, KEY), (2, KEY))
    heard, done, second = connection.handle(Received("peer", encode_ack(1, 1, 0, key)), 0.1, rng)
    assert (heard, done, type(second)) == (Report(Heard("peer")), Report(Acknowledged("first")), Send)
    assert connection.handle(TimerFired(("rudp", 1)), 0.3, rng) == [SetTimer(("rudp", 1), pytest.approx(0.1, abs=0.1))]
    assert connection.handle(Received("peer", encode_ack(1, 2, 100, key)), 0.3, rng) == [
        Report(Acknowledged("second")),
        CancelTimer(("rudp", 1)),
    ]


def test_a_timer_that_fires_an_ulp_early_is_enough():
    connection, rng = RudpConnection(profile("lab"), 1, 2, "peer", 0.1, local_key=KEY, remote_key=KEY), Random(0)
    connection.handle(Asked(SendMessage(b"x")), 0.1, rng)
    effects = connection.handle(TimerFired("rudp"), 0.39999999999999997, rng)
    assert [type(effect) for effect in effects] == [Send, SetTimer]
