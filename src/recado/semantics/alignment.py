"""Algorithm 1: which attribute of an event stands for each name of a filter (4.6), and why.

Given the similarity of every name with every attribute: a name takes the first attribute with the similarity 1,
whatever the threshold; else the most alike one, if it is more alike than the threshold, the first of several. An
attribute may serve several names. ``one-to-one`` instead gives every attribute to at most one name such that the sum
of the similarities is greatest.

Before any of that an identical name is itself, and the names of the envelope (id, type, source, time) are themselves
only, unless the settings let them take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from recado.errors import RecadoError
from recado.semantics.measures.base import Floats
from recado.semantics.settings import SemanticSettings, Unmatched

ALIKE = 1.0 - 1e-9
"""From here on a similarity is 1."""
_TIE = 1e-11
"""So much less is a later attribute worth where an assignment could go either way; below the digits that count."""


class Pair(msgspec.Struct, frozen=True, gc=False):
    """A filter's name and the attribute that stands for it; None if none does, and then ``nearest`` is the best one."""

    constraint: str
    attribute: str | None
    similarity: float
    reason: str
    words: tuple[str, ...] = ()
    attribute_words: tuple[str, ...] = ()
    nearest: str | None = None

    def explain(self) -> str:
        """The pair in words."""
        if self.attribute is None:
            near = f"; the nearest is {self.nearest!r} at {self.similarity:.3f}" if self.nearest is not None else ""
            return f"{self.constraint!r} has no counterpart: {self.reason}{near}"
        if self.reason == "identical":
            return f"{self.constraint!r} is itself"
        told = f"{' '.join(self.words)} ~ {' '.join(self.attribute_words)}"
        return f"{self.constraint!r} is {self.attribute!r}: {self.similarity:.3f}, {self.reason} ({told})"


class Alignment(msgspec.Struct, frozen=True):
    """One pair for each name of a filter, in its order; by which measure, above which threshold."""

    pairs: tuple[Pair, ...]
    measure: str
    threshold: float
    unmatched: Unmatched

    def mapping(self) -> dict[str, str]:
        """The attribute for each name that has one."""
        return {pair.constraint: pair.attribute for pair in self.pairs if pair.attribute is not None}

    def missing(self) -> list[str]:
        """The names without a counterpart."""
        return [pair.constraint for pair in self.pairs if pair.attribute is None]

    def uncertain(self, margin: float) -> list[Pair]:
        """The pairs that a slightly different threshold would have judged otherwise."""
        return [
            pair
            for pair in self.pairs
            if pair.reason in ("similar", BELOW) and abs(pair.similarity - self.threshold) <= margin
        ]


BELOW = "nothing is more alike than the threshold"
ENVELOPE = "it names a field of the envelope, which this event lacks"
NO_ATTRIBUTES = "the event has no attribute to compare it with"
TAKEN = "what is alike is given to another name"


class Choice(NamedTuple):
    """For each name the number of the chosen attribute or -1, and the number of the nearest."""

    chosen: list[int]
    nearest: list[int]


def choose(similarities: Floats, settings: SemanticSettings) -> Choice:
    """One row for each name, one column for each attribute; there is at least one column."""
    nearest = [int(np.argmax(row)) for row in similarities]
    if settings.assignment == "one-to-one":
        return Choice(_one_to_one(similarities, settings.limit), nearest)
    return Choice([_best(row, settings.limit) for row in similarities], nearest)


def _best(row: Floats, threshold: float) -> int:
    first = int(np.argmax(row >= ALIKE))  # argmax gives the first of equals
    if row[first] >= ALIKE:
        return first
    best = int(np.argmax(row))
    return best if row[best] > threshold else -1


def _one_to_one(similarities: Floats, threshold: float) -> list[int]:
    try:
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # an extra, and slow to import
    except ImportError:
        raise RecadoError("one-to-one needs the package scipy: pip install 'recado[semantics]'") from None
    allowed = (similarities > threshold) | (similarities >= ALIKE)
    columns = np.arange(similarities.shape[1])
    worth = np.where(allowed, similarities - _TIE * columns / len(columns), 0.0)
    chosen = [-1] * len(similarities)
    for row, column in zip(*linear_sum_assignment(worth, maximize=True), strict=True):
        if allowed[row, column]:
            chosen[row] = int(column)
    return chosen


def distinct(names: Sequence[str]) -> list[str]:
    """The names without repetitions, in order."""
    return list(dict.fromkeys(names))
