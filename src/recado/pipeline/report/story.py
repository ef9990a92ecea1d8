"""What the page says in words about the figures: sentences for people, from the summary alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from recado.pipeline.report.estimates import AT_LEAST, EXACT
from recado.pipeline.report.tables import count, decimal, percent, worth

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
