"""Filters as unions of terms.

A filter is brought to a union of terms, and that union to its *prime* terms: all boxes inside the filter that no
larger box inside it contains. The primes depend on the filter's meaning alone, not on how it was written. They are
found by iterated consensus: two terms that differ in a dimension also admit the box with the union in that dimension
and the intersection in all others.

Everything has a budget: beyond it ``TooManyTermsError`` is raised, and the caller has a plainer answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recado.errors import RecadoError
from recado.filters.sets import EMPTY, FULL, ValueSet, complement, join, meet
from recado.filters.terms import Dimension, Term, atom, conjoin, inclusion
from recado.model.filter import And, Constant, Filter, Not, Or

TERMS = 512
"""The most terms that a union may come to while it is put together."""
PRODUCT = 128
"""The most terms that a conjunction of disjunctions may come to."""
STEPS = 16_384
"""The most comparisons of two terms in a search for primes, and the most pieces when a term is cut up."""


class TooManyTermsError(RecadoError):
    """The union has more terms than the budget allows; never leaves the algebra."""


def terms_of(filter: Filter, positive: bool = True) -> list[Term]:
    """The filter (or its negation) as a union of terms, without those that another one contains."""
    match filter:
        case Constant(value):
            return [{}] if value is positive else []
        case Not(part):
            return terms_of(part, not positive)
        case And(parts) | Or(parts):
            if isinstance(filter, And) is positive:
                return _product(parts, positive)
            return fused([term for part in parts for term in terms_of(part, positive)])
    dimension, values = atom(filter)
    term = conjoin({}, [(dimension, values if positive else complement(values))])
    return [] if term is None else [term]


def _product(parts: Iterable[Filter], positive: bool) -> list[Term]:
    """The union that admits what all parts admit: plain conditions first, alternatives last."""
    plain: list[tuple[Dimension, ValueSet]] = []
    unions: list[list[Term]] = []
    for part in parts:
        if isinstance(part, And | Or | Not | Constant):
            unions.append(terms_of(part, positive))
        else:
            dimension, values = atom(part)
            plain.append((dimension, values if positive else complement(values)))
    term = conjoin({}, plain)
    out = [] if term is None else [term]
    for union in sorted(unions, key=len):
        if len(out) > 1 and len(union) > 1 and len(out) * len(union) > PRODUCT:
            raise TooManyTermsError("too many alternatives")
        met = (conjoin(a, b.items()) for a in out for b in union)
        out = [term for term in met if term is not None]
        if len(union) > 1:
            out = fused(out)
    return out


def fused(terms: list[Term]) -> list[Term]:
    """An equal union with fewer terms: those that differ in one dimension only are joined, contained ones dropped."""
    if len(terms) < 2:
        return terms
    terms = _join_alike(terms)
    if len(terms) > TERMS:
        raise TooManyTermsError("too many alternatives")
    return absorbed(terms)


def _join_alike(terms: list[Term]) -> list[Term]:
    """Terms that agree in all dimensions but one, joined there, until there are none."""
    while True:
        buckets: dict[frozenset[Dimension], list[Term]] = {}
        for term in terms:
            buckets.setdefault(frozenset(term), []).append(term)
        joined = [term for bucket in buckets.values() for term in _join_bucket(bucket)]
        if len(joined) == len(terms):
            return joined
        terms = joined


def _join_bucket(terms: list[Term]) -> list[Term]:
    """The same for terms that all have the same dimensions."""
    for dimension in terms[0] if len(terms) > 1 else ():
        alike: dict[frozenset[tuple[Dimension, ValueSet]], Term] = {}
        for term in terms:
            rest = frozenset(item for item in term.items() if item[0] != dimension)
            held = alike.get(rest)
            if held is not None:
                term = _with(held, dimension, join(held.get(dimension, FULL), term.get(dimension, FULL)))
            alike[rest] = term
        terms = list(alike.values())
    return terms


def _with(term: Term, dimension: Dimension, values: ValueSet) -> Term:
    out = {d: v for d, v in term.items() if d != dimension}
    if values != FULL:
        out[dimension] = values
    return out


def absorbed(terms: list[Term]) -> list[Term]:
    """Without the terms that another one contains."""
    inside = inclusion(terms)
    out: list[Term] = []
    for term in sorted(terms, key=len):
        if not any(inside(term, other) for other in out):
            out = [other for other in out if not inside(other, term)]
            out.append(term)
    return out


def primes(terms: list[Term]) -> list[Term]:
    """All prime terms of the union, in no particular order."""
    inside = inclusion(terms)
    done: list[Term] = []
    waiting = list(terms)
    steps = 0
    while waiting:
        term = waiting.pop()
        if any(inside(term, other) for other in done):
            continue
        done = [other for other in done if not inside(other, term)]
        for other in done:
            for new in _consensus(term, other):
                steps += len(done)
                if not any(inside(new, known) for known in done):
                    waiting.append(new)
        done.append(term)
        if steps > STEPS:
            raise TooManyTermsError("too many prime terms")
    return done


def _consensus(a: Term, b: Term) -> Iterator[Term]:
    """The boxes that span both terms along one dimension."""
    shared = [d for d in a if d in b]
    clash = [d for d in shared if meet(a[d], b[d]) == EMPTY]
    if len(clash) > 1:
        return
    for dimension in clash or shared:
        union = join(a[dimension], b[dimension])
        if union in (a[dimension], b[dimension]):
            continue
        others = conjoin(
            {d: v for d, v in a.items() if d != dimension}, ((d, v) for d, v in b.items() if d != dimension)
        )
        new = None if others is None else conjoin(others, [(dimension, union)])
        if new is not None:
            yield new


def covered(term: Term, union: list[Term], budget: int = STEPS // 8) -> bool:
    """Is the term certainly contained in the union of the others? Within the budget, exact where value sets are."""
    inside = inclusion([term, *union])
    if any(inside(term, other) for other in union):
        return True
    waiting = [(term, 0)]
    steps = 0
    while waiting:
        rest, i = waiting.pop()
        pieces: list[Term] | None = None
        while pieces is None:
            if i == len(union):
                return False
            pieces = _without(rest, union[i])
            i += 1
        steps += 1 + len(pieces)
        if steps > budget:
            return False
        waiting.extend((piece, i) for piece in pieces)
    return True


def _without(term: Term, other: Term) -> list[Term] | None:
    """What is left of a term after another one is cut out, as disjoint terms; None if they do not meet."""
    pieces: list[Term] = []
    current: Term | None = term
    for dimension, values in other.items():
        assert current is not None
        piece = conjoin(current, [(dimension, complement(values))])
        if piece is not None:
            pieces.append(piece)
        current = conjoin(current, [(dimension, values)])
        if current is None:
            return None
    return pieces
