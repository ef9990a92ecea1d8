"""The growth curves as a picture: events a second over events, a colour for each number of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.pipeline.records import Growth

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#e08e45")
DASHES = ("--", "-", ":", "-.")


def draw(points: Sequence[Growth], path: Path) -> None:
    """Write the picture as SVG; the same points give the same file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    cores = sorted({point.cores for point in points})
    with mpl.rc_context({"svg.hashsalt": "recado", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log", xlabel="events", ylabel="events/s")
        for colour, size in zip(COLOURS, sorted({point.subscriptions for point in points}), strict=False):
            for dash, count in zip(DASHES, cores, strict=False):
                line = sorted((p.events, p.rate) for p in points if (p.subscriptions, p.cores) == (size, count))
                label = f"{size:,} subscriptions, {count} core{'s' * (count > 1)}"
                axes.plot(*zip(*line, strict=True), dash, color=colour, marker="o", markersize=4, label=label)
        axes.grid(True, which="major", linewidth=0.4)
        axes.legend(fontsize=8, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
