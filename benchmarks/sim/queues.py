"""What the agenda saves: entries are taken and put back a random time later, there and in one plain heap."""

from __future__ import annotations

import time
from heapq import heappop, heappush
from random import Random

from benchmarks.sim.records import Queue
from recado.sim.kernel import Agenda, Entry, stream


def compare(entries: int, rounds: int, runs: int) -> Queue:
    """The best of several runs each, in turn."""
    heap, agenda = [], []
    for _ in range(runs):
        heap.append(_heap_seconds(entries, rounds))
        agenda.append(_agenda_seconds(entries, rounds))
    return Queue(entries, min(heap) / rounds, min(agenda) / rounds)


def _fill(entries: int, rng: Random) -> list[Entry]:
    return [(rng.uniform(0.5, 1.5), number, None, None, 0, None, None) for number in range(entries)]


def _heap_seconds(entries: int, rounds: int) -> float:
    rng = stream(1, "queue")
    heap = sorted(_fill(entries, rng))
    random, started = rng.random, time.process_time()
    for number in range(entries, entries + rounds):
        now = heappop(heap)[0]
        heappush(heap, (now + 0.5 + random(), number, None, None, 0, None, None))
    return time.process_time() - started


def _agenda_seconds(entries: int, rounds: int) -> float:
    """As the kernel does it; see ``recado.sim.kernel.Simulation.run``."""
    rng, agenda = stream(1, "queue"), Agenda()
    for entry in _fill(entries, rng):
        agenda.put(entry)
    agenda.next_time()
    near, late, far, order = agenda.near, agenda.late, agenda.far, agenda.order
    scale, edge = agenda.scale, agenda.edge
    random, number, started = rng.random, entries, time.process_time()
    while number < entries + rounds:
        if late and (not near or late[0] < near[-1]):
            now = heappop(late)[0]
        elif near:
            now = near.pop()[0]
        else:
            agenda.open()
            scale, edge = agenda.scale, agenda.edge
            continue
        later = now + 0.5 + random()
        stretch = int(later * scale)
        if stretch <= edge:
            heappush(late, (later, number, None, None, 0, None, None))
        elif stretch in far:
            far[stretch].append((later, number, None, None, 0, None, None))
        else:
            far[stretch] = [(later, number, None, None, 0, None, None)]
            heappush(order, stretch)
        number += 1
    return time.process_time() - started
