"""``recado pipeline stream``: match events as they arrive, until interrupted or until all are done."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from recado.cli.output import console, for_people, write_json
from recado.cli.pipeline.match import Format, form_of_rows
from recado.cli.pipeline.spark import SparkOptions, session, summarise
from recado.cli.verb import verb

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from recado.pipeline.stream import BatchSummary

_HELP = """\
Each micro-batch of events is matched against the newest version of the set and appears as OUT/batch=N, exactly once,
also after a crash: start the same command again and it goes on. Rows that are no events go to OUT-rejected.

Delivery constraints (frequency, time intervals) are applied by event time, unless --raw.

Examples:

  recado pipeline publish subscriptions.ndjson --set alerts
  recado pipeline stream alerts incoming/ --format ndjson --out matches --checkpoint state
  recado pipeline stream alerts log/ --out matches --checkpoint state --once
"""

app = verb("stream", epilogue=_HELP)


@app.default
def stream(
    set: Path,
    events: str,
    /,
    *,
    out: Path,
    checkpoint: Path,
    format: Format = "auto",
    json_column: str | None = None,
    variant_column: str | None = None,
    cloudevents: bool = False,
    event: bool = False,
    raw: bool = False,
    watermark: str | None = None,
    once: bool = False,
    every: str = "1 second",
    most: int | None = None,
    spark: SparkOptions = SparkOptions(),  # noqa: B008  # frozen
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Match events as they arrive, into Parquet.

    Parameters
    ----------
    set
        Folder of a published subscription set.
    events
        Folder that grows, or a Recado log.
    out
        Folder for the notifications.
    checkpoint
        Folder for what the stream remembers.
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
    raw
        Leave delivery constraints to whoever delivers.
    watermark
        How late an event may be and still count for a frequency, as in "10 minutes"; bounds what is remembered.
    once
        End when everything that is there now is done.
    every
        Pause between micro-batches.
    most
        Files, or rows of a log, in one micro-batch.
    json
        Write JSON even on a terminal.
    quiet
        Tell nothing of each micro-batch.
    """
    told = _Told(for_people(json), quiet)
    started = time.perf_counter()
    with session(spark, quiet) as running:
        from recado.pipeline.readers import follow_events
        from recado.pipeline.stream import start_stream

        source = follow_events(running, events, format, most)
        query = start_stream(
            source.events,
            set,
            out,
            checkpoint,
            constraints=not raw,
            watermark=watermark,
            include_event=event,
            trigger={"availableNow": True} if once else {"processingTime": every},
            on_batch=told.batch,
            **(source.form | form_of_rows(json_column, variant_column, cloudevents)),
        )
        _wait(query)
    seconds = round(time.perf_counter() - started, 3)
    summarise({"job": "stream", **told.totals(), "seconds": seconds, "out": str(out)}, json)
    return 0


def _wait(query: StreamingQuery) -> None:
    """Until the query ends by itself, or a signal asks for it; then the micro-batch at hand is finished first."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    finally:
        signal.signal(signal.SIGTERM, before)


class _Told:
    """Tells of each micro-batch, and adds up."""

    def __init__(self, people: bool, quiet: bool) -> None:
        self._people, self._quiet = people, quiet
        self._batches = self._notifications = self._rejected = 0

    def batch(self, summary: BatchSummary) -> None:
        self._batches += 1
        self._notifications += summary.notifications
        self._rejected += summary.rejected
        if self._quiet:
            return
        if not self._people:
            write_json(msgspec.to_builtins(summary))
            return
        repeated = ", a repetition" if summary.replayed else ""
        rejected = f", {summary.rejected:,} rejected" if summary.rejected else ""
        text = f"batch {summary.batch}: {summary.notifications:,} notifications{rejected}"
        console().print(f"{text} (version {summary.version}{repeated})")

    def totals(self) -> dict[str, int]:
        return {"batches": self._batches, "notifications": self._notifications, "rejected": self._rejected}
