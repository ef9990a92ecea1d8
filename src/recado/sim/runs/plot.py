"""Plots of results: means with 95% intervals, as SVG and PNG. The same rows give the same file.

Numbers on the x axis give lines with a band of the interval; words give bars. Lines that are equal are drawn once,
under all their names. Lines that coincide on a stretch share the way: each is drawn in dashes where the others leave
gaps, with rings for markers, so that all of them are seen. Metrics count something, so no interval reaches below zero
unless a mean does. The legend stands beside the picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recado.errors import RecadoError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.sim.runs.results import Row
from recado.sim.runs.scenario import PARTS, ScenarioError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


# --- Means with 95% confidence intervals by Student's t distribution -------------------------------------------------
#
# The quantile is found by bisection on the distribution function, for which a whole number of degrees of freedom gives
# a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4); so no statistics library is needed.


CONFIDENCE = 0.95
_NORMAL_FROM = 2_000
"""From here on t and the normal distribution agree to more digits than are shown."""


class Estimate(msgspec.Struct, frozen=True):
    """The mean of a sample; the true one lies within ``half_width`` of it in 95 of 100 samples."""

    mean: float
    half_width: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    """With one value alone nothing is known of the spread, and the half width is 0."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, 0.0, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Estimate(mean, t_quantile(count - 1) * math.sqrt(variance / count), count)


@lru_cache(maxsize=1024)
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with ``P(-t < T < t) = confidence``."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < confidence else (low, middle)
    return high


def t_within(t: float, freedom: int) -> float:
    """``P(-t < T < t)`` for so many degrees of freedom."""
    if freedom >= _NORMAL_FROM:
        return math.erf(t / math.sqrt(2))
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    term = total = 1.0 if freedom % 2 == 0 else math.cos(angle)
    for k in range(1 + freedom % 2, freedom - 2, 2):
        term *= square * k / (k + 1)
        total += term
    if freedom % 2 == 0:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))


# --- From rows of results to lines of a plot: runs that agree in all that is shown are repeats, and make one point
#
# A point is the mean over its repeats with a 95% interval. Runs that differ in a parameter which the plot does not show
# would be mixed up in one point, so that is an error which names the parameter.


class Point(msgspec.Struct, frozen=True):
    x: Any
    y: Estimate


class Series(msgspec.Struct, frozen=True):
    """One line: the points of one value of the parameters in ``by``."""

    label: str
    points: tuple[Point, ...]


def select(rows: Sequence[Row], where: str) -> list[Row]:
    """The rows that a filter of Recado's language admits."""
    if not where:
        return list(rows)
    try:
        filter = parse_filter(where, "expression")
    except RecadoError as error:
        raise ScenarioError(f"--where: {error}") from None
    kept = [row for row in rows if matches(filter, Event("row", attributes=_present(row)))]
    if not kept:
        raise ScenarioError(f"no row has {where}")
    return kept


def series_of(rows: Sequence[Row], x: str, y: str, by: Sequence[str] = ()) -> list[Series]:
    """The lines of a plot, in the order of the rows."""
    for name in (x, y, *by):
        _require_column(rows, name)
    _check_mixture([row for row in rows if row.get(y) is not None], {x, *by})
    groups: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for row in rows:
        if row.get(y) is not None and row.get(x) is not None:
            group = groups.setdefault(tuple(row.get(name) for name in by), {})
            group.setdefault(row[x], []).append(float(row[y]))
    return [Series(_label(key), _points(group)) for key, group in groups.items()]


def _points(group: dict[Any, list[float]]) -> tuple[Point, ...]:
    points = [Point(x, estimate(values)) for x, values in group.items()]
    if all(isinstance(point.x, (int, float)) for point in points):
        points.sort(key=lambda point: float(point.x))
    return tuple(points)


def _label(key: tuple[Any, ...]) -> str:
    return ", ".join(str(part) for part in key if part is not None)


def _require_column(rows: Sequence[Row], name: str) -> None:
    columns = dict.fromkeys(column for row in rows for column in row)
    if name not in columns:
        raise ScenarioError(f"there is no column {name!r}; the columns are {', '.join(columns)}")


def _check_mixture(rows: Sequence[Row], shown: set[str]) -> None:
    """Parameters that follow from shown ones are no mixture: what counts is two values at one point."""
    hidden = [name for name in (rows[0] if rows else {}) if _parameter(name) and name not in shown]
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        first = seen.setdefault(tuple(row.get(name) for name in sorted(shown)), row)
        for name in hidden:
            if row.get(name) != first.get(name):
                raise ScenarioError(
                    f"the rows differ in {name} ({first.get(name)!r}, {row.get(name)!r}): add it to --by, or choose "
                    "with --where"
                )


def _parameter(name: str) -> bool:
    part, dot, _ = name.partition(".")
    return bool(dot) and part in PARTS


def _present(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and name != "seed"}


