"""Experiments E1 and E2 of the work (4.5.1, 4.5.2 of the semantics document): every measure at every threshold.

``=`` of the subscriptions is read in three ways, since the document does not say which (A-03): the value is similar by
the same measure and threshold (SM), equal (EQ), or any (ANY). Nor does it say of a constraint without counterpart
whether it is left out, as Algorithm 1 does, or fails, as its prose has it (A-01): SM is run in both ways. Percentages
are macro means, which is what the published ones look like (A-14); the F over all pairs is beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from experiments.semantics.dataset import FULL, QUICK, generate
from experiments.semantics.grid import (
    Counts,
    Grid,
    Operator,
    Policy,
    as_printed,
    document_measure,
    grid_of,
    macro,
    micro,
    sweep,
)
from recado.semantics.engine import Semantics

Numbers = dict[str, float | str]

THRESHOLDS = (0.0, *(round(0.05 * step, 2) for step in range(1, 17)), 0.9)
PUBLISHED = (("mean", "jcn"), ("mean", "lin"), ("mean", "wup"), ("mean", "res"), ("feng", "wup"), ("feng", "jcn"))
OTHERS = (
    ("mean", "res-clipped"), ("mean-best", "jcn"), ("mean-best", "lin"), ("mean-best", "wup"), ("mean-best", "res"),
    ("feng", "lin"), ("feng", "res"),
)  # fmt: skip
OPERATORS: tuple[Operator, ...] = get_args(Operator)
FAILING = "SM-fail"
"""Similar values, and a constraint without counterpart fails."""
POLICIES = {operator: Policy(operator) for operator in OPERATORS} | {FAILING: Policy("SM", "fail")}


def reproduction(quick: bool) -> Numbers:
    dataset = generate(QUICK if quick else FULL)
    grid, semantics = grid_of(dataset), Semantics()
    numbers = _size(grid)
    for method, word in (*PUBLISHED, *OTHERS):
        alike = as_printed(semantics, grid.vocabulary, document_measure(semantics, method, word))
        for reading, policy in POLICIES.items():
            found = sweep(grid, alike, [(threshold, threshold) for threshold in THRESHOLDS], policy)
            numbers |= _curve(f"{reading}.{method}.{word}", found)
    return numbers


def _size(grid: Grid) -> Numbers:
    return {
        "events": len(grid.names),
        "subscriptions": len(grid.wanted),
        "names": len(grid.vocabulary.event_names),
        "values": len(grid.vocabulary.event_values),
        "judged": int(grid.judged.sum()),
        "share": 100 * float((grid.relevant & grid.judged).sum() / grid.judged.sum()),
        "share of all": 100 * float(grid.relevant.mean()),
    }


def _curve(name: str, found: Sequence[Sequence[Counts]]) -> Numbers:
    numbers: Numbers = {}
    for threshold, counted in zip(THRESHOLDS, found, strict=True):
        quality, place = macro(counted), f"{name}.{threshold:g}"
        numbers[f"{place}.P"], numbers[f"{place}.C"], numbers[f"{place}.F"] = (
            quality.precision,
            quality.recall,
            quality.f,
        )
        numbers[f"{place}.micro F"] = micro(counted).f
    return numbers
