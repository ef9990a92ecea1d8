"""The ideal channel: a disk around the sender, no loss, no collision.

A transmission is heard by everybody within ``range_metres``, after ``BROADCAST_SECONDS``; to a single receiver it takes
``UNICAST_SECONDS``, since it is acknowledged, and the sender learns that nobody acknowledged it. Each hearer gets it up
to ``JITTER_SECONDS`` later than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from recado.protocols.machine import NodeId
from recado.sim.kernel import Audience, Transmission
from recado.sim.network import Place
from recado.sim.radio.channel import ClassOf, Radio
from recado.sim.radio.signal import RANGE_METRES
from recado.sim.radio.sleep import ALWAYS_AWAKE, Sleep

BROADCAST_SECONDS = 0.001
UNICAST_SECONDS = (0.002, 0.003)
JITTER_SECONDS = 0.0001


class IdealRadio(Radio):
    """``places`` are in metres; a node that moves is moved with ``move``."""

    def __init__(
        self,
        places: Mapping[NodeId, Place],
        rng: Random,
        range_metres: float = RANGE_METRES,
        *,
        class_of: ClassOf | None = None,
        sleep: Sleep = ALWAYS_AWAKE,
    ) -> None:
        super().__init__(places, range_metres, class_of, sleep)
        self._rng = rng

    def carry(self, transmission: Transmission, now: float) -> bool:
        sender, size = transmission.sender.id, transmission.size_bytes
        start = now if self.sleep.always else self.sleep.next_awake(sender, now)
        if self.listener is not None:
            self.listener.transmitted(sender, self.air_seconds(size))
        if transmission.receiver is None:
            self._broadcast(transmission, start)
            return True
        times = self.arrivals(sender, transmission.receiver, size, start)
        if not times or not self.passes(sender, transmission.receiver):
            self.simulation.fail(transmission)
        else:
            if self.listener is not None:
                self.listener.received(transmission.receiver, self.air_seconds(size))
            self.simulation.arrive(transmission, times[0])
        return True

    def _broadcast(self, transmission: Transmission, start: float) -> None:
        sender = transmission.sender.id
        audience = self.audience(sender, transmission.size_bytes, start)
        if self.obstacles:
            audience = [heard for heard in audience if self.passes(sender, heard[0])]
        if self.listener is not None:
            seconds = self.air_seconds(transmission.size_bytes)
            for node, _, _ in audience:
                self.listener.received(node, seconds)
        self.simulation.hear(transmission, audience)

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        end, random = now + BROADCAST_SECONDS, self._rng.random
        heard = self.field.hearers(sender)
        if self.sleep.always:
            return [(node, end + JITTER_SECONDS * random(), signal) for node, signal in heard.items()]
        awake = self.sleep.is_awake
        times = [(node, end + JITTER_SECONDS * random(), signal) for node, signal in heard.items()]
        return [(node, time, signal) for node, time, signal in times if awake(node, now) and awake(node, time)]

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        if receiver not in self.field.hearers(sender):
            return ()
        time = now + self._rng.uniform(*UNICAST_SECONDS) + self._rng.uniform(0, JITTER_SECONDS)
        if not self.sleep.always and not (self.sleep.is_awake(receiver, now) and self.sleep.is_awake(receiver, time)):
            return ()
        return (time,)
