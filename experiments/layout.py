"""Where to draw the nodes of a small network: on the page as far apart as they are in hops.

Stress majorisation (Gansner, Koren, North 2004): every node moves to the mean of the places at which each other node
would like to see it. The start is a circle, so the same network is drawn the same way each time.
"""

from __future__ import annotations

import math

import numpy as np

from recado.protocols.machine import NodeId
from recado.protocols.topology import Topology

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
