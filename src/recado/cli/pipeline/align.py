"""``recado pipeline align``: the similarities of all names of subscriptions and events, before they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from recado.cli.pipeline.match import form_of_rows
from recado.cli.pipeline.spark import SparkOptions, session, summarise
from recado.cli.verb import verb

Format = Literal["auto", "parquet", "ndjson", "cloudevents", "log"]

_HELP = """\
Every name in the filters of the subscriptions is compared with every attribute name of the events, by the measure that
the subscription asks for (`semantic`), or by --measure where it asks for none. The scores are those of `recado
semantics explain`. A service takes the file with `semantics.cache` in its configuration, and `recado pipeline match`
with --similarities.

Examples:

  recado pipeline align subscriptions.ndjson events.ndjson --out similarities.json
  recado pipeline align alerts.parquet 'archive/*.parquet' --out similarities.json --measure feng
"""

app = verb("align", epilogue=_HELP)


@app.default
def align(
    subscriptions: str,
    events: str,
    /,
    *,
    out: Path,
    measure: str = "",
    overrides: Path | None = None,
    format: Format = "auto",
    json_column: str | None = None,
    variant_column: str | None = None,
    cloudevents: bool = False,
    spark: SparkOptions = SparkOptions(),  # noqa: B008  # frozen
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Compute the similarities of all names, into a file that services and jobs load.

    Parameters
    ----------
    subscriptions
        NDJSON or Parquet with a subscription in each row.
    events
        File, folder, glob or log of events.
    out
        The file to write.
    measure
        For subscriptions that name none.
    overrides
        File of similarities that people gave.
    format
        What the events are; auto looks at names and first bytes.
    json_column
        Of Parquet: the column that holds each event as JSON.
    variant_column
        Of Parquet: the column that holds each event as VARIANT.
    cloudevents
        Of Parquet: the rows are CloudEvents, with a column data.
    json
        Write JSON even on a terminal.
    quiet
        No progress.
    """
    from recado.semantics.measures import registry
    from recado.semantics.settings import DEFAULT, SemanticSettings

    if measure:
        registry.find(measure)  # tells what there is, if it is not there
    default = SemanticSettings(measure) if measure else DEFAULT
    with session(spark, quiet) as running:
        from recado.pipeline.align import run_align
        from recado.pipeline.meanings import Knowledge
        from recado.pipeline.readers import Source, read_events, read_subscriptions_at
        from recado.pipeline.subscriptions import read_subscriptions

        source = read_events(running, events, format)
        form: dict[str, Any] = {**source.form, **form_of_rows(json_column, variant_column, cloudevents)}
        summary = run_align(
            running,
            read_subscriptions(read_subscriptions_at(running, subscriptions)),
            Source(source.events, form),
            out.absolute(),
            default=default,
            knowledge=Knowledge(str(overrides.absolute()) if overrides else ""),
        )
    summarise({"job": "align", **summary}, json)
    return 0
