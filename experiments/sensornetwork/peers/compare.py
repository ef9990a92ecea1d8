"""Recado's figures beside those of ns-2 and ns-3, and whether they are as near as they should be (outline 15).

The limits of requests and broadcasts are the outline's. It wants hop counts to be equal. On a line they are;
where requests collide, routes depend on chance. So on placements that are drawn means are compared, with a limit of
our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from experiments.sensornetwork.peers import ns2, ns3, ours
from experiments.sensornetwork.peers.scene import Count, Scene, broadcast_scene, unicast_scene
from recado.protocols.sensors import PAMPA_PROFILES, SensorSettings

SEEDS = range(1, 5)
SIDES = (1000.0, 1400.0)
PAMPA_SIDES = (500.0, 900.0, 1300.0, 1500.0)
REQUESTS, HOPS, BROADCAST = 0.10, 0.05, 0.15
HOPS_FIGURE = "mean hops"
FOUND = Path(__file__).with_name("found.json")
"""What was found when all was last compared; the report shows it."""

RunOne = Callable[[Scene, int], Count]


class Comparison(msgspec.Struct, frozen=True):
    """One figure of both programs; ``ideal`` is what the ideal channel gives. Without a limit it is only told."""

    what: str
    peer: str
    figure: str
    theirs: float
    mine: float
    ideal: float
    limit: float | None = None

    @property
    def apart(self) -> float:
        """How much more there is here, as a share of the peer's."""
        return self.mine / self.theirs - 1

    @property
    def holds(self) -> bool:
        return self.limit is None or abs(self.apart) <= self.limit


def compare_routes_with_ns2(side: float, expiry: bool, folder: Path, seeds: Sequence[int] = SEEDS) -> list[Comparison]:
    return _compare_routes(
        f"AODV `ns2`, {side:,.0f} m, {'expiry of 10 s' if expiry else 'no expiry'}",
        lambda scene, seed: ns2.run_aodv(scene, folder, expiry=expiry, seed=seed),
        SensorSettings(route_expiry=expiry),
        [(unicast_scene(seed, side), seed) for seed in seeds],
    )


def compare_routes_with_ns3(side: float, program: Path, seeds: Sequence[int] = SEEDS) -> list[Comparison]:
    return _compare_routes(
        f"AODV `rfc3561`, {side:,.0f} m, no expiry",
        lambda scene, seed: ns3.run_aodv(scene, program, seed),
        ns3.SETTINGS,
        [(unicast_scene(seed, side), seed) for seed in seeds],
    )


def _compare_routes(
    what: str, peer: RunOne, settings: SensorSettings, scenes: Sequence[tuple[Scene, int]]
) -> list[Comparison]:
    runs: list[RunOne] = [
        peer,
        lambda scene, seed: ours.run_aodv(scene, settings, "csma", seed),
        lambda scene, seed: ours.run_aodv(scene, settings, "ideal", seed),
    ]
    columns = []
    for run in runs:
        counts = [run(scene, seed) for scene, seed in scenes]
        hops = [hop for count in counts for hop in count.hops]
        requests = sum(count.transmissions["aodv.rreq"] for count in counts)
        columns.append((counts[0].program, requests, sum(hops) / len(hops), len(hops)))
    (name, *theirs), (_, *mine), (_, *ideal) = columns
    sent = sum(len(scene.sends) for scene, _ in scenes)
    figures = (("route requests", REQUESTS), (HOPS_FIGURE, HOPS), (f"arrived of {sent}", None))
    return [
        Comparison(what, name, figure, theirs[at], mine[at], ideal[at], limit)
        for at, (figure, limit) in enumerate(figures)
    ]


def compare_broadcasts(
    profile: Literal["prototype", "sparse"], side: float, folder: Path, seeds: Sequence[int] = SEEDS
) -> list[Comparison]:
    settings = SensorSettings(system="publication-flooding", pampa=profile)
    runs: list[RunOne] = [
        lambda scene, seed: ns2.run_pampa(scene, PAMPA_PROFILES[profile], folder, seed),
        lambda scene, seed: ours.run_pampa(scene, settings, "csma", seed),
        lambda scene, seed: ours.run_pampa(scene, settings, "ideal", seed),
    ]
    scenes = [(broadcast_scene(seed, side), seed) for seed in seeds]
    sends = sum(len(scene.sends) for scene, _ in scenes)
    columns = []
    for run in runs:
        counts = [run(scene, seed) for scene, seed in scenes]
        reach = sum(count.arrived for count in counts) / sends / (len(scenes[0][0].places) - 1)
        relays = sum(count.transmissions["pampa.pub"] for count in counts) / sends
        columns.append((relays, reach))
    theirs, mine, ideal = columns
    figures = (("transmissions a broadcast", BROADCAST), ("reach", None))
    return [
        Comparison(f"PAMPA `{profile}`, {side:,.0f} m", "ns-2", figure, theirs[at], mine[at], ideal[at], limit)
        for at, (figure, limit) in enumerate(figures)
    ]
