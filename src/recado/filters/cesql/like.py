r"""Patterns of ``LIKE`` (CESQL 1.0, section 3.4.3): ``%`` is any text, ``_`` one character.

A backslash before ``%`` or ``_`` takes it literally; any other backslash is a character like the rest. A pattern is
rewritten into the wildcards of the filter language (``*``, ``?``), so that both are matched by the same automaton, in
time linear in the string.
"""

from __future__ import annotations

import re

from recado.filters.patterns import like_tokens

_PIECE = re.compile(r"\\[%_]|.", re.DOTALL)
_RESERVED = re.compile(r"[%_]")
_MEANING = {"%": "*", "_": "?", "\\%": "%", "\\_": "_", "*": "\\*", "?": "\\?", "\\": "\\\\"}


def like_pattern(wildcards: str) -> str | None:
    """The ``LIKE`` pattern of such wildcards; None if there is none, as for a backslash before a wildcard."""
    pattern = "".join(
        "%" if token is None else _RESERVED.sub(r"\\\g<0>", token) if token else "_" for token in like_tokens(wildcards)
    )
    return pattern if like_tokens(wildcard(pattern)) == like_tokens(wildcards) else None


def wildcard(pattern: str) -> str:
    """The pattern in the wildcards of ``Text(op="like")``."""
    return _PIECE.sub(lambda piece: _MEANING.get(piece[0], piece[0]), pattern)
