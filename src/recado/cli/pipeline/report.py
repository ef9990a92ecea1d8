"""``recado pipeline report``: what a subscription set is like, as a page, pictures and tables."""

from __future__ import annotations

from pathlib import Path

from recado.cli.pipeline.rows import Rows
from recado.cli.pipeline.spark import Job, session, summarise
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
    rows: Rows = Rows(),  # noqa: B008  # frozen
    title: str = "Subscriptions and what they match",
    job: Job = Job(),  # noqa: B008  # frozen
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
    title
        What stands at the top of the page.
    """
    with session(job) as running:
        from recado.pipeline.jobs import run_report_on

        summary = run_report_on(
            running, subscriptions, out, events=events, format=rows.format, title=title,
            form=rows.form(),
        )  # fmt: skip
    summarise({"job": "report", **summary}, job.json)
    return 0
