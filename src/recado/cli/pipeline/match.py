"""``recado pipeline match``: all events at a place against all subscriptions, once, into Parquet."""

from __future__ import annotations

from pathlib import Path

from recado.cli.meaning import Meaning
from recado.cli.output import complain
from recado.cli.pipeline.rows import Rows
from recado.cli.pipeline.spark import Job, session, summarise
from recado.cli.verb import FAILED, OK, verb
from recado.errors import RecadoError

_HELP = """\
Subscriptions are an NDJSON or Parquet file with one in each row, a set that `recado pipeline publish` made, or a
partitioned set. Events are Parquet (columns are attributes), NDJSON, CloudEvents batch files, or a Recado log; files,
folders and globs.

The notifications are written as Parquet: event_id, subscription_id, owner, event_time, matched_at. Rows that are no
events are written beside them with the reason (OUT-rejected), and counted.

Examples:

  recado pipeline match subscriptions.ndjson events.ndjson --out matches
  recado pipeline match alerts 'archive/2026-*.parquet' --out matches --event --master 'local[8]'
  recado pipeline match huge.parquet events/ --out matches --partitions 16
"""

app = verb("match", epilogue=_HELP)


@app.default
def match(
    subscriptions: str,
    events: str,
    /,
    *,
    out: Path,
    rows: Rows = Rows(),  # noqa: B008  # frozen
    event: bool = False,
    renamed: bool = False,
    constraints: bool = False,
    partitions: int | None = None,
    meaning: Meaning = Meaning(),  # noqa: B008  # frozen
    similarities: Path | None = None,
    overwrite: bool = False,
    verify_share: float = 0.001,
    job: Job = Job(),  # noqa: B008  # frozen
) -> int:
    """Match events against subscriptions, into Parquet.

    Parameters
    ----------
    subscriptions
        NDJSON, Parquet, or a published set.
    events
        File, folder, glob or log of events.
    out
        Folder for the notifications.
    event
        Write each notification with its event.
    renamed
        Write the event as JSON with the subscriber's names, where its `semantic` asks for it (`rename`).
    constraints
        Apply the subscriptions' delivery constraints, by event time.
    partitions
        Split the subscriptions over this many partitions, for sets that one executor should not hold.
    similarities
        For semantic subscriptions: file that `recado pipeline align` made.
    overwrite
        Replace what is in OUT.
    verify_share
        Share of the matching time that compares answers with the plain evaluator. If they differ, the exit code is 1.
    """
    if out.exists() and not overwrite:
        raise RecadoError(f"{out} is there already; --overwrite replaces it")
    with session(job) as running:
        from recado.pipeline.jobs import run_match
        from recado.pipeline.readers import read_events

        summary = run_match(
            running,
            subscriptions,
            read_events(running, events, rows.format),
            out,
            partitions=partitions,
            constraints=constraints,
            include_event=event,
            include_renamed=renamed,
            overwrite=overwrite,
            form=rows.form(),
            knowledge=meaning.knowledge(similarities),
            verify_share=verify_share,
        )
    warning = summary.pop("warning", "")
    summarise({"job": "match", **summary}, job.json)
    if warning:
        complain(warning)
    return FAILED if warning else OK
