"""Merging: one filter in the place of two.

A *perfect* merger matches exactly the events that either filter matches, and is smaller than the two side by side:
one covers the other, or conjunctions that agree on all attributes but one are joined there (``x == 5 and y in {2, 3}``
with ``x == 5 and y in {4, 5}``; ranges that overlap or touch), or any other union that comes to fewer conjunctions.

An *imperfect* merger is a single conjunction that matches at least those events, and perhaps more: each attribute
admits what it admits in either filter, and an attribute that one of them leaves free is left free.
"""

from __future__ import annotations

from functools import reduce

from recado.filters.covering import covers
from recado.filters.normal import needed_terms, union_filter
from recado.filters.sets import FULL, ORDERED, TRUE_ONLY, Cuts, ValueSet, complement, cuts_of, join
from recado.filters.terms import Dimension, Term, conjoin
from recado.filters.unions import TooManyTermsError, terms_of
from recado.model.filter import Filter, Or

PIECES = 64
"""An imperfect merger lets an attribute have this many separate ranges of a kind, then closes the gaps."""


def merge(filter: Filter, other: Filter) -> Filter | None:
    """The perfect merger; None if there is none that would be smaller than both filters side by side."""
    if covers(filter, other):
        return filter
    if covers(other, filter):
        return other
    try:
        apart = len(needed_terms(filter)) + len(needed_terms(other))
        together = needed_terms(Or((filter, other)))
    except TooManyTermsError:
        return None
    return union_filter(together) if len(together) < apart else None


def merge_imperfect(filter: Filter, other: Filter) -> Filter:
    """A filter that matches whatever either one matches: the perfect merger, or else one conjunction around both."""
    perfect = merge(filter, other)
    if perfect is not None:
        return perfect
    try:
        terms = terms_of(filter) + terms_of(other)
    except TooManyTermsError:
        return Or((filter, other))
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
        return _closed(join(a.get(dimension, FULL), b.get(dimension, FULL)))
    for values in (TRUE_ONLY, complement(TRUE_ONLY)):
        if all(conjoin(term, [(dimension, complement(values))]) is None for term in (a, b)):
            return values
    return FULL


def _closed(values: ValueSet) -> ValueSet:
    """The set, with each kind that has too many ranges replaced by the one range around them."""
    return ValueSet(values.flags, *(_hull(cuts_of(values, kind)) for kind in ORDERED))


def _hull(cuts: Cuts) -> Cuts:
    if len(cuts) <= 2 * PIECES:
        return cuts
    return cuts[:1] if len(cuts) % 2 else (cuts[0], cuts[-1])
