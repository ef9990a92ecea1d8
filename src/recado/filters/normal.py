"""Normal form: filters that mean the same are written the same.

A filter is brought to its prime terms (``recado.filters.terms``), which depend on its meaning alone, and these are
written in one order. So for and, or and not over comparisons, ranges, sets, ``exists`` and prefixes, equal meaning
gives an equal normal form and an equal key; order, nesting, repetition and spelling leave no trace. Opaque literals
take part as unknowns: equal keys always mean equal filters, but two ways to say the same with them may differ.

A filter with too many alternatives for that keeps its tree, with negations pushed down, each conjunction and
disjunction simplified by itself, and its parts sorted: still equivalent and deterministic, no longer canonical.

``filter_key`` is taken for every subscription that is loaded, so plain conjunctions have a short way to the same
text, in ``recado.filters.normal``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from json.encoder import encode_basestring as quote
from typing import Any

from recado.filters.evaluate import walk
from recado.filters.sets import (
    ABSENT,
    BOTTOM,
    NAN,
    NO,
    ORDERED,
    PRESENT,
    TRUE_ONLY,
    YES,
    ValueSet,
    after_prefix,
    complement,
    cuts_of,
    join,
    next_cut,
    previous_number,
    spans,
    to_time,
)
from recado.filters.terms import (
    Dimension,
    Term,
    TooManyTermsError,
    atom,
    conjoin,
    implied_set,
    is_covered,
    literal_key,
    primes,
    terms_of,
)
from recado.model.filter import FALSE, TRUE, And, Between, Compare, Constant, Exists, Filter, In, Not, Or, Sql, Text
from recado.model.values import Kind, Value, canonical

# --- The short way to the key of a plain conjunction -----------------------------------------------------------------
#
# Nearly every subscription is a conjunction of comparisons, ranges and sets on different attributes. For those the
# canonical text can be put together directly, without building value sets. Whatever has an edge to it (values that are
# another value's neighbour, empty ranges, mixed sets, two predicates on one attribute) is left to the general way, and
# tests hold that both ways give the same text.


_NAMELESS = (Constant, Sql, Or, Not)
_SAFE_INT = 2**52
"""Smaller integers have only fractions as neighbours, and those have longer texts."""


def quick_key(node: Filter) -> str | None:
    """The canonical text of a plain conjunction; None for everything else."""
    if type(node) is not And:
        return _condition(node)
    held: dict[str, Filter] = {}
    texts: dict[str, str] = {}
    stack = [node]
    while stack:
        for part in stack.pop().parts:
            if isinstance(part, And):
                stack.append(part)
                continue
            if isinstance(part, _NAMELESS):
                return None
            name = part.name
            if name in texts:  # a second predicate may be the other end of a range; a third one is not plain
                text = _two_bounds(held.pop(name, None), part)
            else:
                held[name] = part
                text = _condition(part)
            if text is None:
                return None
            texts[name] = text
    return "&".join(sorted(texts.values())) or None


def _two_bounds(one: Filter | None, two: Filter) -> str | None:
    """The text of a range that was given by its two ends, as in ``x > 1 and x <= 5``."""
    if type(one) is not Compare or type(two) is not Compare:
        return None
    low, high = (one, two) if one.op[0] == ">" else (two, one)
    if low.op[0] != ">" or high.op[0] != "<" or (type(low.value) is str) is not (type(high.value) is str):
        return None
    left, right = _text(low.value), _text(high.value)
    if left is None or right is None or not low.value < high.value:  # type: ignore[operator]  # of one kind
        return None
    return f"{quote(low.name)}{'[' if low.op == '>=' else '('}{left};{right}{']' if high.op == '<=' else ')'}"


def _condition(predicate: Filter) -> str | None:
    if type(predicate) is Compare:
        return _compare(predicate)
    if type(predicate) is Between:
        return _between(predicate)
    if type(predicate) is In:
        return _in(predicate)
    if type(predicate) is Exists:
        return quote(predicate.name) + "*"
    return None


def _compare(predicate: Compare) -> str | None:
    value, op = predicate.value, predicate.op
    if type(value) is bool:
        return f"{quote(predicate.name)}={'true' if value is (op == '==') else 'false'}" if op in ("==", "!=") else None
    text = _text(value)
    if text is None:
        return None
    name = quote(predicate.name)
    if op == "==":
        return f"{name}={text}"
    if op[0] == "<":
        return f"{name}(;{text}{']' if op == '<=' else ')'}"
    if op[0] == ">":
        return f"{name}{'[' if op == '>=' else '('}{text};)"
    return f"{name}(;{text})({text};)"


def _between(predicate: Between) -> str | None:
    low, high = predicate.low, predicate.high
    left, right = _text(low), _text(high)
    if left is None or right is None or (type(low) is str) is not (type(high) is str):
        return None
    if left == right:
        return f"{quote(predicate.name)}={left}"
    return f"{quote(predicate.name)}[{left};{right}]" if low < high else None  # type: ignore[operator]  # both strings or both numbers


def _in(predicate: In) -> str | None:
    """A set of values of one kind; the texts of mixed sets have an order of their own."""
    values = predicate.values
    if not values:
        return None
    first = type(values[0])
    if any(type(value) is not first for value in values):
        return None
    texts = [_text(value) for value in sorted(set(values))]
    return None if None in texts else f"{quote(predicate.name)}={','.join(texts)}"  # type: ignore[arg-type]


def _text(value: Value) -> str | None:
    """A value's canonical text, if both cuts next to the value are surely told by it."""
    if type(value) is str:
        return quote(value) if value and value[-1] != "\0" else None
    if type(value) is int:
        return repr(value) if -_SAFE_INT < value < _SAFE_INT else None
    if type(value) is not float:
        return None
    if value.is_integer():
        return repr(int(value)) if -_SAFE_INT < value < _SAFE_INT else None
    text = repr(value)
    # two neighbouring floats cannot both have fifteen digits or fewer; next to zero they have few digits anyway
    return text if len(text) <= 15 and 1e-300 < abs(value) < 1e300 else None


