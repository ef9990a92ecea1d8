"""Normal form: filters that mean the same are written the same.

A filter is brought to its prime terms (``recado.filters.unions``), which depend on its meaning alone, and these are
written in one order. So for and, or and not over comparisons, ranges, sets, ``exists`` and prefixes, equal meaning
gives an equal normal form and an equal key; order, nesting, repetition and spelling leave no trace. Opaque literals
take part as unknowns: equal keys always mean equal filters, but two ways to say the same with them may differ.

A filter with too many alternatives for that keeps its tree, with negations pushed down, each conjunction and
disjunction simplified by itself, and its parts sorted: still equivalent and deterministic, no longer canonical.

``filter_key`` is taken for every subscription that is loaded, so plain conjunctions have a short way to the same
text, in ``recado.filters.quick``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from json.encoder import encode_basestring as quote

from recado.filters.evaluate import walk
from recado.filters.literals import implied_set, literal_key
from recado.filters.quick import quick_key
from recado.filters.sets import TRUE_ONLY, ValueSet, complement, join
from recado.filters.spelling import set_filter, set_key
from recado.filters.terms import Dimension, Term, atom, conjoin
from recado.filters.unions import TooManyTermsError, covered, primes, terms_of
from recado.model.filter import FALSE, TRUE, And, Constant, Filter, Not, Or, Sql

KEY_CHARS = 512
"""A longer canonical text is replaced by its 256-bit digest."""

NEEDED = 64
"""In a longer union no search is made for terms that are superfluous, nor for a shorter form of a larger tree."""

Condition = tuple[Dimension, ValueSet]
Written = tuple[str, Filter]
"""A canonical text and the filter it stands for."""


def normal_form(filter: Filter) -> Filter:
    """The canonical filter with the same meaning: a disjunction of all its prime conjunctions."""
    terms = _canonical_terms(filter)
    return _tree(filter, positive=True)[1] if terms is None else union_filter(terms)


def filter_key(filter: Filter) -> str:
    """A text that two filters share only if they mean the same."""
    text = quick_key(filter) or _general_key(filter)
    if len(text) > KEY_CHARS:
        return "#" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    return text


def simplify(filter: Filter) -> Filter:
    """An equivalent filter without redundant parts: the shortest of the forms that are tried.

    These are the prime terms that are needed, the same for the negation, and the tree with each join simplified.
    """
    forms = [_tree(filter, positive=True)[1]]
    with suppress(TooManyTermsError):
        forms.append(union_filter(needed_terms(filter)))
    if _size(filter) <= NEEDED:
        with suppress(TooManyTermsError):
            forms.append(_tree(union_filter(needed_terms(Not(filter))), positive=False)[1])
    return min(forms, key=_size)


def needed_terms(filter: Filter) -> list[Term]:
    """Prime terms that together make the filter, none of them superfluous."""
    terms = sorted(primes(terms_of(filter)), key=lambda term: (-len(term), term_key(term)))
    for term in terms if len(terms) <= NEEDED else ():
        others = [other for other in terms if other is not term]
        if covered(term, others, budget=256):
            terms = others
    return terms


def _size(filter: Filter) -> int:
    return sum(1 for _ in walk(filter))


# -- terms, written ----------------------------------------------------------------------------------------------------


def _canonical_terms(filter: Filter) -> list[Term] | None:
    """The prime terms, or else an equal union; None if there are too many terms for either."""
    try:
        terms = terms_of(filter)
    except TooManyTermsError:
        return None
    with suppress(TooManyTermsError):
        return primes(terms)
    return terms


def _general_key(filter: Filter) -> str:
    terms = _canonical_terms(filter)
    return _tree(filter, positive=True)[0] if terms is None else union_key(terms)


def union_key(terms: Iterable[Term]) -> str:
    """The canonical text of a union of terms, which often share conditions."""
    known: dict[Condition, str] = {}
    return "|".join(sorted(term_key(term, known) for term in terms)) or "false"


def union_filter(terms: Iterable[Term]) -> Filter:
    """A union of terms as a filter, in the order of their texts."""
    parts = [term_filter(term) for term in sorted(terms, key=term_key)]
    return joined(Or, parts) if parts else FALSE


def term_key(term: Term, known: dict[Condition, str] | None = None) -> str:
    """The canonical text of a term; ``known`` remembers the texts of conditions."""
    known = {} if known is None else known
    texts = []
    for item in _said(term):
        text = known.get(item)
        if text is None:
            text = known[item] = _condition_key(*item)
        texts.append(text)
    return "&".join(sorted(texts)) or "true"


def term_filter(term: Term) -> Filter:
    """A term as a filter, in the order of its conditions' texts."""
    items = sorted(_said(term), key=lambda item: _condition_key(*item))
    return joined(And, (_condition_filter(*item) for item in items)) if items else TRUE


