"""Literal values of the expression syntax: strings with JSON's escapes, numbers, timestamps, and bare words.

Strings take double or single quotes. A letter before the quote changes the reading: ``t`` an instant, ``i`` a pattern
that ignores case (only where a pattern is expected), ``r`` a raw string in which a backslash is a plain character.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from recado.filters.expression.lexer import NAME, NUMBER, QUOTED_NAME, RESERVED, STRING, Reader
from recado.model.times import parse_time
from recado.model.values import INT_MAX, INT_MIN, Value

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
