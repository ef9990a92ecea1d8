"""``recado pipeline stream``: match events as they arrive, until interrupted or until all are done."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import msgspec

from recado.cli.flags import KnowledgeFlags
from recado.cli.output import complain, console, for_people, write_json
from recado.cli.pipeline.spark import AsRows, Job, Rows, session, summarise
from recado.cli.verb import FAILED, OK, verb

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from recado.pipeline.stream import BatchSummary

_POLL_SECONDS = 1

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
    set: str,
    events: str,
    /,
    *,
    out: str,
    checkpoint: str,
    rows: Rows = Rows(),  # noqa: B008  # frozen
    event: bool = False,
    renamed: bool = False,
    meaning: KnowledgeFlags = KnowledgeFlags(),  # noqa: B008  # frozen
    similarities: str | None = None,
    raw: bool = False,
    watermark: str | None = None,
    once: bool = False,
    every: str = "1 second",
    most: int | None = None,
    as_rows: AsRows = False,
    ship: bool | None = None,
    verify_share: float = 0.001,
    job: Job = Job(),  # noqa: B008  # frozen
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
    event
        Write each notification with its event.
    renamed
        Write the event as JSON with the subscriber's names, where its `semantic` asks for it (`rename`).
    similarities
        For semantic subscriptions: file that `recado pipeline align` made.
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
    as_rows
        Write a row for each notification, instead of one for each event with an array of its matches.
    ship
        Send each version of the set to the executors, or not: they map it at its path. Without either, it is sent on a
        cluster.
    verify_share
        Share of the matching time that compares answers with the plain evaluator. If they differ, the stream goes on
        and says so, and the exit code is 1.
    """
    told = _Told(for_people(job.json), job.quiet)
    started = time.perf_counter()
    with session(job) as running:
        from recado.pipeline.readers import follow_events
        from recado.pipeline.stream import start_stream

        source = follow_events(running, events, rows.format, most)
        query = start_stream(
            source.events,
            set,
            out,
            checkpoint,
            place=source.place,
            constraints=not raw,
            watermark=watermark,
            include_event=event,
            include_renamed=renamed,
            knowledge=meaning.knowledge(similarities),
            trigger={"availableNow": True} if once else {"processingTime": every},
            on_batch=told.batch,
            verify_share=verify_share,
            ship=ship,
            output="rows" if as_rows else "nested",
            **(source.form | rows.form()),
        )
        _wait(query, told.stop)
    seconds = round(time.perf_counter() - started, 3)
    summarise({"job": "stream", **told.totals(), "seconds": seconds, "out": str(out)}, job.json)
    return FAILED if told.disagreements else OK


def _wait(query: StreamingQuery, asked: threading.Event) -> None:
    """Until the query ends by itself, or somebody asks for it; the next start does the micro-batch at hand again.

    The signal only leaves a note: an exception inside a call to the JVM would break the connection to it.
    """
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not query.awaitTermination(_POLL_SECONDS) and not asked.is_set():
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    query.stop()


class _Told:
    """Tells of each micro-batch, and adds up; when nobody reads it any more, ``stop`` is set."""

    def __init__(self, people: bool, quiet: bool) -> None:
        self._people, self._quiet = people, quiet
        self.stop = threading.Event()
        self._batches = self._notifications = self._rejected = self._compared = self.disagreements = 0

    def batch(self, summary: BatchSummary) -> None:
        self._batches += 1
        self._notifications += summary.notifications
        self._rejected += summary.rejected
        self._compared += summary.compared
        self.disagreements += summary.disagreements
        if summary.warning:
            complain(f"batch {summary.batch}: {summary.warning}")
        if self._quiet:
            return
        try:
            self._tell(summary)
            sys.stdout.flush()
        except BrokenPipeError:
            self.stop.set()  # an error here would be one of the query's

    def _tell(self, summary: BatchSummary) -> None:
        if not self._people:
            write_json(msgspec.to_builtins(summary))
            return
        repeated = ", a repetition" if summary.replayed else ""
        rejected = f", {summary.rejected:,} rejected" if summary.rejected else ""
        text = f"batch {summary.batch}: {summary.notifications:,} notifications{rejected}"
        console().print(f"{text} (version {summary.version}{repeated})")

    def totals(self) -> dict[str, int]:
        return {
            "batches": self._batches,
            "notifications": self._notifications,
            "rejected": self._rejected,
            "compared": self._compared,
            "disagreements": self.disagreements,
        }
