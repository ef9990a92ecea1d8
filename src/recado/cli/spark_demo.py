"""The last part of ``recado demo``: a hundred thousand subscriptions against the event log of a service, on Spark.

A made-up stock exchange: 500 symbols, a few of them traded and watched far more than the others. Subscriptions are
published as a set, events come from the log that the service of this demo wrote (``service_demo``), notifications go to
Parquet, and a report on some of the subscriptions and on what they matched is written as a page.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recado.cli.output import console
from recado.cli.pipeline.spark import Job, session
from recado.model.filter import And, Between, Compare
from recado.model.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

    from recado.pipeline.sets import SubscriptionSet

SUBSCRIPTIONS = 100_000
SYMBOLS = 500
SHOWN = 5
WARM_UP = 1000
QUOTE = "id string, type string, accepted_at timestamp, Stock string, Price double, Volume long"
TITLE = "Subscriptions to a made-up stock exchange"
REPORTED = 10_000
SAMPLE = 200
"""The report is on so many subscriptions, and compares so many of their filters with all others: the demo ends soon."""
SEED = 20261115


def run_on_spark(out: Path, log: Path, subscriptions: int = SUBSCRIPTIONS) -> dict[str, Any]:
    """Run it on the events of a log, show it, and return its figures. ``out`` is replaced."""
    from recado.cli.output import plural

    screen, out = console(), out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    screen.print(
        f"Now on Spark: {plural(subscriptions, 'subscription')}, and the log that the service wrote", style="bold"
    )
    with ThreadPoolExecutor(1) as beside:
        published = beside.submit(_publish, out / "set", subscriptions)  # while Spark starts
        return _on_spark(screen, out, published, log.absolute())


def _publish(folder: Path, count: int) -> SubscriptionSet:
    from recado.pipeline.sets import SubscriptionSet

    subscription_set = SubscriptionSet(folder)
    subscription_set.publish(some_subscriptions(count))
    return subscription_set


def _on_spark(screen: Console, out: Path, published: Future[SubscriptionSet], log: Path) -> dict[str, Any]:
    from recado.cli.output import plural

    with session(Job()) as spark:
        from recado.pipeline.match import match

        subscription_set = published.result()
        subscriptions = subscription_set.current().subscriptions
        quotes = read_log(spark, log)
        match(quotes.limit(WARM_UP), subscription_set).count()  # workers start, and load or compile the kernels
        started = time.perf_counter()
        match(quotes, subscription_set).write.parquet(str(out / "notifications"))
        seconds = time.perf_counter() - started
        found = spark.read.parquet(str(out / "notifications"))
        events = quotes.count()
        figures = {
            "subscriptions": subscriptions,
            "events": events,
            "notifications": found.count(),
            "events/s read, matched and written": round(events / seconds),
        }
        _show(screen, found, figures)
        reported = min(subscriptions, REPORTED)
        page = _report(spark, reported, quotes, found, out)
    screen.print(f"  notifications  {out / 'notifications'}", soft_wrap=True)
    screen.print(f"  report         {page}, on {plural(reported, 'subscription')}", soft_wrap=True)
    screen.print()
    return figures


def some_subscriptions(count: int) -> Iterator[Subscription]:
    """A symbol, and a range of prices; some also ask for volume. The same ones every time."""
    drawn = random.Random(SEED)
    for number in range(count):
        symbol = int(SYMBOLS * drawn.random() ** 3)
        low, width = drawn.randrange(0, 9_980), drawn.randrange(5, 25)
        parts: list[Any] = [
            Compare("Stock", "==", f"S{symbol:03d}"),
            Between("Price", low / 100, (low + width) / 100),
        ]
        if drawn.random() < 0.3:
            parts.append(Compare("Volume", ">=", drawn.randrange(0, 10) * 1000))
        yield Subscription(f"s-{number}", And(tuple(parts)), "quote", f"sip:user{number % 5000}@example.com")


def read_log(spark: SparkSession, log: Path) -> DataFrame:
    """The quotes in an event log, each at the time when it was accepted."""
    from recado.pipeline.source import register

    register(spark)
    return spark.read.format("recado").schema(QUOTE).load(str(log)).withColumnRenamed("accepted_at", "time")


def _show(screen: Console, found: DataFrame, figures: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("event", "subscription", "owner", "event time"):
        table.add_column(name)
    for row in found.orderBy("event_time", "subscription_id").limit(SHOWN).collect():
        table.add_row(row.event_id, row.subscription_id, row.owner, f"{row.event_time:%Y-%m-%d %H:%M:%S.%f}"[:-4])
    screen.print()
    screen.print(table)
    screen.print()
    for name, value in figures.items():
        screen.print(f"{value:>12,}  {name}")
    screen.print()


def _report(spark: SparkSession, subscriptions: int, events: DataFrame, found: DataFrame, out: Path) -> Path:
    from recado.filters.expression import format_expression
    from recado.pipeline.report import run_report

    rows = [(s.id, format_expression(s.filter), s.type, s.owner) for s in some_subscriptions(subscriptions)]
    frame = spark.createDataFrame(rows, "id string, filter string, type string, owner string")
    theirs = found.join(frame, found["subscription_id"] == frame["id"], "left_semi")
    run_report(spark, frame, events, theirs, out / "report", TITLE, sample=SAMPLE)
    return out / "report" / "index.html"
