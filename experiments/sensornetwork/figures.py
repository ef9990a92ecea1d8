"""Figures 3 to 7 of the paper, and those of the studies beyond it. The paper's text has no number of any curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.base import Figure, Results
from experiments.expected import ExperimentError
from experiments.sensornetwork.measure import samples
from experiments.sensornetwork.plan import CROWDS, FAILURES, SPEEDS, sides_of
from experiments.sensornetwork.workload import interest_in_publications
from recado.sim.runs.plot import Estimate, Look, Point, Series, draw, estimate

_Drawing = Callable[[Results, Path], None]
SIDE = "side of the square, m"
SIDES = sorted({*sides_of("prototype"), *sides_of("sparse")})
Line = tuple[str, str, str | tuple[str, ...]]
"""A label, a system and a metric, or several that are added."""


def _draw(lines: Sequence[Series], look: Look, path: Path) -> None:
    lines = [line for line in lines if line.points]
    if not lines:
        raise ExperimentError("nothing was run that this figure shows")
    draw(lines, look, [path])


def _by_side(lines: Sequence[Line], y: str) -> _Drawing:
    def drawn(results: Results, path: Path) -> None:
        found = samples(results)
        series = []
        for label, system, metric in lines:
            values = [(side, _added(found.get(f"{system}-{side}", {}), metric)) for side in SIDES]
            series.append(Series(label, tuple(Point(side, estimate(some)) for side, some in values if some)))
        _draw(series, Look(SIDE, y), path)

    return drawn


def _added(found: Mapping[str, Sequence[float]], metric: str | tuple[str, ...]) -> list[float]:
    """A value a seed."""
    parts = [found.get(one, ()) for one in ((metric,) if isinstance(metric, str) else metric)]
    return [sum(values) for values in zip(*parts, strict=True)]


def _by_value(
    start: str, values: Sequence[float], ends: Sequence[tuple[str, str]], metric: str, look: Look
) -> _Drawing:
    def drawn(results: Results, path: Path) -> None:
        found = samples(results)
        series = []
        for end, label in ends:
            known = [(value, found.get(f"{start}-{value:g}{end}", {}).get(metric)) for value in values]
            series.append(Series(label, tuple(Point(value, estimate(some)) for value, some in known if some)))
        _draw(series, look, path)

    return drawn


def _interest(results: Results, path: Path) -> None:
    """Every thirtieth of the 6,561, in the order of interest; the order is an assumption (outline 9.2)."""
    shares = sorted(interest_in_publications().values(), reverse=True)
    points = tuple(Point(at + 1, Estimate(100 * shares[at], 0.0, 1)) for at in range(0, len(shares), 30))
    _draw([Series("", points)], Look("publications, by interest", "subscriptions satisfied, %"), path)


def _blocks(results: Results, path: Path) -> None:
    found = samples(results)
    lines = []
    for side in (500, 1100, 1500):
        for system, label in (("proposed", "proposed"), ("flooding", "flooding")):
            metrics = found.get(f"{system}-{side}", {})
            points = [(4 * block - 2, metrics.get(f"block.{block}")) for block in range(1, 7)]
            lines.append(
                Series(f"{label}, {side} m", tuple(Point(hour, estimate(some)) for hour, some in points if some))
            )
    _draw(lines, Look("hours since the first publication", "transmissions a publication"), path)


def figures() -> tuple[Figure, ...]:
    ways = (("", "proposed"), ("-repair", "with repair"), ("-flooding", "publication flooding"))
    layers: tuple[Line, ...] = (
        ("PAMPA", "proposed", "pampa"), ("PCACHE", "proposed", "pcache"),
        ("AODV: routes and single copies", "proposed", ("aodv", "class.data.single")),
        ("AODV with groups", "proposed", ("aodv", "data")), ("AODV: routes alone", "proposed", "aodv"),
        ("all", "proposed", "total"), ("publication flooding", "flooding", "total"),
    )  # fmt: skip
    channels = (
        ("proposed, ideal", "proposed", "total"), ("proposed, csma", "csma", "total"),
        ("flooding, ideal", "flooding", "total"), ("flooding, csma", "csma-flooding", "total"),
    )  # fmt: skip
    delivery = (("subscriptions reach", "proposed", "reach"), ("publications delivered", "proposed", "delivery"))
    latency = (("proposed", "proposed", "latency"), ("a broadcast, to its last node", "proposed", "latency.broadcast"))
    profiles = (
        ("proposed, prototype", "proposed", "total"), ("flooding, prototype", "flooding", "total"),
        ("proposed, sparse", "sparse", "total"), ("flooding, sparse", "sparse-flooding", "total"),
        ("subscription flooding", "everywhere", "total"),
    )  # fmt: skip
    return (
        Figure("figure-3", "Figure 3: interest in the 6,561 possible publications, 10,000 subscriptions", _interest),
        Figure(
            "figure-4",
            "Figure 4: transmissions by protocol, `prototype`, ideal channel; hops of groups are AODV's or not",
            _by_side(layers, "transmissions"),
        ),
        Figure("profiles", "Both profiles of PAMPA, and subscription flooding", _by_side(profiles, "transmissions")),
        Figure("channels", "Both channels", _by_side(channels, "transmissions")),
        Figure(
            "figure-5",
            "Figure 5: copies that left their publisher in a group",
            _by_side(
                (("copies in groups", "proposed", "grouped.copies"), ("copies saved", "proposed", "grouped.saved")),
                "copies",
            ),
        ),
        Figure("figure-6", "Figure 6: delivery; placements are connected up to 1500 m", _by_side(delivery, "share")),
        Figure("figure-7", "Figure 7: latency", _by_side(latency, "seconds")),
        Figure("blocks", "Cost of a publication as time goes on", _blocks),
        Figure(
            "movement",
            "Delivery against speed",
            _by_value("speed", SPEEDS, ways, "delivery", Look("metres a second, at most", "delivered")),
        ),
        Figure(
            "failures",
            "Delivery against nodes that fail",
            _by_value("failed", FAILURES, ways, "delivery", Look("share of nodes that fail", "delivered")),
        ),
        Figure(
            "size",
            "Cost of a publication against the size of the network",
            _by_value(
                "nodes",
                CROWDS,
                (ways[0], ways[2]),
                "per_publication",
                Look("nodes", "transmissions a publication", log_x=True),
            ),
        ),
    )
