"""Covering, overlap and satisfiability: what one filter tells about another.

``covers(f, g)`` is true only if every event that matches g matches f. Both filters become unions of terms, and each
term of g must be used up by the terms of f. Over comparisons, ranges, sets, ``exists``, prefixes and their negations
this is exact, also for disjunctions. With opaque literals (suffix, regular expressions, CESQL...) a yes is still
certain, a no may be ignorance. The same holds when a filter has more alternatives than the budget of
``recado.filters.unions``.

An event with arrays matches if one of its single-valued views does. Whatever holds for every view, as covering and
merging do, thus holds for every event. ``overlaps`` is about two views of one event: they have the same attributes and
the same envelope, and may differ in every other value, since that attribute can be an array with an element for each.
``{"x": [1, 9]}`` matches both ``x < 5`` and ``x >= 5``, and not their conjunction, which asks for one element.
"""

from __future__ import annotations

from recado.filters import cesql
from recado.filters.evaluate import holds
from recado.filters.literals import Literal, candidates
from recado.filters.normal import filter_key
from recado.filters.sets import ABSENT, EMPTY, FULL, PRESENT, TRUE_ONLY, ValueSet, contains
from recado.filters.terms import Term, conjoin
from recado.filters.unions import STEPS, TooManyTermsError, covered, terms_of
from recado.model.event import ENVELOPE
from recado.model.filter import And, Filter, Sql

_SHARED = frozenset((*ENVELOPE, "specversion"))
"""What is never an array: all views of an event have the same."""


def satisfiable(filter: Filter) -> bool | None:
    """Can some event match? None if that could not be decided."""
    try:
        terms = terms_of(filter)
    except TooManyTermsError:
        return None
    if not terms:
        return False
    return True if any(map(_has_witness, terms)) else None


def covers(filter: Filter, other: Filter) -> bool:
    """Does every event that matches ``other`` certainly match ``filter``?"""
    union, cases = _terms_or_none(filter), _terms_or_none(other)
    if union is not None and cases is not None:
        return all(covered(case, union) for case in cases)
    return filter_key(filter) == filter_key(other) or _covers_by_parts(filter, other)


def overlaps(filter: Filter, other: Filter) -> bool:
    """Could an event match both, perhaps with different elements of its arrays? A False is certain."""
    ours, theirs = _terms_or_none(filter), _terms_or_none(other)
    if not ours or not theirs:
        return ours != [] and theirs != []
    if len(ours) * len(theirs) > STEPS:
        return True
    views = [_other_view(term) for term in theirs]
    return any(conjoin(term, view.items()) is not None for term in ours for view in views)


def _other_view(term: Term) -> Term:
    """What a view that satisfies the term tells of all other views of its event."""
    out: Term = {}
    for dimension, values in term.items():
        if isinstance(dimension, Sql):
            shared = cesql.names(dimension.text) <= _SHARED
        else:
            shared = (dimension if isinstance(dimension, str) else dimension.name) in _SHARED
        if shared:
            out[dimension] = values
        elif isinstance(dimension, str):
            out[dimension] = _presence(values)
    return out


def _presence(values: ValueSet) -> ValueSet:
    """All states that are present, if one of the set is, and absence, if the set has it."""
    absent = values.flags & ABSENT
    present = values._replace(flags=values.flags & ~ABSENT) != EMPTY
    return PRESENT._replace(flags=PRESENT.flags | absent) if present else EMPTY._replace(flags=absent)


def equivalent(filter: Filter, other: Filter) -> bool:
    """Do the two certainly match the same events?"""
    return filter_key(filter) == filter_key(other) or (covers(filter, other) and covers(other, filter))


def _terms_or_none(filter: Filter) -> list[Term] | None:
    try:
        return terms_of(filter)
    except TooManyTermsError:
        return None


def _covers_by_parts(filter: Filter, other: Filter) -> bool:
    """For filters that are too large as a whole: each condition of one must cover some condition of the other."""
    wanted = [_terms_or_none(part) for part in (filter.parts if isinstance(filter, And) else (filter,))]
    given = [_terms_or_none(part) for part in (other.parts if isinstance(other, And) else ())]
    given.append(_terms_or_none(other))
    return all(
        want is not None
        and any(have is not None and all(covered(term, want, budget=256) for term in have) for have in given)
        for want in wanted
    )


# -- witnesses ---------------------------------------------------------------------------------------------------------


def _has_witness(term: Term) -> bool:
    """Is there certainly an event in the term? Value sets are never empty; literals need a string that shows it."""
    demands: dict[str, list[tuple[Literal, bool]]] = {}
    for dimension, values in term.items():
        if isinstance(dimension, Sql):
            return False
        if not isinstance(dimension, str):
            demands.setdefault(dimension.name, []).append((dimension, values == TRUE_ONLY))
    return all(_string_exists(term, name, literals) for name, literals in demands.items())


def _string_exists(term: Term, name: str, literals: list[tuple[Literal, bool]]) -> bool:
    values = term.get(name, FULL)
    if (values.flags or values.numbers or values.times) and not any(wanted for _, wanted in literals):
        return True  # a literal is false of whatever is no string
    return any(
        contains(values, text) and all(holds(literal, text) is wanted for literal, wanted in literals)
        for text in candidates(values, literals)
    )
