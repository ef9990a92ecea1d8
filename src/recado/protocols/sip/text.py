"""Small pieces of SIP's grammar (RFC 3261, section 25): tokens, quoted strings, lists and parameters.

Everything here takes time linear in the text, whatever the text is: lists are cut by one pass over the few characters
that matter, and no pattern can go back over what it has read.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from recado.errors import RecadoError

# --- What can be wrong with a SIP message, and which status answers it (RFC 3261, section 21) ------------------------


class SipError(RecadoError):
    """A message, or a part of one, that cannot be accepted; or a request that makes no sense."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


# --- Small pieces of SIP's grammar (RFC 3261, section 25): tokens, quoted strings, lists and parameters --------------

Params: TypeAlias = tuple[tuple[str, str | None], ...]

_SPECIAL = re.compile(r'["\\<>,;]')
_TOKEN = re.compile(r"[A-Za-z0-9.!%*_+`'~-]+")
_VALUE = re.compile(r"[A-Za-z0-9.!%*_+`'~\[\]:-]+")  # a token or a host
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def shown(text: str, most: int = 60) -> str:
    """Part of a message as an error may show it: short, and without control characters."""
    cut = text if len(text) <= most else text[:most] + "..."
    return repr(cut.encode("utf-8", "replace").decode())


def split(text: str, separator: str, most: int | None = None) -> list[str]:
    """Cut at a separator (``,`` or ``;``) that stands outside of quotes and angle brackets."""
    parts, start, skip, quoted, bracket = [], 0, -1, False, False
    for found in _SPECIAL.finditer(text):
        at, char = found.start(), found[0]
        if at < skip:
            continue
        if quoted:
            skip = at + 2 if char == "\\" else skip
            quoted = char != '"'
        elif char == '"' and not bracket:
            quoted = True
        elif char in "<>":
            bracket = char == "<"
        elif char == separator and not bracket:
            parts.append(text[start:at].strip())
            start = at + 1
            if most is not None and len(parts) >= most:
                raise SipError(f"more than {most} values in one header")
    if quoted or bracket:
        raise SipError(f"{shown(text)} has a quoted string or an angle bracket that does not end")
    parts.append(text[start:].strip())
    return parts


def unquote(text: str) -> str:
    """The text of a quoted string, or the text itself if it is not one."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _BACKSLASH.sub(r"\1", text[1:-1])
    return text


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_quoted(text: str) -> bool:
    """Is this exactly one quoted string? A quote inside has to be escaped."""
    return len(text) >= 2 and text[0] == text[-1] == '"' and _ends_only_there(text)


def _ends_only_there(text: str) -> bool:
    at = 1
    while at < len(text) - 1:
        if text[at] == '"':
            return False
        at += 2 if text[at] == "\\" else 1
    return at == len(text) - 1


def read_params(parts: list[str]) -> Params:
    """``name`` or ``name=value`` each; names are compared without case, so they are kept in lower case."""
    params = []
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not is_token(name):
            raise SipError(f"{shown(part)} is not a parameter; a parameter is name or name=value")
        if equals and not (_VALUE.fullmatch(value) or is_quoted(value)):
            raise SipError(f"the value of the parameter {shown(part)} is neither a token nor a quoted string")
        params.append((name.lower(), value if equals else None))
    return tuple(params)


def write_params(params: Params) -> str:
    return "".join(f";{name}" if value is None else f";{name}={value}" for name, value in params)


def param(params: Params, name: str) -> str | None:
    """The value of a parameter; empty if it stands alone, None if it is missing."""
    for key, value in params:
        if key == name:
            return value or ""
    return None


def with_param(params: Params, name: str, value: str | None) -> Params:
    return (*(one for one in params if one[0] != name), (name, value))


def read_number(text: str, what: str, most: int) -> int:
    """Digits only, and not many of them: Python's ``int`` would take signs, spaces, underscores and other scripts."""
    if not (text.isascii() and text.isdigit()):
        raise SipError(f"{what} is {shown(text)}; it has to be a number")
    if len(text) > 20 or int(text) > most:
        raise SipError(f"{what} is {shown(text)}; it has to be at most {most}")
    return int(text)
