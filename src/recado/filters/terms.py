"""Conjunctions as boxes.

A *term* is a conjunction: for each dimension the set of states it admits, a dimension left out being free. A dimension
is an attribute's name with its value set, or an opaque literal, which is either true (``TRUE_ONLY``) or not. Over
value sets everything here is exact; literals are boolean unknowns about which ``recado.filters.literals`` knows some
facts, so that with them emptiness and inclusion are sound but not complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from recado.filters.literals import Literal, excludes, implied_set, implies, reduced, settled
from recado.filters.sets import (
    EMPTY,
    FULL,
    PRESENT,
    TRUE_ONLY,
    ValueSet,
    complement,
    meet,
    of_compare,
    of_values,
    within,
)
from recado.model.filter import And, Between, Compare, Constant, Exists, Filter, In, Not, Or, Sql

Dimension = str | Literal
Term = dict[Dimension, ValueSet]

LITERALS = 16
"""Literals are compared with each other if an attribute has at most so many in one term."""


def atom(predicate: Filter) -> tuple[Dimension, ValueSet]:
    """The dimension that a predicate speaks of, and the states it admits there."""
    match predicate:
        case Compare(name, op, value):
            return name, of_compare(op, value)
        case Between(name, low, high):
            return name, meet(of_compare(">=", low), of_compare("<=", high))
        case In(name, values):
            return name, of_values(values)
        case Exists(name):
            return name, PRESENT
        case And() | Or() | Not() | Constant():
            raise TypeError(f"{type(predicate).__name__} is not a predicate")
    simple = reduced(predicate)
    if isinstance(simple, ValueSet):
        return getattr(predicate, "name", ""), simple
    return simple, TRUE_ONLY


def conjoin(term: Term, other: Iterable[tuple[Dimension, ValueSet]]) -> Term | None:
    """The term with more conditions; None if nothing can satisfy it."""
    out = dict(term)
    for dimension, values in other:
        held = out.get(dimension)
        if held is not None:
            values = meet(held, values)
        if values == EMPTY:
            return None
        if values != FULL:
            out[dimension] = values
    return refine(out)


def refine(term: Term) -> Term | None:
    """The same condition with what its literals are known to say worked in; None if that is impossible."""
    by_name: dict[str, list[Literal]] = {}
    for dimension in term:
        if not isinstance(dimension, str | Sql):
            by_name.setdefault(dimension.name, []).append(dimension)
    if not by_name:
        return term
    out = dict(term)
    for name, literals in by_name.items():
        if len(literals) <= LITERALS and not _refine_attribute(out, name, literals):
            return None
    return out


def _refine_attribute(term: Term, name: str, literals: list[Literal]) -> bool:
    for literal in literals * 2:  # twice, since one literal may narrow the set that settles another
        if literal in term and not _work_in(term, name, literal):
            return False
    return _agree(term, [literal for literal in literals if literal in term])


def _work_in(term: Term, name: str, literal: Literal) -> bool:
    """Tell the attribute's value set what a literal says; drop the literal if nothing more is in it."""
    wanted = term[literal] == TRUE_ONLY
    values = term.get(name, FULL)
    if wanted:
        values = meet(values, implied_set(literal))
    exact = settled(values, literal)
    if exact is not None:
        values = exact if wanted else meet(values, complement(exact))
        del term[literal]
    if values == FULL:
        term.pop(name, None)
    else:
        term[name] = values
    return values != EMPTY


def _agree(term: Term, literals: list[Literal]) -> bool:
    """Compare the literals with each other; those that follow from another one are dropped."""
    for a, b in product(literals, literals):
        if a is b or a not in term or b not in term:
            continue
        if term[a] == TRUE_ONLY:
            if term[b] == TRUE_ONLY and excludes(a, b):
                return False
            if implies(a, b):
                if term[b] != TRUE_ONLY:
                    return False
                del term[b]
            elif term[b] != TRUE_ONLY and excludes(a, b):
                del term[b]
        elif term[b] != TRUE_ONLY and implies(b, a):
            del term[b]
    return True


def inside(term: Term, other: Term) -> bool:
    """Is the first term certainly contained in the second?"""
    for dimension, values in other.items():
        held = term.get(dimension)
        if held is not None and within(held, values):
            continue
        if not _bears_on(term, dimension) or conjoin(term, [(dimension, complement(values))]) is not None:
            return False
    return True


def _bears_on(term: Term, dimension: Dimension) -> bool:
    """Could the term's conditions on the same attribute decide the dimension?"""
    if isinstance(dimension, Sql):
        return False
    name = dimension if isinstance(dimension, str) else dimension.name
    if name is not dimension and name in term:
        return True
    return any(not isinstance(d, str | Sql) and d.name == name for d in term)


def _inside_plain(term: Term, other: Term) -> bool:
    """The same for two terms without literals: only the own set of a dimension can be the reason."""
    if len(other) > len(term):
        return False
    for dimension, values in other.items():
        held = term.get(dimension)
        if held is None or not within(held, values):
            return False
    return True


def inclusion(terms: Iterable[Term]) -> Callable[[Term, Term], bool]:
    """The quickest test of inclusion that is right for these terms."""
    plain = all(type(dimension) is str for term in terms for dimension in term)
    return _inside_plain if plain else inside
