"""Tokens of the expression syntax, read one at a time from one compiled regular expression; and how they are written.

The reader keeps exactly one token in sight and tokenises lazily, so a text that a limit refuses is never read to its
end. Words of the language are case-insensitive: ``key`` holds what the grammar looks at (a word in lower case, or an
operator), and is empty for literals and back-quoted names, which therefore are never taken for a word.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import NoReturn

from recado.errors import FilterError
from recado.filters.patterns import TEXT_OPERATORS
from recado.model.limits import Limits
from recado.model.values import INT_MAX, INT_MIN, Value, format_time, parse_time

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
        "and", "or", "not", "true", "false", "exists", "all", "any", "sql", "between", "in", "matches", "similar",
        *TEXT_OPERATORS, *(operator.word for operator in TEXT_OPERATORS.values()),
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


# --- Literal values of the expression syntax: strings with JSON's escapes, numbers, timestamps, and bare words -------
#
# Strings take double or single quotes. A letter before the quote changes the reading: ``t`` an instant, ``i`` a pattern
# that ignores case (only where a pattern is expected), ``r`` a raw string in which a backslash is a plain character.


_PAIR = r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
_ESCAPE = re.compile(rf"\\(?:{_PAIR}|u([0-9a-fA-F]{{4}})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"} | {c: c for c in "\\/\"'`"}
_WORDS: dict[str, Value] = {"true": True, "false": False, "inf": math.inf, "infinity": math.inf}
_ABSENT = frozenset({"null", "none", "nil", "undefined"})


def read_value(reader: Reader, bare: bool = True) -> Value:
    """The literal in sight; ``bare`` says whether a word without quotes may stand for a string."""
    kind = reader.kind
    value: Value
    if kind == STRING:
        prefix = reader.word[0]
        if prefix == "i":
            reader.fail(
                'i"..." (ignore case) is a pattern, not a value',
                'it works with startswith, endswith, contains and like; for equality write: name like i"..."',
            )
        value = _instant(reader) if prefix == "t" else string_content(reader)
    elif kind == NUMBER:
        value = _number(reader)
    elif kind == NAME and reader.key in _WORDS:
        value = _WORDS[reader.key]
    else:
        value = bare_word(reader, bare)
    reader.advance()
    return value


def bare_word(reader: Reader, allowed: bool = True) -> str:
    """A word without quotes that stands for a string; the reader stays on it."""
    word, key = reader.word, reader.key
    if reader.kind == QUOTED_NAME:
        reader.fail(
            "an attribute is compared with a value, never with another attribute",
            'back quotes hold attribute names; write a text in double quotes: "..."',
        )
    if reader.kind != NAME:
        reader.fail(
            f"expected a value but found {reader.describe()}", 'a value is 25, "text", true or t"2026-01-01T00:00:00Z"'
        )
    if key == "nan":
        reader.fail("NaN equals nothing and may not stand in a filter", 'to compare with the text write "nan"')
    if key in _ABSENT:
        reader.fail(
            f"{word!r} is not a value: an absent attribute has none",
            f'ask for absence with: not exists name; for the text write "{word}"',
        )
    if key in RESERVED:
        reader.fail(f"expected a value but found the word {word!r}", f'for the text write "{word}"')
    if not allowed:
        reader.fail(
            f"an order needs a number, a timestamp or a quoted text, and {word!r} is none of them",
            f'for the text write "{word}"; two attributes cannot be compared with each other',
        )
    return word


def string_content(reader: Reader) -> str:
    """The text of the string literal in sight, its escapes replaced; the reader stays on it."""
    word = reader.word
    if word[0] == "r":
        return word[2:-1]
    start = 1 if word[0] in "\"'`" else 2
    body = word[start:-1]
    return body if "\\" not in body else _unescape(reader, body, reader.start + start)


def _unescape(reader: Reader, body: str, offset: int) -> str:
    def replace(found: re.Match[str]) -> str:
        high, low, single, char = found.groups()
        if high:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
        if single:
            code = int(single, 16)
            if 0xD800 <= code < 0xE000:
                reader.fail(
                    f"the escape \\u{single} is half of a pair",
                    "write both halves, or the character itself",
                    offset + found.start(),
                )
            return chr(code)
        if char not in _ESCAPES:
            reader.fail(
                f"the escape \\{char} is unknown",
                f'write \\\\{char} for a backslash, or a raw string: r"..."',
                offset + found.start(),
            )
        return _ESCAPES[char]

    return _ESCAPE.sub(replace, body)


def _number(reader: Reader) -> int | float:
    word = reader.word
    if word.isdigit() and len(word) < 19:  # the usual case: no sign, no fraction, surely 64 bits
        return int(word)
    if word[-1] in "fy":
        return -math.inf if word[0] == "-" else math.inf
    if "." in word or "e" in word or "E" in word:
        value = float(word)
        if math.isinf(value):
            reader.fail(
                f"the number {word[:40]} is too large for 64 bits", "the largest is about 1.8e308; or write infinity"
            )
        return value
    integer = int(word) if len(word) < 64 else INT_MAX + 1
    if not INT_MIN <= integer <= INT_MAX:
        reader.fail(
            f"the integer {word[:40]} does not fit 64 bits (from -2^63 to 2^64-1)",
            "with a fraction or an exponent it becomes a float: 1e20",
        )
    return integer


def _instant(reader: Reader) -> datetime:
    try:
        return parse_time(string_content(reader))
    except ValueError as error:
        reader.fail(str(error), 'write t"2026-01-31T12:30:00Z" or t"2026-01-31T09:30:00-03:00"')


# --- how names and values are written --------------------------------------------------------------------------------

_PLAIN = re.compile(PLAIN_NAME)
_ESCAPE_OF = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\\": "\\\\"}


def format_name(name: str) -> str:
    """An attribute name, between back quotes where it could be misread."""
    if _PLAIN.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return format_string(name, "`")


def format_value(value: Value) -> str:
    """A literal that reads back as the same value of the same type."""
    if isinstance(value, str):
        return format_string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f't"{format_time(value)}"'
    if isinstance(value, float) and math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return repr(value)


def format_string(text: str, quote: str = '"') -> str:
    """The text between quotes, as ``Reader`` reads it."""
    if text.isprintable() and quote not in text and "\\" not in text:
        return f"{quote}{text}{quote}"
    return quote + "".join("\\" + char if char == quote else _escape(char) for char in text) + quote


def _escape(char: str) -> str:
    if char in _ESCAPE_OF:
        return _ESCAPE_OF[char]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
