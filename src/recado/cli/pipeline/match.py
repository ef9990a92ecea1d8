"""``recado pipeline match``: all events at a place against all subscriptions, once, into Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from recado.cli.pipeline.spark import SparkOptions, session, summarise
from recado.cli.verb import verb
from recado.errors import RecadoError

Format = Literal["auto", "parquet", "ndjson", "cloudevents", "log"]

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
    format: Format = "auto",
    json_column: str | None = None,
    variant_column: str | None = None,
    cloudevents: bool = False,
    event: bool = False,
    constraints: bool = False,
    partitions: int | None = None,
    overrides: Path | None = None,
    similarities: Path | None = None,
    overwrite: bool = False,
    spark: SparkOptions = SparkOptions(),  # noqa: B008  # frozen
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
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
    format
        What the events are; auto looks at names and first bytes.
    json_column
        Of Parquet: the column that holds each event as JSON.
    variant_column
        Of Parquet: the column that holds each event as VARIANT.
    cloudevents
        Of Parquet: the rows are CloudEvents, with a column data.
    event
        Write each notification with its event.
    constraints
        Apply the subscriptions' delivery constraints, by event time.
    partitions
        Split the subscriptions over this many partitions, for sets that one executor should not hold.
    overrides
        For semantic subscriptions: file of similarities that people gave.
    similarities
        For semantic subscriptions: file that `recado pipeline align` made.
    overwrite
        Replace what is in OUT.
    json
        Write JSON even on a terminal.
    quiet
        No progress.
    """
    if out.exists() and not overwrite:
        raise RecadoError(f"{out} is there already; --overwrite replaces it")
    with session(spark, quiet) as running:
        from recado.pipeline.jobs import run_match
        from recado.pipeline.meanings import Knowledge
        from recado.pipeline.readers import read_events

        files = [str(path.absolute()) if path else "" for path in (overrides, similarities)]
        known = {"knowledge": Knowledge(*files)} if any(files) else {}
        summary = run_match(
            running,
            subscriptions,
            read_events(running, events, format),
            out,
            partitions=partitions,
            constraints=constraints,
            include_event=event,
            overwrite=overwrite,
            form=form_of_rows(json_column, variant_column, cloudevents) | known,
        )
    summarise({"job": "match", **summary}, json)
    return 0


def form_of_rows(json_column: str | None, variant_column: str | None, cloudevents: bool) -> dict[str, Any]:
    """What the user said of the rows, as `match` wants it."""
    given = {"json": json_column, "variant": variant_column, "cloudevents": cloudevents}
    return {name: value for name, value in given.items() if value}