# --- Plots of results: means with 95% intervals, as SVG and PNG. The same rows give the same file --------------------

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#e08e45", "#5b8e9b", "#a0522d", "#6b705c", "#c9a227", "#444444")
MARKERS = "osD^vPX*<>"
STYLE = {
    "svg.hashsalt": "recado",
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


class Look(msgspec.Struct, frozen=True):
    """What a plot says beside its lines."""

    x: str
    y: str
    title: str = ""
    log_x: bool = False
    log_y: bool = False


def draw(series: Sequence[Series], look: Look, paths: Sequence[Path]) -> None:
    """One picture into every path; its ending decides the format."""
    with styled():
        figure, axes = new_figure(8.4 if len(series) > 1 else 7.0)
        _draw_series(axes, series, look)
        save(figure, paths)


def styled() -> AbstractContextManager[None]:
    """The look of all our pictures, for as long as the context lasts."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise ScenarioError("matplotlib is not installed; plots need: pip install 'recado[sim]'") from None
    context: AbstractContextManager[None] = mpl.rc_context(STYLE)
    return context


def new_figure(width: float = 7.0, height: float = 4.2) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def save(figure: Figure, paths: Sequence[Path]) -> None:
    for path in paths:
        kind = path.suffix.lstrip(".").lower()
        if kind not in ("svg", "png"):
            raise ScenarioError(f"{path}: plots are written as .svg or .png")
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(path, format=kind, metadata=metadata, dpi=150)


def _draw_series(axes: Axes, series: Sequence[Series], look: Look) -> None:
    axes.set(xlabel=look.x, ylabel=look.y, title=look.title)
    several = len(series) > 1
    if all(isinstance(point.x, (int, float)) for line in series for point in line.points):
        series = merge_equal(series)
        _lines(axes, series, look.log_y)
        if look.log_x:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
    else:
        _bars(axes, series)
    if look.log_y:
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    elif _counts(series):
        top = axes.get_ylim()[1]
        touched = any(point.y.mean == 0 for line in series for point in line.points)
        axes.set_ylim(-0.02 * top if touched else 0.0, top)
    if several:
        legend(axes)


def legend(axes: Axes) -> None:
    """Beside the picture, where it covers nothing; the figure has to be one of ``new_figure``."""
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", handlelength=3.5)


def _counts(series: Sequence[Series]) -> bool:
    """Is it something that cannot be less than nothing?"""
    return all(point.y.mean >= 0 for line in series for point in line.points)


def _plain_numbers(axis: Axis) -> None:
    """1, 2, 5, 10, … instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415  # an extra

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())


def _lines(axes: Axes, series: Sequence[Series], log_y: bool) -> None:
    """On a logarithmic axis an interval that reaches below all means ends there."""
    positive = [point.y.mean for line in series for point in line.points if point.y.mean > 0]
    floor = min(positive, default=0.0) / 2 if log_y else 0.0 if _counts(series) else -math.inf
    groups = coinciding(series, log_y)
    for place, line in enumerate(series):
        xs = [point.x for point in line.points]
        colour = COLOURS[place % len(COLOURS)]
        group = next(group for group in groups if place in group)
        axes.plot(
            xs,
            [p.y.mean for p in line.points],
            color=colour,
            marker=MARKERS[place % len(MARKERS)],
            label=line.label,
            **_share(group.index(place), len(group)),
        )
        axes.fill_between(
            xs,
            [max(p.y.low, floor) for p in line.points],
            [p.y.high for p in line.points],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )


def merge_equal(series: Sequence[Series]) -> list[Series]:
    """Lines with the same points become one, which has all their names."""
    names: dict[tuple[Point, ...], list[str]] = {}
    for line in series:
        names.setdefault(line.points, []).append(line.label)
    return [Series(" = ".join(labels), points) for points, labels in names.items()]


def coinciding(series: Sequence[Series], log_y: bool = False) -> list[list[int]]:
    """The numbers of the lines, in groups of those of which each lies upon another for a stretch or as a whole."""
    means = [{point.x: point.y.mean for point in line.points} for line in series]
    values = [abs(value) for line in means for value in line.values()]
    near = 0.005 * max(values, default=0.0)

    def meet(first: dict[Any, float], second: dict[Any, float]) -> bool:
        shared = [x for x in first if x in second]
        close = [abs(first[x] - second[x]) <= (0.02 * abs(first[x]) if log_y else near) for x in shared]
        return sum(close) >= min(2, len(shared)) > 0

    groups: list[list[int]] = []
    for place, line in enumerate(means):
        touching = [group for group in groups if any(meet(means[other], line) for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append(sorted([place, *(other for group in touching for other in group)]))
    return groups


def _share(place: int, count: int) -> dict[str, Any]:
    """How one of several lines that coincide is drawn: its dashes fill the gaps of the others."""
    if count == 1:
        return {"markersize": 4}
    dash = 3.0
    return {
        "linestyle": (dash * ((count - place) % count), (dash, dash * (count - 1))),
        "markersize": min(4 + 2.5 * (count - 1 - place), 12),
        "markerfacecolor": "none" if place < count - 1 else None,
    }


def _bars(axes: Axes, series: Sequence[Series]) -> None:
    words = list(dict.fromkeys(str(point.x) for line in series for point in line.points))
    width, counts = 0.8 / len(series), _counts(series)
    for place, line in enumerate(series):
        at = [words.index(str(point.x)) + (place - (len(series) - 1) / 2) * width for point in line.points]
        axes.bar(
            at,
            [point.y.mean for point in line.points],
            width,
            yerr=[
                [min(point.y.half_width, max(point.y.mean, 0.0)) for point in line.points]
                if counts
                else [point.y.half_width for point in line.points],
                [point.y.half_width for point in line.points],
            ],
            color=COLOURS[place % len(COLOURS)],
            error_kw={"linewidth": 0.8},
            label=line.label,
        )
        for x, point in zip(at, line.points, strict=True):
            if point.y.mean == 0:  # a bar that is not there looks like a series that is not there
                axes.annotate("0", (x, 0), ha="center", va="bottom", color=COLOURS[place % len(COLOURS)])
    tilted: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if len(words) > 5 else {}
    axes.set_xticks(range(len(words)), words, **tilted)
    axes.grid(False, axis="x")
