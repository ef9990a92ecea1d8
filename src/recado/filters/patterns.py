"""What filters ask of text: regular expressions, wildcards, similarity, and the table of the operators of ``Text``.

Patterns take linear time through RE2, which has no look-around and no back references; in exchange a match takes time
linear in the string, whatever the pattern. Compilation has a memory budget (``Limits.regex_bytes``).

A new operator of ``Text`` is a word in ``recado.model.filter.TextOp`` and an entry in ``TEXT_OPERATORS`` here; then the
expression parser must read it and ``recado.matching.program`` compile it, and both refuse it loudly until they do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec
import re2
from rapidfuzz.distance import Levenshtein

from recado.errors import FilterError
from recado.filters.sets import STRINGS, ValueSet, of_prefix, of_values
from recado.model.filter import Text, TextOp
from recado.model.limits import LIMITS

ROUNDING = 1e-6


class Pattern(Protocol):
    """``programsize`` counts the instructions: a match takes, at worst, each of them for each byte of the text."""

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str) -> object | None: ...


@lru_cache(maxsize=16_384)
def regex(pattern: str) -> Pattern:
    """The compiled regular expression; a FilterError if RE2 refuses it."""
    if len(pattern) > LIMITS.pattern_chars:
        raise FilterError(
            f"the regular expression has {len(pattern):,} characters; the limit is {LIMITS.pattern_chars:,}"
        )
    options = re2.Options()
    options.max_mem = LIMITS.regex_bytes
    options.log_errors = False
    options.never_capture = True
    options.dot_nl = True
    try:
        return re2.compile(pattern, options)  # type: ignore[no-any-return]  # untyped library
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
        raise FilterError(
            f"the regular expression {pattern!r} is refused: {reason}",
            hint="the syntax is RE2's, which has no look-around and no back references",
        ) from None


Token = str | None
"""One piece of a wildcard pattern: a literal, ``""`` for one character (``?``), ``None`` for any text (``*``)."""


def like_tokens(pattern: str) -> list[Token]:
    """The pieces of a wildcard pattern, literals joined, runs of stars made one."""
    tokens: list[Token] = []
    literal: list[str] = []
    chars = iter(pattern)

    def flush() -> None:
        if literal:
            tokens.append("".join(literal))
            literal.clear()

    for char in chars:
        if char == "\\":
            literal.append(next(chars, "\\"))
        elif char == "*":
            flush()
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        elif char == "?":
            flush()
            tokens.append("")
        else:
            literal.append(char)
    flush()
    return tokens


@lru_cache(maxsize=16_384)
def like_regex(pattern: str, fold: bool) -> Pattern:
    """A wildcard pattern as a compiled regular expression; with ``fold`` it expects a casefolded string."""
    parts = []
    for token in like_tokens(pattern):
        if token is None:
            parts.append(".*")
        elif token == "":
            parts.append(".")
        else:
            parts.append(re2.escape(token.casefold() if fold else token))
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.dot_nl = True
    return re2.compile("".join(parts), options)  # type: ignore[no-any-return]


# --- similarity ------------------------------------------------------------------------------------------------------


def similarity(left: str, right: str) -> float:
    """1 minus the Levenshtein distance over the longer length, ignoring case; 1.0 for equal strings."""
    return Levenshtein.normalized_similarity(left.casefold(), right.casefold())


def is_similar(left: str, right: str, threshold: float) -> bool:
    """``similarity(left, right) >= threshold``, given up as soon as that is out of reach."""
    if not may_be_similar(left, right, threshold):
        return False
    cutoff = max(threshold - ROUNDING, 0.0)  # the library's own comparison with it rounds otherwise than ours
    return Levenshtein.normalized_similarity(left.casefold(), right.casefold(), score_cutoff=cutoff) >= threshold


def may_be_similar(left: str, right: str, threshold: float) -> bool:
    """Are the lengths near enough? A text of n characters and a longer one of m are alike by n / m at most.

    Folding makes three characters of one at most, and never fewer.
    """
    shorter, longer = sorted((len(left), len(right)))
    return 3 * shorter >= (threshold - ROUNDING) * longer


# --- the operators of Text -------------------------------------------------------------------------------------------


class Fixed(NamedTuple):
    """Text that every accepted string has: at its beginning, at its end, and somewhere."""

    head: str = ""
    tail: str = ""
    parts: tuple[str, ...] = ()
    fold: bool = False


class TextOperator(msgspec.Struct, frozen=True):
    """Everything that the language knows of one operator of ``Text``.

    ``holds`` gets the value, the pattern and ``fold``; ``cost`` the pattern and ``fold``; ``cost_on`` the same and the
    number of characters of the value (``recado.filters.cost`` has the units; folding is added there). ``simplify`` gets
    the name, the pattern and ``fold``, and returns the value set that the predicate amounts to, or else its one
    spelling. ``fixed`` says what the pattern in that spelling fixes in every string, and ``examples`` are strings that
    a search for a witness tries.
    """

    word: str
    says: str
    holds: Callable[[str, str, bool], bool]
    cost: Callable[[str, bool], int]
    cost_on: Callable[[str, bool, int], int]
    simplify: Callable[[str, str, bool], Text | ValueSet]
    fixed: Callable[[str, bool], Fixed]
    examples: Callable[[str], tuple[str, ...]]
    is_costly: bool = False


def _has_prefix(value: str, pattern: str, fold: bool) -> bool:
    return value.casefold().startswith(pattern.casefold()) if fold else value.startswith(pattern)


def _has_suffix(value: str, pattern: str, fold: bool) -> bool:
    return value.casefold().endswith(pattern.casefold()) if fold else value.endswith(pattern)


def _has_part(value: str, pattern: str, fold: bool) -> bool:
    return pattern.casefold() in value.casefold() if fold else pattern in value


def _is_like(value: str, pattern: str, fold: bool) -> bool:
    return like_regex(pattern, fold).fullmatch(value.casefold() if fold else value) is not None


def _like_cost(pattern: str, fold: bool) -> int:
    return 16 + max(len(pattern) // 4, like_regex(pattern, fold).programsize // 8)


def _like_cost_on(pattern: str, fold: bool, chars: int) -> int:
    return 16 + chars * like_regex(pattern, fold).programsize // 256


def _simplify_prefix(name: str, pattern: str, fold: bool) -> Text | ValueSet:
    if not pattern:
        return STRINGS
    return Text(name, "prefix", pattern.casefold(), True) if fold else of_prefix(pattern)


def _simplify_suffix(name: str, pattern: str, fold: bool) -> Text | ValueSet:
    return _spell(name, "suffix", pattern, fold) if pattern else STRINGS


def _simplify_part(name: str, pattern: str, fold: bool) -> Text | ValueSet:
    return _spell(name, "contains", pattern, fold) if pattern else STRINGS


def _spell(name: str, op: TextOp, pattern: str, fold: bool) -> Text:
    return Text(name, op, pattern.casefold(), True) if fold else Text(name, op, pattern)


def simplify_like(name: str, pattern: str, fold: bool) -> Text | ValueSet:
    """The value set that a wildcard pattern amounts to, or else the simplest operator that says the same."""
    tokens = like_tokens(pattern)
    match tokens:
        case [None]:
            return STRINGS
        case []:
            return of_values([""])
        case [str(text)] if text and not fold:
            return of_values([text])
        case [str(text), None] if text:
            return _simplify_prefix(name, text, fold)
        case [None, str(text)] if text:
            return _simplify_suffix(name, text, fold)
        case [None, str(text), None] if text:
            return _simplify_part(name, text, fold)
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


def _fixed_by_like(pattern: str, fold: bool) -> Fixed:
    tokens = like_tokens(pattern)
    return Fixed(tokens[0] or "", tokens[-1] or "", tuple(filter(None, tokens)), fold)


def _near(pattern: str) -> tuple[str, ...]:
    return pattern, f"~{pattern}", f"{pattern}~"


def _like_example(pattern: str) -> tuple[str, ...]:
    return ("".join("x" if token == "" else token or "" for token in like_tokens(pattern)),)


TEXT_OPERATORS: dict[TextOp, TextOperator] = {
    "prefix": TextOperator(
        word="startswith",
        says="begins with",
        holds=_has_prefix,
        cost=lambda pattern, fold: 2 + len(pattern) // 16,
        cost_on=lambda pattern, fold, chars: 4,
        simplify=_simplify_prefix,
        fixed=lambda pattern, fold: Fixed(pattern, "", (pattern,), fold),
        examples=_near,
    ),
    "suffix": TextOperator(
        word="endswith",
        says="ends with",
        holds=_has_suffix,
        cost=lambda pattern, fold: 2 + len(pattern) // 16,
        cost_on=lambda pattern, fold, chars: 4,
        simplify=_simplify_suffix,
        fixed=lambda pattern, fold: Fixed("", pattern, (pattern,), fold),
        examples=_near,
    ),
    "contains": TextOperator(
        word="contains",
        says="contains",
        holds=_has_part,
        cost=lambda pattern, fold: 16 + len(pattern) // 4,
        cost_on=lambda pattern, fold, chars: 4 + chars // 32,
        simplify=_simplify_part,
        fixed=lambda pattern, fold: Fixed("", "", (pattern,), fold),
        examples=_near,
    ),
    "like": TextOperator(
        word="like",
        says="looks like",
        holds=_is_like,
        cost=_like_cost,
        cost_on=_like_cost_on,
        simplify=simplify_like,
        fixed=_fixed_by_like,
        examples=_like_example,
        is_costly=True,
    ),
}
