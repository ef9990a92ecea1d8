"""The page: headline figures first, then a section a subject, each with what it means.

One HTML file: style and pictures are inside, and nothing is loaded from elsewhere. Every text from data is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from recado.pipeline.report import story
from recado.pipeline.report.summary import Tables
from recado.pipeline.report.tables import (
    ATTRIBUTES,
    FILTERS,
    POPULAR,
    PRESENCE,
    REJECTED,
    SELECTIVITY,
    table,
    top_columns,
)

Summary = Mapping[str, Any]
Pictures = Mapping[str, str]


def page(tables: Tables, summary: Summary, pictures: Pictures) -> str:
    """The whole page."""
    style = files("recado.pipeline.report").joinpath("page.css").read_text(encoding="utf-8")
    title = escape(summary["title"])
    sections = [*_sections(tables, summary, pictures)]
    links = "\n".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in sections)
    body = "\n".join(
        f'<section id="{name}">\n<h2>{escape(heading)}</h2>\n{html}\n</section>' for name, heading, html in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p>{story.subtitle(summary)}</p>
</header>
{_headlines(summary)}
<nav>{links}</nav>
{body}
<footer>{story.colophon(summary)}</footer>
</main>
</body>
</html>
"""


def _headlines(summary: Summary) -> str:
    cards = "\n".join(
        f'<div class="figure"><b>{escape(figure)}</b><span>{escape(words)}</span></div>'
        for figure, words in story.headlines(summary)
    )
    return f'<div class="figures">\n{cards}\n</div>'


def _sections(tables: Tables, summary: Summary, pictures: Pictures) -> Iterator[tuple[str, str, str]]:
    """Name, heading and HTML of each section that there is data for."""
    if summary["rejected_subscriptions"] or summary.get("rejected_events"):
        yield "rejected", "Rows that could not be read", _rejected(tables, summary)
    if summary["subscriptions"]:
        yield (
            "redundancy",
            "How redundant the filters are",
            _joined(
                story.redundancy(summary),
                _picture(pictures, "redundancy"),
                table(tables["redundancy"], FILTERS),
                story.how_judged(summary),
            ),
        )
        yield "covering", "What covering would save", _joined(_picture(pictures, "routing"), story.covering(summary))
        yield (
            "super-nodes",
            "What super nodes would find",
            _joined(story.super_nodes(summary), _picture(pictures, "families"), table(tables["popular"][:12], POPULAR)),
        )
    if tables["attributes"]:
        columns = PRESENCE if "present" in tables["attributes"][0] else ATTRIBUTES
        yield (
            "attributes",
            "Which attributes filters ask for",
            _joined(story.attributes(summary), _picture(pictures, "attributes"), table(tables["attributes"], columns)),
        )
    if tables.get("selectivity"):
        yield (
            "selectivity",
            "How selective matching is",
            _joined(
                story.selectivity(summary), _picture(pictures, "selectivity"), table(tables["selectivity"], SELECTIVITY)
            ),
        )
    if "reached" in tables:
        yield "top", "Who gets most", _joined(story.reached(summary), *_tops(tables))


def _rejected(tables: Tables, summary: Summary) -> str:
    bad = [table(tables[name], REJECTED) for name in ("rejected", "rejected_events") if tables.get(name)]
    return _joined(story.rejected(summary), *bad)


def _tops(tables: Tables) -> Iterator[str]:
    for name, heading in (("top_subscriptions", "subscription"), ("top_owners", "owner"), ("top_types", "event type")):
        if tables.get(name):
            yield table(tables[name][:10], top_columns(heading))


def _picture(pictures: Pictures, name: str) -> str:
    return f'<div class="picture">{pictures[name]}</div>' if name in pictures else ""


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
