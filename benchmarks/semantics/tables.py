"""The tables of a run, for the terminal and for a page of documentation."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.records import Machine
from benchmarks.report import markdown_table
from benchmarks.semantics.records import AnyRecord, Loading, Many, NewShape, Subscribers
from benchmarks.tables import Grid, machine_line, number, rate, target_table

NOTE = (
    "*As in the work*: its data set as section 13.8 of the semantics document remakes it, with the setting of its "
    "highest F (mean over all pairs of words, Jiang & Conrath, threshold 0.15, constraints without counterpart "
    "ignored, values compared by meaning); names and values have been seen before, as the work's cache was filled. "
    "Published rates are of a whole server on another machine. *plain, no cache* is Algorithm 1 for each "
    "subscription, every similarity computed anew.\n\n"
    "Rates of matchers are events a second of the processor's time on one core, the best of several rounds, the sides "
    "by turns; *plain* and the times of first events are of the clock on the wall, so they are worse on a busy "
    "machine.\n\n"
    "*Against exact matching*: readings of weather stations, subscriptions with two or three constraints. Both sides "
    "match the same events; exact subscriptions use the publisher's names, semantic ones others (measure hybrid), and "
    "both give the same notifications. *many publishers*: the same readings under names of twelve publishers, in any "
    "order, which exact subscriptions do not reach."
)


def tables(records: Sequence[AnyRecord]) -> list[Grid]:
    """All tables that have rows."""
    found = (subscribers(records), many(records), memory(records), shapes(records), target_table(records))
    return [grid for grid in found if grid.rows]


def subscribers(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            f"{r.subscribers:,}", number(r.published_cache), number(r.published_no_cache), rate(r.rate),
            number(r.rate.best / r.published_cache) if r.published_cache else "", number(r.plain),
            number(r.matches_per_event),
        )
        for r in records
        if isinstance(r, Subscribers)
    ]  # fmt: skip
    heads = (
        "subscribers", "published, cache", "published, no cache", "matcher", "x published", "plain, no cache",
        "matches/event",
    )  # fmt: skip
    return Grid("As in the work: events a second", heads, rows, words=0)


def many(records: Sequence[AnyRecord]) -> Grid:
    rows = []
    for r in records:
        if isinstance(r, Many):
            pairs = (
                ("one at a time", r.exact, r.semantic, r.shaped),
                ("batches of 256", r.exact_batch, r.semantic_batch, r.shaped_batch),
            )
            rows += [
                (
                    f"{r.subscriptions:,}", how, rate(exact), rate(semantic), f"{semantic.best / exact.best:.2f}",
                    rate(shaped), number(r.matches_per_event), "yes" if r.agreed else "NO",
                )
                for how, exact, semantic, shaped in pairs
            ]  # fmt: skip
    heads = (
        "subscriptions", "how", "exact", "semantic", "semantic / exact", "semantic, many publishers", "matches/event",
        "same notifications",
    )  # fmt: skip
    return Grid("Against exact matching: events a second, known shapes", heads, rows, words=0)


def memory(records: Sequence[AnyRecord]) -> Grid:
    rows = []
    for r in records:
        if isinstance(r, Loading):
            rows.append(("lexicon, vectors, measures", f"{r.seconds:.2f}", f"{r.process_bytes / 1e6:,.0f}", ""))
        if isinstance(r, Many):
            for kind, seconds, size in (
                ("exact", r.exact_seconds, r.exact_bytes),
                ("semantic", r.semantic_seconds, r.semantic_bytes),
            ):
                what = f"{r.subscriptions:,} {kind} subscriptions"
                rows.append((what, f"{seconds:.2f}", f"{size / 1e6:,.1f}", f"{size / r.subscriptions:,.0f}"))
    return Grid("Loading and memory", ("what", "seconds", "MB", "bytes/subscription"), rows)


def shapes(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            f"{r.subscriptions:,}", f"{r.names}", f"{r.attributes}", number(r.unknown_seconds * 1e3),
            number(r.known_seconds * 1e3),
        )
        for r in records
        if isinstance(r, NewShape)
    ]  # fmt: skip
    heads = ("subscriptions", "their names", "the event's names", "names never seen, ms", "names known, ms")
    return Grid("The first event of a new shape", heads, rows, words=0)


def markdown(records: Sequence[AnyRecord], command: str) -> str:
    """The page of a run: the command, the machine, the tables. Nothing in it is typed by hand."""
    machines = [machine_line(record) for record in records if isinstance(record, Machine)]
    parts = [
        "# Semantic matching, measured",
        f"```\n{command}\n```",
        *machines,
        NOTE,
        *map(markdown_table, tables(records)),
    ]
    return "\n\n".join(parts) + "\n"
