"""Tables of the page: which columns are shown, under which heading, and how a value is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from recado.pipeline.report.activity import ALL_EVENTS
from recado.pipeline.report.estimates import AT_LEAST, SAMPLE, WHOLE_SET
from recado.pipeline.report.summary import Rows

LONGEST = 25
"""Rows on the page; the CSV file has them all."""

WHOLES = {WHOLE_SET, ALL_EVENTS}
"""The types of rows that sum up the others."""

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A heading, and the HTML of a row's cell below it."""

    heading: str
    cell: Callable[[Row], str]
    number: bool = True


def count(value: float) -> str:
    return f"{value:,.0f}"


def decimal(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percent(value: float) -> str:
    if value in {0, 1}:
        return f"{value:.0%}"
    if value < 0.0001:
        return "< 0.01%"
    return f"{value:.1%}" if value >= 0.001 else f"{value:.2%}"


def text(name: str) -> Column:
    """A column with text."""
    return Column(name, lambda row: escape(str(row[name] or "–")), number=False)


def code(heading: str, name: str) -> Column:
    return Column(heading, lambda row: f"<code>{escape(row[name])}</code>", number=False)


def number(heading: str, name: str, form: Callable[[float], str] = count) -> Column:
    return Column(heading, lambda row: "–" if row[name] is None else escape(form(row[name])))


def estimated(heading: str, name: str) -> Column:
    """A share with what it is worth: exact, within a margin, or a lower bound."""
    return Column(heading, lambda row: worth(row[f"{name}_share"], row[f"{name}_margin"], row[f"{name}_is"]))


def worth(share: float, margin: float, kind: str) -> str:
    mark = f' <span class="mark">± {margin:.1%}</span>' if margin >= 0.0005 and kind == SAMPLE else ""
    return ("≥ " if kind == AT_LEAST and share < 1 else "") + escape(percent(share)) + mark


FILTERS = (
    text("type"),
    number("subscriptions", "subscriptions"),
    number("distinct filters", "filters"),
    number("repeated", "redundancy", percent),
    estimated("covered", "covered"),
    estimated("mergeable", "mergeable"),
    Column("depth", lambda row: ("≥ " if row["depth_is"] == AT_LEAST else "") + count(row["depth"])),
    number("largest", "largest"),
)
POPULAR = (
    code("filter", "filter"),
    text("type"),
    number("subscriptions", "subscriptions"),
)
ATTRIBUTES = (
    code("attribute", "attribute"),
    number("subscriptions", "subscriptions"),
    Column("operators", lambda row: _operators(row["operators"] or {}), number=False),
    Column("most wanted values", lambda row: _values(row["values"] or ()), number=False),
)
PRESENCE = (*ATTRIBUTES[:2], number("in events", "share", percent), *ATTRIBUTES[2:])
SELECTIVITY = (
    text("type"),
    number("events", "events"),
    number("matches", "matches"),
    number("mean", "mean", decimal),
    number("median", "median"),
    number("99%", "p99"),
    number("most", "most"),
    number("matched none", "none"),
    number("share", "share", percent),
)
REJECTED = (
    Column("reason", lambda row: f'<code class="lines">{escape(row["reason"])}</code>', number=False),
    number("rows", "rows"),
)


def top_columns(heading: str) -> tuple[Column, ...]:
    name = Column(heading, lambda row: f"<code>{escape(row['name'] or '–')}</code>", number=False)
    return name, number("notifications", "notifications"), number("share", "share", percent)


def table(rows: Rows, columns: Sequence[Column]) -> str:
    """The HTML of a table; a long one is cut, its last row kept if that is the whole."""
    shown = list(rows[:LONGEST])
    if len(rows) > LONGEST and rows[-1].get("type") in WHOLES:
        shown.append(rows[-1])
    head = "".join(_cell("th", column, escape(column.heading)) for column in columns)
    body = "\n".join(_row(row, columns) for row in shown)
    more = (
        f'<p class="note">{len(rows) - len(shown):,} more rows are in the CSV file.</p>'
        if len(rows) > len(shown)
        else ""
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{more}'


def _row(row: Row, columns: Sequence[Column]) -> str:
    whole = ' class="whole"' if row.get("type") in WHOLES else ""
    return f"<tr{whole}>" + "".join(_cell("td", column, column.cell(row)) for column in columns) + "</tr>"


def _cell(tag: str, column: Column, content: str) -> str:
    kind = ' class="number"' if column.number else ""
    return f"<{tag}{kind}>{content}</{tag}>"


def _operators(operators: Mapping[str, int]) -> str:
    ranked = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    return " · ".join(f"<code>{escape(name)}</code> {number:,}" for name, number in ranked)


def _values(values: Sequence[Mapping[str, Any]]) -> str:
    return " · ".join(f"<code>{escape(value['value'])}</code> {value['subscriptions']:,}" for value in values)
