"""How the index finds a filter, told to a person: the tests by which events are led to it.

This is what an index chooses that has seen no events; later it chooses by how often values occur
(``recado.matching.kernels.access``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recado.matching.dictionary import Dictionary
from recado.matching.kernels.instructions import (
    ACCESS,
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    CONTAINS,
    EQ,
    FOLDED,
    IN,
    JUMPS,
    LAST,
    LIKE,
    NEGATED,
    NEVER,
    NUM,
    OPAQUE,
    PREFIX,
    STR_GE,
    SUFFIX,
    TIME,
    instruction_words,
)
from recado.matching.program import Compiler
from recado.model.filter import Filter

_KINDS = {
    EQ: "value",
    IN: "value",
    NUM: "range",
    TIME: "range",
    PREFIX: "beginning",
    SUFFIX: "end",
    CONTAINS: "piece",
    LIKE: "piece",
}


class Path(NamedTuple):
    """An attribute, and what of it leads to the filter: value, range, beginning, end, piece or presence."""

    name: str
    by: str


def access_paths(node: Filter) -> list[Path] | None:
    """The paths that lead to a filter, none if no event can match it; None if every event is compared with it."""
    dictionary = Dictionary()
    words = Compiler(dictionary).compile(node).words
    chosen = [head for head in _heads(words) if head & ACCESS] if words[0] & JUMPS else _best(words)
    if chosen is None or (words[0] & JUMPS and not chosen):
        return None
    names = list(dictionary.names)
    paths = [Path(names[(head >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK], _kind(head)) for head in chosen]
    return list(dict.fromkeys(paths))


def _heads(words: Sequence[int]) -> Iterator[int]:
    at = 0
    while True:
        yield words[at]
        if words[at] & LAST:
            return
        at += instruction_words(words[at])


def _best(words: Sequence[int]) -> list[int] | None:
    """The most selective test of a conjunction; none if one of its tests never holds."""
    heads = list(_heads(words))
    if any(head & 63 == NEVER and not head & NEGATED for head in heads):
        return []
    best = min(heads, key=_chance)
    return [best] if _chance(best) < 1.5 else None


def _chance(head: int) -> float:
    """How likely an event is led here; ``recado.matching.kernels.access.probability`` estimates the same."""
    op, argument = head & 63, (head >> 32) & 0xFFFFFFFF
    if head & NEGATED or op == NEVER or (op == OPAQUE and not argument):
        return 2.0
    if op in (EQ, IN):
        return 0.01 * (argument if op == IN else 1)
    if op in (NUM, TIME):
        return 0.3
    return 0.5 ** min(argument, 10) if PREFIX <= op < STR_GE else 1.0


def _kind(head: int) -> str:
    op, length = head & 63, (head >> 32) & 0xFFFFFFFF
    if PREFIX + FOLDED <= op < STR_GE:
        op -= FOLDED
    if PREFIX <= op <= LIKE and not length:
        return "presence"
    return _KINDS.get(op, "presence")
