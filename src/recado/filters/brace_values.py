"""Values inside braces: typed by how they look, unless quoted.

The order of recognition is boolean (any case), integer, double, and otherwise a string. An integer that does not fit
64 bits is a double. Double quotes make a string of anything.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from recado.errors import FilterError
from recado.filters.scanner import Scanner, quote
from recado.model.values import INT_MAX, INT_MIN, Value

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BARE = re.compile(r'[^\s";{}=,](?:[^;{}=,\n\r]*[^\s;{}=,])?')


def typed(scanner: Scanner, text: str, position: int) -> Value:
    """The value that an unquoted text stands for."""
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    if _INTEGER.fullmatch(text) and len(text) < 64:
        integer = int(text)
        if INT_MIN <= integer <= INT_MAX:
            return integer
    if _DOUBLE.fullmatch(text):
        double = float(text)
        if math.isinf(double):
            scanner.fail("the number is too large for 64 bits", 'put quotes around it for a text: "..."', position)
        return double
    return text


def format_value(value: Value) -> str:
    """A value that reads back as the same; a FilterError for what braces cannot hold."""
    if isinstance(value, str):
        return _format_string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        raise FilterError("the braces syntax has no timestamps", hint='the expression syntax has: t"..."')
    if isinstance(value, float) and math.isinf(value):
        raise FilterError("the braces syntax has no infinity", hint="the expression syntax has")
    return repr(value)


def _format_string(text: str) -> str:
    looks_typed = text.lower() in ("true", "false") or _DOUBLE.fullmatch(text)
    if _BARE.fullmatch(text) and not looks_typed:
        return text
    return quote(text)
