"""Churn: nodes arrive, stay for a session and leave without a word.

Gaps between arrivals and lengths of sessions are draws (``recado.sim.draws``): exponential gaps make arrivals a Poisson
process, and Weibull sessions, truncated, are what the super-node system was measured with. With gaps of mean g and
sessions of mean s there are s / g nodes in the long run. Every arrival is a node of its own; nobody comes back.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from recado.protocols.machine import Machine, NodeId
from recado.sim.draws import Draw
from recado.sim.kernel import Simulation


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
