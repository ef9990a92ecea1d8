r"""What the verbs of the service write: rows of what it holds, and notifications.

A notification is written for people, as JSON, or as a format says:

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

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from recado.cli.flags import ListFlags, ServiceFlags
from recado.cli.output import console, for_people, write_json
from recado.errors import RecadoError

if TYPE_CHECKING:
    from recado.client.http import HttpClient

_PIECE = re.compile(r"%\{([^}]*)\}|%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_ENVELOPE = ("id", "type", "source", "time")
_encode = msgspec.json.Encoder().encode

_PAGE = 1_000
Row = dict[str, Any]


def notification_writer(layout: str, json: bool) -> Callable[[Row], None]:
    """A function that writes one notification (``event`` and the members of NOTIFY, as far as they are there)."""
    if layout and layout not in ("json", "table"):
        pieces = compile_format(layout)
        return lambda row: _line("".join(piece(row) for piece in pieces))
    if layout == "table" or (not layout and for_people(json)):
        return lambda row: _line(readable_line(row))
    return write_json


def _line(text: str) -> None:
    sys.stdout.write(text + "\n")


def readable_line(row: Row) -> str:
    """Position, type and attributes on a line; whatever could move the cursor is replaced."""
    event = row["event"]
    attributes = "  ".join(f"{name}={_text(value)}" for name, value in event.items() if name not in _ENVELOPE)
    queued = "  (waited)" if row.get("queued") else ""
    place = row.get("position", row.get("nid", 0) >> 20)
    line = f"{place:>8}  {event.get('type', '-')}  {attributes}  [{event['id']}]{queued}"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def compile_format(layout: str) -> list[Callable[[Row], str]]:
    """The pieces of a format; a RecadoError names a placeholder that does not exist."""
    return [_piece(*found.groups()) for found in _PIECE.finditer(layout)]


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


# --- rows ------------------------------------------------------------------------------------------------------------


def show_listing(where: ServiceFlags, what: str, which: ListFlags, columns: Sequence[str], path: str = "") -> int:
    """List sessions, mailboxes or subscriptions, all pages of them: NDJSON as they come, a table at the end.

    ``what`` they are called; ``path`` is where they are, unless it is the list of that name.
    """
    with where.http() as http:
        rows = itertools.islice(read_list(http, what, which, path or f"/v1/{what}"), which.limit or None)
        if for_people(which.json):
            show_rows(list(rows), columns, which.json, f"no {what}")
        else:
            for row in rows:
                write_json(row)
    return 0


def read_list(http: HttpClient, what: str, which: ListFlags, path: str) -> Iterator[dict[str, Any]]:
    """The entries of a list of the service, one page after the other."""
    query: dict[str, Any] = {"user": which.of, "prefix": which.prefix, "limit": which.limit or None}
    if which.limit > _PAGE:
        query["limit"] = _PAGE
    while True:
        page = http.call("GET", path, query=query)
        yield from page[what]
        query["after"] = page.get("next")
        if query["after"] is None:
            return


def show_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], json: bool, nothing: str) -> None:
    """A table on a terminal, else NDJSON with all that the service said."""
    if not for_people(json):
        for row in rows:
            write_json(row)
        return
    if not rows:
        console().print(nothing)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right" if _numeric(rows, column) else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console().print(table)


def _numeric(rows: Sequence[dict[str, Any]], column: str) -> bool:
    return all(type(row.get(column)) in (int, float) for row in rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
