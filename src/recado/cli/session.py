"""``recado session``: who is connected, and ending it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from recado.cli.context import Where
from recado.cli.output import complain, console, for_people, plural, write_json
from recado.cli.verb import verb

# --- Rows of the service for people and for programs -----------------------------------------------------------------


def show_all(where: Where, what: str, of: str, columns: Sequence[str], json: bool) -> int:
    """List sessions, mailboxes or subscriptions: the caller's own, those of a user, or everybody's."""
    with where.http() as http:
        rows = http.call("GET", f"/v1/{what}", query={"user": of})[what]
    show_rows(rows, columns, json, f"no {what}")
    return 0


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


# --- ``recado session``: who is connected, and ending it -------------------------------------------------------------

_HELP = """\
  recado session ls                            your devices, connected or away
  recado session ls --of '*'                   everybody's, with an administrator's token
  recado session end --device sub-cheap        it is told; its subscriptions and its mailbox stay
"""

app = verb("session", epilogue=_HELP)
_COLUMNS = ("user", "device", "connected", "kind", "address", "unacknowledged", "at")


@app.command
def ls(*, of: str = "", json: bool = False, where: Where = Where()) -> int:  # noqa: B008  # frozen, made once
    """List sessions: your own or, with an administrator's token, those of others.

    Parameters
    ----------
    of
        Those of this user; '*' for those of everybody.
    json
        Write NDJSON even on a terminal.
    """
    return show_all(where, "sessions", of, _COLUMNS, json)


@app.command
def show(user: str = "", /, *, json: bool = False, where: Where = Where()) -> int:  # noqa: B008  # the same
    """Show the devices of a user, and what waits for them.

    Parameters
    ----------
    user
        The user; without one, yourself.
    json
        Write NDJSON even on a terminal.
    """
    with where.http() as http:
        rows: list[dict[str, Any]] = http.call("GET", f"/v1/sessions/{quote(user or 'me', safe='')}")["sessions"]
    show_rows(rows, _COLUMNS, json, "no sessions")
    return 0


@app.command
def end(user: str = "", /, *, device: str = "", where: Where = Where()) -> int:  # noqa: B008  # the same
    """End the session of a device, or all of a user's; subscriptions stay.

    Parameters
    ----------
    user
        The user; without one, yourself.
    device
        Only this device.
    """
    with where.http() as http:
        ended = http.call("DELETE", f"/v1/sessions/{quote(user or 'me', safe='')}", query={"device": device})["ended"]
    complain(f"ended {plural(ended, 'session')}")
    return 0
