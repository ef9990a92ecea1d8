"""Whole jobs: read, match, write, count. What the command line runs, and a program may run as well."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from recado.matching.canary import SHARE
from recado.pipeline.canary import Verification
from recado.pipeline.constraints import constrain
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import HadoopPath, for_spark, locate, remove_tree
from recado.pipeline.match import (
    NOTIFICATION_FIELDS,
    Output,
    as_set,
    check_written,
    count_of,
    is_here,
    match,
    needed_names,
    notifications,
    rejections,
)
from recado.pipeline.match import subscriptions as subscriptions_of
from recado.pipeline.partitioned import PartitionedSet, build_partitions, match_partitioned
from recado.pipeline.readers import Format, Source, read_events, read_subscriptions_at
from recado.pipeline.report import run_report
from recado.pipeline.row_groups import ParquetFiles, find_files
from recado.pipeline.session import is_remote
from recado.pipeline.sets import SubscriptionSet, read_subscriptions
from recado.semantics.engine import Knowledge


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
    ship: bool | None = None,
    output: Output = "nested",
) -> dict[str, Any]:
    """Match everything once, into Parquet at ``out``; what came of it, in figures.

    A ``warning`` is among them if executors found answers that the plain evaluator does not give.

    ``subscriptions`` is the path of a published set, of a partitioned one, or of a file with a subscription a row.
    ``output`` is as for ``match``; with ordinals, the table that names them is written to ``OUT-subscriptions``.
    ``read_notifications`` reads every kind.
    """
    if output == "ordinals" and (constraints or partitions is not None):
        raise PipelineError("constraints and partitions have no ordinals; take nested ones or rows")
    target = locate(out)
    rejected = locate(f"{target}-rejected")
    remote_url = is_remote(spark) and isinstance(target, HadoopPath)  # which only the server reaches
    if not remote_url and target.exists() and not overwrite:
        raise PipelineError(f"{target} is there already; overwriting has to be asked for")
    with tempfile.TemporaryDirectory(prefix="recado-partitions-") as scratch:
        meant = {"include_renamed": include_renamed, "knowledge": knowledge, "ship": ship}
        matching = _matcher(spark, subscriptions, partitions, Path(scratch), meant)
        started = time.perf_counter()
        seen, made = Observation(), Observation()
        verification = Verification(spark)
        options = {**source.form, **(form or {}), "include_event": include_event}
        options |= {"verify_share": verify_share, "verification": verification, "output": output}
        files = _own_files(source.events, matching, options)
        if files is None:
            events = source.events.observe(seen, F.count(F.lit(1)).alias("events"))
        else:
            events, options["files"] = source.events, files
        found = matching.run(events, include_constraints=constraints, bad_rows="keep", **options)
        kept = constrain(found).drop("constraints") if constraints else found  # of rows; of nested ones it is gone
        bad = F.col("rejected").isNotNull()
        count_made = F.coalesce(F.sum(F.when(~bad, count_of(kept))), F.lit(0)).cast("long")
        counts_made = [
            count_made.alias("notifications"), F.count_if(bad).alias("rejected"), F.count_if(~bad).alias("written"),
        ]  # fmt: skip
        observed = kept.observe(made, *counts_made)
        mode = "errorifexists" if remote_url and not overwrite else "overwrite"
        observed.where(~bad).drop("rejected").write.mode(mode).parquet(for_spark(target))
        if output == "ordinals":
            matching.name_ordinals(spark).write.mode(mode).parquet(for_spark(locate(f"{target}-subscriptions")))
        known = seen.get if files is None else {"events": files.rows}
        counts = {"events": 0, "notifications": 0, "rejected": 0, "written": 0} | known | made.get
        check_written(spark, target, counts.pop("written"))
        if not remote_url:
            remove_tree(rejected)
        if counts["rejected"]:
            rejections(found).write.mode("overwrite").parquet(for_spark(rejected))  # a second pass, seldom needed
            check_written(spark, rejected, counts["rejected"])
    seconds = time.perf_counter() - started
    return {
        "subscriptions": matching.subscriptions,
        **counts,
        "compared": verification.agreements + verification.disagreements,
        "disagreements": verification.disagreements,
        "seconds": round(seconds, 3),
        "events_per_second": round(counts["events"] / seconds, 1),
        "out": str(out),
        **({"rejected_rows": str(rejected)} if counts["rejected"] else {}),
        **({"warning": verification.warning()} if verification.disagreements else {}),
    }


class _Matching(NamedTuple):
    """How many subscriptions there are, and the functions that match events against them and name their ordinals.

    ``names`` are what their filters ask for, if that is known; ``from_files``: may workers read events from files?
    """

    subscriptions: int
    run: Callable[..., DataFrame]
    name_ordinals: Callable[[SparkSession], DataFrame]
    names: tuple[str, ...] | None = None
    from_files: bool = False


def _own_files(events: DataFrame, matching: _Matching, options: Mapping[str, Any]) -> ParquetFiles | None:
    """The files that workers read themselves, which costs less than Spark's reader, where they can."""
    if not matching.from_files or not is_here(events.sparkSession):
        return None
    names = events.columns
    if not options["include_event"]:
        if column := options.get("json") or options.get("variant"):
            names = [column]
        elif matching.names is not None and not options.get("cloudevents"):
            names = needed_names(events, matching.names)
    return find_files(events, names)