# --- How a value set is written: as part of a canonical key, and as a filter -----------------------------------------
#
# Both are functions of the set alone, so sets that are equal are written alike. A cut lies between two neighbouring
# values and could be told by either (``x > 5`` is ``x >= 5.000000000000001``); the one with the shorter text is chosen.
#
# The key's grammar, after the attribute's name in quotes::
#
#     condition = "!" ranges        all but these states; used when the set holds "absent"
#               | "*"                   present, with any value
#               | ranges
#     ranges    = ["?"] ["=" value {"," value}] {span | kind "*"}        "?" is NaN
#     span      = ("[" | "(") [value] ";" [value] ("]" | ")")            an end left out is unbounded
#     value     = string in quotes | number | "@" microseconds | "true" | "false"


Span = tuple[Any, Any]
End = tuple[Any, bool]
"""A value, and whether it belongs to the range."""


def number_text(value: float) -> str:
    return repr(canonical(value))


def _value_text(kind: Kind, at: Any) -> str:
    if kind is Kind.STRING:
        return quote(at)
    return number_text(at) if kind is Kind.NUMBER else f"@{at}"


def _told_by_lower(kind: Kind, cut: Any) -> Any:
    """The value just below the cut, if the cut is better told by it than by the value at it; else None."""
    if kind is Kind.STRING:
        return cut[:-1] if cut.endswith("\0") else None
    if kind is Kind.TIME:
        return cut - 1 if cut % 10 == 1 else None
    lower = previous_number(cut)
    return lower if len(number_text(lower)) < len(number_text(cut)) else None


def _low_end(kind: Kind, cut: Any) -> End | None:
    if cut == BOTTOM[kind]:
        return None
    lower = _told_by_lower(kind, cut)
    return (cut, True) if lower is None else (lower, False)


def _high_end(kind: Kind, cut: Any) -> End | None:
    if cut is None:
        return None
    lower = _told_by_lower(kind, cut)
    return (cut, False) if lower is None else (lower, True)


# -- keys --------------------------------------------------------------------------------------------------------------


def set_key(values: ValueSet) -> str:
    """The canonical text of a set."""
    if values.flags & ABSENT:
        return "!" + set_key(complement(values))
    if values == PRESENT:
        return "*"
    single: list[str] = []
    ranges: list[str] = []
    for kind in ORDERED:
        for low, high in spans(cuts_of(values, kind)):
            if next_cut(kind, low) == high:
                single.append(_value_text(kind, low))
            else:
                ranges.append(_span_text(kind, _low_end(kind, low), _high_end(kind, high)))
    single += [text for flag, text in ((NO, "false"), (YES, "true")) if values.flags & flag]
    head = "?" if values.flags & NAN else ""
    return head + ("=" + ",".join(single) if single else "") + "".join(ranges)


