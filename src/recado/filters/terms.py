"""Conjunctions as boxes.

A *term* is a conjunction: for each dimension the set of states it admits, a dimension left out being free. A dimension
is an attribute's name with its value set, or an opaque literal, which is either true (``TRUE_ONLY``) or not. Over
value sets everything here is exact; literals are boolean unknowns about which some
facts are known, so that with them emptiness and inclusion are sound but not complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from json.encoder import encode_basestring as quote

from recado.errors import RecadoError
from recado.filters.evaluate import holds
from recado.filters.nodes import predicate_kind
from recado.filters.patterns import Fixed, like_tokens
from recado.filters.sets import (
    EMPTY,
    FULL,
    PRESENT,
    STRINGS,
    TRUE_ONLY,
    ValueSet,
    after_prefix,
    complement,
    join,
    meet,
    of_prefix,
    of_values,
    points,
    within,
)
from recado.model.filter import And, Constant, Filter, Not, Or, Predicate, Similar, Sql, Text
from recado.model.values import Kind

# --- opaque literals: predicates that no value set can hold, and what is known about them ----------------------------
#
# Suffixes, parts, wildcards, regular expressions, similarity, anything that ignores case, and CESQL. A conjunction
# keeps such a predicate as it is, true or false. What the algebra knows about them is sound and not complete:
#
# - ``simplify_predicate`` turns those that say something simple into value sets (``like "ab*"`` is a prefix), and gives
#   the others one spelling;
# - ``implied_set``: a literal that holds needs its attribute, mostly a string, perhaps with a known beginning;
# - ``implies`` and ``excludes`` compare two literals by the text that each *fixes*: a beginning, an end, parts;
# - ``settle`` asks whether a value set decides a literal: its strings are few and can be tried one by one, or they
#   share a beginning that says enough.

Literal = Predicate | Sql

_POINTS_TRIED = 64
"""A string set of at most this many elements is decided by trying each."""


def simplify_predicate(predicate: Filter) -> Literal | ValueSet:
    """The value set that a predicate amounts to, or else its one spelling."""
    if type(predicate) is Sql:
        return predicate
    return predicate_kind(predicate).simplify(predicate)


def literal_key(literal: Literal) -> str:
    """The canonical text of a literal in its one spelling; unless it is CESQL it begins with the name in quotes."""
    if isinstance(literal, Sql):
        return f"sql{quote(literal.text)}"
    return predicate_kind(literal).literal_key(literal)


def needs_string(literal: Literal) -> bool:
    """Is the literal false of whatever is no string?"""
    return not isinstance(literal, Sql) and predicate_kind(literal).wanted_kind(literal) is Kind.STRING


# -- what is known -----------------------------------------------------------------------------------------------------


def fixed(literal: Literal) -> Fixed:
    """The text that the literal fixes in every string it accepts."""
    return Fixed() if isinstance(literal, Sql) else predicate_kind(literal).fixed(literal)


def implied_set(literal: Literal) -> ValueSet:
    """States that the literal's attribute must be in for it to hold."""
    if not needs_string(literal):
        return FULL if isinstance(literal, Sql) else PRESENT
    known = fixed(literal)
    return of_prefix(known.head) if known.head and not known.fold else STRINGS


def implies(literal: Literal, other: Literal) -> bool:
    """Does ``other`` certainly hold where ``literal`` does?"""
    if literal == other:
        return True
    if isinstance(literal, Sql) or isinstance(other, Sql) or literal.name != other.name:
        return False
    if isinstance(literal, Similar) and isinstance(other, Similar):
        return literal.text == other.text and literal.threshold >= other.threshold
    return _fixes(fixed(literal), other)


def _fixes(known: Fixed, other: Literal) -> bool:
    """Is the known text enough for ``other``? Ignoring case can only be known less, never more."""
    if not isinstance(other, Text) or (known.fold and not other.fold):
        return False
    if other.fold and not known.fold:
        known = Fixed(known.head.casefold(), known.tail.casefold(), tuple(p.casefold() for p in known.parts), True)
    match other.op:
        case "prefix":
            return known.head.startswith(other.pattern)
        case "suffix":
            return known.tail.endswith(other.pattern)
        case "contains":
            return any(other.pattern in part for part in known.parts)
    return False


def excludes(literal: Literal, other: Literal) -> bool:
    """Can the two certainly not hold together? Their beginnings or their ends contradict each other."""
    if isinstance(literal, Sql) or isinstance(other, Sql) or literal.name != other.name:
        return False
    a, b = fixed(literal), fixed(other)
    if a.fold != b.fold:
        return False
    heads = a.head.startswith(b.head) or b.head.startswith(a.head)
    tails = a.tail.endswith(b.tail) or b.tail.endswith(a.tail)
    return not (heads and tails)


