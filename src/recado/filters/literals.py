"""Opaque literals: predicates that no value set can hold, and what is known about them.

Suffixes, parts, wildcards, regular expressions, similarity, anything that ignores case, and CESQL. A conjunction
keeps such a predicate as it is, true or false. What the algebra knows about them is sound and not complete:

- ``reduced`` turns those that say something simple into value sets (``like "ab*"`` is a prefix), and gives the others
  one spelling;
- ``implied_set``: a literal that holds needs a string, perhaps with a known beginning;
- ``implies`` and ``excludes`` compare two literals by the text that each *fixes*: a beginning, an end, parts;
- ``settled`` asks whether a value set decides a literal: its strings are few and can be tried one by one, or they
  share a beginning that says enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.encoder import encode_basestring as quote
from typing import NamedTuple

from recado.filters.evaluate import holds
from recado.filters.patterns import Token, like_tokens
from recado.filters.sets import STRINGS, ValueSet, after_prefix, of_prefix, of_values, points
from recado.model.filter import Regex, Similar, Sql, Text
from recado.model.values import Kind

Literal = Text | Regex | Similar | Sql

_POINTS_TRIED = 64
"""A string set of at most this many elements is decided by trying each."""


class Fixed(NamedTuple):
    """Text that every accepted string has: at its beginning, at its end, and somewhere."""

    head: str
    tail: str
    parts: tuple[str, ...]
    fold: bool


# -- one spelling ------------------------------------------------------------------------------------------------------


def reduced(literal: Literal) -> Literal | ValueSet:
    """The value set that the literal amounts to, or else its one spelling."""
    match literal:
        case Text():
            return _reduced_text(literal)
        case Regex(name, pattern):
            like = _regex_as_like(pattern)
            return literal if like is None else _reduced_text(Text(name, "like", like))
        case Similar(name, text, threshold):
            return STRINGS if threshold <= 0 else Similar(name, text.casefold(), float(threshold))
    return literal


def _reduced_text(text: Text) -> Text | ValueSet:
    name, op, pattern, fold = text.name, text.op, text.pattern, bool(text.fold)
    if op == "like":
        return _reduced_like(name, like_tokens(pattern), fold)
    if not pattern:
        return STRINGS
    if fold:
        return Text(name, op, pattern.casefold(), True)
    return of_prefix(pattern) if op == "prefix" else Text(name, op, pattern)


def _reduced_like(name: str, tokens: list[Token], fold: bool) -> Text | ValueSet:
    match tokens:
        case [None]:
            return STRINGS
        case []:
            return of_values([""])
        case [str(text)] if text and not fold:
            return of_values([text])
        case [str(text), None] if text:
            return _reduced_text(Text(name, "prefix", text, fold))
        case [None, str(text)] if text:
            return _reduced_text(Text(name, "suffix", text, fold))
        case [None, str(text), None] if text:
            return _reduced_text(Text(name, "contains", text, fold))
    return Text(name, "like", _like_pattern(tokens, fold), fold)


def _like_pattern(tokens: list[Token], fold: bool) -> str:
    """The pattern again, with ``?`` before ``*`` wherever they meet."""
    out: list[str] = []
    star = False
    for token in tokens:
        if token is None:
            star = True
        elif token == "":
            out.append("?")
        else:
            out.append("*" * star + re.sub(r"([\\*?])", r"\\\1", token.casefold() if fold else token))
            star = False
    return "".join(out) + "*" * star


_PLAIN_REGEX = re.compile(r"(\.\*)?([A-Za-z0-9 _/:-]*)(\.\*)?")


def _regex_as_like(pattern: str) -> str | None:
    """Plain text with ``.*`` at its ends needs no regular expression."""
    found = _PLAIN_REGEX.fullmatch(pattern)
    return None if found is None else "*" * bool(found[1]) + found[2] + "*" * bool(found[3])


def literal_key(literal: Literal) -> str:
    """The canonical text of a literal in its one spelling; it begins with the attribute's name in quotes."""
    match literal:
        case Text(name, op, pattern, fold):
            return f"{quote(name)}{op}{'~' if fold else ''}{quote(pattern)}"
        case Regex(name, pattern):
            return f"{quote(name)}regex{quote(pattern)}"
        case Similar(name, text, threshold):
            return f"{quote(name)}similar{threshold!r}{quote(text)}"
    return f"sql{quote(literal.text)}"


# -- what is known -----------------------------------------------------------------------------------------------------


def fixed(literal: Literal) -> Fixed:
    """The text that the literal fixes in every string it accepts."""
    if not isinstance(literal, Text):
        return Fixed("", "", (), False)
    pattern = literal.pattern
    match literal.op:
        case "prefix":
            return Fixed(pattern, "", (pattern,), literal.fold)
        case "suffix":
            return Fixed("", pattern, (pattern,), literal.fold)
        case "contains":
            return Fixed("", "", (pattern,), literal.fold)
    tokens = like_tokens(pattern)
    return Fixed(tokens[0] or "", tokens[-1] or "", tuple(filter(None, tokens)), literal.fold)


def implied_set(literal: Literal) -> ValueSet:
    """States that the literal's attribute must be in for it to hold."""
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


def settled(values: ValueSet, literal: Literal) -> ValueSet | None:
    """The states among ``values`` where the literal holds, if that can be told exactly; else None."""
    if isinstance(literal, Sql):
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
