"""Faults of the network: messages that are lost, come twice, come late, or cannot get through.

Each is a model around another (``recado.sim.network``), with a random stream of its own, so that a fault more does not
change what the others do. Where the network tells of failures, the sender learns of every message that is lost.

``Cuts`` is the part that an experiment changes while it runs: links, in one direction or both, and partitions. It only
swallows messages; ``recado.sim.outages`` also tells the ends of a link, as a broken connection would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from recado.protocols.machine import NodeId
from recado.sim.kernel import Network, SimulationError
from recado.sim.network import Around


class Chance(Around):
    """A fault that meets each message with the same probability."""

    def __init__(self, inner: Network, probability: float, rng: Random) -> None:
        super().__init__(inner)
        if not 0 <= probability <= 1:
            raise SimulationError(f"a probability is between 0 and 1, not {probability}")
        self.probability, self._rng = probability, rng

    def happens(self) -> bool:
        return self._rng.random() < self.probability


class Loss(Chance):
    """Messages are lost; of a broadcast, each hearer loses it by itself."""

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        return () if self.happens() else times

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Sequence[tuple[NodeId, float, float]]:
        return [heard for heard in self.inner.audience(sender, size_bytes, now) if not self.happens()]


class Duplication(Chance):
    """Messages come twice, the second time up to ``within_seconds`` later."""

    def __init__(self, inner: Network, probability: float, rng: Random, within_seconds: float) -> None:
        super().__init__(inner, probability, rng)
        self._within = within_seconds

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        if times and self.happens():
            return (*times, times[-1] + self._rng.uniform(0, self._within))
        return times


class Reordering(Chance):
    """Messages come up to ``by_seconds`` late, so that later ones overtake them."""

    def __init__(self, inner: Network, probability: float, rng: Random, by_seconds: float) -> None:
        super().__init__(inner, probability, rng)
        self._by = by_seconds

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        if self.happens():
            late = self._rng.uniform(0, self._by)
            return [time + late for time in times]
        return times


class Cuts(Around):
    """What cannot get through now. A message that was sent before a cut still arrives."""

    def __init__(self, inner: Network) -> None:
        super().__init__(inner)
        self._blocked: dict[tuple[NodeId, NodeId], None] = {}
        self._group: dict[NodeId, int] = {}
        self._one_way: list[tuple[frozenset[NodeId], frozenset[NodeId]]] = []

    def block(self, sender: NodeId, receiver: NodeId) -> None:
        """Nothing more from one node to another; the way back stays open."""
        self._blocked[sender, receiver] = None

    def unblock(self, sender: NodeId, receiver: NodeId) -> None:
        self._blocked.pop((sender, receiver), None)

    def split(self, *groups: Iterable[NodeId]) -> None:
        """A partition: messages stay inside a group; nodes in no group are together. It replaces an earlier split."""
        self._group = {node: number for number, group in enumerate(groups, 1) for node in group}

    def split_one_way(self, senders: Iterable[NodeId], receivers: Iterable[NodeId]) -> None:
        """Nothing more from the senders to the receivers, while answers still come."""
        self._one_way.append((frozenset(senders), frozenset(receivers)))

    def join(self) -> None:
        """The end of all partitions, not of blocked links."""
        self._group.clear()
        self._one_way.clear()

    def passes(self, sender: NodeId, receiver: NodeId) -> bool:
        return (
            (sender, receiver) not in self._blocked
            and self._group.get(sender) == self._group.get(receiver)
            and not any(sender in senders and receiver in receivers for senders, receivers in self._one_way)
        )

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        return times if self.passes(sender, receiver) else ()

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Sequence[tuple[NodeId, float, float]]:
        return [heard for heard in self.inner.audience(sender, size_bytes, now) if self.passes(sender, heard[0])]