def _matcher(
    spark: SparkSession, subscriptions: str, partitions: int | None, scratch: Path, meant: Mapping[str, Any]
) -> _Matching:
    """What to match with.

    ``meant`` has, besides ``ship``, what partitioned sets have no use for.
    """
    if is_remote(spark) and isinstance(locate(subscriptions), HadoopPath):
        return _single(as_set(read_subscriptions_at(spark, subscriptions), None)[0], meant)
    if PartitionedSet.is_one(subscriptions):
        return _partition(PartitionedSet(subscriptions), meant)
    if SubscriptionSet(subscriptions).versions():
        if partitions is not None:
            raise PipelineError("a published set is one index; to partition, give the file of subscriptions itself")
        return _single(SubscriptionSet(subscriptions), meant)
    rows = read_subscriptions_at(spark, subscriptions)
    if partitions is not None:
        made = build_partitions(rows, scratch / "set", partitions=partitions, ship=meant["ship"])
        return _partition(made, meant)
    return _single(as_set(rows, None)[0], meant)


def _single(subscription_set: SubscriptionSet, meant: Mapping[str, Any]) -> _Matching:
    version = subscription_set.current()  # one for all, should another be published meanwhile

    def run(events: DataFrame, **options: Any) -> DataFrame:
        return match(events, subscription_set, version=version.number, **options, **meant)

    def name_ordinals(spark: SparkSession) -> DataFrame:
        return subscriptions_of(spark, subscription_set, version.number)

    names = None if version.semantic else version.names
    return _Matching(version.subscriptions, run, name_ordinals, names, from_files=True)


def _partition(partitioned: PartitionedSet, meant: Mapping[str, Any]) -> _Matching:
    def run(events: DataFrame, **options: Any) -> DataFrame:
        return match_partitioned(events, partitioned, ship=meant["ship"], **options)

    def name_ordinals(spark: SparkSession) -> DataFrame:
        raise PipelineError("a partitioned set has no ordinals")

    return _Matching(partitioned.subscriptions, run, name_ordinals)


def read_notifications(spark: SparkSession, path: str | Path) -> DataFrame:
    """What ``run_match`` or a stream wrote, a row for each notification: from rows, nested ones or ordinals."""
    place = locate(path)
    with user_errors():
        found = notifications(spark.read.parquet(for_spark(place)))
        if "ordinal" not in found.columns:
            return found
        named = spark.read.parquet(for_spark(locate(f"{place}-subscriptions")))
        flat = found.join(named, "ordinal").drop("ordinal")
        others = [name for name in flat.columns if name not in NOTIFICATION_FIELDS]
        return flat.select(*NOTIFICATION_FIELDS, *others)


def run_report_on(
    spark: SparkSession,
    subscriptions: str,
    out: str | Path,
    *,
    events: str | None = None,
    matches: str | None = None,
    format: Format = "auto",
    title: str = "Subscriptions and what they match",
    form: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report on the subscriptions at a path, and on what they match of the events at another.

    ``matches`` is what ``run_match`` or a stream has written of them, of any kind; else they are matched here.
    """
    rows = read_subscriptions_at(spark, subscriptions)
    known = None if matches is None else read_notifications(spark, matches)
    if events is None:
        return run_report(spark, rows, None, known, out, title)
    source = read_events(spark, events, format)
    options = {**source.form, **(form or {})}
    column = options.get("json") or options.get("variant")
    if known is not None:
        return run_report(spark, rows, source.events, known, out, title, json=column)
    with tempfile.TemporaryDirectory(prefix="recado-report-") as scratch:
        subscription_set = SubscriptionSet(scratch)
        readable = {one.id: one for one in read_subscriptions(rows, strict=False)}  # the report tells of the bad rows
        subscription_set.publish(readable.values())
        found = notifications(match(source.events, subscription_set, bad_rows="keep", output="nested", **options))
        return run_report(spark, rows, source.events, found, out, title, json=column)
