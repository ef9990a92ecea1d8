"""Machines in one process, in virtual time, over a network that loses, repeats and delays what it is told to.

Every machine has an address; ``alias`` moves one to another address. ``run`` delivers what is under way and lets timers
fire, in the order of time, and collects what the machines report.
"""

from __future__ import annotations

import heapq
from random import Random

from recado.protocols.sip.events import Report, Transmit
from recado.protocols.sip.uri import Address


def at(last, port=5060, transport="udp"):
    return Address(transport, f"10.0.0.{last}", port)


class World:
    def __init__(self, seed=1, *, loss=0.0, repeat=0.0, delay=(0.01, 0.01)):
        self.rng, self.now = Random(seed), 0.0
        self.loss, self.repeat, self.delay = loss, repeat, delay
        self.machines, self.facts, self.sent, self._queue, self._order = {}, {}, [], [], 0
        self.dead = []

    def add(self, machine, address):
        self.machines[address] = machine
        self.facts[id(machine)] = []
        return machine

    def move(self, machine, address):
        """What was under way to the old address is lost."""
        for old in [one for one, who in self.machines.items() if who is machine]:
            del self.machines[old]
        self.machines[address] = machine
        machine.moved(address, self.now, self.rng)
        self.carry_out(machine)

    def ask(self, machine, method, *arguments, **named):
        result = getattr(machine, method)(*arguments, self.now, self.rng, **named)
        self.carry_out(machine)
        return result

    def carry_out(self, machine):
        source = next(one for one, who in self.machines.items() if who is machine)
        for effect in machine.take():
            if isinstance(effect, Report):
                self.facts[id(machine)].append(effect.fact)
                self.react(machine, effect.fact)
            else:
                self._transmit(source, effect)

    def react(self, machine, fact):
        """Tests put here what an application does."""

    def _transmit(self, source, effect: Transmit):
        self.sent.append((self.now, source, effect.to, effect.data))
        for _ in range(1 + (self.rng.random() < self.repeat)):
            if self.rng.random() >= self.loss:
                self._order += 1
                heapq.heappush(
                    self._queue, (self.now + self.rng.uniform(*self.delay), self._order, source, effect.to, effect.data)
                )

    def _next(self):
        times = [self._queue[0][0]] if self._queue else []
        times += [time for one in self.machines.values() if (time := one.deadline()) is not None]
        return min(times, default=None)

    def run(self, until=None):
        """Until that time, or until nothing is left to do."""
        while (time := self._next()) is not None and (until is None or time <= until):
            self.now = max(self.now, time)
            while self._queue and self._queue[0][0] <= self.now:
                _, _, source, to, data = heapq.heappop(self._queue)
                machine = self.machines.get(to)
                if machine is not None and to not in self.dead:
                    machine.receive(data, source, self.now, self.rng)
                    self.carry_out(machine)
            for machine in list(self.machines.values()):
                machine.tick(self.now, self.rng)
                self.carry_out(machine)
        self.now = self.now if until is None else until

    def told(self, machine, kind=None):
        return [one for one in self.facts[id(machine)] if kind is None or isinstance(one, kind)]
