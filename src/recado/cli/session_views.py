"""Rows of the service for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recado.cli.context_target import Where
from recado.cli.output import console, for_people, write_json


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
