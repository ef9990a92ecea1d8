"""All pairs among a few filters of one event type: chains of covering, and mergers of complex filters.

The *level* of a filter is the length of the longest chain of ever wider filters that ends in it: 1 if nothing covers
it. Covering without a complete test need not be transitive, so a chain is followed only from filters with fewer
coverers to filters with more, which loses nothing between boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from recado.filters.merging import merge
from recado.pipeline.report.sampled import Sampled
from recado.pipeline.report.shape import Shape, covers_shape, hides


class Place(NamedTuple):
    """Where a filter stands among the others."""

    level: int
    coverers: int
    joined: bool


def places(shapes: Sequence[Shape]) -> list[Place]:
    """The level of each filter, and whether it joins with another one where at least one of the two is complex."""
    joined = _complex_joins(shapes)
    wider = _wider(shapes)
    return [Place(level, len(wider[n]), n in joined) for n, level in enumerate(_levels(wider))]


def _wider(shapes: Sequence[Shape]) -> list[list[int]]:
    """For each filter, the numbers of those that cover it."""
    index = Sampled(shapes, [""] * len(shapes))
    wider: list[list[int]] = [[] for _ in shapes]
    for number, shape in enumerate(shapes):
        for other in index.candidates(shape):
            if hides(shape, shapes[other]):
                wider[other].append(number)
    return wider


def _levels(wider: Sequence[Sequence[int]]) -> list[int]:
    levels = [1] * len(wider)
    for number in sorted(range(len(wider)), key=lambda number: len(wider[number])):
        above = [levels[other] for other in wider[number] if len(wider[other]) < len(wider[number])]
        levels[number] = 1 + max(above, default=0)
    return levels


def _complex_joins(shapes: Sequence[Shape]) -> set[int]:
    found: set[int] = set()
    for (one, shape), (two, other) in combinations(enumerate(shapes), 2):
        if (shape.box is None or other.box is None) and not {one, two} <= found and joinable(shape, other):
            found |= {one, two}
    return found


def joinable(shape: Shape, other: Shape) -> bool:
    """Do the two have a perfect merger, although neither covers the other?"""
    if covers_shape(shape, other) or covers_shape(other, shape):
        return False
    return merge(shape.filter, other.filter) is not None
