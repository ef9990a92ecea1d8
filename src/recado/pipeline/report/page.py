"""The page: headline figures first, then a section a subject, each with what it means.

One HTML file: style and pictures are inside, and nothing is loaded from elsewhere. Every text from data is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from recado.pipeline.report.activity import ALL_EVENTS
from recado.pipeline.report.digest import Rows, Tables
from recado.pipeline.report.redundancy import AT_LEAST, EXACT, WHOLE_SET
from recado.pipeline.report.redundancy import FROM_SAMPLE as SAMPLE

# --- Tables of the page: which columns are shown, under which heading, and how a value is written --------------------


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


# --- What the page says in words about the figures: sentences for people, from the summary alone ---------------------


Summary = Mapping[str, Any]

LITTLE_REDUNDANCY = 0.2
"""Below this a super-node overlay gains little or nothing over one where every node knows all others."""
EVEN, SKEWED = 0.4, 0.8
"""Zipf exponents up to the first are close to even popularity, from the second on a few filters dominate."""


def subtitle(summary: Summary) -> str:
    parts = [f"{count(summary['subscriptions'])} subscriptions"]
    if "events" in summary:
        parts.append(f"{count(summary['events'])} events")
    if "notifications" in summary:
        parts.append(f"{count(summary['notifications'])} notifications")
    return " · ".join([*parts, f"made {escape(summary['made_at'][:16].replace('T', ' '))} UTC"])


def headlines(summary: Summary) -> Iterator[tuple[str, str]]:
    """Figures, and what each one is."""
    yield count(summary["subscriptions"]), "subscriptions"
    yield count(summary["filters"]), f"distinct filters, of {_some(summary['types'], 'event type')}"
    yield percent(summary["super_nodes"]["redundancy"]), "of subscriptions repeat a filter that is there already"
    yield _plain(summary["covered"]), "of distinct filters are covered by another one"
    yield _plain(summary["mergeable"]), "of distinct filters can be merged with another one"
    if "matches_an_event" in summary:
        yield decimal(summary["matches_an_event"]["mean"] or 0), "subscriptions matched by an event, on average"
    if "reached_share" in summary:
        yield percent(summary["reached_share"]), "of subscriptions got at least one event"


def redundancy(summary: Summary) -> str:
    covered, mergeable = summary["covered"], summary["mergeable"]
    equal = (
        f"<p>{count(summary['equal'])} subscriptions share their filter with at least one other; "
        f"{count(summary['filters'])} different filters are left when equal ones are counted once. Filters are equal "
        "if they mean the same, however they are written.</p>"
    )
    wider = (
        f"<p>Of the distinct filters, <b>{_worth(covered)}</b> are <em>covered</em>: whatever matches them matches "
        f"another, wider filter too. And <b>{_worth(mergeable)}</b> are <em>mergeable</em>: together with another "
        "filter of their type they make one filter that matches exactly the same events, such as two ranges that "
        "touch, or two values of one attribute.</p>"
    )
    key = (
        '<p class="note"><em>Repeated</em> is the share of subscriptions whose filter another one has already; '
        "<em>largest</em> the most subscriptions that have one filter; <em>depth</em> the longest chain of filters "
        "that cover one another.</p>"
    )
    never = ""
    if summary["never_matching"]:
        some = _some(summary["never_matching"], "subscription")
        never = _warning(f"{some} can never match: the conditions contradict each other.")
    return f"{equal}\n{wider}\n{never}\n{key}"


def how_judged(summary: Summary) -> str:
    covered = summary["covered"]
    if covered["is"] == EXACT:
        words = "All figures for covering are exact: every filter was compared with every other."
    else:
        words = (
            f"Covered and mergeable are estimated: {count(covered['judged'])} filters, chosen evenly within each type, "
            "were each compared with all the others. The margin is that of a 95% confidence interval."
        )
    if summary["mergeable"]["is"] == AT_LEAST:
        words += " Mergers of filters with alternatives or text patterns were looked for among some filters only, so ≥."
    if summary["routing"]["depth_is"] == AT_LEAST:
        words += " Depth is what was seen in part of the set, so ≥."
    return f'<p class="note">{words}</p>'


def covering(summary: Summary) -> str:
    routing = summary["routing"]
    saved = 1 - routing["covering"] / max(routing["simple"], 1)
    about = "" if summary["covered"]["is"] == EXACT else "about "
    text = (
        f"A broker that forwards every subscription keeps {count(routing['simple'])} entries for a neighbour. One that "
        f"forwards equal filters once keeps {count(routing['identity'])}, and one that forwards only what nothing else "
        f"covers keeps {about}{count(routing['covering'])}: {escape(percent(saved))} fewer than the first."
    )
    depth = (
        f"A distinct filter has {decimal(routing['coverers_mean'])} filters that cover it on average, and the longest "
        f"chain of covering is {_depth(routing)} deep. When a covering filter is withdrawn, those it covered have to "
        "be announced again; so deep chains and filters with a single cover are what makes withdrawals dear."
    )
    return f'<div class="meaning"><p>{text}</p><p>{depth}</p></div>'


def super_nodes(summary: Summary) -> str:
    figures = summary["super_nodes"]
    enough = figures["redundancy"] >= LITTLE_REDUNDANCY
    gain = "That is enough for super nodes to pay." if enough else "Below 0.2 super nodes save little or nothing."
    zipf = figures["zipf_exponent"]
    skew = "close to even" if zipf <= EVEN else "moderately uneven" if zipf < SKEWED else "strongly concentrated"
    return (
        '<div class="meaning">'
        f"<p>With one representative a filter, {count(figures['representatives'])} super nodes stand for "
        f"{count(summary['subscriptions'])} subscribers: redundancy <b>R = {figures['redundancy']:.2f}</b>. {gain}</p>"
        f"<p>A super node has {decimal(figures['children_mean'])} children on average, and "
        f"{count(figures['children_most'])} at most, to whom it passes every event along. Popularity is {skew}: the "
        f"Zipf law that fits best has the exponent <b>{zipf:.2f}</b> (0 is even).</p></div>\n"
        "<p>The curve is the number of subscriptions of each filter, the most popular first; the straight line is the "
        "Zipf law that fits best. Below it, the filters that most subscriptions share.</p>"
    )


def attributes(summary: Summary) -> str:
    figures = summary["attributes"]
    hottest = ", ".join(f"<code>{escape(name)}</code>" for name in figures["hottest"])
    out = (
        f"<p>Filters name {_some(figures['named'], 'attribute')}; most often {hottest}. Attributes that most filters "
        "compare for equality are the ones to index and to split a large set by.</p>"
    )
    missing = figures.get("in_no_event") or []
    if missing:
        names = ", ".join(f"<code>{escape(name)}</code>" for name in missing[:10])
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        out += _warning(f"No event has {names}{more}. A filter that needs it matches nothing: is the name right?")
    return out


def selectivity(summary: Summary) -> str:
    matches = summary["matches_an_event"]
    share = escape(percent(summary["selectivity"] or 0))
    return (
        f"<p>An event matches {decimal(matches['mean'] or 0)} of {count(summary['subscriptions'])} subscriptions on "
        f"average ({share}), half of the events {count(matches['median'] or 0)} or "
        f"fewer, and the most popular one {count(matches['most'] or 0)}. {count(summary['unwanted_events'] or 0)} of "
        f"{count(summary['events'])} events match nothing: those are what filtering near the publisher would save.</p>"
    )


def reached(summary: Summary) -> str:
    share = escape(percent(summary["reached_share"]))
    return (
        f"<p>{count(summary['notifications'])} notifications went to {count(summary['reached_subscriptions'])} "
        f"subscriptions, {share} of all. A subscription that takes a large share of them "
        "is one whose queue fills first.</p>"
    )


def rejected(summary: Summary) -> str:
    subscriptions = _some(summary["rejected_subscriptions"], "row") + " of the subscriptions"
    events = _some(summary.get("rejected_events", 0), "row") + " of the events"
    return _warning(
        f"{subscriptions} and {events} could not be read. They were left out; all other figures are without them."
    )


def colophon(summary: Summary) -> str:
    version = f" on Spark {escape(summary['spark'])}" if "spark" in summary else ""
    return (
        f"Made by Recado{version}. The figures are in <code>summary.json</code>, the tables in <code>tables/</code>, "
        "the pictures in <code>pictures/</code>."
    )


def _plain(figure: Mapping[str, Any]) -> str:
    return ("≥ " if figure["is"] == AT_LEAST else "") + percent(figure["share"])


def _worth(figure: Mapping[str, Any]) -> str:
    return worth(figure["share"], figure["margin"], figure["is"])


def _depth(routing: Mapping[str, Any]) -> str:
    return ("at least " if routing["depth_is"] == AT_LEAST else "") + count(routing["depth"])


def _some(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _warning(words: str) -> str:
    return f'<div class="meaning warning"><p>{words}</p></div>'


# --- The page: headline figures first, then a section a subject, each with what it means -----------------------------

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
<p>{subtitle(summary)}</p>
</header>
{_headlines(summary)}
<nav>{links}</nav>
{body}
<footer>{colophon(summary)}</footer>
</main>
</body>
</html>
"""


