"""Two drawings from a small run: a family whose father leaves, and the tree of one membership broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.base import Results
from experiments.expected import ExperimentError
from experiments.supernodes.peers import Peers, Population
from recado.protocols.machine import Send
from recado.protocols.supernodes import SuperNodeSettings
from recado.protocols.supernodes.messages import MembershipCast
from recado.sim.kernel import Step
from recado.sim.runs.plot import COLOURS, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PEERS, FILTERS = 60, 8
SETTLE_SECONDS = 400.0
TREE_PEERS = 40


def family(results: Results, path: Path) -> None:
    """The largest family of a run, and the same peers two minutes after its father has gone."""
    peers = Peers(Population(), SuperNodeSettings(event_repair=False), seed=7)
    for number in range(PEERS):
        peers.arrive(math.inf, number % FILTERS if number < 2 * FILTERS else number % 3)
        peers.run(5)
    peers.run(SETTLE_SECONDS)
    father = max(peers.live, key=lambda node: len(_children(peers, node)))
    kin = [father, *_children(peers, father)][:9]
    others = [node for node in peers.supers.nodes if node != father][:6]
    with styled():
        figure, (left, right) = _two_axes()
        _draw_family(left, peers, kin, others, "before")
        peers.leave(father)
        peers.run(150)
        _draw_family(right, peers, kin, others, f"{father} has left: 150 s later")
        save(figure, [path])


def _children(peers: Peers, node: int) -> list[int]:
    layer = peers.machine(node).state.layer
    return [child for child in layer.children if isinstance(child, int)] if layer is not None else []


def _two_axes() -> tuple[Figure, tuple[Axes, Axes]]:
    import matplotlib.figure  # noqa: PLC0415  # an extra

    figure = matplotlib.figure.Figure(figsize=(10.0, 4.0))
    left, right = figure.subplots(1, 2, gridspec_kw={"left": 0.01, "right": 0.99, "top": 0.9, "bottom": 0.02})
    for axes in (left, right):
        axes.set_axis_off()
    return figure, (left, right)


def _draw_family(axes: Axes, peers: Peers, kin: list[int], others: list[int], title: str) -> None:
    """The layer above, sub nodes below; arrows lead from father to child. Who has left is grey."""
    layer = [node for node in (*others[:3], *kin, *others[3:]) if _in_layer(peers, node) or node in others]
    below = [node for node in kin if node not in layer and node in peers.live]
    at = {node: (place - (len(layer) - 1) / 2, 1.0) for place, node in enumerate(layer)}
    at |= {node: (place - (len(below) - 1) / 2, 0.0) for place, node in enumerate(below)}
    gone = [node for node in kin if node not in peers.live]
    at |= {node: ((len(layer) + 1) / 2, 0.55) for node in gone}
    if layer:
        axes.plot([at[layer[0]][0], at[layer[-1]][0]], [1.0, 1.0], color="#bbbbbb", linewidth=7, zorder=1, alpha=0.5)
    for child in below:
        known = peers.machine(child).state.child
        if known is not None and isinstance(known.father, int) and known.father in at:
            _arrow(axes, at[known.father], at[child], COLOURS[0])
    for node, (x, y) in at.items():
        edge = "#bbbbbb" if node in gone else COLOURS[1] if node in layer and node in kin else "#888888"
        axes.plot(x, y, "o", markersize=22, color="white", markeredgecolor=edge, markeredgewidth=2.0, zorder=3)
        axes.text(x, y, str(node), ha="center", va="center", fontsize=8, color="#bbbbbb" if node in gone else "black")
    axes.text(-3.5, 1.25, "the layer", fontsize=9, color="#666666")
    axes.set(title=title, xlim=(-5, 5), ylim=(-0.35, 1.5))


def _in_layer(peers: Peers, node: int) -> bool:
    return node in peers.live and peers.machine(node).state.layer is not None


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 11, "shrinkB": 11, "linewidth": 1.2}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=2)


def membership_tree(results: Results, path: Path) -> None:
    """Who told whom of one broadcast of the leader's, in a layer of forty peers."""
    told: dict[int, list[tuple[int, int]]] = {}
    kept = []

    def watch(step: Step) -> None:
        for effect in step.effects:
            if type(effect) is Send and type(effect.message) is MembershipCast:
                assert isinstance(step.node, int)
                assert isinstance(effect.receiver, int)
                kept.append(effect.message.change)  # so that no other gets its identity
                told.setdefault(id(effect.message.change), []).append((step.node, effect.receiver))

    peers = Peers(Population(), SuperNodeSettings(families=False, event_repair=False), seed=3, watch=watch)
    for number in range(TREE_PEERS):
        peers.arrive(math.inf, number)
        peers.run(10)
    peers.run(SETTLE_SECONDS)
    edges = max(told.values(), key=len, default=[])
    if not edges:
        raise ExperimentError("nothing was spread")
    at = _tree_places(edges)
    with styled():
        figure, axes = new_figure(10.0, 4.0)
        figure.set_layout_engine("none")  # arrows would count as decorations that need room
        axes.set_axis_off()
        axes.set_position((0.01, 0.01, 0.98, 0.98))
        for start, end in edges:
            _arrow(axes, at[start], at[end], COLOURS[0])
        for node, (x, y) in at.items():
            edge = COLOURS[1] if node == edges[0][0] else "#888888"
            axes.plot(x, y, "o", markersize=17, color="white", markeredgecolor=edge, markeredgewidth=1.6, zorder=3)
            axes.text(x, y, str(node), ha="center", va="center", fontsize=7, zorder=4)
        axes.margins(0.06)
        save(figure, [path])


def _tree_places(edges: Sequence[tuple[int, int]]) -> dict[int, tuple[float, float]]:
    """Leaves side by side, everybody else above the middle of those it told."""
    below: dict[int, list[int]] = {}
    for start, end in edges:
        below.setdefault(start, []).append(end)
    at: dict[int, tuple[float, float]] = {}
    leaves = 0

    def place(node: int, depth: int) -> float:
        nonlocal leaves
        mine = [place(child, depth + 1) for child in below.get(node, ()) if child not in at]
        if mine:
            x = math.fsum(mine) / len(mine)
        else:
            x, leaves = float(leaves), leaves + 1
        at[node] = (x, -float(depth))
        return x

    place(edges[0][0], 0)
    return at
