r"""How a notification is written: for people, as JSON, or as a format says.

=========  ============================================================================================
``%t``     the event's type                 ``%i``  its id              ``%s``  its source
``%j``     the event as JSON                ``%{name}``  one of its attributes
``%p``     its position in the log          ``%n``  the notification's number (nid)
``%S``     the subscription                 ``%g``  when the notification was made
``%q``     1 if it waited in the mailbox    ``%%``  a percent sign
=========  ============================================================================================

``\n``, ``\t`` and ``\\`` mean what they do in C. What an event does not have is empty.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from recado.cli.output import for_people, write_json
from recado.errors import RecadoError

_PIECE = re.compile(r"%\{([^}]*)\}|%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_ENVELOPE = ("id", "type", "source", "time")
_encode = msgspec.json.Encoder().encode

Row = dict[str, Any]


def writer(format: str, json: bool) -> Callable[[Row], None]:
    """A function that writes one notification (``event`` and the members of NOTIFY, as far as they are there)."""
    if format and format not in ("json", "table"):
        pieces = compiled(format)
        return lambda row: _line("".join(piece(row) for piece in pieces))
    if format == "table" or (not format and for_people(json)):
        return lambda row: _line(for_a_person(row))
    return write_json


def _line(text: str) -> None:
    sys.stdout.write(text + "\n")


def for_a_person(row: Row) -> str:
    """Position, type and attributes on a line; whatever could move the cursor is replaced."""
    event = row["event"]
    attributes = "  ".join(f"{name}={_text(value)}" for name, value in event.items() if name not in _ENVELOPE)
    queued = "  (waited)" if row.get("queued") else ""
    place = row.get("position", row.get("nid", 0) >> 20)
    line = f"{place:>8}  {event.get('type', '-')}  {attributes}  [{event['id']}]{queued}"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def compiled(format: str) -> list[Callable[[Row], str]]:
    """The pieces of a format; a RecadoError names a placeholder that does not exist."""
    return [_piece(*found.groups()) for found in _PIECE.finditer(format)]


def _piece(
    attribute: str | None, letter: str | None, escape: str | None, plain: str | None, alone: str | None
) -> Callable[[Row], str]:
    if attribute is not None:
        return lambda row: _text(row["event"].get(attribute))
    if letter is not None:
        if letter == "%":
            return lambda row: "%"
        if letter not in _LETTERS:
            raise RecadoError(
                f"--format has no %{letter}; there are {', '.join('%' + one for one in _LETTERS)}, %{{name}}, %%"
            )
        return _LETTERS[letter]
    if escape is not None:
        text = _ESCAPES.get(escape, "\\" + escape)
        return lambda row: text
    rest = plain if plain is not None else alone or ""
    return lambda row: rest


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value).decode()


_LETTERS: dict[str, Callable[[Row], str]] = {
    "t": lambda row: _text(row["event"].get("type")),
    "i": lambda row: _text(row["event"].get("id")),
    "s": lambda row: _text(row["event"].get("source")),
    "j": lambda row: _encode(row["event"]).decode(),
    "p": lambda row: str(row.get("position", row.get("nid", 0) >> 20)),
    "n": lambda row: _text(row.get("nid")),
    "S": lambda row: _text(row.get("sub_id")),
    "g": lambda row: _text(row.get("generated_at")),
    "q": lambda row: "1" if row.get("queued") else "0",
}