def settle(values: ValueSet, literal: Literal) -> ValueSet | None:
    """The states among ``values`` where the literal holds, if that can be told exactly; else None."""
    if not needs_string(literal):
        return None
    strings = values.strings
    if not strings:
        return of_values(())
    few = points(Kind.STRING, strings) if len(strings) <= 2 * _POINTS_TRIED else None
    if few is not None:
        return of_values(s for s in few if holds(literal, s))
    if strings == STRINGS.strings:
        return None
    head = shared_head(values)
    return ValueSet(0, strings, (), ()) if head and _fixes(Fixed(head, "", (head,), False), literal) else None


def shared_head(values: ValueSet) -> str:
    """A beginning that all strings of the set share."""
    cuts = values.strings
    if not cuts or len(cuts) % 2:
        return ""
    low: str = cuts[0]
    high: str = cuts[-1]
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    longer = low[: shared + 1]
    end = after_prefix(longer)
    return longer if end is not None and high <= end else low[:shared]


def candidates(values: ValueSet, literals: list[tuple[Literal, bool]]) -> Iterator[str]:
    """Strings worth trying as a witness that the literals can be as demanded while the string is in the set."""
    heads, parts, tails = [shared_head(values)], [""], [""]
    for literal, wanted in literals:
        if wanted and isinstance(literal, Text):
            known = fixed(literal)
            heads.append(known.head)
            tails.append(known.tail)
            text = "".join("" if t is None else t or "x" for t in like_tokens(literal.pattern))
            parts.append(text if literal.op == "like" else literal.pattern)
        elif wanted and isinstance(literal, Similar):
            parts.append(literal.text)
    head, tail = max(heads, key=len), max(tails, key=len)
    yield from (head + tail, head + "".join(parts) + tail, *parts)
    for low in (*values.strings[:8:2], head):
        for filler in ("", "\0", "x", "~1", "Zq"):
            yield low + filler
            yield low + filler + "".join(parts) + filler + tail


# --- terms -----------------------------------------------------------------------------------------------------------

Dimension = str | Literal
Term = dict[Dimension, ValueSet]

LITERALS = 16
"""Literals are compared with each other if an attribute has at most so many in one term."""


def atom(predicate: Filter) -> tuple[Dimension, ValueSet]:
    """The dimension that a predicate speaks of, and the states it admits there."""
    simple = simplify_predicate(predicate)
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
    exact = settle(values, literal)
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


# --- Filters as unions of terms --------------------------------------------------------------------------------------
#
# A filter is brought to a union of terms, and that union to its *prime* terms: all boxes inside the filter that no
# larger box inside it contains. The primes depend on the filter's meaning alone, not on how it was written. They are
# found by iterated consensus: two terms that differ in a dimension also admit the box with the union in that dimension
# and the intersection in all others.
#
# Everything has a budget: beyond it ``TooManyTermsError`` is raised, and the caller has a plainer answer.


TERMS = 512
"""The most terms that a union may come to while it is put together."""
PRODUCT = 128
"""The most terms that a conjunction of disjunctions may come to."""
STEPS = 16_384
"""The most comparisons of two terms in a search for primes, and the most pieces when a term is cut up."""


class TooManyTermsError(RecadoError):
    """The union has more terms than the budget allows; never leaves the algebra."""


def terms_of(node: Filter, positive: bool = True) -> list[Term]:
    """The filter (or its negation) as a union of terms, without those that another one contains."""
    match node:
        case Constant(value):
            return [{}] if value is positive else []
        case Not(part):
            return terms_of(part, not positive)
        case And(parts) | Or(parts):
            if isinstance(node, And) is positive:
                return _product(parts, positive)
            return fuse([term for part in parts for term in terms_of(part, positive)])
    dimension, values = atom(node)
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
            out = fuse(out)
    return out


def fuse(terms: list[Term]) -> list[Term]:
    """An equal union with fewer terms: those that differ in one dimension only are joined, contained ones dropped."""
    if len(terms) < 2:
        return terms
    terms = _join_alike(terms)
    if len(terms) > TERMS:
        raise TooManyTermsError("too many alternatives")
    return absorb(terms)


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
                term = _replace(held, dimension, join(held.get(dimension, FULL), term.get(dimension, FULL)))
            alike[rest] = term
        terms = list(alike.values())
    return terms


def _replace(term: Term, dimension: Dimension, values: ValueSet) -> Term:
    out = {d: v for d, v in term.items() if d != dimension}
    if values != FULL:
        out[dimension] = values
    return out


def absorb(terms: list[Term]) -> list[Term]:
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


def is_covered(term: Term, union: list[Term], budget: int = STEPS // 8) -> bool:
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
            pieces = _cut_out(rest, union[i])
            i += 1
        steps += 1 + len(pieces)
        if steps > budget:
            return False
        waiting.extend((piece, i) for piece in pieces)
    return True


def _cut_out(term: Term, other: Term) -> list[Term] | None:
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
