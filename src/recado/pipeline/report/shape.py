"""What covering and merging need to know of a filter, computed once and not once a pair.

Nearly every subscription is a *box*: one conjunction of value sets (``recado.filters.terms``). Between boxes all
answers are exact and quick. A filter with alternatives or opaque predicates is *complex*; its terms are kept where the
budget of the algebra allows, and every question about it goes to ``recado.filters`` itself.

``signatures`` says where filters can be that a filter covers. A conjunction inside a union of value sets lies inside
one of its prime conjunctions, so every attribute of that prime occurs in the covered conjunction too, and where the
prime admits one value only, the covered one admits the same value. Each signature is a set of such demands, of which
a covered conjunction fulfils all. With opaque alternatives nothing is demanded.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from recado.filters.covering import covers
from recado.filters.expression import parse
from recado.filters.sets import ORDERED, ValueSet, next_cut, within
from recado.filters.terms import Term
from recado.filters.unions import TooManyTermsError, covered, primes, terms_of
from recado.model.filter import Filter, Sql
from recado.model.limits import LIMITS

ANY_TYPE = "(any type)"

Token = str | tuple[str, object]
"""An attribute's name; a name with its only value; or the text of a CESQL expression, as a pair too."""

_GENEROUS = msgspec.structs.replace(LIMITS, filter_chars=1 << 20, filter_depth=64, filter_predicates=1024)
"""Texts that come from filters which were accepted: joining the type in and spelling out make them a little longer."""


class Shape(NamedTuple):
    """A filter with its terms; None if there are too many of them. ``box`` is set if it is one plain conjunction."""

    key: str
    filter: Filter
    terms: list[Term] | None
    box: Term | None


def shape_of(key: str, text: str) -> Shape:
    """The shape of a filter that was written by ``expression.format``."""
    filter = read_filter(text)
    terms = _terms(filter)
    box = terms[0] if terms is not None and len(terms) == 1 and is_plain(terms[0]) else None
    return Shape(key, filter, terms, box)


def read_filter(text: str) -> Filter:
    """A filter that was accepted before, and written by ``expression.format``."""
    return parse(text, _GENEROUS)


def is_plain(term: Term) -> bool:
    """Does the term consist of value sets only?"""
    return all(isinstance(dimension, str) for dimension in term)


def covers_shape(shape: Shape, other: Shape) -> bool:
    """``recado.filters.covering.covers``, without computing the terms again."""
    if shape.box is not None and other.box is not None:
        held = other.box
        return all(name in held and within(held[name], values) for name, values in shape.box.items())
    if shape.terms is None or other.terms is None:
        return covers(shape.filter, other.filter)
    return all(covered(case, shape.terms) for case in other.terms)


def hides(shape: Shape, other: Shape) -> bool:
    """Does ``shape`` make ``other`` superfluous? Of filters that cover each other, the one with the least key stays."""
    if shape.key == other.key or not covers_shape(shape, other):
        return False
    if shape.box is not None and other.box is not None:
        return True  # boxes that mean the same have the same key
    return shape.key < other.key or not covers_shape(other, shape)


def event_type(filter: Filter, declared: str) -> str:
    """The one event type that a filter asks for, or else the pattern that was declared, or ``(any type)``."""
    if declared and "*" not in declared and "?" not in declared:
        return declared
    terms = _terms(filter) or []
    found = {only_value(term["type"]) if "type" in term else None for term in terms}
    pinned = found.pop() if len(found) == 1 else None
    return pinned if isinstance(pinned, str) else declared or ANY_TYPE


def only_value(values: ValueSet) -> object | None:
    """The value, if the set has just one and that is neither absence nor a boolean."""
    flags, *ordered = values
    if flags or sum(map(len, ordered)) != 2:
        return None
    for kind, cuts in zip(ORDERED, ordered, strict=True):
        if len(cuts) == 2:
            low: object = cuts[0]
            return low if next_cut(kind, low) == cuts[1] else None
    return None


def signatures(shape: Shape) -> list[frozenset[Token]]:
    """Sets of tokens; what the filter covers has all tokens of one of them."""
    if shape.terms is None:
        return [frozenset()]
    if len(shape.terms) < 2:
        return [demands(term) for term in shape.terms]
    if not all(map(is_plain, shape.terms)):
        return [frozenset()]
    try:
        return [demands(term) for term in primes(shape.terms)]
    except TooManyTermsError:
        return [frozenset()]


def demands(term: Term) -> frozenset[Token]:
    """The tokens of a conjunction: for each attribute its only value, or else its name."""
    out: set[Token] = set()
    for dimension, values in term.items():
        if isinstance(dimension, Sql):
            out.add(("", dimension.text))
        elif not isinstance(dimension, str):
            out.add(dimension.name)
        else:
            value = only_value(values)
            out.add(dimension if value is None else (dimension, value))
    return frozenset(out)


def _terms(filter: Filter) -> list[Term] | None:
    try:
        return terms_of(filter)
    except TooManyTermsError:
        return None
