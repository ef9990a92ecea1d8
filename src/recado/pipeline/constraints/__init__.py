"""Delivery constraints on Spark: of the notifications that matching found, those that their subscriptions want.

    found = match(events, subscriptions, include_constraints=True)
    wanted = constrain(found)

It works alike on a batch and on a stream, with the policy of ``recado.delivery`` (mobility.md 9.3 to 9.5). An event is
judged at its own time, ``event_time`` (or ``matched_at`` where it has none), so a replay of last year's events gives
what the live stream gave. In a batch or micro-batch, the notifications of a subscription are judged in the order of
event time and event id.

Only a frequency needs to remember something, the time of the subscription's last notification. Spark's state is asked
from Python over a socket, at a price per question that far exceeds that of a judgement; so subscriptions are gathered
into ``buckets``, the state of a bucket is one packed value, and rows travel as Arrow chunks (``freight``) through
``transformWithState`` (``processor``). Everything else is decided before, and passes through without touching state.
"""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StringType, StructField, TimestampType

from recado.delivery.zones import find_zone
from recado.pipeline.constraints.freight import BUCKET, FREIGHT_SCHEMA, Packer, unpack
from recado.pipeline.constraints.judge import Terms
from recado.pipeline.constraints.processor import PARCEL_SCHEMA, ConstraintProcessor
from recado.pipeline.errors import PipelineError

BUCKETS = 256

_NEEDED: dict[str, DataType] = {
    "event_id": StringType(),
    "subscription_id": StringType(),
    "event_time": TimestampType(),
    "matched_at": TimestampType(),
    "constraints": StringType(),
}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_BYTES = 16 * 2**20
_SIZE = re.compile(r"(?P<number>\d+)(?P<unit>[kmgt]?)b?")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def constrain(
    notifications: DataFrame,
    *,
    watermark: str | None = None,
    connected: bool = True,
    tz: str = "UTC",
    buckets: int = BUCKETS,
) -> DataFrame:
    """The notifications that satisfy their subscriptions' constraints; the columns stay as they are.

    ``constraints`` holds a JSON list for each row, or null for none. A boolean column ``connected``, if there is one,
    says whether the owner is connected; ``connected`` stands in where it says nothing. ``tz`` is the time zone of
    constraints that name none. With a ``watermark`` such as "10 minutes", a stream forgets what can no longer matter,
    and drops what comes later than that to a subscription with a frequency; without it, it remembers every subscription
    it has notified. A stream keeps its number of ``buckets`` for life.

    A session whose Arrow batches may have more than 16 MB gets that limit: chunks are large, and Spark would put
    thousands of them into one batch.
    """
    _check(notifications, tz, buckets)
    _limit_batches(notifications)
    terms = Terms(tz=tz, connected=connected, buckets=buckets)
    schema, streaming = notifications.schema, notifications.isStreaming
    if watermark is not None and streaming:
        notifications = _with_watermark(notifications, watermark)
    spread = F.pmod(F.xxhash64("subscription_id"), F.lit(buckets)).cast("int")
    packed = notifications.withColumn(BUCKET, spread).mapInArrow(Packer(terms).pack, FREIGHT_SCHEMA)
    judged = packed.groupBy(BUCKET).transformWithState(
        ConstraintProcessor(terms),
        PARCEL_SCHEMA,
        outputMode="append",
        timeMode="EventTime" if watermark is not None and streaming else "None",
    )
    return judged.mapInArrow(unpack, schema)


def _limit_batches(notifications: DataFrame) -> None:
    conf = notifications.sparkSession.conf
    set_to = _SIZE.fullmatch(str(conf.get(_BATCH_BYTES)).lower())
    size = int(set_to["number"]) << _SHIFTS[set_to["unit"]] if set_to else 0
    if not 0 < size <= _MOST_BYTES:
        conf.set(_BATCH_BYTES, str(_MOST_BYTES))


def _with_watermark(notifications: DataFrame, watermark: str) -> DataFrame:
    try:
        return notifications.withWatermark("event_time", watermark)
    except PySparkException:
        raise PipelineError(f"{watermark!r} is not a length of time such as '10 minutes'") from None


def _check(notifications: DataFrame, tz: str, buckets: int) -> None:
    fields = {field.name: field for field in notifications.schema}
    for name, wanted in _NEEDED.items():
        if name not in fields:
            hint = "; match() gives it with include_constraints=True" if name == "constraints" else ""
            raise PipelineError(f"there is no column {name!r}{hint}; the columns are {', '.join(fields)}")
        _check_type(fields[name], wanted)
    if "connected" in fields:
        _check_type(fields["connected"], BooleanType())
    if BUCKET in fields:
        raise PipelineError(f"the column {BUCKET!r} is needed for constraints; give it another name")
    if not 1 <= buckets <= 1_000_000:
        raise PipelineError(f"{buckets} is no number of buckets; use 1 to 1,000,000")
    try:
        find_zone(tz)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    provider = str(notifications.sparkSession.conf.get(_PROVIDER))
    if "RocksDB" not in provider:
        raise PipelineError(f"constraints keep their state in RocksDB, and {_PROVIDER} is {provider}")


def _check_type(field: StructField, wanted: DataType) -> None:
    if field.dataType != wanted:
        found, right = field.dataType.simpleString(), wanted.simpleString()
        raise PipelineError(f"column {field.name!r} has the type {found}; {right} was expected")
