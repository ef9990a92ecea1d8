"""The log analyser of the semantic experiments: from monitoring logs and labels to precision, recall, F, rate and time.

The log is JSON lines with ``t`` (nanoseconds), ``point``, ``event``, ``subscription`` and, at ``event_done``,
``matches``; labels are files of lists. All are functions of data frames. A pair is sent if it has an ``event_out``,
however often; it is judged if the event came in and ``judged`` names its seed for the subscription, or always if there
is no such list. Percentages; precision where nothing was sent is 0, and a macro mean leaves out subscriptions for which
the share is not defined.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

LOG_SCHEMA = "t long, point string, event string, subscription string, matches long"


def read_log(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.schema(LOG_SCHEMA).json(path)


def read_lists(spark: SparkSession, path: str, column: str) -> DataFrame:
    """A file of ``subscription<TAB>[item, item, ...]`` as rows of ``subscription`` and the item's column."""
    parts = F.split("value", "\t", 2)
    items = F.split(F.regexp_replace(parts[1], r"[\[\]\s]", ""), ",")
    rows = spark.read.text(path).select(parts[0].alias("subscription"), F.explode(items).alias(column))
    return rows.where(F.col(column) != "")


def counts(log: DataFrame, labels: DataFrame, judged: DataFrame | None = None) -> DataFrame:
    """``subscription, tp, fp, fn, tn`` for every subscription that came in."""
    sent = log.where("point = 'event_out'").select("subscription", "event").distinct().withColumn("sent", F.lit(True))
    relevant = labels.select("subscription", "event").distinct().withColumn("relevant", F.lit(True))
    pairs = _pairs(log, judged).join(sent, ["subscription", "event"], "left")
    marked = pairs.join(relevant, ["subscription", "event"], "left").na.fill(False, ["sent", "relevant"])
    found = marked.groupBy("subscription").agg(
        F.count_if(F.col("sent") & F.col("relevant")).alias("tp"),
        F.count_if(F.col("sent") & ~F.col("relevant")).alias("fp"),
        F.count_if(~F.col("sent") & F.col("relevant")).alias("fn"),
        F.count_if(~F.col("sent") & ~F.col("relevant")).alias("tn"),
    )
    everybody = log.where("point = 'subscription_in'").select("subscription").distinct()
    return everybody.join(found, "subscription", "left").na.fill(0)


def _pairs(log: DataFrame, judged: DataFrame | None) -> DataFrame:
    """The pairs that count."""
    events = log.where("point = 'event_in'").select("event").distinct()
    subscriptions = log.where("point = 'subscription_in'").select("subscription").distinct()
    if judged is None:
        return subscriptions.crossJoin(events)
    seeded = events.withColumn("seed", F.substring_index("event", "-", 1))
    return judged.join(F.broadcast(subscriptions), "subscription").join(seeded, "seed").select("subscription", "event")


def quality(counted: DataFrame) -> DataFrame:
    """One row: precision, recall and F over all pairs (micro) and over subscriptions (macro)."""
    sent, expected = F.col("tp") + F.col("fp"), F.col("tp") + F.col("fn")
    return counted.agg(
        _percent(F.sum("tp"), F.sum(sent)).alias("micro_precision"),
        _percent(F.sum("tp"), F.sum(expected)).alias("micro_recall"),
        F.coalesce(F.avg(F.when(sent > 0, 100 * F.col("tp") / sent)), F.lit(0.0)).alias("macro_precision"),
        F.coalesce(F.avg(F.when(expected > 0, 100 * F.col("tp") / expected)), F.lit(0.0)).alias("macro_recall"),
        *(F.sum(name).alias(name) for name in ("tp", "fp", "fn", "tn")),
    ).withColumns({"micro_f": _f("micro"), "macro_f": _f("macro")})


def _percent(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, 100 * part / whole).otherwise(0.0)


def _f(kind: str) -> Column:
    precision, recall = F.col(f"{kind}_precision"), F.col(f"{kind}_recall")
    return F.when(precision + recall > 0, 2 * precision * recall / (precision + recall)).otherwise(0.0)


def speed(log: DataFrame) -> DataFrame:
    """One row: completely processed events, their rate a second, and the mean time of one in milliseconds.

    An event is processed when it was sent to all who want it, or discarded because nobody does. The rate is over the
    time from the first event's coming to the last one's end; the notification time is from coming to end.
    """
    came = log.where("point = 'event_in'").groupBy("event").agg(F.min("t").alias("came"))
    done = log.where("point = 'event_done'").groupBy("event").agg(F.max("t").alias("done"))
    both = came.join(done, "event")
    seconds = (F.max("done") - F.min("came")) / 1e9
    return both.agg(
        F.count(F.lit(1)).alias("events"),
        F.when(seconds > 0, F.count(F.lit(1)) / seconds).otherwise(0.0).alias("rate"),
        F.coalesce(F.avg((F.col("done") - F.col("came")) / 1e6), F.lit(0.0)).alias("time_ms"),
    )
