"""The whole report in one call: every table is computed once, gathered on the driver, and written.

Distinct filters and events by id are what most tables start from, so those are kept while the report is made. All
tables are bounded before they are gathered: by the number of event types, by a limit, or by being counts of counts.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import Location, locate, write_file
from recado.pipeline.notebook import html_page
from recado.pipeline.report import activity
from recado.pipeline.report.activity import heads, hot_attributes_of
from recado.pipeline.report.digest import (
    Rows,
    Tables,
    digest,
    distinct_filters,
    families,
    popular,
    rejected,
    summarise,
    written_filters,
)
from recado.pipeline.report.figures import as_png, as_svg, draw
from recado.pipeline.report.page import page
from recado.pipeline.report.redundancy import SAMPLE, redundancy_of

# --- A report as a folder --------------------------------------------------------------------------------------------
#
#     index.html      the page for people: one file, nothing loaded from elsewhere
#     summary.json    the figures for programs
#     tables/*.csv    every table, in UTF-8; a cell with a map or a list holds JSON
#     pictures/*      every picture, as SVG and as PNG
#
# What an earlier report left there is written over; other files are left alone. The page comes last, so a folder with a
# new page is complete.


class Report(dict[str, Any]):
    """The figures of a report, the content of ``summary.json``; a notebook shows its page."""

    def __init__(self, summary: Mapping[str, Any], folder: Location) -> None:
        super().__init__(summary)
        self.folder = folder

    def _repr_html_(self) -> str:
        return html_page((self.folder / "index.html").read_bytes().decode())


def write_report(tables: Tables, summary: Mapping[str, Any], folder: str | os.PathLike[str]) -> Report:
    """Write everything; the summary with the paths of what was written, relative to the folder."""
    figures = draw(tables, summary)
    pictures = {name: as_svg(figure, name) for name, figure in figures.items()}
    files: dict[str, bytes] = {f"tables/{name}.csv": as_csv(rows) for name, rows in tables.items() if rows}
    for name, figure in figures.items():
        files[f"pictures/{name}.svg"] = _standalone(pictures[name])
        files[f"pictures/{name}.png"] = as_png(figure)
    whole = dict(summary) | {"files": sorted([*files, "index.html", "summary.json"])}
    files["summary.json"] = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    files["index.html"] = page(tables, summary, pictures).encode()
    _write(locate(folder), files)
    return Report(whole, locate(folder))


def as_csv(rows: Rows) -> bytes:
    """Rows with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return (
        msgspec.json.encode(value).decode()
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str)
        else value
    )


def _standalone(svg: str) -> bytes:
    """An SVG file has no page to take its ink from."""
    declared = '<?xml version="1.0" encoding="utf-8"?>\n'
    return (declared + svg.replace("<svg ", '<svg style="color:#223344;background:white" ', 1)).encode()


def _write(folder: Location, files: Mapping[str, bytes]) -> None:
    try:
        for name, content in files.items():
            write_file(folder / name, content)
    except OSError as error:
        raise PipelineError(f"the report cannot be written to {folder}: {error.strerror}") from None


# --- The whole report in one call: every table is computed once, gathered on the driver, and written -----------------

ATTRIBUTES = 200
"""So many attributes are listed, the most used ones."""


def run_report(  # noqa: PLR0917  # the three inputs, where to and under which title
    spark: SparkSession,
    subscriptions: DataFrame,
    events: DataFrame | None,
    notifications: DataFrame | None,
    folder: str | os.PathLike[str],
    title: str = "Subscriptions and what they match",
    *,
    json: str | None = None,
    sample: int = SAMPLE,
) -> Report:
    """Write the report into ``folder`` and return its summary, the content of ``summary.json``.

    Events and notifications may be left out, and with them the parts that need them. ``json`` names the column that
    holds events as JSON. ``sample`` is how many filters of an event type are compared with all others.
    """
    with user_errors():
        known = None if events is None else heads(events, json)
        pairs = None if notifications is None else activity.pairs(notifications)
        tables = dict(_filter_tables(subscriptions, events, json, sample))
        tables |= dict(_activity_tables(known, pairs, _subscriptions(tables)))
    summary = summarise(tables, title, datetime.now(UTC))
    summary["spark"] = spark.version
    return write_report(tables, summary, folder)


def _filter_tables(
    subscriptions: DataFrame, events: DataFrame | None, json: str | None, sample: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    with _keep(digest(subscriptions)) as digests, _keep(distinct_filters(digests)) as filters:
        yield "rejected", rows_of(rejected(digests))
        yield "rejected_rows", rows_of(digests.where("reason is not null").agg(F.count("*").alias("rows")))
        yield "redundancy", rows_of(redundancy_of(filters, sample))
        yield "families", rows_of(families(filters))
        yield "popular", rows_of(popular(filters))
        yield "attributes", rows_of(hot_attributes_of(written_filters(digests), events, json).limit(ATTRIBUTES))


def _activity_tables(
    heads: DataFrame | None, notified: DataFrame | None, subscriptions: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if notified is None:
        return
    with _keep(notified) as pairs:
        yield "top_subscriptions", rows_of(activity.top_of(pairs))
        yield "top_owners", rows_of(activity.top_of(pairs, "owner"))
        yield "reached", rows_of(activity.reached(pairs))
        if heads is None:
            return
        with _keep(heads) as known:
            yield "rejected_events", rows_of(rejected(known))
            with _keep(activity.matches_of(pairs, known.where("reason is null"))) as counted:
                yield "selectivity", rows_of(activity.selectivity_of(counted, subscriptions))
                yield "histogram", rows_of(activity.histogram(counted))
                yield "top_types", rows_of(activity.top_types(counted))


def _subscriptions(tables: Tables) -> int:
    rows = tables["redundancy"]
    return int(rows[-1]["subscriptions"]) if rows else 0


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    """A small table on the driver; maps as dictionaries."""
    return [row.asDict(recursive=True) for row in table.collect()]


@contextmanager
def _keep(table: DataFrame) -> Iterator[DataFrame]:
    kept = table.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
