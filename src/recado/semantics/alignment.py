"""Algorithm 1: which attribute of an event stands for each name of a filter (4.6), and why.

Given the similarity of every name with every attribute: a name takes the first attribute with the similarity 1,
whatever the threshold; else the most alike one, if it is more alike than the threshold, the first of several. An
attribute may serve several names. ``one-to-one`` instead gives every attribute to at most one name such that the sum
of the similarities is greatest.

Before any of that an identical name is itself, and the names of the envelope (id, type, source, time) are themselves
only, unless the settings let them take part.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from recado.errors import FilterError, RecadoError
from recado.filters import cesql
from recado.filters.cesql.evaluator import SPECVERSION
from recado.filters.cesql.nodes import Attribute, Call, Chain, Expression, Like, Member, Presence, Step, Unary
from recado.filters.evaluate import walk
from recado.model.event import ENVELOPE, Event, expansions
from recado.model.filter import FALSE, And, Constant, Filter, Not, Or, Sql
from recado.model.flat import RESERVED
from recado.model.values import Value
from recado.semantics.measures.base import Floats
from recado.semantics.settings import SemanticSettings, Unmatched, strategies
from recado.semantics.units import Conversion, Reading

_log = logging.getLogger("recado.semantics")
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
    reading: Reading | None = None

    @property
    def is_doubtful(self) -> bool:
        """Would it be a pair, if a doubt did not speak against it?"""
        return self.attribute is None and self.reason.startswith("doubtful")

    @property
    def conversion(self) -> Conversion | None:
        """From the unit of the attribute's name to that of the filter's, if they differ."""
        return self.reading.conversion if self.reading is not None else None

    def explain(self) -> str:
        """The pair in words."""
        if self.attribute is None:
            near = f"; the nearest is {self.nearest!r} at {self.similarity:.3f}" if self.nearest is not None else ""
            return f"{self.constraint!r} has no counterpart: {self.reason}{near}"
        if self.reason == "identical":
            return f"{self.constraint!r} is itself"
        told = f"{' '.join(self.words)} ~ {' '.join(self.attribute_words)}"
        converted = f", {self.reading.explain()}" if self.reading is not None and self.reading.explain() else ""
        return f"{self.constraint!r} is {self.attribute!r}: {self.similarity:.3f}, {self.reason} ({told}){converted}"


class Alignment(msgspec.Struct, frozen=True):
    """One pair for each name of a filter, in its order; by which measure, above which threshold."""

    pairs: tuple[Pair, ...]
    measure: str
    threshold: float
    unmatched: Unmatched

    def mapping(self) -> dict[str, str]:
        """The attribute for each name that has one."""
        return {pair.constraint: pair.attribute for pair in self.pairs if pair.attribute is not None}

    def readings(self) -> dict[str, Reading]:
        """By the names that converted values go by, how they are converted."""
        return {pair.reading.name: pair.reading for pair in self.pairs if pair.reading is not None}

    def missing(self) -> list[str]:
        """The names without a counterpart."""
        return [pair.constraint for pair in self.pairs if pair.attribute is None]

    def uncertain(self, margin: float) -> list[Pair]:
        """The pairs that a slightly different threshold would have judged otherwise."""
        return [
            pair
            for pair in self.pairs
            if pair.is_doubtful
            or (pair.reason in ("similar", BELOW) and abs(pair.similarity - self.threshold) <= margin)
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
    if settings.assignment != "best":
        try:
            return Choice(choose_by_strategy(similarities, settings), nearest)
        except RecadoError as error:  # of somebody else's code; matching goes on, and takes nothing for these names
            _log.error("%s", error)
            return Choice([-1] * len(similarities), nearest)
    return Choice([_best(row, settings.limit) for row in similarities], nearest)


def _best(row: Floats, threshold: float) -> int:
    first = int(np.argmax(row >= ALIKE))  # argmax gives the first of equals
    if row[first] >= ALIKE:
        return first
    best = int(np.argmax(row))
    return best if row[best] > threshold else -1


def choose_by_strategy(similarities: Floats, settings: SemanticSettings) -> list[int]:
    """What a plug-in chooses; a RecadoError if it is not there, fails, or gives what is no choice."""
    rows, columns = similarities.shape
    strategy = strategies.find(settings.assignment)
    try:
        chosen = [int(number) for number in strategy(similarities.copy(), settings.limit)]
    except Exception as error:
        raise RecadoError(f"the strategy {settings.assignment} failed: {error}") from error
    if len(chosen) != rows or not all(-1 <= number < columns for number in chosen):
        raise RecadoError(
            f"the strategy {settings.assignment!r} gave {chosen}, which are no attributes of {rows} names"
        )
    return chosen


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
    mapping |= {reading.constraint: reading.name for reading in _readings(alignment)}
    if alignment.unmatched == "fail":
        return _rename(node, mapping, FALSE) or FALSE
    if names and not any(name in mapping for name in names):
        return FALSE
    return _rename(node, mapping, None) or FALSE


def _readings(alignment: Alignment) -> list[Reading]:
    return [pair.reading for pair in alignment.pairs if pair.reading is not None]


def views(event: Event, names: Collection[str], readings: Mapping[str, Reading]) -> Iterator[dict[str, Value]]:
    """The single-valued views of an event that a rewritten filter is evaluated on, with converted values."""
    if not readings:
        yield from expansions(event, names)
        return
    wanted = set(names)
    used = [reading for name, reading in readings.items() if name in wanted]
    wanted |= {reading.attribute for reading in used} | {one.teller for one in used if one.teller is not None}
    for view in expansions(event, wanted):
        yield view | convert_values(view, used)


def convert_values(view: Mapping[str, Value], readings: Iterable[Reading]) -> dict[str, Value]:
    """The converted values of a view, by the names that they go by."""
    return {
        one.name: one.read(view[one.attribute], view.get(one.teller or "")) for one in readings if one.attribute in view
    }


def tell_units(event: Event, alignment: Alignment) -> Alignment:
    """The alignment with the conversions that an event asks for by its values and what it says of their units."""
    there = dict(event.items())
    pairs = tuple(
        msgspec.structs.replace(pair, reading=_tell(there, pair.reading)) if pair.reading is not None else pair
        for pair in alignment.pairs
    )
    return alignment if pairs == alignment.pairs else msgspec.structs.replace(alignment, pairs=pairs)


def _tell(there: Mapping[str, Any], reading: Reading) -> Reading:
    value, told = there.get(reading.attribute, ()), there.get(reading.teller or "")
    all_told = (reading.tell(one, told) for one in (value if isinstance(value, tuple) else (value,)))
    return next((one for one in all_told if one != reading), reading)


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
    """The event with its attributes under the subscriber's names, in their units, beside the original ones.

    A name that the event has already, or that only the envelope or the format may have, is not given again.
    """
    there = dict(event.items())
    readings = {reading.constraint: reading for reading in _readings(alignment)}
    added = {
        name: _read(there, attribute, readings.get(name))
        for name, attribute in alignment.mapping().items()
        if attribute in there and name not in there and name not in ENVELOPE and name not in RESERVED
    }
    return msgspec.structs.replace(event, attributes=event.attributes | added) if added else event


def _read(there: Mapping[str, Any], attribute: str, reading: Reading | None) -> Any:
    value = there[attribute]
    if reading is None:
        return value
    told = there.get(reading.teller or "")
    return tuple(reading.read(one, told) for one in value) if isinstance(value, tuple) else reading.read(value, told)
