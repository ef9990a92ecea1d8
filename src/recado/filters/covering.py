"""Covering, overlap and satisfiability: what one filter tells about another.

``covers(f, g)`` is true only if every event that matches g matches f. Both filters become unions of terms, and each
term of g must be used up by the terms of f. Over comparisons, ranges, sets, ``exists``, prefixes and their negations
this is exact, also for disjunctions. With opaque literals (suffix, regular expressions, CESQL...) a yes is still
certain, a no may be ignorance. The same holds when a filter has more alternatives than the budget of
``recado.filters.terms``.

An event with arrays matches if one of its single-valued views does. Whatever holds for every view, as covering and
merging do, thus holds for every event. ``overlaps`` is about two views of one event: they have the same attributes and
the same envelope, and may differ in every other value, since that attribute can be an array with an element for each.
``{"x": [1, 9]}`` matches both ``x < 5`` and ``x >= 5``, and not their conjunction, which asks for one element.
"""

from __future__ import annotations

from functools import reduce
from itertools import islice, product

from recado.filters import cesql
from recado.filters.evaluate import evaluate, holds, names_of, walk
from recado.filters.nodes import is_predicate, predicate_kind
from recado.filters.normal import filter_key, needed_terms, union_filter
from recado.filters.sets import (
    ABSENT,
    EMPTY,
    FULL,
    ORDERED,
    PRESENT,
    TRUE_ONLY,
    Cuts,
    ValueSet,
    complement,
    contains,
    cuts_of,
    join,
)
from recado.filters.terms import (
    STEPS,
    Dimension,
    Literal,
    Term,
    TooManyTermsError,
    candidates,
    conjoin,
    is_covered,
    needs_string,
    terms_of,
)
from recado.model.event import ENVELOPE
from recado.model.filter import And, Filter, Or, Sql
from recado.model.values import Value

_SHARED = frozenset((*ENVELOPE, "specversion"))
"""What is never an array: all views of an event have the same."""


def satisfiable(node: Filter) -> bool | None:
    """Can some event match? None if that could not be decided."""
    try:
        terms = terms_of(node)
    except TooManyTermsError:
        return None
    if not terms:
        return False
    return True if any(map(_has_witness, terms)) else None


def covers(node: Filter, other: Filter) -> bool:
    """Does every event that matches ``other`` certainly match ``node``? False also if that is not known."""
    union, cases = _terms_or_none(node), _terms_or_none(other)
    if union is not None and cases is not None:
        return all(is_covered(case, union) for case in cases)
    return filter_key(node) == filter_key(other) or _covers_by_parts(node, other)


def overlaps(node: Filter, other: Filter) -> bool:
    """Could an event match both, perhaps with different elements of its arrays? A False is certain."""
    ours, theirs = _terms_or_none(node), _terms_or_none(other)
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


def equivalent(node: Filter, other: Filter) -> bool:
    """Do the two certainly match the same events?"""
    return filter_key(node) == filter_key(other) or (covers(node, other) and covers(other, node))


def _terms_or_none(node: Filter) -> list[Term] | None:
    try:
        return terms_of(node)
    except TooManyTermsError:
        return None


