"""``recado pipeline report``: what a subscription set is like, as a page, pictures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recado.cli.pipeline.match import Format, form_of_rows
from recado.cli.pipeline.spark import SparkOptions, session, summarise
from recado.cli.verb import verb

_HELP = """\
How many filters are equal, covered by another, or can be merged; which attributes they ask for; and, with --events,
what they match: matches per event, the busiest subscriptions and types. OUT/index.html is the page to open.

Examples:

  recado pipeline report subscriptions.ndjson --out report
  recado pipeline report subscriptions.ndjson --events events.ndjson --out report --title "Alerts, November"
"""

app = verb("report", epilogue=_HELP)


@app.default
def report(
    subscriptions: str,
    /,
    *,
    out: Path,
    events: str | None = None,
    format: Format = "auto",
    json_column: str | None = None,
    title: str = "Subscriptions and what they match",
    spark: SparkOptions = SparkOptions(),  # noqa: B008  # frozen
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Analyse a subscription set: a page with figures.

    Parameters
    ----------
    subscriptions
        NDJSON or Parquet with a subscription in each row.
    out
        Folder for the page, its pictures and tables.
    events
        File, folder, glob or log of events to match.
    format
        What the events are; auto looks at names and first bytes.
    json_column
        Of Parquet: the column that holds each event as JSON.
    title
        What stands at the top of the page.
    json
        Write JSON even on a terminal.
    quiet
        No progress.
    """
    with session(spark, quiet) as running:
        from recado.pipeline.jobs import run_report_on

        summary = run_report_on(
            running, subscriptions, out, events=events, format=format, title=title,
            form=form_of_rows(json_column, None, False),
        )  # fmt: skip
    summarise({"job": "report", **summary}, json)
    return 0
