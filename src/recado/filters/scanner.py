r"""A position in a text, for the two syntaxes that are read by separators: braces and template.

Double quotes protect separators. Inside them a backslash takes the next character literally, with ``\n``, ``\t`` and
``\r`` for the usual control characters.
"""

from __future__ import annotations

import re
from typing import NoReturn

from recado.errors import FilterError
from recado.model.limits import Limits

_QUOTED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


class Scanner:
    """A text and a position in it, with the one way to complain."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.position = 0
        self.limits = limits
        if len(text) > limits.filter_chars:
            raise FilterError(f"the filter has {len(text):,} characters; the limit is {limits.filter_chars:,}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            self.fail("a lone surrogate is not a character", position=error.start)

    @property
    def char(self) -> str:
        """The character in sight; empty at the end."""
        return self.text[self.position : self.position + 1]

    def fail(self, reason: str, hint: str | None = None, position: int | None = None) -> NoReturn:
        """Refuse the text here, or at ``position``."""
        at = self.position if position is None else position
        raise FilterError(reason, text=self.text, position=at, hint=hint) from None

    def skip_space(self) -> None:
        while self.char.isspace():
            self.position += 1

    def until(self, stops: str) -> str:
        """The text up to one of the characters ``stops`` or the end, trimmed; the position moves there."""
        start = self.position
        found = re.compile(f"[{re.escape(stops)}]").search(self.text, start)
        self.position = found.start() if found else len(self.text)
        return self.text[start : self.position].strip()

    def quoted(self) -> str:
        """The quoted string that begins here."""
        found = _QUOTED.match(self.text, self.position)
        if found is None:
            self.fail('the quote " is never closed', 'end it with another ", or write \\" inside it')
        self.position = found.end()
        return _ESCAPE.sub(lambda escape: _CONTROLS.get(escape[1], escape[1]), found[1])

    def check_name(self, name: str, position: int) -> str:
        if not name:
            self.fail("an attribute name is missing", position=position)
        if len(name) > self.limits.name_chars:
            self.fail(f"the name has {len(name):,} characters; the limit is {self.limits.name_chars:,}", None, position)
        return name

    def finish(self, what: str = "brace") -> None:
        """Pass over the closing character, behind which nothing may stand."""
        self.position += 1
        self.skip_space()
        if self.char:
            self.fail(f"text behind the closing {what}", f"a filter ends with its closing {what}")


def quote(text: str) -> str:
    """The text between double quotes, as ``Scanner.quoted`` reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, control in _CONTROLS.items():
        escaped = escaped.replace(control, "\\" + letter)
    return f'"{escaped}"'
