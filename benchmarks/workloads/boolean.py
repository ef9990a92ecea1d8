"""*boolean*: nested and/or/not trees over the attributes, predicates and events of *mix*.

A tree is a conjunction of three or four groups, or (one in four) a disjunction of two such conjunctions. A group is a
predicate, a disjunction of two or three predicates, or the negation of either. The first two groups of a conjunction
are never negated: a filter that matches nearly every event asks for nothing. Trees have 4 to 10 predicates and are two
to four levels deep, a negation counted as a level; about 0.3% of them match an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload
from benchmarks.workloads.mix import NAMES, dense_events, predicates
from recado.model.filter import And, Filter, Not, Or

LEAVES = (4, 10)
_OR_ROOT = 0.25
_NEGATED = 0.35
_POOL = 16  # predicates set aside for a tree; more than any tree takes


class Boolean(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "boolean"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        shapes = Random(int(rng.integers(0, 1 << 62)))
        for _ in range(count // 100):
            attributes = rng.integers(0, len(NAMES), 100 * _POOL).tolist()
            leaves = list(predicates(rng, attributes))
            for number in range(100):
                yield _tree(shapes, leaves[number * _POOL : (number + 1) * _POOL])

    def events(self, count: int) -> pa.RecordBatch:
        return dense_events(self.event_rng(), count)


def _tree(shapes: Random, leaves: list[Filter]) -> Filter:
    least, most = LEAVES
    while True:
        plan = _plan(shapes)
        if least <= sum(abs(size) for group in plan for size in group) <= most:
            break
    pool = iter(leaves)
    conjunctions = [And(tuple(_group(pool, size) for size in group)) for group in plan]
    return conjunctions[0] if len(conjunctions) == 1 else Or(tuple(conjunctions))


def _plan(shapes: Random) -> list[list[int]]:
    """The number of predicates in each group of each conjunction; a negative number for a negated group."""
    conjunctions = 2 if shapes.random() < _OR_ROOT else 1
    return [_group_sizes(shapes) for _ in range(conjunctions)]


def _group_sizes(shapes: Random) -> list[int]:
    sizes = [shapes.randint(1, 3) for _ in range(shapes.randint(3, 4))]
    return sizes[:2] + [-size if shapes.random() < _NEGATED else size for size in sizes[2:]]


def _group(pool: Iterator[Filter], size: int) -> Filter:
    parts = tuple(next(pool) for _ in range(abs(size)))
    group = parts[0] if len(parts) == 1 else Or(parts)
    return Not(group) if size < 0 else group
