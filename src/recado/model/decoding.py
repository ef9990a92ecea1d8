"""What a decoder complains about, in words for the person who wrote the text: where, what, and what would be right.

``msgspec`` says "Expected `str | null`, got `int` - at `$.since`" and "Invalid enum value 'xml' - at `$.format`". Here
that becomes "$.since: must be a text or null, not a number" and "$.format: 'xml' is none of flat, cloudevent": the
choices are looked up in the type that the text was decoded as.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

_EXPECTED = re.compile(r"Expected `(.+?)`, got `(.+?)`")
_BOUND = re.compile(r"Expected `(.+?)` (>=|<=|>|<|of length >=|of length <=) (\S+)")
_VALUE = re.compile(r"Invalid (?:enum )?value (.+)", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.+)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[[^\]]*\]")
_ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {
    ">=": "of at least",
    "<=": "of at most",
    ">": "greater than",
    "<": "less than",
    "of length >=": "of a length of at least",
    "of length <=": "of a length of at most",
}
_MOST_CHOICES = 30


def explain(error: msgspec.DecodeError, kind: Any = None, raw: bytes | str = b"") -> str:
    """The error as "place: what is wrong". ``kind`` is the type that was wanted, ``raw`` the text, if it was JSON."""
    reason, _, place = str(error).partition(" - at `")
    place = place.rstrip("`") or "$"
    return f"{place}: {_reason(error, reason, place, kind, raw)}"


def _reason(error: msgspec.DecodeError, reason: str, place: str, kind: Any, raw: bytes | str) -> str:
    if not isinstance(error, msgspec.ValidationError):
        return _malformed(reason, raw)
    if found := _EXPECTED.fullmatch(reason):
        return f"must be {_words(found[1])}, not {_words(found[2])}"
    if found := _BOUND.fullmatch(reason):
        return f"must be {_words(found[1])} {_BOUNDS[found[2]]} {found[3]}"
    types = list(_find(kind, place)) if kind is not None else []
    if found := _VALUE.fullmatch(reason):
        return f"{found[1]} is none of {_listed(_choices(types))}" if types else f"{found[1]} is not allowed here"
    if found := _MISSING.fullmatch(reason):
        return f"lacks the member `{found[1]}`{_tags(types, found[1])}"
    if found := _UNKNOWN.fullmatch(reason):
        members = [field.encode_name for one in types if isinstance(one, inspect.StructType) for field in one.fields]
        there = f"; there are {_listed(members)}" if members else ""
        return f"there is no member `{found[1]}`{there}"
    return f"{reason[:1].lower()}{reason[1:]}"


def _malformed(reason: str, raw: bytes | str) -> str:
    text = raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw
    surrogate = find_lone_surrogate(text) if re.search("surrogate|truncated|escape", reason) else None
    if surrogate is not None:
        at, name = surrogate
        return f"a string has a lone surrogate, {name}, at byte {at + 1}; it is half of a character, and no text"
    if "truncated" in reason:
        return "the JSON text ends too early"
    return reason if reason.startswith("JSON") else f"{reason[:1].lower()}{reason[1:]}"


def find_lone_surrogate(text: bytes) -> tuple[int, str] | None:
    r"""Where JSON text has a ``\ud800`` without its other half, and how it is written there; None if it has none."""
    waiting: re.Match[bytes] | None = None
    for found in _ESCAPE.finditer(text):
        code = int(found[1][1:], 16) if len(found[1]) == 5 else 0
        is_low = 0xDC00 <= code <= 0xDFFF
        if waiting is not None:
            if is_low and found.start() == waiting.end():
                waiting = None
                continue
            break
        if is_low:
            return found.start(), found[0].decode()
        if 0xD800 <= code <= 0xDBFF:
            waiting = found
    return None if waiting is None else (waiting.start(), waiting[0].decode())


def without_surrogates(text: bytes) -> bytes:
    r"""JSON text with a question mark for every ``\ud800`` and the like, so that the rest of it can be read."""
    return _ESCAPE.sub(lambda found: b"?" if found[1][:2].lower() == b"ud" and found[1][2:3] > b"7" else found[0], text)


def _words(types: str) -> str:
    """``str | null`` as people say it."""
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    more = ", ..." if len(shown) > _MOST_CHOICES else ""
    return ", ".join(shown[:_MOST_CHOICES]) + more


def _choices(types: list[inspect.Type]) -> list[str]:
    return [str(value) for one in types if isinstance(one, inspect.LiteralType) for value in one.values]


def _tags(types: list[inspect.Type], member: str) -> str:
    """What a member that tells kinds of objects apart may be."""
    tags = [str(one.tag) for one in types if isinstance(one, inspect.StructType) and one.tag_field == member]
    return f", which is one of {_listed(tags)}" if tags else ""


def _find(kind: Any, place: str) -> Iterator[inspect.Type]:
    """The types that a place such as ``$.sub.constraints[0]`` may have."""
    types: list[inspect.Type] = list(_alternatives(inspect.type_info(kind)))
    for step in _STEP.finditer(place):
        types = [inner for one in types for inner in _step(one, step[1])]
    yield from types


def _alternatives(one: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(one, inspect.UnionType):
        for inner in one.types:
            yield from _alternatives(inner)
    elif isinstance(one, inspect.Metadata):
        yield from _alternatives(one.type)
    else:
        yield one


def _step(one: inspect.Type, member: str | None) -> Iterator[inspect.Type]:
    if member is None:
        if isinstance(one, inspect.ListType | inspect.VarTupleType):
            yield from _alternatives(one.item_type)
    elif isinstance(one, inspect.StructType):
        if member == one.tag_field:
            yield inspect.LiteralType((str(one.tag),))
        for field in one.fields:
            if field.encode_name == member:
                yield from _alternatives(field.type)
    elif isinstance(one, inspect.DictType):
        yield from _alternatives(one.value_type)
