"""The whole report in one call: every table is computed once, gathered on the driver, and written.

Distinct filters and events by id are what most tables start from, so those are kept while the report is made. All
tables are bounded before they are gathered: by the number of event types, by a limit, or by being counts of counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recado.pipeline.errors import user_errors
from recado.pipeline.report import activity
from recado.pipeline.report.attributes import hot_attributes_of
from recado.pipeline.report.digest import digest, distinct_filters, rejected, written_filters
from recado.pipeline.report.happened import heads
from recado.pipeline.report.popularity import families, popular
from recado.pipeline.report.redundant import SAMPLE, redundancy_of
from recado.pipeline.report.summary import Tables, summarise
from recado.pipeline.report.write import write_report

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
) -> dict[str, Any]:
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
    with _kept(digest(subscriptions)) as digests, _kept(distinct_filters(digests)) as filters:
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
    with _kept(notified) as pairs:
        yield "top_subscriptions", rows_of(activity.top_of(pairs))
        yield "top_owners", rows_of(activity.top_of(pairs, "owner"))
        yield "reached", rows_of(activity.reached(pairs))
        if heads is None:
            return
        with _kept(heads) as known:
            yield "rejected_events", rows_of(rejected(known))
            with _kept(activity.matches_of(pairs, known.where("reason is null"))) as counted:
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
def _kept(table: DataFrame) -> Iterator[DataFrame]:
    kept = table.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