def _covers_by_parts(node: Filter, other: Filter) -> bool:
    """For filters that are too large as a whole: each condition of one must cover some condition of the other."""
    wanted = [_terms_or_none(part) for part in (node.parts if isinstance(node, And) else (node,))]
    given = [_terms_or_none(part) for part in (other.parts if isinstance(other, And) else ())]
    given.append(_terms_or_none(other))
    return all(
        want is not None
        and any(have is not None and all(is_covered(term, want, budget=256) for term in have) for have in given)
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
    others = values.flags or values.numbers or values.times
    if others and all(needs_string(literal) and not wanted for literal, wanted in literals):
        return True  # such a literal is false of whatever is no string
    return any(
        contains(values, text) and all(holds(literal, text) is wanted for literal, wanted in literals)
        for text in candidates(values, literals)
    )


# --- Merging: one filter in the place of two -------------------------------------------------------------------------
#
# A *perfect* merger matches exactly the events that either filter matches, and is smaller than the two side by side:
# one covers the other, or conjunctions that agree on all attributes but one are joined there (``x == 5 and y in {2,
# 3}`` with ``x == 5 and y in {4, 5}``; ranges that overlap or touch), or any other union that comes to fewer
# conjunctions.
#
# An *imperfect* merger is a single conjunction that matches at least those events, and perhaps more: each attribute
# admits what it admits in either filter, and an attribute that one of them leaves free is left free.


PIECES = 64
"""An imperfect merger lets an attribute have this many separate ranges of a kind, then closes the gaps."""


def merge(node: Filter, other: Filter) -> Filter | None:
    """The perfect merger; None if there is none that would be smaller than both filters side by side."""
    if covers(node, other):
        return node
    if covers(other, node):
        return other
    try:
        apart = len(needed_terms(node)) + len(needed_terms(other))
        together = needed_terms(Or((node, other)))
    except TooManyTermsError:
        return None
    return union_filter(together) if len(together) < apart else None


def merge_imperfect(node: Filter, other: Filter) -> Filter:
    """A filter that matches whatever either one matches: the perfect merger, or else one conjunction around both."""
    perfect = merge(node, other)
    if perfect is not None:
        return perfect
    try:
        terms = terms_of(node) + terms_of(other)
    except TooManyTermsError:
        return Or((node, other))
    return union_filter([reduce(_around, terms)])


def _around(a: Term, b: Term) -> Term:
    """A term that contains both."""
    out: Term = {}
    for dimension in dict.fromkeys((*a, *b)):
        values = _either(a, b, dimension)
        if values != FULL:
            out[dimension] = values
    return out


def _either(a: Term, b: Term, dimension: Dimension) -> ValueSet:
    """What the dimension may be in either term, so far as that can be told."""
    if isinstance(dimension, str):
        return _close_gaps(join(a.get(dimension, FULL), b.get(dimension, FULL)))
    for values in (TRUE_ONLY, complement(TRUE_ONLY)):
        if all(conjoin(term, [(dimension, complement(values))]) is None for term in (a, b)):
            return values
    return FULL


def _close_gaps(values: ValueSet) -> ValueSet:
    """The set, with each kind that has too many ranges replaced by the one range around them."""
    return ValueSet(values.flags, *(_hull(cuts_of(values, kind)) for kind in ORDERED))


def _hull(cuts: Cuts) -> Cuts:
    if len(cuts) <= 2 * PIECES:
        return cuts
    return cuts[:1] if len(cuts) % 2 else (cuts[0], cuts[-1])


# --- Events made to order: a small search for a view that satisfies a filter -----------------------------------------
#
# Each attribute that the filter names is tried with the values the filter speaks of, their near neighbours, and with
# being absent. What is found is checked by the evaluator, so it is always right; what is not found may exist all the
# same. The search ends after a fixed number of tries, so it costs bounded time.


TRIES = 20_000


def find_witness(node: Filter, tries: int = TRIES) -> dict[str, Value] | None:
    """A single-valued view that the filter accepts, or None if the search found none."""
    names = sorted(names_of(node))
    candidates = [_candidates(node, name) for name in names]
    for choice in islice(product(*candidates), tries):
        view = {name: value for name, value in zip(names, choice, strict=True) if value is not None}
        if evaluate(node, view):
            return view
    return None


def _candidates(tree: Filter, name: str) -> list[Value | None]:
    """Absent, and every value worth a try; values that are equal but of different kinds are kept apart."""
    found: dict[tuple[type, Value], Value] = {}
    for node in walk(tree):
        if is_predicate(node) and node.name == name:
            for value in predicate_kind(node).examples(node):
                found.setdefault((type(value), value), value)
    values: list[Value | None] = [*found.values()]
    if not any(isinstance(value, str) for value in values):
        values.append("other")
    return [*values, None]
