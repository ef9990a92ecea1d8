"""Where nodes are drawn that have no places: near to those they are linked with, and apart from the others.

Each connected part is arranged by itself, and the parts are put side by side. Within a part, distances in hops from a
few pivots give a first arrangement (pivot MDS: Brandes and Pich, 2007); forces improve it (Fruchterman and Reingold,
1991), with links as springs and every node pushing the others away. In large parts a node is pushed by a sample of the
others, so that 5,000 nodes take seconds. The same graph and seed give the same places.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Points: TypeAlias = npt.NDArray[np.float64]

PIVOTS = 32
ALL_PAIRS = 600
"""Up to so many nodes each pushes all others."""
SAMPLE = 192


def arrange(count: int, edges: Iterable[tuple[int, int]], seed: int = 0) -> list[tuple[float, float]]:
    """Places in a square of side 1 for nodes 0 to ``count`` - 1."""
    neighbours: list[dict[int, None]] = [{} for _ in range(count)]
    for first, second in edges:
        if first != second:
            neighbours[first][second] = neighbours[second][first] = None
    rng = np.random.default_rng(seed)
    parts = sorted(_parts(neighbours), key=lambda part: (-len(part), part[0]))
    arranged = [_arrange_part(part, neighbours, rng) for part in parts]
    return _put_side_by_side(count, parts, arranged)


def _parts(neighbours: Sequence[dict[int, None]]) -> list[list[int]]:
    seen: set[int] = set()
    parts = []
    for start in range(len(neighbours)):
        if start not in seen:
            hops = _hops(start, neighbours)
            seen.update(hops)
            parts.append(sorted(hops))
    return parts


def _hops(start: int, neighbours: Sequence[dict[int, None]]) -> dict[int, int]:
    hops, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for other in neighbours[node]:
            if other not in hops:
                hops[other] = hops[node] + 1
                waiting.append(other)
    return hops


def _arrange_part(part: Sequence[int], neighbours: Sequence[dict[int, None]], rng: np.random.Generator) -> Points:
    """Places around (0, 0), in lengths of a link."""
    count = len(part)
    if count == 1:
        return np.zeros((1, 2))
    at = {node: place for place, node in enumerate(part)}
    links = np.array([(at[node], at[other]) for node in part for other in neighbours[node] if node < other])
    places = _spread_by_hops(part, neighbours) + rng.normal(0.0, 0.05, (count, 2))
    _push_and_pull(places, links, rng)
    centred: Points = places - places.mean(axis=0)
    return centred


def _spread_by_hops(part: Sequence[int], neighbours: Sequence[dict[int, None]]) -> Points:
    """The two main directions of the hop distances to pivots, each of which is far from those before it."""
    rows: list[npt.NDArray[np.float64]] = []
    pivot, nearest = part[0], np.full(len(part), np.inf)
    for _ in range(min(PIVOTS, len(part))):
        hops = _hops(pivot, neighbours)
        row = np.array([hops[node] for node in part], dtype=np.float64)
        rows.append(row)
        nearest = np.minimum(nearest, row)
        pivot = part[int(nearest.argmax())]
    squares = np.stack(rows, axis=1) ** 2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    places = -0.5 * centred @ vectors[:, : -min(3, vectors.shape[1] + 1) : -1]
    if places.shape[1] < 2:
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    scale = float(np.abs(places).max()) or 1.0
    spread: Points = places / scale * math.sqrt(len(part))
    return spread


def _push_and_pull(places: Points, links: Any, rng: np.random.Generator) -> None:
    count = len(places)
    rounds = 250 if count <= ALL_PAIRS else 90
    for turn in range(rounds):
        heat = 0.6 * math.sqrt(count) * 0.15 * (1 - turn / rounds) ** 1.5 + 0.01
        if count <= ALL_PAIRS:
            apart = places[:, None, :] - places[None, :, :]
            weight = 1.0
        else:
            chosen = rng.integers(0, count, SAMPLE)
            apart = places[:, None, :] - places[None, chosen, :]
            weight = count / SAMPLE
        squares = np.einsum("ijk,ijk->ij", apart, apart) + 1e-3
        force = weight * np.einsum("ijk,ij->ik", apart, 1.0 / squares)
        along = places[links[:, 0]] - places[links[:, 1]]
        pull = along * np.sqrt(np.einsum("ij,ij->i", along, along) + 1e-9)[:, None]
        np.subtract.at(force, links[:, 0], pull)
        np.add.at(force, links[:, 1], pull)
        length = np.sqrt(np.einsum("ij,ij->i", force, force)) + 1e-9
        places += force * (np.minimum(length, heat) / length)[:, None]


def _put_side_by_side(
    count: int, parts: Sequence[Sequence[int]], arranged: Sequence[Points]
) -> list[tuple[float, float]]:
    """Parts in rows, the largest first, as in a square as may be."""
    sizes = [(places.max(axis=0) - places.min(axis=0) + 1.6) for places in arranged]
    width = max(
        math.sqrt(sum(float(size[0] * size[1]) for size in sizes)), max((float(s[0]) for s in sizes), default=1.0)
    )
    found: list[tuple[float, float]] = [(0.5, 0.5)] * count
    x = y = row = 0.0
    for part, places, size in zip(parts, arranged, sizes, strict=True):
        if x > 0 and x + size[0] > width * 1.05:
            x, y, row = 0.0, y + row, 0.0
        low = places.min(axis=0)
        for node, place in zip(part, places, strict=True):
            found[node] = (x + 0.8 + float(place[0] - low[0]), y + 0.8 + float(place[1] - low[1]))
        x, row = x + float(size[0]), max(row, float(size[1]))
    return _fit(found)


def _fit(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    if not places:
        return places
    low_x, high_x = min(p[0] for p in places), max(p[0] for p in places)
    low_y, high_y = min(p[1] for p in places), max(p[1] for p in places)
    side = max(high_x - low_x, high_y - low_y) or 1.0
    dx, dy = (side - high_x + low_x) / 2 - low_x, (side - high_y + low_y) / 2 - low_y
    return [(round((x + dx) / side, 5), round((y + dy) / side, 5)) for x, y in places]
