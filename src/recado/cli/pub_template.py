"""Templates in what is published: ``{{count}}``, ``{{random 1 100}}``, ``{{now}}``, ``{{uuid}}``."""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.model.times import format_time

_HOLE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_RIGHT = "{{count}}, {{random 1 100}}, {{now}} and {{uuid}}"


def expand(text: str, count: int) -> str:
    """The text with its holes filled; ``count`` is the number of this event, from 1."""
    return _HOLE.sub(lambda hole: _value(hole[1].lower().split(), hole[0], count), text) if "{{" in text else text


def _value(words: list[str], hole: str, count: int) -> str:
    match words:
        case ["count"]:
            return str(count)
        case ["now"]:
            return format_time(datetime.now(UTC))
        case ["uuid"]:
            return str(uuid.uuid4())
        case ["random", low, high] if _whole(low) and _whole(high) and int(low) <= int(high):
            return str(int(low) + secrets.randbelow(int(high) - int(low) + 1))
    raise RecadoError(f"there is no template {hole}; there are {_RIGHT}")


def _whole(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}", text) is not None


def members(type: str, pairs: tuple[str, ...], count: int) -> dict[str, Any]:
    """The members of event number ``count``, from ``Tick Price=24.9 Stock=PETR4``."""
    found: dict[str, Any] = {"type": expand(type, count)} if type else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise RecadoError(f"{pair!r} is not name=value, such as Price=24.9")
        found[name] = scalar(expand(value, count))
    return found


def scalar(text: str) -> Any:
    """A number, true, false, or a JSON text, array or object if it can be read so; else the text itself."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return text if value is None else value
