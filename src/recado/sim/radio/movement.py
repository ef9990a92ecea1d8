"""Nodes that move: random waypoint, and what a field looks like while they do.

A node stays for its pause, chooses a point of the square and a speed, goes there in a straight line, and begins again.
The least speed is more than 0: with speeds down to 0 the mean of a long run goes to 0, as slow ways take for ever.
"""

from __future__ import annotations

import math
from random import Random

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError
from recado.sim.network import Place
from recado.sim.radio.channel import Radio


class RandomWaypoint:
    """A process of a radio: ``places`` are brought up to date when ``step_seconds`` have passed.

    Each node has a stream of its own, so that its way does not depend on when it is looked at, nor on the others.
    """

    def __init__(
        self,
        places: dict[NodeId, Place],
        side_metres: float,
        rngs: dict[NodeId, Random],
        *,
        least_speed: float = 0.5,
        most_speed: float = 2.0,
        pause_seconds: float = 0.0,
        step_seconds: float = 1.0,
    ) -> None:
        if not 0 < least_speed <= most_speed or pause_seconds < 0 or not step_seconds > 0 or not side_metres > 0:
            raise SimulationError(
                f"nodes move at 0 < least_speed <= most_speed m/s, not {least_speed} to {most_speed}, "
                f"pause for 0 s or more, not {pause_seconds}, and steps take more than 0 s, not {step_seconds}"
            )
        self.side_metres, self.step_seconds = side_metres, step_seconds
        self._speeds, self._pause = (least_speed, most_speed), pause_seconds
        self._trips = {node: _Trip(place, place, 0.0, 0.0, pause_seconds) for node, place in places.items()}
        self._rngs = rngs

    def place(self, node: NodeId, now: float) -> Place:
        """Where a node is; times are asked for in order."""
        trip = self._trips[node]
        while now >= trip.leaves:
            trip = self._trips[node] = self._next_trip(trip, self._rngs[node])
        return trip.place(now)

    def advance(self, radio: Radio, now: float) -> float:
        places = {node: self.place(node, now) for node in self._trips}
        moved = {node: place for node, place in places.items() if place != radio.places[node]}
        if moved:
            radio.move_all(moved)
        return (math.floor(now / self.step_seconds) + 1) * self.step_seconds

    def _next_trip(self, last: _Trip, rng: Random) -> _Trip:
        goal = (rng.uniform(0, self.side_metres), rng.uniform(0, self.side_metres))
        seconds = math.dist(last.goal, goal) / rng.uniform(*self._speeds)
        arrives = last.leaves + seconds
        return _Trip(last.goal, goal, last.leaves, arrives, arrives + self._pause)


class _Trip:
    """From one point to the next, and the pause there."""

    __slots__ = ("arrives", "begins", "goal", "leaves", "start")

    def __init__(self, start: Place, goal: Place, begins: float, arrives: float, leaves: float) -> None:
        self.start, self.goal = start, goal
        self.begins, self.arrives, self.leaves = begins, arrives, leaves

    def place(self, now: float) -> Place:
        if now >= self.arrives:
            return self.goal
        share = max(0.0, (now - self.begins) / (self.arrives - self.begins))
        (x, y), (to_x, to_y) = self.start, self.goal
        return x + share * (to_x - x), y + share * (to_y - y)
