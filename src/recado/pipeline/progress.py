"""How far a job is, where there is no terminal to draw on: a line in the log every few seconds.

    with log_progress(spark):
        match(events, alerts).write.parquet("found")

A line tells of the tasks of the stages that run now, and of every stream its last micro-batch, its rate and how far it
is behind a log. Over Spark Connect tasks are not known to the client, and only streams and the time are told.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recado.pipeline.session import is_remote
from recado.pipeline.source import lag

_log = logging.getLogger("recado.pipeline")


@contextmanager
def log_progress(
    spark: SparkSession, *, seconds: float = 5.0, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """While the block runs, say every few ``seconds`` how far it is; to the log ``recado.pipeline``, or to ``tell``."""
    done = threading.Event()
    say = tell or (lambda text: _log.info("%s", text))

    def watch() -> None:
        started = time.monotonic()
        while not done.wait(seconds):
            try:
                say(describe(spark, time.monotonic() - started))
            except (Py4JError, PySparkException, ConnectionError):  # the session is about to end
                return

    watcher = threading.Thread(target=watch, name="recado-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(timeout=seconds)


def describe(spark: SparkSession, seconds: float) -> str:
    """One line: what is being done, for how long."""
    parts = [] if is_remote(spark) else _tasks(spark)
    for query in spark.streams.active:
        if progress := query.lastProgress:
            parts.append(describe_stream(progress))
    return f"working for {seconds:,.0f} s" + "".join(f"; {part}" for part in parts)


def _tasks(spark: SparkSession) -> list[str]:
    tracker = spark.sparkContext.statusTracker()
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
    if not stages:
        return []
    done, total = sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages)
    return [f"{done:,} of {total:,} tasks done"]


def describe_stream(progress: Mapping[str, Any]) -> str:
    """A stream's last micro-batch, by its progress report."""
    name = progress["name"] or str(progress["id"])[:8]
    rate = progress["processedRowsPerSecond"]
    text = f"stream {name}: batch {progress['batchId']}, {progress['numInputRows']:,} rows, {rate or 0:,.0f} a second"
    behind = lag(progress)
    return f"{text}, {behind:,} behind" if behind else text
