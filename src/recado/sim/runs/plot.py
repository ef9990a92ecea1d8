"""Plots of results: means with 95% intervals, as SVG and PNG. The same rows give the same file.

Numbers on the x axis give lines with a band of the interval; words give bars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recado.sim.runs.series import Series
from recado.sim.runs.setting import ScenarioError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

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
        figure, axes = new_figure()
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
    if all(isinstance(point.x, (int, float)) for line in series for point in line.points):
        _lines(axes, series, look.log_y)
        if look.log_x:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
    else:
        _bars(axes, series)
    if look.log_y:
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if len(series) > 1:
        axes.legend()


def _plain_numbers(axis: Axis) -> None:
    """1, 2, 5, 10, … instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415  # an extra

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())


def _lines(axes: Axes, series: Sequence[Series], log_y: bool) -> None:
    """On a logarithmic axis an interval that reaches below all means ends there."""
    positive = [point.y.mean for line in series for point in line.points if point.y.mean > 0]
    floor = min(positive, default=0.0) / 2 if log_y else -math.inf
    for place, line in enumerate(series):
        xs = [point.x for point in line.points]
        colour = COLOURS[place % len(COLOURS)]
        marker = MARKERS[place % len(MARKERS)]
        axes.plot(xs, [p.y.mean for p in line.points], color=colour, marker=marker, markersize=4, label=line.label)
        axes.fill_between(
            xs,
            [max(p.y.low, floor) for p in line.points],
            [p.y.high for p in line.points],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )


def _bars(axes: Axes, series: Sequence[Series]) -> None:
    words = list(dict.fromkeys(str(point.x) for line in series for point in line.points))
    width = 0.8 / len(series)
    for place, line in enumerate(series):
        at = [words.index(str(point.x)) + (place - (len(series) - 1) / 2) * width for point in line.points]
        axes.bar(
            at,
            [point.y.mean for point in line.points],
            width,
            yerr=[point.y.half_width for point in line.points],
            color=COLOURS[place % len(COLOURS)],
            error_kw={"linewidth": 0.8},
            label=line.label,
        )
    tilted: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if len(words) > 5 else {}
    axes.set_xticks(range(len(words)), words, **tilted)
    axes.grid(False, axis="x")
