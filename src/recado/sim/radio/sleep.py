"""Duty cycling: nodes that listen a share of the time and sleep for the rest, to spare their batteries.

A node sleeps and wakes in periods. While it sleeps it hears nothing, and a message that it wants to send waits until it
wakes; its timers go on. With equal phases all nodes are awake at the same time, as in S-MAC: messages are late, but
reach everybody. With phases of their own, a node is heard only by those who happen to be awake when it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError


class Sleep:
    """Awake for the first ``awake_share`` of every period; that of a node begins ``phases[node]`` seconds late."""

    def __init__(
        self, period_seconds: float = 1.0, awake_share: float = 1.0, phases: Mapping[NodeId, float] | None = None
    ) -> None:
        if not period_seconds > 0 or not 0 < awake_share <= 1:
            raise SimulationError(
                f"a node is awake for a share of a period, not for {awake_share} of {period_seconds} seconds"
            )
        self.period_seconds, self.awake_share = period_seconds, awake_share
        self.awake_seconds = period_seconds * awake_share
        self.phases = dict(phases or {})
        self.always = awake_share == 1

    def is_awake(self, node: NodeId, time: float) -> bool:
        return self.always or self._into_period(node, time) < self.awake_seconds

    def next_awake(self, node: NodeId, time: float) -> float:
        """The first moment from ``time`` on at which the node is awake."""
        if self.is_awake(node, time):
            return time
        wakes = time + self.period_seconds - self._into_period(node, time)
        while not self.is_awake(node, wakes):  # rounding can leave a hair's breadth
            wakes = math.nextafter(wakes, math.inf)
        return wakes

    def awake_until(self, node: NodeId, time: float) -> float:
        """How many of the seconds from 0 to ``time`` the node was awake."""
        if self.always:
            return time
        phase = self.phases.get(node, 0.0)
        return self._awake_before(time - phase) - self._awake_before(-phase)

    def _awake_before(self, seconds: float) -> float:
        whole = math.floor(seconds / self.period_seconds)
        return whole * self.awake_seconds + min(seconds - whole * self.period_seconds, self.awake_seconds)

    def _into_period(self, node: NodeId, time: float) -> float:
        return (time - self.phases.get(node, 0.0)) % self.period_seconds


ALWAYS_AWAKE = Sleep()


def random_phases(nodes: Sequence[NodeId], period_seconds: float, rng: Random) -> dict[NodeId, float]:
    return {node: rng.uniform(0, period_seconds) for node in nodes}
