"""Machines in one process, in virtual time, over a network that loses, repeats and delays what it is told to.

Every machine has an address; ``alias`` moves one to another address. ``run`` delivers what is under way and lets timers
fire, in the order of time, and collects what the machines report.
"""

from __future__ import annotations

import heapq
from random import Random

from recado.protocols.machine import Asked, CancelTimer, Received, Report, SetTimer, TimerFired
from recado.protocols.sip.events import (
    Answer,
    Bye,
    Invite,
    MoveTo,
    QueryOptions,
    Register,
    Reinvite,
    Reject,
    Unregister,
    new_name,
)
from recado.protocols.sip.uri import Address

REQUESTS = {
    "register": Register,
    "unregister": Unregister,
    "answer": Answer,
    "reject": Reject,
    "reinvite": Reinvite,
    "bye": Bye,
    "invite": Invite,
    "options": QueryOptions,
}


def request(rng, method, *arguments, **named):
    """A request by a short name, and the name of the call or the question that it begins."""
    name = new_name(rng) if method in ("invite", "options") else None
    return REQUESTS[method](*([name] if name else []), *arguments, **named), name


def at(last, port=5060, transport="udp"):
    return Address(transport, f"10.0.0.{last}", port)


class World:
    def __init__(self, seed=1, *, loss=0.0, repeat=0.0, delay=(0.01, 0.01)):
        self.rng, self.now = Random(seed), 0.0
        self.loss, self.repeat, self.delay = loss, repeat, delay
        self.machines, self.facts, self.sent, self._queue, self._order = {}, {}, [], [], 0
        self.dead, self._timers = [], {}

    def add(self, machine, address):
        self.machines[address] = machine
        self.facts[id(machine)], self._timers[id(machine)] = [], {}
        return machine

    def due(self, machine):
        """When its next timer fires; None if it has none."""
        return min(self._timers[id(machine)].values(), default=(None,))[0]

    def move(self, machine, address):
        """What was under way to the old address is lost."""
        for old in [one for one, who in self.machines.items() if who is machine]:
            del self.machines[old]
        self.machines[address] = machine
        self.tell(machine, Asked(MoveTo(address)))

    def ask(self, machine, method, *arguments, **named):
        asked, name = request(self.rng, method, *arguments, **named)
        self.tell(machine, Asked(asked))
        return name

    def receive(self, machine, data, source):
        self.tell(machine, Received(source, data))

    def tell(self, machine, stimulus):
        source = next(one for one, who in self.machines.items() if who is machine)
        timers = self._timers[id(machine)]
        for effect in machine.handle(stimulus, self.now, self.rng):
            match effect:
                case Report(fact):
                    self.facts[id(machine)].append(fact)
                    self.react(machine, fact)
                case SetTimer(timer, seconds):
                    self._order += 1
                    timers[timer] = self.now + seconds, self._order
                case CancelTimer(timer):
                    timers.pop(timer, None)
                case _:
                    self._transmit(source, effect)

    def react(self, machine, fact):
        """Tests put here what an application does."""

    def _transmit(self, source, effect):
        self.sent.append((self.now, source, effect.receiver, effect.message))
        for _ in range(1 + (self.rng.random() < self.repeat)):
            if self.rng.random() >= self.loss:
                self._order += 1
                arrives = self.now + self.rng.uniform(*self.delay)
                heapq.heappush(self._queue, (arrives, self._order, source, effect.receiver, effect.message))

    def _next(self):
        times = [self._queue[0][0]] if self._queue else []
        times += [time for one in self.machines.values() if (time := self.due(one)) is not None]
        return min(times, default=None)

    def run(self, until=None):
        """Until that time, or until nothing is left to do."""
        while (time := self._next()) is not None and (until is None or time <= until):
            self.now = max(self.now, time)
            while self._queue and self._queue[0][0] <= self.now:
                _, _, source, to, data = heapq.heappop(self._queue)
                machine = self.machines.get(to)
                if machine is not None and to not in self.dead:
                    self.receive(machine, data, source)
            for machine in list(self.machines.values()):
                self._fire(machine)
        self.now = self.now if until is None else until

    def _fire(self, machine):
        timers = self._timers[id(machine)]
        while (due := self.due(machine)) is not None and due <= self.now:
            timer = min(timers, key=timers.get)
            del timers[timer]
            self.tell(machine, TimerFired(timer))

    def told(self, machine, kind=None):
        return [one for one in self.facts[id(machine)] if kind is None or isinstance(one, kind)]