def _span_text(kind: Kind, low: End | None, high: End | None) -> str:
    if low is None and high is None:
        return f"{kind.name}*"
    left = "(" if low is None else ("[" if low[1] else "(") + _value_text(kind, low[0])
    right = ")" if high is None else _value_text(kind, high[0]) + ("]" if high[1] else ")")
    return f"{left};{right}"


# -- filters -----------------------------------------------------------------------------------------------------------


def set_filter(name: str, values: ValueSet) -> Filter:
    """A filter that accepts exactly these states of the attribute; the set is neither empty nor full.

    No predicate accepts NaN or absence by itself, so these two are reached by negation.
    """
    special = values.flags & (ABSENT | NAN)
    if special == 0:
        return _ordinary(name, values)
    if special == ABSENT:
        rest = _ordinary_parts(name, values)
        return Or((Not(Exists(name)), *rest)) if rest else Not(Exists(name))
    others = _ordinary_parts(name, complement(values))
    if special == NAN:
        return And((Exists(name), Not(_one(others)))) if others else Exists(name)
    return Not(_one(others))


def _one(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _ordinary(name: str, values: ValueSet) -> Filter:
    return _one(_ordinary_parts(name, values))


def _ordinary_parts(name: str, values: ValueSet) -> list[Filter]:
    """Alternatives that together accept the set's values, NaN and absence aside."""
    single: list[Value] = []
    ranges: list[Filter] = []
    for kind in ORDERED:
        for group in _groups(kind, spans(cuts_of(values, kind))):
            low, high = group[0][0], group[-1][1]
            if next_cut(kind, low) == high:
                single.append(_value(kind, low))
            else:
                ranges.append(_range(name, kind, (low, high), [_value(kind, end) for _, end in group[:-1]]))
    single += [value for flag, value in ((NO, False), (YES, True)) if values.flags & flag]
    if len(single) == 1:
        return [Compare(name, "==", single[0]), *ranges]
    return [In(name, tuple(single)), *ranges] if single else ranges


def _groups(kind: Kind, pairs: list[Span]) -> list[list[Span]]:
    """Neighbouring ranges with a single value between them go together: one range without those values."""
    groups: list[list[Span]] = []
    for pair in pairs:
        if (
            groups
            and next_cut(kind, groups[-1][-1][1]) == pair[0]
            and next_cut(kind, pair[0]) != pair[1]
            and next_cut(kind, groups[-1][-1][0]) != groups[-1][-1][1]
        ):
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return groups


def _value(kind: Kind, at: Any) -> Value:
    if kind is Kind.TIME:
        return to_time(at)
    return canonical(at)


def _range(name: str, kind: Kind, span: Span, without: list[Value]) -> Filter:
    parts = _bounds(name, kind, span)
    if without and not parts:
        parts.append(Compare(name, "!=", without.pop(0)))
    if not parts:
        return _whole_kind(name, kind)
    if len(without) == 1:
        parts.append(Compare(name, "!=", without[0]))
    elif without:
        parts.append(Not(In(name, tuple(without))))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _bounds(name: str, kind: Kind, span: Span) -> list[Filter]:
    low, high = _low_end(kind, span[0]), _high_end(kind, span[1])
    if kind is Kind.STRING and low is not None and low[1] and after_prefix(span[0]) == span[1]:
        return [Text(name, "prefix", span[0])]
    if low is not None and high is not None and low[1] and high[1]:
        return [Between(name, _value(kind, low[0]), _value(kind, high[0]))]
    parts: list[Filter] = []
    if low is not None:
        parts.append(Compare(name, ">=" if low[1] else ">", _value(kind, low[0])))
    if high is not None:
        parts.append(Compare(name, "<=" if high[1] else "<", _value(kind, high[0])))
    return parts


def _whole_kind(name: str, kind: Kind) -> Filter:
    """Every value of an ordered kind; for numbers without naming infinity."""
    if kind is Kind.NUMBER:
        return Or((Compare(name, "<", 0), Compare(name, ">=", 0)))
    return Compare(name, ">=", "" if kind is Kind.STRING else to_time(BOTTOM[kind]))


# --- Normal form: filters that mean the same are written the same ----------------------------------------------------

KEY_CHARS = 512
"""A longer canonical text is replaced by its 256-bit digest."""

NEEDED = 64
"""In a longer union no search is made for terms that are superfluous, nor for a shorter form of a larger tree."""

Condition = tuple[Dimension, ValueSet]
Written = tuple[str, Filter]
"""A canonical text and the filter it stands for."""


def normal_form(node: Filter) -> Filter:
    """The canonical filter with the same meaning: a disjunction of all its prime conjunctions."""
    terms = _canonical_terms(node)
    return _tree(node, positive=True)[1] if terms is None else union_filter(terms)


def filter_key(node: Filter) -> str:
    """A text that two filters share only if they mean the same."""
    text = quick_key(node) or _general_key(node)
    if len(text) > KEY_CHARS:
        return "#" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    return text


def simplify(node: Filter) -> Filter:
    """An equivalent filter without redundant parts: the shortest of the forms that are tried.

    These are the prime terms that are needed, the same for the negation, and the tree with each join simplified.
    """
    forms = [_tree(node, positive=True)[1]]
    with suppress(TooManyTermsError):
        forms.append(union_filter(needed_terms(node)))
    if _size(node) <= NEEDED:
        with suppress(TooManyTermsError):
            forms.append(_tree(union_filter(needed_terms(Not(node))), positive=False)[1])
    return min(forms, key=_size)


def needed_terms(node: Filter) -> list[Term]:
    """Prime terms that together make the filter, none of them superfluous."""
    terms = sorted(primes(terms_of(node)), key=lambda term: (-len(term), term_key(term)))
    for term in terms if len(terms) <= NEEDED else ():
        others = [other for other in terms if other is not term]
        if is_covered(term, others, budget=256):
            terms = others
    return terms


def _size(node: Filter) -> int:
    return sum(1 for _ in walk(node))


# -- terms, written ----------------------------------------------------------------------------------------------------


def _canonical_terms(node: Filter) -> list[Term] | None:
    """The prime terms, or else an equal union; None if there are too many terms for either."""
    try:
        terms = terms_of(node)
    except TooManyTermsError:
        return None
    with suppress(TooManyTermsError):
        return primes(terms)
    return terms


def _general_key(node: Filter) -> str:
    terms = _canonical_terms(node)
    return _tree(node, positive=True)[0] if terms is None else union_key(terms)


def union_key(terms: Iterable[Term]) -> str:
    """The canonical text of a union of terms, which often share conditions."""
    known: dict[Condition, str] = {}
    return "|".join(sorted(term_key(term, known) for term in terms)) or "false"


def union_filter(terms: Iterable[Term]) -> Filter:
    """A union of terms as a filter, in the order of their texts."""
    parts = [term_filter(term) for term in sorted(terms, key=term_key)]
    return join_parts(Or, parts) if parts else FALSE


def term_key(term: Term, known: dict[Condition, str] | None = None) -> str:
    """The canonical text of a term; ``known`` remembers the texts of conditions."""
    known = {} if known is None else known
    texts = []
    for item in _conditions(term):
        text = known.get(item)
        if text is None:
            text = known[item] = _condition_key(*item)
        texts.append(text)
    return "&".join(sorted(texts)) or "true"


def term_filter(term: Term) -> Filter:
    """A term as a filter, in the order of its conditions' texts."""
    items = sorted(_conditions(term), key=lambda item: _condition_key(*item))
    return join_parts(And, (_condition_filter(*item) for item in items)) if items else TRUE


def _conditions(term: Term) -> list[Condition]:
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


def join_parts(join_type: type[And] | type[Or], parts: Iterable[Filter]) -> Filter:
    """One conjunction or disjunction; parts that are one themselves are opened, and a single part stands alone."""
    flat: list[Filter] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, join_type) else (part,))
    return flat[0] if len(flat) == 1 else join_type(tuple(flat))


# -- trees that have too many terms ------------------------------------------------------------------------------------


def _tree(node: Filter, positive: bool) -> Written:
    """The tree with negations pushed to its leaves, and each join simplified by itself."""
    match node:
        case Constant(value):
            return ("true", TRUE) if value is positive else ("false", FALSE)
        case Not(part):
            return _tree(part, not positive)
        case And() | Or():
            parts = _open_joins(node, positive)
            return _conjunction(parts) if isinstance(node, And) is positive else _disjunction(parts)
    terms = terms_of(node, positive)
    return union_key(terms), union_filter(terms)


def _open_joins(node: And | Or, positive: bool) -> list[tuple[Filter, bool]]:
    """The parts of a join with their polarity; nested joins that come to the same kind are opened."""
    wanted = isinstance(node, And) is positive
    out: list[tuple[Filter, bool]] = []
    for part in node.parts:
        sign = positive
        while isinstance(part, Not):
            part, sign = part.part, not sign
        if isinstance(part, And | Or) and (isinstance(part, And) is sign) is wanted:
            out.extend(_open_joins(part, sign))
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
    return f"({sign.join(texts)})", join_parts(join_type, (written[text] for text in texts))
