"""A plain twin of the kernel: it looks through all that is pending for what comes next, and counts nothing."""

from __future__ import annotations

from recado.protocols.machine import (
    Asked,
    CancelTimer,
    Deliver,
    Persist,
    Received,
    Send,
    SendFailed,
    SetTimer,
    Started,
    TimerFired,
)
from recado.sim.kernel import stream


class PlainNode:
    def __init__(self, id, machine, rng, saved):
        self.id, self.machine, self.rng, self.saved, self.alive, self.timers = id, machine, rng, saved, True, {}


class PlainSimulation:
    def __init__(self, network, seed, deliver=None):
        self.network, self.seed, self.deliver = network, seed, deliver
        self.now, self.number, self.pending, self.steps, self.nodes, self.starts = 0.0, 0, [], [], {}, {}

    def add(self, id, machine):
        start = self.starts[id] = self.starts.get(id, -1) + 1
        saved = self.nodes[id].saved if start else {}
        self.nodes[id] = PlainNode(id, machine, stream(self.seed, "node", id, start), saved)
        self.schedule(self.now, self.nodes[id], Started((), dict(saved)))

    def crash(self, id):
        self.nodes[id].alive = False

    def ask(self, id, request, at=None):
        self.schedule(self.now if at is None else at, self.nodes[id], Asked(request))

    def lose(self, sender, receiver):
        lost = [e for e in self.pending if e[4] is not None and (e[4].id, e[2].id) == (sender, receiver)]
        for entry in lost:
            self.pending.remove(entry)
            if self.network.tells_failure:
                self.schedule(self.now, entry[4], SendFailed(receiver, entry[3].message))

    def at(self, time, call):
        self.schedule(time, None, call)

    def schedule(self, time, node, what, sender=None):
        self.number += 1
        self.pending.append((time, self.number, node, what, sender))

    def run(self, until=float("inf")):
        while self.pending:
            first = min(self.pending, key=lambda entry: entry[:2])
            if first[0] > until:
                break
            self.pending.remove(first)
            self.now = first[0]
            self.take(*first)
        self.now = until if until < float("inf") else self.now

    def take(self, now, number, node, what, sender):
        if node is None:
            what()
        elif not node.alive:
            if sender is not None and self.network.tells_failure:
                self.schedule(now, sender, SendFailed(node.id, what.message))
            elif isinstance(what, Asked) and self.nodes[node.id].alive:
                self.schedule(now, self.nodes[node.id], what)
        elif self.is_due(node, number, what):
            effects = node.machine.handle(what, now, node.rng)
            self.steps.append((now, number, node.id, what, list(effects)))
            for effect in effects:
                if node.alive:
                    self.carry_out(effect, node, now)

    def is_due(self, node, number, what):
        if not isinstance(what, TimerFired):
            return True
        due = node.timers.get(what.timer) == number
        if due:
            del node.timers[what.timer]
        return due

    def carry_out(self, effect, node, now):
        match effect:
            case Send(receiver, message, _):
                times = self.network.arrivals(node.id, receiver, 0, now)
                for time in times:
                    self.schedule(time, self.nodes[receiver], Received(node.id, message), node)
                if not times and self.network.tells_failure:
                    self.schedule(now, node, SendFailed(receiver, message))
            case SetTimer(timer, seconds):
                self.schedule(now + seconds, node, TimerFired(timer))
                node.timers[timer] = self.number
            case CancelTimer(timer):
                node.timers.pop(timer, None)
            case Deliver(notification) if self.deliver is not None:
                self.deliver(now, node.id, notification)
            case Persist(key, None):
                node.saved.pop(key, None)
            case Persist(key, value):
                node.saved[key] = value
