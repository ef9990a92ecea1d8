"""The pictures of a report, drawn with Matplotlib and without a display.

Each picture is one function from tables to a figure. Text and axes have one ink; on the page that ink becomes the
page's own text colour, so that a picture is as readable on a dark page as on a light one. Text stays text in SVG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from recado.pipeline.report.digest import Tables, harmonic

INK = "#223344"
BLUE, AMBER, GREEN, GREY = "#3b7dd8", "#e39b2d", "#3f9e6e", "#8a97a6"
STYLE: dict[str, Any] = {
    "font.size": 10.5,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "recado",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
MOST_BARS = 15

Summary = Mapping[str, Any]
_COUNT = FuncFormatter(lambda value, _: f"{value:,.0f}")
_PERCENT = FuncFormatter(lambda value, _: f"{value:.0%}")


def draw(tables: Tables, summary: Summary) -> dict[str, Figure]:
    """Every picture that there is data for, by name."""
    out: dict[str, Figure] = {}
    if summary["subscriptions"]:
        out["routing"] = _frame(_routing, tables, summary, 2.3)
        out["families"] = _frame(_families, tables, summary, 3.4)
        out["redundancy"] = _frame(_redundancy, tables, summary, _height(len(tables["redundancy"]) - 1))
    if tables["attributes"]:
        out["attributes"] = _frame(_attributes, tables, summary, _height(len(tables["attributes"])))
    if tables.get("histogram"):
        out["selectivity"] = _frame(_selectivity, tables, summary, 3.0)
    return out


def as_svg(figure: Figure, name: str) -> str:
    """The picture as an SVG element that can stand among others: ids are its own, the ink is the page's."""
    with mpl.rc_context(STYLE):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace(INK, "currentColor")


def as_png(figure: Figure) -> bytes:
    """The picture on white, for whoever wants to paste it somewhere."""
    with mpl.rc_context(STYLE):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _frame(fill: Callable[[Axes, Tables, Summary], None], tables: Tables, summary: Summary, height: float) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, height), layout="constrained")
        fill(figure.add_subplot(), tables, summary)
    return figure


def _height(bars: int) -> float:
    return 1.3 + 0.34 * min(max(bars, 1), MOST_BARS)


# -- one function a picture --------------------------------------------------------------------------------------------


def _routing(axes: Axes, _: Tables, summary: Summary) -> None:
    routing = summary["routing"]
    names = ["every subscription", "one of equal filters", "not covered by another"]
    values = [routing["simple"], routing["identity"], routing["covering"]]
    bars = axes.barh(names, values, color=[GREY, BLUE, GREEN], height=0.62)
    axes.bar_label(bars, [f"{value:,}" for value in values], padding=4)
    axes.invert_yaxis()
    axes.set_xlabel("entries in a routing table")
    _clean(axes, max(values))


def _families(axes: Axes, tables: Tables, summary: Summary) -> None:
    """Size against rank; families of one size are one step."""
    ranks: list[int] = []
    sizes: list[int] = []
    before = 0
    for row in sorted(tables["families"], key=lambda row: -row["size"]):
        ranks += [before + 1, before + row["filters"]]
        sizes += [row["size"], row["size"]]
        before += row["filters"]
    axes.loglog(ranks, sizes, color=BLUE, linewidth=2.2, label="filters, the most popular first")
    exponent = summary["super_nodes"]["zipf_exponent"]
    if exponent > 0.01:
        first = summary["subscriptions"] / harmonic(before, exponent)
        fitted = [first, first * before**-exponent]
        axes.loglog([1, before], fitted, color=AMBER, linestyle="--", label=f"Zipf, exponent {exponent:.2f}")
    axes.set_xlim(0.8, max(12.0, before * 1.25))  # at least a decade, for which matplotlib labels 1 and 10 only
    axes.set_ylim(0.8, max(12.0, max(sizes, default=1) * 1.25))
    axes.set_xlabel("rank of the filter")
    axes.set_ylabel("subscriptions that have it")
    axes.xaxis.set_major_formatter(_COUNT)
    axes.yaxis.set_major_formatter(_COUNT)
    _grid(axes)
    axes.legend(frameon=False, labelcolor=INK)


def _redundancy(axes: Axes, tables: Tables, _: Summary) -> None:
    rows = list(tables["redundancy"][:-1][:MOST_BARS])
    parts = [
        ("repeated", [row["redundancy"] for row in rows], BLUE),
        ("covered", [row["covered_share"] for row in rows], GREEN),
        ("mergeable", [row["mergeable_share"] for row in rows], AMBER),
    ]
    _group(axes, [row["type"] for row in rows], parts)
    axes.set_xlabel("share of subscriptions (repeated) and of distinct filters (covered, mergeable)")


def _attributes(axes: Axes, tables: Tables, summary: Summary) -> None:
    rows = list(tables["attributes"][:MOST_BARS])
    whole = max(summary["subscriptions"], 1)
    parts = [("subscriptions that name it", [row["subscriptions"] / whole for row in rows], BLUE)]
    if "present" in rows[0]:
        parts.append(("events that have it", [row["share"] for row in rows], GREEN))
    _group(axes, [row["attribute"] for row in rows], parts)
    axes.set_xlabel("share")


def _selectivity(axes: Axes, tables: Tables, _: Summary) -> None:
    rows = tables["histogram"]
    names = [str(row["least"]) if row["least"] == row["most"] else f"{row['least']:,}–{row['most']:,}" for row in rows]
    bars = axes.bar(names, [row["events"] for row in rows], color=[GREY if not row["least"] else BLUE for row in rows])
    axes.bar_label(bars, [f"{row['events']:,}" for row in rows], padding=2, fontsize=9)
    axes.set_xlabel("subscriptions that an event matches")
    axes.set_ylabel("events")
    axes.yaxis.set_major_formatter(_COUNT)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if len(names) > 8:
        axes.tick_params(axis="x", rotation=30)


# -- shared ------------------------------------------------------------------------------------------------------------


def _group(axes: Axes, names: Sequence[str], parts: Sequence[tuple[str, Sequence[float], str]]) -> None:
    """Horizontal bars, several beside each other for each name."""
    thickness = 0.8 / len(parts)
    for number, (label, values, color) in enumerate(parts):
        at = [place + (number - (len(parts) - 1) / 2) * thickness for place in range(len(names))]
        axes.barh(at, values, height=thickness * 0.92, color=color, label=label)
    axes.set_yticks(range(len(names)), [name if len(name) <= 34 else name[:33] + "…" for name in names])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_xlim(0, max(0.05, *(max(values, default=0.0) for _, values, _ in parts)) * 1.06)
    _grid(axes)
    axes.legend(frameon=False, labelcolor=INK, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(parts))


def _clean(axes: Axes, most: float) -> None:
    axes.set_xlim(0, most * 1.12 or 1)
    axes.xaxis.set_major_formatter(_COUNT)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _grid(axes)


def _grid(axes: Axes) -> None:
    axes.grid(axis="x", color=INK, alpha=0.12, linewidth=0.8)