def _headlines(summary: Summary) -> str:
    cards = "\n".join(
        f'<div class="figure"><b>{escape(figure)}</b><span>{escape(words)}</span></div>'
        for figure, words in headlines(summary)
    )
    return f'<div class="figures">\n{cards}\n</div>'


def _sections(tables: Tables, summary: Summary, pictures: Pictures) -> Iterator[tuple[str, str, str]]:
    """Name, heading and HTML of each section that there is data for."""
    if summary["rejected_subscriptions"] or summary.get("rejected_events"):
        yield "rejected", "Rows that could not be read", _reject(tables, summary)
    if summary["subscriptions"]:
        yield (
            "redundancy",
            "How redundant the filters are",
            _join(
                redundancy(summary),
                _picture(pictures, "redundancy"),
                table(tables["redundancy"], FILTERS),
                how_judged(summary),
            ),
        )
        yield "covering", "What covering would save", _join(_picture(pictures, "routing"), covering(summary))
        yield (
            "super-nodes",
            "What super nodes would find",
            _join(super_nodes(summary), _picture(pictures, "families"), table(tables["popular"][:12], POPULAR)),
        )
    if tables["attributes"]:
        columns = PRESENCE if "present" in tables["attributes"][0] else ATTRIBUTES
        yield (
            "attributes",
            "Which attributes filters ask for",
            _join(attributes(summary), _picture(pictures, "attributes"), table(tables["attributes"], columns)),
        )
    if tables.get("selectivity"):
        yield (
            "selectivity",
            "How selective matching is",
            _join(selectivity(summary), _picture(pictures, "selectivity"), table(tables["selectivity"], SELECTIVITY)),
        )
    if "reached" in tables:
        yield "top", "Who gets most", _join(reached(summary), *_tops(tables))


def _reject(tables: Tables, summary: Summary) -> str:
    bad = [table(tables[name], REJECTED) for name in ("rejected", "rejected_events") if tables.get(name)]
    return _join(rejected(summary), *bad)


def _tops(tables: Tables) -> Iterator[str]:
    for name, heading in (("top_subscriptions", "subscription"), ("top_owners", "owner"), ("top_types", "event type")):
        if tables.get(name):
            yield table(tables[name][:10], top_columns(heading))


def _picture(pictures: Pictures, name: str) -> str:
    return f'<div class="picture">{pictures[name]}</div>' if name in pictures else ""


def _join(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
