"""The document's figures 5.1 to 5.10, and three that its text asks for. It prints no numbers for any of the curves.

Lines by session time are means over the stints of a length; a stint is the time in the layer, and in figure 5.8 the
time as a sub node. Intervals over seeds are in the tables; bands are drawn from three seeds on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.base import Figure, Results
from experiments.expected import ExperimentError
from experiments.supernodes.diagrams import family, membership_tree
from experiments.supernodes.measure import large_runs, samples
from experiments.supernodes.plan import STALE
from recado.sim.runs.plot import COLOURS, Estimate, Look, Point, Series, draw, estimate, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SESSION = "session, hours"
COST = "B/s"
RATES = ("1.4", "1.05")

_Drawing = Callable[[Results, Path], None]


def point_of(values: Sequence[float]) -> Estimate:
    """The mean; its interval from three seeds on, since that of two says little and hides the lines."""
    found = estimate(values)
    return found if found.count > 2 else Estimate(found.mean, 0.0, found.count)


def _draw(lines: Sequence[Series], look: Look, path: Path) -> None:
    """What has no points is left out; a figure without lines is not drawn."""
    lines = [line for line in lines if line.points]
    if not lines:
        raise ExperimentError("nothing was run that this figure shows")
    draw(lines, look, [path])


def _by_session(results: Results, variant: str, metric: str, label: str) -> Series:
    """A metric by the length of stints; points are in the middle of their bins."""
    start = f"{metric}.bin."
    found = {
        float(name[len(start) :]): values
        for name, values in samples(results).get(variant, {}).items()
        if name.startswith(start)
    }
    half = min((after - before for before, after in pairwise(sorted(found))), default=0.0) / 2
    return Series(label, tuple(Point(x + half, point_of(found[x])) for x in sorted(found)))


def _sessions(variants: Sequence[tuple[str, str]], kind: str = "layer", log_y: bool = False) -> _Drawing:
    """Upload and download of several variants: a colour each, and a broken line on a wide one."""

    def drawn(results: Results, path: Path) -> None:
        pairs = [
            [_by_session(results, variant, f"{kind}.{way}", label) for way in ("up", "down")]
            for variant, label in variants
        ]
        pairs = [pair for pair in pairs if pair[0].points]
        if not pairs:
            raise ExperimentError("nothing was run that this figure shows")
        with styled():
            figure, axes = new_figure()
            for number, pair in enumerate(pairs):
                for line, look in zip(pair, (UP, DOWN), strict=True):
                    x, y = [point.x for point in line.points], [point.y.mean for point in line.points]
                    axes.plot(x, y, color=COLOURS[number], **look)
                axes.plot([], [], color=COLOURS[number], label=pair[0].label)
            axes.plot([], [], color="#888888", label="upload", **UP)
            axes.plot([], [], color="#888888", label="download", **DOWN)
            axes.set(xlabel=SESSION, ylabel=COST, **({"yscale": "log"} if log_y else {"ylim": (0, None)}))
            if log_y:
                _plain_ticks(axes)
            axes.legend()
            save(figure, [path])

    return drawn


TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
UP: dict[str, Any] = {"linewidth": 4.0, "alpha": 0.45, "marker": ""}
DOWN: dict[str, Any] = {"linewidth": 1.4, "linestyle": "--", "marker": "."}


def _plain_ticks(axes: Axes) -> None:
    """1, 2, 5, 10 and so on, on a logarithmic axis."""
    low, high = axes.get_ylim()
    axes.set_yticks([y for y in TICKS if low <= y <= high], minor=False)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")


CAUSES = ("joins", "leaves", "filters", "endpoints", "membership repair")
"""Those of figure 5.2; refusals to serve, which are next to nothing, are in the table only."""


def _causes(results: Results, path: Path) -> None:
    metrics = samples(results).get("base-1.4", {})
    names = [name.split(".")[1] for name in metrics if name.startswith("cause.") and name.endswith(".rate")]
    lines = [_by_session(results, "base-1.4", f"cause.{name}", name) for name in sorted(names) if name in CAUSES]
    if not lines:
        raise ExperimentError("nothing was run that this figure shows")
    with styled():
        figure, axes = new_figure()
        for number, line in enumerate(lines):
            y = [point.y.mean for point in line.points]
            axes.plot([point.x for point in line.points], y, "o-", color=COLOURS[number], label=line.label)
        axes.set(xlabel=SESSION, ylabel="upload, B/s", yscale="log")
        _plain_ticks(axes)
        figure.legend(loc="outside upper center", ncols=len(lines))
        save(figure, [path])


def _by_redundancy(metrics: Sequence[tuple[str, str]], y: str, factor: float = 1.0) -> _Drawing:
    """A metric over R, a line for each arrival rate."""

    def drawn(results: Results, path: Path) -> None:
        found = samples(results)
        lines = []
        for rate in RATES:
            for metric, word in metrics:
                points = []
                for tenth in range(1, 10):
                    values = found.get(f"super-{rate}-0.{tenth}", {}).get(metric)
                    if values:
                        points.append(Point(tenth / 10, point_of([factor * value for value in values])))
                lines.append(Series(f"lambda {rate}{word}", tuple(points)))
        _draw(lines, Look("redundancy R", y), path)

    return drawn


def _rates(results: Results, path: Path) -> None:
    """Figure 5.6: what arrives against what enters the layer, a line for each R."""
    found = samples(results)
    lines = []
    for r in ("0.2", "0.4", "0.6", "0.8"):
        points = [Point(0.0, point_of([0.0]))]
        for rate in reversed(RATES):
            values = found.get(f"super-{rate}-{r}", {}).get("entries.share")
            if values:
                points.append(Point(float(rate), point_of([float(rate) * value for value in values])))
        lines.append(Series(f"R {r}", tuple(points) if len(points) > 1 else ()))
    _draw(lines, Look("arrivals a second (the document's lambda)", "entries into the layer a second"), path)


def _stale(results: Results, path: Path) -> None:
    found = samples(results)
    points = []
    for name in ("events-all", *STALE):
        metrics = found.get(name, {})
        if metrics.get("stale_seconds") and metrics.get("delivered.all"):
            lost = [100 - value for value in metrics["delivered.all"]]
            points.append(Point(point_of(metrics["stale_seconds"]).mean, point_of(lost)))
    points.sort(key=lambda point: float(point.x))
    _draw([Series("", tuple(points))], Look("a departed super node stays in views, s", "deliveries lost, %"), path)


def _sizer(results: Results, path: Path) -> None:
    found = samples(results)
    lines = []
    for name, label in (("super-1.4-0.8", "without"), ("sizer-increment", "increment"), ("sizer-limit", "limit")):
        metrics = found.get(name, {})
        hours = sorted(int(metric.split(".")[1]) for metric in metrics if metric.startswith("hour."))
        lines.append(Series(label, tuple(Point(hour, point_of(metrics[f"hour.{hour}.super"])) for hour in hours)))
    _draw(lines, Look("hours since the first arrival", "share of peers in the layer"), path)


def _larger(draw: _Drawing) -> _Drawing:
    """The same from the larger runs of a usual evaluation: they are what tells of costs."""

    def drawn(results: Results, path: Path) -> None:
        large = large_runs(results)
        draw(large if large.studies else results, path)

    return drawn


def figures() -> tuple[Figure, ...]:
    base = [(f"base-{rate}", f"lambda {rate}") for rate in ("1.4", "1.05", "0.7")]
    by_r = {rate: [(f"super-{rate}-{r}", f"R {r}") for r in ("0.2", "0.4", "0.6", "0.8")] for rate in RATES}
    standby = [("base-1.4", "base"), ("super-1.4-0.8", "K 1"), ("k2", "K 2"), ("k3", "K 3"), ("k4", "K 4")]
    budget = [("super-1.4-0.8", "without"), ("sizer-increment", "with budget")]
    costs = (("layer.up.rate", ", up"), ("layer.down.rate", ", down"))
    return (
        Figure("figure-5-1", "Figure 5.1: the base system, cost by session time", _larger(_sessions(base))),
        Figure("figure-5-2", "Figure 5.2: the base system at lambda 1.4, upload by cause", _larger(_causes)),
        Figure(
            "figure-5-3a",
            "Figure 5.3: super nodes, cost by time in the layer, lambda 1.4",
            _larger(_sessions(by_r["1.4"])),
        ),
        Figure("figure-5-3b", "Figure 5.3: the same, lambda 1.05", _sessions(by_r["1.05"])),
        Figure("figure-5-4", "Figure 5.4: mean cost in the layer by redundancy", _by_redundancy(costs, COST)),
        Figure(
            "figure-5-5",
            "Figure 5.5: entries into the layer a second, as simulated",
            _by_redundancy((("entries.rate", ""),), "entries a second"),
        ),
        Figure("figure-5-6", "Figure 5.6: arrivals against entries into the layer, at the document's rates", _rates),
        Figure(
            "figure-5-7",
            "Figure 5.7: entries that were concurrent",
            _by_redundancy((("entries.concurrent", ""),), "% of entries", 100.0),
        ),
        Figure(
            "figure-5-8a",
            "Figure 5.8: sub nodes, cost by time as a sub node, lambda 1.4",
            _sessions(by_r["1.4"], "sub"),
        ),
        Figure("figure-5-8b", "Figure 5.8: the same, lambda 1.05", _sessions(by_r["1.05"], "sub")),
        Figure(
            "figure-5-9",
            "Figure 5.9: stand-bys, cost by time in the layer (R 0.8)",
            _larger(_sessions(standby, log_y=True)),
        ),
        Figure("figure-5-10", "Figure 5.10: with and without the sizer's budget (R 0.8)", _larger(_sessions(budget))),
        Figure("sizer", "The sizer over time: share of peers in the layer (R 0.8)", _larger(_sizer)),
        Figure("stale", "What is lost without repair, by the time that departures stay in views", _stale),
        Figure("family", "A family before and after its father leaves, from a run", family),
        Figure("membership-tree", "The tree by which one membership event was spread, from a run", membership_tree),
    )
