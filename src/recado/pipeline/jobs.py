"""Whole jobs: read, match, write, count. What the command line runs, and a program may run as well."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from recado.matching.canary import SHARE
from recado.pipeline.canary import Verification
from recado.pipeline.constraints import constrain
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import as_set, match, notifications, rejections
from recado.pipeline.partitioned import PartitionedSet, build_partitions, match_partitioned
from recado.pipeline.readers import Format, Source, read_events, read_subscriptions_at
from recado.pipeline.report import run_report
from recado.pipeline.sets import SubscriptionSet, read_subscriptions
from recado.semantics.engine import Knowledge

MatchEvents = Callable[..., DataFrame]


def run_match(
    spark: SparkSession,
    subscriptions: str,
    source: Source,
    out: str | Path,
    *,
    partitions: int | None = None,
    constraints: bool = False,
    include_event: bool = False,
    include_renamed: bool = False,
    overwrite: bool = False,
    form: Mapping[str, Any] | None = None,
    knowledge: Knowledge | None = None,
    verify_share: float = SHARE,
) -> dict[str, Any]:
    """Match everything once, into Parquet at ``out``; what came of it, in figures.

    A ``warning`` is among them if executors found answers that the plain evaluator does not give.

    ``subscriptions`` is the path of a published set, of a partitioned one, or of a file with a subscription a row.
    """
    target, rejected = Path(out).absolute(), Path(f"{out}-rejected").absolute()
    if target.exists() and not overwrite:
        raise PipelineError(f"{target} is there already; overwriting has to be asked for")
    with tempfile.TemporaryDirectory(prefix="recado-partitions-") as scratch:
        meant = {"include_renamed": include_renamed, "knowledge": knowledge}
        count, match_events = _matcher(spark, subscriptions, partitions, Path(scratch), meant)
        started = time.perf_counter()
        seen, made = Observation(), Observation()
        events = source.events.observe(seen, F.count(F.lit(1)).alias("events"))
        verification = Verification(spark)
        options = {**source.form, **(form or {}), "include_event": include_event}
        options |= {"verify_share": verify_share, "verification": verification}
        found = match_events(events, include_constraints=constraints, bad_rows="keep", **options)
        kept = constrain(found).drop("constraints") if constraints else found
        bad = F.col("rejected").isNotNull()
        observed = kept.observe(made, F.count_if(~bad).alias("notifications"), F.count_if(bad).alias("rejected"))
        notifications(observed).write.mode("overwrite").parquet(str(target))
        counts = {"events": 0, "notifications": 0, "rejected": 0} | seen.get | made.get
        shutil.rmtree(rejected, ignore_errors=True)
        if counts["rejected"]:
            rejections(found).write.parquet(str(rejected))  # a second pass, which good input never needs
    seconds = time.perf_counter() - started
    return {
        "subscriptions": count,
        **counts,
        "compared": verification.agreements + verification.disagreements,
        "disagreements": verification.disagreements,
        "seconds": round(seconds, 3),
        "events_per_second": round(counts["events"] / seconds, 1),
        "out": str(out),
        **({"rejected_rows": f"{out}-rejected"} if counts["rejected"] else {}),
        **({"warning": verification.warning()} if verification.disagreements else {}),
    }


def _matcher(
    spark: SparkSession, subscriptions: str, partitions: int | None, scratch: Path, meant: Mapping[str, Any]
) -> tuple[int, MatchEvents]:
    """How many subscriptions there are, and the function that matches events against them.

    ``meant`` is for semantic subscriptions, of which partitioned sets have none.
    """
    if PartitionedSet.is_one(subscriptions):
        return _partition(PartitionedSet(subscriptions))
    if SubscriptionSet(subscriptions).versions():
        if partitions is not None:
            raise PipelineError("a published set is one index; to partition, give the file of subscriptions itself")
        return _single(SubscriptionSet(subscriptions), meant)
    rows = read_subscriptions_at(spark, subscriptions)
    if partitions is not None:
        return _partition(build_partitions(rows, scratch / "set", partitions=partitions))
    return _single(as_set(rows, None)[0], meant)


def _single(subscription_set: SubscriptionSet, meant: Mapping[str, Any]) -> tuple[int, MatchEvents]:
    def run(events: DataFrame, **options: Any) -> DataFrame:
        return match(events, subscription_set, **options, **meant)

    return subscription_set.current().subscriptions, run


def _partition(partitioned: PartitionedSet) -> tuple[int, MatchEvents]:
    def run(events: DataFrame, **options: Any) -> DataFrame:
        return match_partitioned(events, partitioned, **options)

    return partitioned.subscriptions, run


def run_report_on(
    spark: SparkSession,
    subscriptions: str,
    out: str | Path,
    *,
    events: str | None = None,
    format: Format = "auto",
    title: str = "Subscriptions and what they match",
    form: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report on the subscriptions at a path, and on what they match of the events at another."""
    rows = read_subscriptions_at(spark, subscriptions)
    if events is None:
        return run_report(spark, rows, None, None, out, title)
    source = read_events(spark, events, format)
    options = {**source.form, **(form or {})}
    with tempfile.TemporaryDirectory(prefix="recado-report-") as scratch:
        subscription_set = SubscriptionSet(scratch)
        subscription_set.publish(read_subscriptions(rows, strict=False))  # the report tells of the bad rows
        found = notifications(match(source.events, subscription_set, bad_rows="keep", **options))
        column = options.get("json") or options.get("variant")
        return run_report(spark, rows, source.events, found, out, title, json=column)
