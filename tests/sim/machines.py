"""Machines for tests: small enough to know what they must do."""

from __future__ import annotations

from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Send,
    SetTimer,
    Started,
)
from recado.sim.kernel import Simulation
from recado.sim.network import UnitDelay


class Recorder:
    """Remembers what happened to it, and carries out what it is asked for: a list of effects."""

    def __init__(self, me=None):
        self.me, self.seen = me, []

    def handle(self, stimulus, now, rng):
        self.seen.append((now, stimulus))
        return stimulus.request if isinstance(stimulus, Asked) else ()

    def inspect(self):
        return {"seen": len(self.seen)}

    def of(self, kind):
        return [(now, stimulus) for now, stimulus in self.seen if isinstance(stimulus, kind)]

    def messages(self):
        return [(now, stimulus.message) for now, stimulus in self.of(Received)]


class Flood:
    """Hands the first copy of everything to the application and to all neighbours but the one it came from."""

    def __init__(self, me):
        self.me, self.links, self.known = me, {}, {}

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Started(neighbours, _):
                self.links = dict.fromkeys(neighbours)
            case LinkUp(peer):
                self.links[peer] = None
            case LinkDown(peer):
                self.links.pop(peer, None)
            case Asked(word):
                return self._spread(word, None, "the application wants it known")
            case Received(sender, word):
                return self._spread(word, sender, "the first copy goes on")
        return ()

    def _spread(self, word, but, why):
        if word in self.known:
            return ()
        self.known[word] = None
        return [Deliver(word), *(Send(peer, word, why) for peer in self.links if peer != but)]

    def inspect(self):
        return {"known": list(self.known)}


class Restless:
    """Does by chance whatever a machine can do, a limited number of times."""

    def __init__(self, me, nodes, budget=60):
        self.me, self.nodes, self.budget = me, nodes, budget

    def handle(self, stimulus, now, rng):
        effects = []
        while self.budget and rng.random() < 0.75:
            self.budget -= 1
            effects.append(self._some(rng))
        return effects

    def _some(self, rng):
        match rng.randrange(6):
            case 0 | 1 | 2:
                return Send(rng.choice(self.nodes), (self.me, self.budget), "by chance")
            case 3:
                return SetTimer(rng.randrange(3), rng.uniform(0.0, 4.0))
            case 4:
                return CancelTimer(rng.randrange(3))
        return rng.choice([Persist("budget", self.budget), Deliver(self.budget), Persist("budget", None)])

    def inspect(self):
        return {"budget": self.budget}


class Beacon:
    """Says hello on the air once, at the start or when asked."""

    def __init__(self, me=None, at_start=True):
        self.me, self.at_start, self.heard = me, at_start, {}

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Received(sender, _, signal):
                self.heard[sender] = signal
            case Started() if self.at_start:
                return [Broadcast("hello")]
            case Asked():
                return [Broadcast("hello")]
        return ()

    def inspect(self):
        return {"heard": list(self.heard)}


def two(network=None, **options):
    """A simulation of two recorders, a and b, which have started."""
    simulation = Simulation(network or UnitDelay(), **options)
    machines = Recorder("a"), Recorder("b")
    for machine in machines:
        simulation.add(machine.me, machine)
    simulation.run()
    return simulation, *machines
