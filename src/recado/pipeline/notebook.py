"""What a notebook shows: a set, a result of matching, a report. Plain HTML, and nothing is loaded from elsewhere.

``SubscriptionSet`` and what ``run_report`` returns show themselves. A result is a DataFrame, so ``preview`` makes what
is shown of it: some of the notifications, gathered by event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from pyspark.sql import DataFrame

from recado.pipeline.errors import PipelineError

_CELL = 'style="text-align:left;padding:2px 12px 2px 0"'
_LONGEST = 120


def html_table(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]], below: str = "") -> str:
    """A small table; every text is escaped."""
    head = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{escape(_show(cell))}</td>' for cell in row)}</tr>" for row in rows)
    foot = f"<p>{escape(below)}</p>" if below else ""
    return (
        f"<div><p><b>{escape(caption)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{foot}</div>"
    )


def html_page(page: str, height: int = 600) -> str:
    """A whole page inside of another, with no right to anything outside of it."""
    style = f"width:100%;height:{height}px;border:1px solid #ccc"
    return f'<iframe sandbox="" style="{style}" srcdoc="{escape(page)}"></iframe>'


def _show(cell: object) -> str:
    if cell is None:
        return ""
    text = f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class Preview:
    """Some notifications of a result, as a notebook and a terminal show them."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], more: bool) -> None:
        self.rows, self.more = rows, more

    def _lines(self) -> list[tuple[object, ...]]:
        return [(row["event_id"], row["event_time"], row["count"], row["subscriptions"]) for row in self.rows]

    def _repr_html_(self) -> str:
        names = ("event", "time", "matches", "subscriptions")
        return html_table("notifications", names, self._lines(), "and more" if self.more else "")

    def __repr__(self) -> str:
        lines = [f"{event}: {subscriptions}" for event, _, _, subscriptions in self._lines()]
        return "\n".join([*lines, *(["and more"] if self.more else [])]) or "no notifications"


def preview(found: DataFrame, events: int = 20, subscriptions: int = 5) -> Preview:
    """Some rows of what ``match`` gave, in any of its outputs, by event: how many matches there are, and the first.

    Only so many rows are fetched as are shown; of rows one a notification, those of an event that lie together.
    """
    if found.isStreaming:
        raise PipelineError("this is a stream; preview what it wrote")
    array = next((name for name in ("matches", "ordinals") if name in found.columns), None)
    most = events + 1 if array else events * subscriptions + 1
    gathered: dict[str, dict[str, Any]] = {}
    taken = found.take(most)
    for row in taken:
        if row["event_id"] is None or ("rejected" in found.columns and row["rejected"] is not None):
            continue
        new = {"event_id": row["event_id"], "event_time": row["event_time"], "ids": []}
        line = gathered.setdefault(row["event_id"], new)
        match array:
            case "matches":
                line["ids"] += [one["subscription_id"] for one in row["matches"]]
            case "ordinals":
                line["ids"] += map(str, row["ordinals"])
            case _:
                line["ids"].append(row["subscription_id"])
    shown = []
    for line in gathered.values():
        first, more = ", ".join(line["ids"][:subscriptions]), len(line["ids"]) > subscriptions
        shown.append({**line, "count": len(line["ids"]), "subscriptions": f"{first} …" if more else first})
    return Preview(shown[:events], len(taken) == most)
