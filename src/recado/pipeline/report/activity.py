"""What matching did: how many subscriptions an event reaches, and who gets most.

From notifications (``event_id``, ``subscription_id``, ``owner`` and so on, as ``match`` gives them) and events. All of
it is grouping, and Spark's own work. A notification may have come twice; a pair of event and subscription counts once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recado.pipeline.errors import PipelineError

NO_TYPE = "(no type)"
ALL_EVENTS = "(all events)"


def pairs(notifications: DataFrame) -> DataFrame:
    """event_id, subscription_id and owner, each pair once."""
    missing = {"event_id", "subscription_id"} - set(notifications.columns)
    if missing:
        there = ", ".join(notifications.columns)
        raise PipelineError(f"notifications need a column {min(missing)!r}; there are: {there}")
    owner = F.col("owner") if "owner" in notifications.columns else F.lit("")
    some = notifications.select("event_id", "subscription_id", owner.alias("owner"))
    return some.dropDuplicates(["event_id", "subscription_id"])


def matches_per_event(notifications: DataFrame, events: DataFrame) -> DataFrame:
    """id, type and number of matches of every event; from events with ``id`` and ``type``, as ``heads`` gives them."""
    return matches_of(pairs(notifications), events)


def matches_of(pairs: DataFrame, events: DataFrame) -> DataFrame:
    """The same from pairs that are each there once."""
    counts = pairs.groupBy("event_id").agg(F.count("*").alias("matches"))
    known = events.groupBy("id").agg(F.min("type").alias("type"))
    joined = known.join(counts, known["id"] == counts["event_id"], "left")
    return joined.select("id", "type", F.coalesce("matches", F.lit(0)).alias("matches"))


def selectivity(notifications: DataFrame, events: DataFrame, subscriptions: int) -> DataFrame:
    """One row an event type, the most frequent first, then one for all events.

    ``matches`` are pairs; ``mean``, ``median``, ``p99`` and ``most`` are matches an event; ``none`` counts events that
    nobody wanted; ``share`` is the fraction of all ``subscriptions`` that an event matches on average.
    """
    return selectivity_of(matches_per_event(notifications, events), subscriptions)


def selectivity_of(counted: DataFrame, subscriptions: int) -> DataFrame:
    """The same from matches per event."""
    named = counted.withColumn("type", F.coalesce("type", F.lit(NO_TYPE)))
    rolled = named.rollup("type").agg(F.grouping("type").alias("whole"), *_figures(subscriptions))
    ordered = rolled.orderBy("whole", F.desc("events"), "type").drop("whole")
    return ordered.na.fill(ALL_EVENTS, ["type"])


def _figures(subscriptions: int) -> list[Column]:
    matches = F.col("matches")
    return [
        F.count("*").alias("events"),
        F.sum(matches).alias("matches"),
        F.avg(matches).alias("mean"),
        F.percentile_approx(matches, 0.5, 10_000).alias("median"),
        F.percentile_approx(matches, 0.99, 10_000).alias("p99"),
        F.max(matches).alias("most"),
        F.sum((matches == 0).cast("long")).alias("none"),
        (F.avg(matches) / F.lit(float(max(subscriptions, 1)))).alias("share"),
    ]


def histogram(counted: DataFrame) -> DataFrame:
    """Events by number of matches: none, 1, 2 to 3, 4 to 7, and so on in powers of two."""
    low = F.expr("if(matches = 0, 0L, shiftleft(1L, length(bin(matches)) - 1))")
    bins = counted.groupBy(low.alias("least")).agg(F.count("*").alias("events"))
    most = F.when(F.col("least") == 0, F.lit(0)).otherwise(F.col("least") * 2 - 1).cast("long")
    return bins.select("least", most.alias("most"), "events").orderBy("least")


def top(notifications: DataFrame, by: str = "subscription_id", limit: int = 20) -> DataFrame:
    """Who gets most: name, notifications and their share; by subscription, or by owner."""
    return top_of(pairs(notifications), by, limit)


def top_of(pairs: DataFrame, by: str = "subscription_id", limit: int = 20) -> DataFrame:
    """The same from pairs that are each there once."""
    counted = pairs.groupBy(F.col(by).alias("name")).agg(F.count("*").alias("notifications"))
    return _ranked(counted, limit)


def top_types(counted: DataFrame, limit: int = 20) -> DataFrame:
    """The event types that cause most notifications, from matches per event."""
    types = counted.groupBy(F.coalesce("type", F.lit(NO_TYPE)).alias("name"))
    return _ranked(types.agg(F.sum("matches").alias("notifications")).where("notifications > 0"), limit)


def reached(pairs: DataFrame) -> DataFrame:
    """How many subscriptions got anything, and how many pairs there are; from pairs that are each there once."""
    return pairs.agg(F.countDistinct("subscription_id").alias("subscriptions"), F.count("*").alias("pairs"))


def _ranked(counted: DataFrame, limit: int) -> DataFrame:
    whole = counted.agg(F.sum("notifications").alias("whole"))
    shared = counted.crossJoin(whole).withColumn("share", F.col("notifications") / F.col("whole")).drop("whole")
    return shared.orderBy(F.desc("notifications"), "name").limit(limit)
