"""Tokens of the expression syntax, read one at a time from one compiled regular expression.

The reader keeps exactly one token in sight and tokenises lazily, so a text that a limit refuses is never read to its
end. Words of the language are case-insensitive: ``key`` holds what the grammar looks at (a word in lower case, or an
operator), and is empty for literals and back-quoted names, which therefore are never taken for a word.
"""

from __future__ import annotations

import re
from typing import NoReturn

from recado.errors import FilterError
from recado.model.limits import Limits

NAME, QUOTED_NAME, NUMBER, STRING, OPERATOR, END, BAD = range(1, 8)

PLAIN_NAME = r"[^\W\d]\w*(?:[.-]\w+)*"
_DIGITS = r"[0-9]+(?:_[0-9]+)*"

_TOKEN = re.compile(
    rf"""\s*(?:
    (?![itr]["'])({PLAIN_NAME})
    |(`[^`\\\n]*(?:\\.[^`\\\n]*)*`)
    |([+-]?{_DIGITS}(?:\.{_DIGITS})?(?:[eE][+-]?[0-9]+)?(?![\w.:]|-[0-9])|[+-](?:infinity|inf)\b)
    |([itr]?(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'))
    |(===|!==|==|!=|<=|>=|<>|=<|=>|=~|!~|&&|\|\||[<>!=&|(){{}}\[\],])
    |(\Z)
    |(.))""",
    re.VERBOSE | re.DOTALL,
)

RESERVED = frozenset(
    {
        "and", "or", "not", "true", "false", "exists", "all", "any", "sql", "between", "in", "startswith", "prefix",
        "endswith", "suffix", "contains", "like", "matches", "similar",
    }
)  # fmt: skip
"""Words that are attribute names only between back quotes."""


class Reader:
    """The token in sight of one text: its ``kind``, ``word`` as written, ``key`` and ``start``."""

    __slots__ = ("_tokens", "end", "key", "kind", "limits", "predicates", "start", "text", "word")

    def __init__(self, text: str, limits: Limits, position: int = 0) -> None:
        self.text = text
        self.limits = limits
        self.predicates = 0
        self._tokens = _TOKEN.finditer(text, position)
        self.kind, self.word, self.key, self.start, self.end = END, "", "", 0, 0
        self.advance()

    def advance(self) -> None:
        """Move to the next token; nothing in the grammar moves beyond the end."""
        token = next(self._tokens)
        kind = token.lastindex or END
        self.kind = kind
        self.word = word = token[kind]
        self.start, self.end = token.span(kind)
        if kind == NAME:
            self.key = word.lower()
        elif kind == OPERATOR:
            self.key = word
        else:
            self.key = ""
            if kind == BAD:
                self._refuse_character()

    def fail(self, reason: str, hint: str | None = None, position: int | None = None) -> NoReturn:
        """Refuse the text at the token in sight, or at ``position``."""
        raise FilterError(
            reason, text=self.text, position=self.start if position is None else position, hint=hint
        ) from None

    def expect(self, key: str, hint: str | None = None) -> None:
        """Pass over the word or operator ``key``, which must come now."""
        if self.key != key:
            self.fail(f"expected {key!r} but found {self.describe()}", hint)
        self.advance()

    def describe(self) -> str:
        """The token in sight, for a message."""
        if self.kind == END:
            return "the end of the filter"
        return self.word if self.kind in (STRING, QUOTED_NAME) and len(self.word) < 40 else repr(self.word[:40])

    def count_predicate(self) -> None:
        self.predicates += 1
        if self.predicates > self.limits.filter_predicates:
            self.fail(f"the filter has more than {self.limits.filter_predicates:,} predicates")

    def _refuse_character(self) -> NoReturn:
        char = self.word
        if char in "\"'`":
            self.fail(
                f"the quote {char} is never closed", f"end it with another {char} on the same line, or write \\{char}"
            )
        if char.isdigit():
            run = re.match(r"[\w.:-]+", self.text[self.start : self.start + 40])
            shown = run[0] if run else char
            self.fail(f"{shown!r} is neither a number nor a name", f'put quotes around a text: "{shown}"')
        hints = {
            ".": "a number begins with a digit: write 0.5, not .5",
            "-": "a sign stands directly before the digits: -5",
            "+": "a sign stands directly before the digits: +5",
            ";": "join predicates with 'and' or 'or'",
            "#": "names with odd characters stand between back quotes: `a#b`",
            "“": 'use the plain quote "',
            "”": 'use the plain quote "',
        }
        self.fail(
            f"the character {char!r} has no meaning here",
            hints.get(char, 'texts stand between quotes ("a b"), odd attribute names between back quotes (`a b`)'),
        )
