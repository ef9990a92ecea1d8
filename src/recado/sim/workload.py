"""What the applications of a simulated system do: when, where, and with which of many things.

Times come from ``poisson`` (independent users) or ``steady`` (a clock); choices from ``Zipf`` (a few things are
popular: rank k is chosen in proportion to 1 / k^exponent) or ``rng.choice`` (all alike, Zipf with exponent 0).
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from recado.protocols.machine import NodeId
from recado.sim.draws import positive
from recado.sim.kernel import Simulation, SimulationError

T = TypeVar("T")

ROUNDING = 1e-9  # 29 s divided by 0.29 s is a little more than 100


class Zipf(Generic[T]):
    """Things in the order of their popularity. ``exponent`` 0 is uniform, 1 is usual for words and pages."""

    def __init__(self, things: Sequence[T], exponent: float, rng: Random) -> None:
        if not things:
            raise SimulationError("there is nothing to choose from")
        self.things, self._rng = things, rng
        self._sums: list[float] = list(accumulate(rank**-exponent for rank in range(1, len(things) + 1)))

    def __call__(self) -> T:
        at = bisect(self._sums, self._rng.random() * self._sums[-1])
        return self.things[min(at, len(self.things) - 1)]

    def probability(self, index: int) -> float:
        below = self._sums[index - 1] if index else 0.0
        return (self._sums[index] - below) / self._sums[-1]


def poisson(rate: float, seconds: float, rng: Random, start: float = 0.0) -> Iterator[float]:
    """Times of a Poisson process, ``rate`` a second on average."""
    positive(rate, "the rate of a Poisson process")
    time = start + rng.expovariate(rate)
    while time < start + seconds:
        yield time
        time += rng.expovariate(rate)


def steady(every_seconds: float, seconds: float, start: float = 0.0) -> Iterator[float]:
    """Times at equal distances, the first one at ``start``, none as late as ``start + seconds``."""
    positive(every_seconds, "the time between two requests")
    for number in range(math.ceil(seconds / every_seconds - ROUNDING)):
        yield start + number * every_seconds


def schedule(simulation: Simulation, requests: Iterable[tuple[float, NodeId, object]]) -> None:
    """Ask for everything at its time, earliest first; nodes that are not alive then are passed over.

    Requests are taken from ``requests`` one by one, so that a long workload does not fill the simulation's heap.
    """
    waiting = iter(requests)

    def wait() -> None:
        found = next(waiting, None)
        if found is not None:
            time, node, request = found
            simulation.at(time, lambda: ask(node, request))

    def ask(node: NodeId, request: object) -> None:
        found = simulation.nodes.get(node)
        if found is not None and found.alive:
            simulation.ask(node, request)
        wait()

    wait()
