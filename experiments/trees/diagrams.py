"""Networks and trees as pictures, drawn from the tables of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.base import Results
from experiments.trees.golden import subscribe, system, tree_edges, worked
from recado.protocols.machine import NodeId
from recado.protocols.topology import NET_13, Topology
from recado.sim.runs.plot import COLOURS, legend, new_figure, save, styled
from recado.sim.system import System

# --- diagrams ---------------------------------------------------------------------------------------------------------
# The document's networks with subscription trees on top, drawn from the routing tables of a real run.
#
# Arrows follow ``next``: the way that notifications take to the subscriber. Squares publish, rings subscribe.


if TYPE_CHECKING:
    from matplotlib.axes import Axes

Place = tuple[float, float]
OFFSET = 0.09


def four_trees(results: Results, path: Path) -> None:
    """NET-16 after its four subscriptions."""
    subscriptions = (("O", "y"), ("R", "y"), ("K", "z"), ("E", "z"))
    _drawing(worked(), subscriptions, {"F": "y", "B": "z", "L": "z"}, path)


def one_tree(results: Results, path: Path) -> None:
    """NET-13: the tree that section 4.4.1 of the document builds step by step."""
    found = system(NET_13, {"x": "LB"})
    subscribe(found, "K")
    _drawing(found, (("K", "x"),), {"L": "x", "B": "x"}, path)


def _drawing(
    found: System, subscriptions: Sequence[tuple[NodeId, str]], publishers: Mapping[NodeId, str], path: Path
) -> None:
    at = places(found.topology)
    with styled():
        figure, axes = new_figure(10.0, 4.6)
        axes.set_axis_off()
        axes.set_aspect("equal")
        _links(axes, found.topology, at)
        for number, (root, type) in enumerate(subscriptions):
            axes.plot([], [], color=COLOURS[number], label=f"tree of {root}, events of type {type}")
            shift = (number - (len(subscriptions) - 1) / 2) * OFFSET
            for edge in tree_edges(found, f"I({root})", type):
                _arrow(axes, at[edge[0]], at[edge[1]], COLOURS[number], shift)
        _nodes(axes, at, {root: number for number, (root, _) in enumerate(subscriptions)}, publishers)
        legend(axes)
        save(figure, [path])


def _links(axes: Axes, topology: Topology, at: Mapping[NodeId, Place]) -> None:
    for first, second in topology.edges:
        axes.plot(*zip(at[first], at[second], strict=True), color="#cccccc", linewidth=1.2, zorder=1)


def _arrow(axes: Axes, start: Place, end: Place, colour: str, shift: float) -> None:
    """A little beside the link, so that trees which share a link are all seen."""
    (x0, y0), (x1, y1) = sorted((start, end))
    length = math.hypot(x1 - x0, y1 - y0)
    aside = (-(y1 - y0) / length * shift, (x1 - x0) / length * shift)
    tail, tip = ((x + aside[0], y + aside[1]) for x, y in (start, end))
    style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 11, "shrinkB": 11, "linewidth": 1.6}
    axes.annotate("", xy=tip, xytext=tail, arrowprops=style, zorder=2)


def _nodes(
    axes: Axes, at: Mapping[NodeId, Place], roots: Mapping[NodeId, int], publishers: Mapping[NodeId, str]
) -> None:
    for node, (x, y) in at.items():
        edge = COLOURS[roots[node]] if node in roots else "#888888"
        shape, size = ("s", 17) if node in publishers else ("o", 18)
        fill = "#fff3c9" if node in publishers else "white"
        width = 2.4 if node in roots else 0.9
        axes.plot(x, y, shape, markersize=size, color=fill, markeredgecolor=edge, markeredgewidth=width, zorder=3)
        axes.text(x, y, str(node), ha="center", va="center", fontsize=9, zorder=4)


# --- layout -----------------------------------------------------------------------------------------------------------
# Where to draw the nodes of a small network: on the page as far apart as they are in hops.
#
# Stress majorisation (Gansner, Koren, North 2004): every node moves to the mean of the places at which each other node
# would like to see it. The start is a circle, so the same network is drawn the same way each time.


ROUNDS = 400


def places(topology: Topology) -> dict[NodeId, tuple[float, float]]:
    nodes = topology.nodes
    far = np.array([[topology.distances(one)[other] for other in nodes] for one in nodes], dtype=float)
    np.fill_diagonal(far, 1.0)
    weights = far**-2
    np.fill_diagonal(weights, 0.0)
    angles = 2 * math.pi * np.arange(len(nodes)) / len(nodes)
    at = np.stack([np.cos(angles), np.sin(angles)], axis=1) * far.max() / 2
    for _ in range(ROUNDS):
        apart = at[:, None, :] - at[None, :, :]
        length = np.maximum(np.hypot(apart[..., 0], apart[..., 1]), 1e-9)
        wish = at[None, :, :] + apart * (far / length)[..., None]
        at = (weights[..., None] * wish).sum(axis=1) / weights.sum(axis=1)[:, None]
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, _turned(at), strict=True)}


def _turned(at: np.ndarray) -> np.ndarray:
    """The longer way of the drawing lies across the page."""
    centred = at - at.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    turned: np.ndarray = centred @ axes[:, ::-1]
    return turned
