"""``recado semantics align``: one subscription, one event, and which attribute stands for which name."""

from __future__ import annotations

from typing import Any

from recado.cli.output import complain, console, for_people, plural, write_json, write_line
from recado.cli.semantics.options import Knowledge, Wanted
from recado.cli.verb import FAILED, OK
from recado.filters.cost import check_filter
from recado.filters.dataset import event_line
from recado.filters.expression import format as format_filter
from recado.filters.records import read_subscription
from recado.filters.syntax import Syntax, parse_filter
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.flatten import jsonable
from recado.model.subscription import Subscription
from recado.semantics.alignment import Alignment, Pair
from recado.semantics.match import attribute_names, resolved, semantic_match
from recado.semantics.review import Open, ReviewList
from recado.semantics.rewriting import constraint_names, renamed, rewrite
from recado.semantics.settings import SemanticSettings


def align(
    subscription: str,
    event: str,
    /,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008  # frozen
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
    syntax: Syntax = "auto",
    note: bool = False,
    json: bool = False,
) -> int:
    """Show the pairs of names, the filter in the event's words, and whether the event matches. Exit code 1 if not.

    Examples:
      recado semantics align '{sale price, GT, 50}' '{"product": "book", "price": 60}'
      recado semantics align '`sale price` > 50' '{"price": 60}' --measure feng --threshold 0.3
      recado semantics align '{nation, EQ, Germany}' '{type=pressure event, country=Germany}'

    Parameters
    ----------
    subscription
        A filter in any syntax, or a subscription record in JSON.
    event
        An event in JSON, or as {name=value, name=value}.
    syntax
        The syntax of the filter.
    note
        Put uncertain pairs on the review list.
    json
        Write JSON even on a terminal.
    """
    asked, happened = _subscription(subscription, syntax), _event(event)
    settings = wanted.settings(knowledge.language, asked.semantic)
    semantics = knowledge.semantics()
    alignment = semantics.align(constraint_names(asked.filter), attribute_names(happened), settings)
    matched = semantic_match(happened, asked, settings, semantics) is not None
    filter = format_filter(resolved(rewrite(asked.filter, alignment), happened, settings, semantics))
    if for_people(json):
        _show(alignment, filter, matched)
        if settings.rename:
            write_line(f"the event with the subscriber's names: {write_flat(renamed(happened, alignment)).decode()}")
    else:
        write_json(_record(alignment, filter, matched, happened, settings))
    if note:
        _note(alignment, settings)
    return OK if matched else FAILED


def _subscription(text: str, syntax: Syntax) -> Subscription:
    if text.lstrip().startswith('{"') and '"id"' in text:
        return read_subscription(text)
    return Subscription("subscription", check_filter(parse_filter(text, syntax)))


def _event(text: str) -> Event:
    body = text.strip()
    is_pairs = body.startswith("{") and not body[1:].lstrip().startswith(('"', "}"))
    return event_line(f"event\t{body}") if is_pairs else read_event(text, default_id="event")


def _record(
    alignment: Alignment, filter: str, matched: bool, event: Event, settings: SemanticSettings
) -> dict[str, Any]:
    record = {
        "matches": matched,
        "filter": filter,
        "measure": alignment.measure,
        "threshold": alignment.threshold,
        "pairs": [_pair(pair) for pair in alignment.pairs],
        "uncertain": [pair.constraint for pair in alignment.uncertain(settings.margin)],
    }
    if settings.rename:
        record["event"] = {name: jsonable(value) for name, value in renamed(event, alignment).items()}
    return record


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "name": pair.constraint,
        "attribute": pair.attribute,
        "similarity": pair.similarity,
        "reason": pair.reason,
        "words": list(pair.words),
        "attribute_words": list(pair.attribute_words),
        "nearest": pair.nearest,
    }


def _show(alignment: Alignment, filter: str, matched: bool) -> None:
    from rich.table import Table

    table = Table("name", "attribute", "similarity", "why", box=None, header_style="bold", pad_edge=False)
    for pair in alignment.pairs:
        found = pair.attribute if pair.attribute is not None else "none"
        near = f" (nearest: {pair.nearest})" if pair.attribute is None and pair.nearest is not None else ""
        table.add_row(pair.constraint, found, f"{pair.similarity:.3f}", pair.reason + near)
    out = console()
    out.print(table)
    out.print(f"by {alignment.measure}, threshold {alignment.threshold:g}", style="dim")
    out.print(f"the filter in the event's words: {filter}")
    out.print("the event matches" if matched else "the event does not match", style="green" if matched else "red")


def _note(alignment: Alignment, settings: SemanticSettings) -> None:
    uncertain = [
        Open(pair.constraint, pair.nearest, pair.similarity, alignment.measure, alignment.threshold)
        for pair in alignment.uncertain(settings.margin)
        if pair.nearest is not None
    ]
    listed = ReviewList.load()
    listed.note(uncertain)
    listed.save()
    complain(f"{plural(len(uncertain), 'uncertain pair')} put on the review list")
