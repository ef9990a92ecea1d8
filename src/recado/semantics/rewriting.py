"""A filter in the event's words, and an event in the subscriber's words.

``rewrite`` puts the attribute that an alignment found in the place of each name of a filter. What becomes of a
predicate whose name has no counterpart is the alignment's ``unmatched``:

- ``fail``: it is false, exactly as a predicate on an absent attribute is. So ``not`` around it is true, and with a
  threshold of 1 a semantic subscription matches what the plain one does.
- ``ignore``: it is left out. A conjunction or disjunction goes on without it; ``not`` of it, or a conjunction or
  disjunction of nothing else, is left out too. If no name of the filter has a counterpart the filter matches nothing,
  as in Algorithm 1.

A CESQL part is one predicate with several names: under ``fail`` its missing names stay as they are and CESQL treats
them as absent; under ``ignore`` one missing name leaves the part out.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recado.errors import FilterError
from recado.filters import cesql
from recado.filters.cesql.evaluator import SPECVERSION
from recado.filters.cesql.nodes import (
    Attribute,
    Call,
    Chain,
    Expression,
    Like,
    Member,
    Presence,
    Step,
    Unary,
)
from recado.filters.evaluate import walk
from recado.model.event import ENVELOPE, Event
from recado.model.filter import FALSE, And, Constant, Filter, Not, Or, Sql
from recado.model.flat import RESERVED
from recado.semantics.alignment import Alignment


def constraint_names(filter: Filter) -> tuple[str, ...]:
    """The names in a filter, each once, in the order in which they stand there."""
    found: dict[str, None] = {}
    for node in walk(filter):
        if isinstance(node, Sql):
            found |= dict.fromkeys(sorted(cesql.names(node.text) - {SPECVERSION}))
        elif not isinstance(node, And | Or | Not | Constant):
            found[node.name] = None
    return tuple(found)


def rewrite(filter: Filter, alignment: Alignment) -> Filter:
    """The filter with the event's names."""
    names = constraint_names(filter)
    mapping = alignment.mapping()
    if alignment.unmatched == "fail":
        return _renamed(filter, mapping, FALSE) or FALSE
    if names and not any(name in mapping for name in names):
        return FALSE
    return _renamed(filter, mapping, None) or FALSE


def _renamed(node: Filter, mapping: Mapping[str, str], missing: Filter | None) -> Filter | None:
    """The node with other names; None if it is left out, which is what becomes of ``missing`` None."""
    match node:
        case Constant():
            return node
        case And(parts) | Or(parts):
            renamed = [_renamed(part, mapping, missing) for part in parts]
            kept = tuple(part for part in renamed if part is not None)
            if len(kept) < len(parts) and len(kept) < 2:
                return kept[0] if kept else None
            return type(node)(kept)
        case Not(part):
            inner = _renamed(part, mapping, missing)
            return None if inner is None else Not(inner)
        case Sql(text):
            return _renamed_sql(text, mapping, missing)
    name = mapping.get(node.name)
    return missing if name is None else msgspec.structs.replace(node, name=name)


def _renamed_sql(text: str, mapping: Mapping[str, str], missing: Filter | None) -> Filter | None:
    if missing is None and any(name not in mapping for name in cesql.names(text) - {SPECVERSION}):
        return None
    renamed = cesql.format(_expression(cesql.parse(text), mapping))
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


def renamed(event: Event, alignment: Alignment) -> Event:
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