def _said(term: Term) -> list[Condition]:
    """The conditions of a term, without a value set that only repeats what one of its literals implies."""
    implied = {
        (d.name, implied_set(d)) for d, values in term.items() if not isinstance(d, str | Sql) and values == TRUE_ONLY
    }
    return [item for item in term.items() if item not in implied]


def _condition_key(dimension: Dimension, values: ValueSet) -> str:
    if isinstance(dimension, str):
        return quote(dimension) + set_key(values)
    return literal_key(dimension) if values == TRUE_ONLY else "!" + literal_key(dimension)


def _condition_filter(dimension: Dimension, values: ValueSet) -> Filter:
    if isinstance(dimension, str):
        return set_filter(dimension, values)
    return dimension if values == TRUE_ONLY else Not(dimension)


def joined(join_type: type[And] | type[Or], parts: Iterable[Filter]) -> Filter:
    """One conjunction or disjunction; parts that are one themselves are opened, and a single part stands alone."""
    flat: list[Filter] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, join_type) else (part,))
    return flat[0] if len(flat) == 1 else join_type(tuple(flat))


# -- trees that have too many terms ------------------------------------------------------------------------------------


def _tree(filter: Filter, positive: bool) -> Written:
    """The tree with negations pushed to its leaves, and each join simplified by itself."""
    match filter:
        case Constant(value):
            return ("true", TRUE) if value is positive else ("false", FALSE)
        case Not(part):
            return _tree(part, not positive)
        case And() | Or():
            parts = _opened(filter, positive)
            return _conjunction(parts) if isinstance(filter, And) is positive else _disjunction(parts)
    terms = terms_of(filter, positive)
    return union_key(terms), union_filter(terms)


def _opened(filter: And | Or, positive: bool) -> list[tuple[Filter, bool]]:
    """The parts of a join with their polarity; nested joins that come to the same kind are opened."""
    wanted = isinstance(filter, And) is positive
    out: list[tuple[Filter, bool]] = []
    for part in filter.parts:
        sign = positive
        while isinstance(part, Not):
            part, sign = part.part, not sign
        if isinstance(part, And | Or) and (isinstance(part, And) is sign) is wanted:
            out.extend(_opened(part, sign))
        else:
            out.append((part, sign))
    return out


def _conjunction(parts: list[tuple[Filter, bool]]) -> Written:
    term: Term | None = {}
    written: dict[str, Filter] = {}
    for part, positive in parts:
        if isinstance(part, And | Or | Constant):
            text, tree = _tree(part, positive)
            written[text] = tree
        elif term is not None:
            dimension, values = atom(part)
            term = conjoin(term, [(dimension, values if positive else complement(values))])
    if term is None or "false" in written:
        return "false", FALSE
    written[term_key(term)] = term_filter(term)
    return _join_written(And, "&", written, neutral="true")


def _disjunction(parts: list[tuple[Filter, bool]]) -> Written:
    terms: dict[Dimension, ValueSet] = {}
    written: dict[str, Filter] = {}
    for part, positive in parts:
        if isinstance(part, And | Or | Constant):
            text, tree = _tree(part, positive)
            written[text] = tree
        else:
            dimension, values = atom(part)
            values = values if positive else complement(values)
            terms[dimension] = join(terms[dimension], values) if dimension in terms else values
    for dimension, values in terms.items():
        term = conjoin({}, [(dimension, values)])
        if term is not None:
            written[term_key(term)] = term_filter(term)
    if "true" in written:
        return "true", TRUE
    return _join_written(Or, "|", written, neutral="false")


def _join_written(join_type: type[And] | type[Or], sign: str, written: dict[str, Filter], neutral: str) -> Written:
    written.pop(neutral, None)
    if not written:
        return neutral, TRUE if neutral == "true" else FALSE
    texts = sorted(written)
    if len(texts) == 1:
        return texts[0], written[texts[0]]
    return f"({sign.join(texts)})", joined(join_type, (written[text] for text in texts))
