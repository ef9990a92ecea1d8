"""What is the same for all: where nodes are, and who sends to whom at what time; and what each program counted."""

from __future__ import annotations

import msgspec

from recado.protocols.machine import NodeId
from recado.sim.kernel import stream
from recado.sim.network import Place
from recado.sim.radio import connected_scatter

PAYLOAD_BYTES = 64
LAST_SECONDS = 30.0
"""So long a program goes on after the last sending."""


class Scene(msgspec.Struct, frozen=True):
    """Nodes 0 to n - 1, and sendings as time, source and destination; of a broadcast the destination is -1."""

    places: tuple[Place, ...]
    sends: tuple[tuple[float, int, int], ...]

    @property
    def end(self) -> float:
        return self.sends[-1][0] + LAST_SECONDS

    def by_node(self) -> dict[NodeId, Place]:
        return dict(enumerate(self.places))


class Count(msgspec.Struct, frozen=True):
    """What a program counted: transmissions by traffic class, packets that arrived and their hops."""

    program: str
    transmissions: dict[str, int]
    arrived: int
    hops: tuple[int, ...] = ()

    @property
    def mean_hops(self) -> float:
        return sum(self.hops) / len(self.hops) if self.hops else 0.0


def unicast_scene(seed: int, side: float, nodes: int = 100, sends: int = 40, apart_seconds: float = 20.0) -> Scene:
    """A connected placement; sources and destinations are drawn."""
    places = connected_scatter(range(nodes), side, stream(seed, "places"))
    rng = stream(seed, "sends")
    pairs = [rng.sample(range(nodes), 2) for _ in range(sends)]
    times = [10.0 + apart_seconds * number + rng.random() for number in range(sends)]
    return Scene(tuple(places.values()), tuple((time, a, b) for time, (a, b) in zip(times, pairs, strict=True)))


def broadcast_scene(seed: int, side: float, nodes: int = 100, sends: int = 40) -> Scene:
    places = connected_scatter(range(nodes), side, stream(seed, "places"))
    rng = stream(seed, "sends")
    return Scene(
        tuple(places.values()), tuple((10.0 + 5.0 * number, rng.randrange(nodes), -1) for number in range(sends))
    )


def line_scene(nodes: int, sends: tuple[tuple[float, int, int], ...], apart_metres: float = 200.0) -> Scene:
    return Scene(tuple((apart_metres * number, 0.0) for number in range(nodes)), sends)
