"""Algorithm 1: which attribute of an event stands for each name of a filter (4.6), and why.

Given the similarity of every name with every attribute: a name takes the first attribute with the similarity 1,
whatever the threshold; else the most alike one, if it is more alike than the threshold, the first of several. An
attribute may serve several names. ``one-to-one`` instead gives every attribute to at most one name such that the sum
of the similarities is greatest.

Before any of that an identical name is itself, and the names of the envelope (id, type, source, time) are themselves
only, unless the settings let them take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from recado.errors import FilterError, RecadoError
from recado.filters import cesql
from recado.filters.cesql.evaluator import SPECVERSION
from recado.filters.cesql.nodes import Attribute, Call, Chain, Expression, Like, Member, Presence, Step, Unary
from recado.filters.evaluate import walk
from recado.model.event import ENVELOPE, Event
from recado.model.filter import FALSE, And, Constant, Filter, Not, Or, Sql
from recado.model.flat import RESERVED
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
LACKS_FIELD = "it names a field of the envelope, which this event lacks"
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


# --- A filter in the event's words, and an event in the subscriber's words -------------------------------------------
#
# ``rewrite`` puts the attribute that an alignment found in the place of each name of a filter. What becomes of a
# predicate whose name has no counterpart is the alignment's ``unmatched``:
#
# - ``fail``: it is false, exactly as a predicate on an absent attribute is. So ``not`` around it is true, and with a
#   threshold of 1 a semantic subscription matches what the plain one does.
# - ``ignore``: it is left out. A conjunction or disjunction goes on without it; ``not`` of it, or a conjunction or
#   disjunction of nothing else, is left out too. If no name of the filter has a counterpart the filter matches nothing,
#   as in Algorithm 1.
#
# A CESQL part is one predicate with several names: under ``fail`` its missing names stay as they are and CESQL treats
# them as absent; under ``ignore`` one missing name leaves the part out.


def constraint_names(tree: Filter) -> tuple[str, ...]:
    """The names in a filter, each once, in the order in which they stand there."""
    found: dict[str, None] = {}
    for node in walk(tree):
        if isinstance(node, Sql):
            found |= dict.fromkeys(sorted(cesql.names(node.text) - {SPECVERSION}))
        elif not isinstance(node, And | Or | Not | Constant):
            found[node.name] = None
    return tuple(found)


def rewrite(node: Filter, alignment: Alignment) -> Filter:
    """The filter with the event's names."""
    names = constraint_names(node)
    mapping = alignment.mapping()
    if alignment.unmatched == "fail":
        return _rename(node, mapping, FALSE) or FALSE
    if names and not any(name in mapping for name in names):
        return FALSE
    return _rename(node, mapping, None) or FALSE


def _rename(node: Filter, mapping: Mapping[str, str], missing: Filter | None) -> Filter | None:
    """The node with other names; None if it is left out, which is what becomes of ``missing`` None."""
    match node:
        case Constant():
            return node
        case And(parts) | Or(parts):
            renamed = [_rename(part, mapping, missing) for part in parts]
            kept = tuple(part for part in renamed if part is not None)
            if len(kept) < len(parts) and len(kept) < 2:
                return kept[0] if kept else None
            return type(node)(kept)
        case Not(part):
            inner = _rename(part, mapping, missing)
            return None if inner is None else Not(inner)
        case Sql(text):
            return _rename_sql(text, mapping, missing)
    name = mapping.get(node.name)
    return missing if name is None else msgspec.structs.replace(node, name=name)


def _rename_sql(text: str, mapping: Mapping[str, str], missing: Filter | None) -> Filter | None:
    if missing is None and any(name not in mapping for name in cesql.names(text) - {SPECVERSION}):
        return None
    renamed = cesql.format_node(_expression(cesql.parse(text), mapping))
    try:
        cesql.parse(renamed)
    except FilterError:  # longer names made it too long for CESQL
        return FALSE
    return Sql(renamed)


def _expression(node: Expression, mapping: Mapping[str, str]) -> Expression:
    match node:
        case Attribute(name):
            return Attribute(mapping.get(name, name))
        case Presence(name):
            return Presence(mapping.get(name, name))
        case Unary(op, operand):
            return Unary(op, _expression(operand, mapping))
        case Chain(first, steps):
            rest = tuple(Step(step.op, _expression(step.operand, mapping)) for step in steps)
            return Chain(_expression(first, mapping), rest)
        case Like(operand, pattern, negated):
            return Like(_expression(operand, mapping), pattern, negated)
        case Member(operand, elements, negated):
            inside = tuple(_expression(element, mapping) for element in elements)
            return Member(_expression(operand, mapping), inside, negated)
        case Call(name, arguments):
            return Call(name, tuple(_expression(argument, mapping) for argument in arguments))
    return node


def rename_event(event: Event, alignment: Alignment) -> Event:
    """The event with its attributes under the subscriber's names beside the original ones.

    A name that the event has already, or that only the envelope or the format may have, is not given again.
    """
    there = dict(event.items())
    added = {
        name: there[attribute]
        for name, attribute in alignment.mapping().items()
        if attribute in there and name not in there and name not in ENVELOPE and name not in RESERVED
    }
    return msgspec.structs.replace(event, attributes=event.attributes | added) if added else event
