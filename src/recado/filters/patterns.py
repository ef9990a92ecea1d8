"""Compiled patterns: regular expressions and wildcards, both in linear time through RE2.

RE2 has no look-around and no back references; in exchange a match takes time linear in the string, whatever the
pattern. Compilation has a memory budget (``Limits.regex_bytes``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2

from recado.errors import FilterError
from recado.model.limits import LIMITS


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
