"""Tokens of CESQL (CESQL 1.0, section 2).

Tokens are read one at a time, so a text that a limit refuses is never read to its end. Words of the language are
case-insensitive. In a string literal only the quote that delimits it is escaped by a backslash; every other backslash
is kept, because the patterns of ``LIKE`` need it.

Beyond the specification, whose names are lower-case letters and digits, a name may have any letters, ``_`` and dots
inside (``data.level``), and any name at all stands between back quotes (a backslash takes the next character).
"""

from __future__ import annotations

import re
from typing import NoReturn

from recado.errors import FilterError
from recado.model.limits import Limits

WORD, QUOTED, STRING, SYMBOL, END, BAD = range(1, 7)

_NAME = r"\w+(?:\.\w+)*"
_STRING = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
PLAIN_NAME = re.compile(_NAME)
LITERAL = re.compile(_STRING, re.DOTALL)
KEYWORDS = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"})

_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
    ({_NAME})
    |(`[^`\\]*(?:\\.[^`\\]*)*`)
    |({_STRING})
    |(!=|<>|<=|>=|[=<>+\-*/%(),])
    |(\Z)
    |(.))""",
    re.VERBOSE | re.DOTALL,
)
_FRACTION = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_HINTS = {
    "'": "the string has no closing quote",
    '"': "the string has no closing quote",
    "`": "the name has no closing back quote",
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT, or != for a comparison",
}


class Reader:
    """The token in sight of one text.

    ``kind``, ``word`` as written and ``start`` describe it; ``key`` is what the grammar looks at: a keyword in upper
    case or a symbol, and empty for names and literals. ``glued`` tells that nothing separates it from the token before.
    """

    __slots__ = ("_end", "_tokens", "glued", "key", "kind", "limits", "start", "text", "word")

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self._tokens = _TOKEN.finditer(text)
        self._end = 0
        self.kind, self.word, self.key, self.start, self.glued = END, "", "", 0, False
        self.advance()

    def advance(self) -> None:
        """Move to the next token; nothing moves past the end, which is no token that the grammar takes."""
        token = next(self._tokens)
        self.kind = token.lastindex or END
        self.word = token[self.kind]
        self.start = token.start(self.kind)
        self.glued = self.start == self._end
        self._end = token.end()
        upper = self.word.upper() if self.kind == WORD else self.word
        self.key = upper if self.kind == SYMBOL or (self.kind == WORD and upper in KEYWORDS) else ""
        if self.kind == BAD:
            self.fail(f"unexpected {self.word!r}", _HINTS.get(self.word))
        if self.kind == WORD and _FRACTION.fullmatch(self.word):
            self.fail(f"{self.word} has a fraction", "the numbers of CESQL are integers of 32 bits")

    def take(self, *keys: str) -> str:
        """The key of the token in sight if it is one of ``keys``, moving past it; else an empty string."""
        found = self.key
        if not found or found not in keys:
            return ""
        self.advance()
        return found

    def expect(self, key: str, hint: str | None = None) -> None:
        if not self.take(key):
            self.fail(f"expected {key} but found {self.describe()}", hint)

    @property
    def is_number(self) -> bool:
        return self.kind == WORD and _DIGITS.fullmatch(self.word) is not None

    @property
    def is_name(self) -> bool:
        return self.kind == QUOTED or (self.kind == WORD and not self.key and not self.is_number)

    def describe(self) -> str:
        """The token in sight, for a message."""
        if self.kind == END:
            return "the end"
        return self.word if len(self.word) <= 40 else f"{self.word[:40]}..."

    def fail(self, reason: str, hint: str | None = None, at: int | None = None) -> NoReturn:
        raise FilterError(reason, text=self.text, position=self.start if at is None else at, hint=hint)


def read_string(literal: str) -> str:
    """The value of a string literal, given with its quotes."""
    quote = literal[0]
    return re.sub(r"\\(.)", lambda pair: quote if pair[1] == quote else pair[0], literal[1:-1], flags=re.DOTALL)


def read_quoted_name(literal: str) -> str:
    """The name between back quotes."""
    return re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)
