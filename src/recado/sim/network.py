"""Networks of point-to-point messages: how long a message takes, and in what order messages arrive.

Models are put around each other: ``Loss(Bandwidth(Links(...)))``. The innermost gives the latency, the others
(``Bandwidth`` here, the faults in ``recado.sim.faults``) change when a message gets on its way, or whether.

On ``Links`` no message overtakes another of the same sender and receiver, like on a TCP connection. ``Mesh`` is a
network in which everybody reaches everybody and a sender learns that a message did not arrive; it keeps nothing for
a pair of nodes, so that many thousands may talk to each other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from recado.protocols.machine import NodeId
from recado.sim.draws import Draw
from recado.sim.kernel import Audience, Medium, Network, SimulationError

Place = tuple[float, float]


class PointToPoint:
    """What networks without a shared medium have in common."""

    tells_failure = False
    medium: Medium | None = None

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        raise SimulationError(f"node {sender!r} broadcast on a network of links; only a radio can do that")


class UnitDelay(PointToPoint):
    """Every message takes one time unit: the model of the analytic cost figures."""

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        return (now + 1.0,)


class Links(PointToPoint):
    """Every message takes ``delay()`` seconds and none overtakes another on the same link."""

    def __init__(self, delay: Draw) -> None:
        self._delay = delay
        self._last: dict[NodeId, dict[NodeId, float]] = {}

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        time = now + self._delay()
        links = self._last.get(sender)
        if links is None:
            self._last[sender] = {receiver: time}
            return (time,)
        last = links.get(receiver)
        if last is not None and last > time:
            time = last
        links[receiver] = time
        return (time,)


class Mesh(PointToPoint):
    """Everybody reaches everybody in ``delay()`` seconds, in any order; failed sends are told."""

    tells_failure = True

    def __init__(self, delay: Draw) -> None:
        self._delay = delay

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        return (now + self._delay(),)


class Euclidean(PointToPoint):
    """Everybody reaches everybody; latency grows with distance. With constant latencies, order is kept.

    ``places`` may grow while the run goes on; a node stays where it is. A message takes its size divided by
    ``bytes_per_second`` longer and waits for no other, so a short one may overtake a long one; ``Bandwidth`` has lines
    on which they wait. The defaults, 5 ms and 0.5 ms a unit, are those of the super-node system.
    """

    def __init__(
        self,
        places: Mapping[NodeId, Place],
        least_seconds: float = 0.005,
        seconds_per_unit: float = 0.0005,
        bytes_per_second: float = math.inf,
        *,
        tells_failure: bool = True,
    ) -> None:
        self._places, self._least, self._factor = places, least_seconds, seconds_per_unit
        self._points: dict[
            NodeId, complex
        ] = {}  # the same, each as one number: a distance is asked for with every message
        self._seconds_per_byte = 1 / bytes_per_second
        self.tells_failure = tells_failure

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        try:
            distance = abs(self._points[sender] - self._points[receiver])
        except KeyError:
            distance = abs(self._point(sender) - self._point(receiver))
        return (now + self._least + self._factor * distance + size_bytes * self._seconds_per_byte,)

    def _point(self, node: NodeId) -> complex:
        try:
            point = self._points[node] = complex(*self._places[node])
        except KeyError as nowhere:
            raise SimulationError(f"node {nowhere} is nowhere; give it a place") from None
        return point


class NetworkWrapper:
    """A model around another one; by itself it changes nothing."""

    medium: Medium | None = None
    """Models that let a message pass or not (``recado.sim.faults``) work inside a medium; others around a radio."""

    def __init__(self, inner: Network) -> None:
        self.inner = inner
        self.tells_failure = inner.tells_failure

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        return self.inner.arrivals(sender, receiver, size_bytes, now)

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        return self.inner.audience(sender, size_bytes, now)


class Bandwidth(NetworkWrapper):
    """A sender puts one message after another on the line; those that wait stand in a queue without limit.

    The line is the node's, or with ``each_link`` there is one for every receiver. Sizes are those of the simulation's
    ``size_of``, without which nothing waits.
    """

    def __init__(self, inner: Network, bytes_per_second: float, *, each_link: bool = False) -> None:
        super().__init__(inner)
        if not bytes_per_second > 0:
            raise SimulationError(f"a line carries more than {bytes_per_second} bytes a second")
        self._rate, self._each_link = bytes_per_second, each_link
        self._free: dict[Hashable, float] = {}

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        return self.inner.arrivals(sender, receiver, size_bytes, self._transmit(sender, receiver, size_bytes, now))

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        return self.inner.audience(sender, size_bytes, self._transmit(sender, None, size_bytes, now))

    def _transmit(self, sender: NodeId, receiver: NodeId | None, size_bytes: int, now: float) -> float:
        """When the last byte of a message is on the line."""
        line = (sender, receiver) if self._each_link else sender
        free = max(now, self._free.get(line, 0.0)) + size_bytes / self._rate
        self._free[line] = free
        return free
