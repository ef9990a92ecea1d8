"""``recado pipeline align``: the similarities of all names of subscriptions and events, before they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recado.cli.meaning import Meaning
from recado.cli.pipeline.rows import Rows
from recado.cli.pipeline.spark import Job, session, summarise
from recado.cli.verb import verb

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
    meaning: Meaning = Meaning(),  # noqa: B008  # frozen
    rows: Rows = Rows(),  # noqa: B008  # frozen
    job: Job = Job(),  # noqa: B008  # frozen
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
    """
    knowledge = meaning.knowledge()
    with session(job) as running:
        from recado.pipeline.align import run_align
        from recado.pipeline.readers import Source, read_events, read_subscriptions_at
        from recado.pipeline.subscriptions import read_subscriptions

        source = read_events(running, events, rows.format)
        form: dict[str, Any] = {**source.form, **rows.form()}
        summary = run_align(
            running,
            read_subscriptions(read_subscriptions_at(running, subscriptions)),
            Source(source.events, form),
            out.absolute(),
            knowledge=knowledge,
        )
    summarise({"job": "align", **summary}, job.json)
    return 0
