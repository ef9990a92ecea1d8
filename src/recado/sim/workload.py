"""What the applications of a simulated system do: when, where, and with which of many things.

Times come from ``poisson`` (independent users) or ``steady`` (a clock); choices from ``Zipf`` (a few things are
popular: rank k is chosen in proportion to 1 / k^exponent) or ``rng.choice`` (all alike, Zipf with exponent 0).
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

import msgspec

from recado.protocols.machine import Machine, NodeId
from recado.sim.draws import Draw, positive
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


# --- Churn: nodes arrive, stay for a session and leave without a word ------------------------------------------------
#
# Gaps between arrivals and lengths of sessions are draws (``recado.sim.draws``): exponential gaps make arrivals a
# Poisson process, and Weibull sessions, truncated, are what the super-node system was measured with. With gaps of mean
# g and sessions of mean s there are s / g nodes in the long run. Every arrival is a node of its own; nobody comes
# back.


class Session(msgspec.Struct, frozen=True):
    node: NodeId
    arrived: float
    leaves: float


class Churn:
    """Arrivals from now on, for ``seconds``; nodes are numbered from ``first`` on, ``make(node)`` gives their machines.

    ``joined`` and ``left`` are called at each arrival and departure, after the fact.
    """

    def __init__(
        self,
        simulation: Simulation,
        make: Callable[[int], Machine],
        gaps: Draw,
        sessions: Draw,
        seconds: float,
        *,
        first: int = 0,
        joined: Callable[[Session], None] | None = None,
        left: Callable[[Session], None] | None = None,
    ) -> None:
        self.live: dict[NodeId, Session] = {}
        self.arrived = 0
        self._simulation, self._make = simulation, make
        self._gaps, self._sessions = gaps, sessions
        self._first, self._end = first, simulation.now + seconds
        self._joined, self._left = joined, left
        self._next()

    def _next(self) -> None:
        time = self._simulation.now + self._gaps()
        if time < self._end:
            self._simulation.at(time, self._arrive)

    def _arrive(self) -> None:
        now = self._simulation.now
        node = self._first + self.arrived
        session = self.live[node] = Session(node, now, now + self._sessions())
        self.arrived += 1
        self._simulation.add(node, self._make(node))
        self._simulation.at(session.leaves, lambda: self._leave(session))
        if self._joined is not None:
            self._joined(session)
        self._next()

    def _leave(self, session: Session) -> None:
        del self.live[session.node]
        self._simulation.crash(session.node)
        if self._left is not None:
            self._left(session)
