"""Opaque literals: predicates that no value set can hold, and what is known about them.

Suffixes, parts, wildcards, regular expressions, similarity, anything that ignores case, and CESQL. A conjunction
keeps such a predicate as it is, true or false. What the algebra knows about them is sound and not complete:

- ``simplify_predicate`` turns those that say something simple into value sets (``like "ab*"`` is a prefix), and gives
  the others one spelling;
- ``implied_set``: a literal that holds needs its attribute, mostly a string, perhaps with a known beginning;
- ``implies`` and ``excludes`` compare two literals by the text that each *fixes*: a beginning, an end, parts;
- ``settle`` asks whether a value set decides a literal: its strings are few and can be tried one by one, or they
  share a beginning that says enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring as quote

from recado.filters.evaluate import holds
from recado.filters.nodes import predicate_kind
from recado.filters.patterns import Fixed, like_tokens
from recado.filters.sets import FULL, PRESENT, STRINGS, ValueSet, after_prefix, of_prefix, of_values, points
from recado.model.filter import Filter, Predicate, Similar, Sql, Text
from recado.model.values import Kind

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
