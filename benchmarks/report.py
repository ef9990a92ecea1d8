"""Records as a page: Markdown for the documentation, rich tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.records import AnyRecord, Machine
from benchmarks.tables import Grid, machine_line, tables

if TYPE_CHECKING:
    from rich.table import Table


def markdown(records: Sequence[AnyRecord], command: str) -> str:
    """The results as a page: the command, the machine, the tables. Nothing in it is typed by hand."""
    machines = [machine_line(record) for record in records if isinstance(record, Machine)]
    parts = [f"```\n{command}\n```", *machines, *map(markdown_table, tables(records))]
    return "\n\n".join(parts) + "\n"


def rich_table(grid: Grid) -> Table:
    from rich.table import Table

    table = Table(title=grid.title, title_justify="left", title_style="bold", header_style="bold", box=None)
    for place, head in enumerate(grid.heads):
        table.add_column(head, justify="left" if place < grid.words else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*row)
    return table


def markdown_table(grid: Grid) -> str:
    marks = ["---" if place < grid.words else "---:" for place in range(len(grid.heads))]
    lines = [grid.heads, marks, *grid.rows]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"### {grid.title}\n\n{body}"
