"""What the verbs on Spark share: their options, a session that ends with them, progress, and the summary."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from recado.cli.output import complain, console, for_people, write_json
from recado.errors import RecadoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.status import Status

_POLL_SECONDS = 0.5
_LOG_SECONDS = 10.0
"""How often a line tells of the progress where stderr is no terminal."""

AsRows = Annotated[bool, Parameter(name="--rows", negative=())]


@Parameter(name="*")
@dataclass(frozen=True)
class Job:
    """Where the job runs, and what it tells."""

    master: str = "local[*]"
    """Spark's master: local[*], local[4], spark://host:7077, ..."""
    remote: str | None = None
    """A Spark Connect server, as in sc://host:15002, instead of a master."""
    conf: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """A setting of Spark, as in spark.executor.memory=4g; may be given many times."""
    json: bool = False
    """Write JSON even on a terminal."""
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False
    """Tell nothing before the end."""

    def settings(self) -> dict[str, str]:
        pairs = [setting.partition("=") for setting in self.conf]
        for name, equals, _ in pairs:
            if not equals or not name.startswith("spark."):
                raise RecadoError(f"--conf {name}: a setting is written spark.some.name=value")
        return {name: value for name, _, value in pairs}


def is_local(path: str) -> bool:
    """Is the path one of this host's, and no URL that Spark reaches? Tells without PySpark."""
    return ":/" not in path or path.startswith("file:")


@contextmanager
def session(job: Job) -> Iterator[SparkSession]:
    """A Spark session for one job; while it lasts, a terminal shows how far the job is, and a log has lines of it.

    A session that this process has already is used and left open: whoever started it ends it.
    """
    try:
        from pyspark.sql import SparkSession

        from recado.pipeline.errors import user_errors
        from recado.pipeline.progress import log_progress
        from recado.pipeline.session import forget_log, start_session
    except ModuleNotFoundError as error:
        raise RecadoError(f"{error.name} is not installed; the pipeline needs: pip install 'recado[spark]'") from None

    ours = SparkSession.getActiveSession() is None
    with _status(job.quiet) as status:
        spark = start_session("recado", job.master, job.settings(), job.remote)
        watcher = _Watcher(spark, status) if status else None
        quiet = status is not None or job.quiet
        try:
            with (
                nullcontext() if quiet else log_progress(spark, seconds=_LOG_SECONDS, tell=complain),
                user_errors(),
            ):
                yield spark
        finally:
            if watcher:
                watcher.stop()
            if ours:
                with suppress(ConnectionError):  # of a Java process that is no more
                    spark.stop()
    if ours:
        forget_log()


@contextmanager
def _status(quiet: bool) -> Iterator[Status | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with console(stderr=True).status("starting Spark") as status:
        yield status


class _Watcher:
    """Tells a terminal which tasks are done; a thread, since the job keeps this one waiting."""

    def __init__(self, spark: SparkSession, status: Status) -> None:
        from recado.pipeline.session import is_remote

        self._status = status
        self._done = threading.Event()
        status.update("working")
        if not is_remote(spark):
            self._tracker = spark.sparkContext.statusTracker()
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._done.wait(_POLL_SECONDS):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            known = [info for info in stages if info]
            if known:
                done, total = sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)
                self._status.update(f"working: {done:,} of {total:,} tasks")

    def stop(self) -> None:
        self._done.set()


def summarise(summary: dict[str, Any], json: bool) -> None:
    """The end of a job: a small table for people, one JSON object for programs."""
    if not for_people(json):
        write_json(summary)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in summary.items():
        table.add_row(name.replace("_", " "), _show(value))
    console().print(table)


def _show(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


# --- What the events of a job are: the options that the verbs on Spark share -----------------------------------------


Format = Literal["auto", "parquet", "ndjson", "cloudevents", "log"]


@Parameter(name="*")
@dataclass(frozen=True)
class Rows:
    """What the user says of the events."""

    format: Format = "auto"
    """What the events are; auto looks at names and first bytes."""
    json_column: str | None = None
    """Of Parquet: the column that holds each event as JSON."""
    variant_column: str | None = None
    """Of Parquet: the column that holds each event as VARIANT."""
    cloudevents: bool = False
    """Of Parquet: the rows are CloudEvents, with a column data."""

    def form(self) -> dict[str, Any]:
        """What was said of the columns, as ``recado.pipeline.match`` wants it."""
        given = {"json": self.json_column, "variant": self.variant_column, "cloudevents": self.cloudevents}
        return {name: value for name, value in given.items() if value}
