"""A shortcut for the plainest and most frequent filters: comparisons with simple literals, joined by ``and``.

One regular expression reads a whole clause where the general parser reads four tokens. The shortcut reads as many
clauses from the left as it can and leaves the rest of the text to the general parser; since ``and`` binds tighter
than ``or``, those clauses are factors of the first conjunction whatever follows. It never reports an error.
"""

from __future__ import annotations

import re

from recado.filters.expression.lexer import PLAIN_NAME, RESERVED
from recado.model.filter import Between, Compare, CompareOp, Filter
from recado.model.limits import Limits

_NUMBER = r"([+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?)(?![\w.:-])"  # an integer of 18 digits fits 64 bits without a check
_CLAUSE = re.compile(
    rf"""\s*({PLAIN_NAME})\s*
    (?:(==|!=|<=|>=|<|>)\s*(?:{_NUMBER}|"([^"\\\n]*)")
    |\bbetween\s+{_NUMBER}\s+and\s+{_NUMBER}
    |\bin\s*\[\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\])
    \s*(?:([aA][nN][dD])(?![\w.-])|\Z)""",
    re.VERBOSE,
)
_OPS: dict[str, CompareOp] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_clauses(text: str, limits: Limits) -> tuple[list[Filter], int]:
    """The leading plain clauses, and where the general parser has to go on: -1 if the text is read completely."""
    parts: list[Filter] = []
    position = 0
    while clause := _CLAUSE.match(text, position):
        name, op, number, string, low, high, first, last, more = clause.groups()
        if name.lower() in RESERVED or len(name) > limits.name_chars or len(parts) >= limits.filter_predicates:
            break
        if number is not None:
            parts.append(Compare(name, _OPS[op], _number(number)))
        elif string is not None:
            parts.append(Compare(name, _OPS[op], string))
        else:
            parts.append(Between(name, _number(low or first), _number(high or last)))
        if more is None:
            return parts, -1
        position = clause.end()
    return parts, position


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
