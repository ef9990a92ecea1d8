r"""Refuse JSON objects that repeat a key.

JSON decoders take the last of two members with one name and say nothing, so that an object could lose a part of itself
unnoticed. To look at every key again would cost more than decoding, so they are counted. A key is followed by its quote
and a colon: without its white space, a text has at least as many ``":`` as keys. Where it has just as many as the
decoded value has keys, none was lost. In a string the quote has a backslash before it, and such ``\":`` are left out.
Only what does not add up is read again with care.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from recado.errors import RecadoError


def refuse_repeats(raw: bytes, decoded: Any, error: type[RecadoError]) -> None:
    """Raise an ``error`` that names the place and the key, if an object of the text has a key twice.

    ``raw`` is valid JSON in UTF-8, and ``decoded`` what a decoder made of it: dicts, lists and scalars.
    """
    if type(decoded) is not dict:
        refuse_repeats_among(raw, (decoded,), 0, error)
    elif raw.count(b":") != len(decoded):
        refuse_repeats_among(raw, decoded.values(), len(decoded), error)


def refuse_repeats_among(raw: bytes, values: Iterable[Any], keys: int, error: type[RecadoError]) -> None:
    """The same for a text that was decoded into several values; it has ``keys`` keys besides those inside of them."""
    dense = raw.translate(None, b" \t\n\r")
    counted = dense.count(b'":')
    if counted == keys:
        return
    keys += _keys(values)
    if counted != keys and b'\\\\":' not in dense:  # a key may end with an escaped backslash
        counted -= dense.count(b'\\":')
    if counted != keys:
        _look(raw, error)


def _keys(values: Iterable[Any]) -> int:
    count = 0
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += len(value)
            waiting += [member for member in value.values() if type(member) is dict or type(member) is list]
        elif type(value) is list:
            waiting += [element for element in value if type(element) is dict or type(element) is list]
    return count


class _Pairs(list[tuple[str, Any]]):
    """The members of one object, repeated ones too."""


def _look(raw: bytes, error: type[RecadoError]) -> None:
    try:
        value = json.loads(raw, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    except RecursionError:
        raise error("$: the JSON is nested far too deep") from None
    waiting: list[tuple[str, Any]] = [("$", value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, _ in value:
                if key in seen:
                    raise error(f"{shorten(place)}: the key {shorten(key)!r} is given twice")
                seen.add(key)
            waiting += [(f"{place}.{key}", member) for key, member in reversed(value)]
        elif isinstance(value, list):
            waiting += [(f"{place}[{position}]", element) for position, element in reversed(list(enumerate(value)))]


def shorten(text: str, longest: int = 200) -> str:
    """A text for a message: its end is what tells places apart, so the middle is left out."""
    return text if len(text) <= longest else f"{text[: longest // 4]}...{text[-(longest - longest // 4) :]}"
