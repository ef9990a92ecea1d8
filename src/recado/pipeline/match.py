"""Matching on Spark: events in, notifications out, as one function from DataFrame to DataFrame.

    notifications = match(events, SubscriptionSet("sets/alerts"))

It adds two steps to the plan: ``mapInArrow`` with the compiled index, and Spark's own expressions for what depends on
the clock. It works alike on a batch and on a stream. ``matched_at`` is the query's current timestamp, one value for a
whole run or micro-batch, so a replay gives the same rows. A subscription does not get events whose time, or else the
time of matching, has reached its ``expires_at``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType, StructField, StructType, TimestampType, VariantType

from recado.matching.canary import SHARE
from recado.pipeline import worker
from recado.pipeline.canary import Verification, Watch, make_watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.session import is_remote
from recado.pipeline.sets import DETAILS, INDEX, SubscriptionSet, Version, read_subscriptions
from recado.pipeline.worker import BadRows, EventForm, match_record_batch
from recado.semantics.engine import Knowledge

NOTIFICATION_FIELDS = ("event_id", "subscription_id", "owner", "event_time", "matched_at")


class Matcher(msgspec.Struct, frozen=True):
    """What runs in executors. It holds no index, only the place of one."""

    place: worker.Place
    event_form: EventForm
    fields: tuple[str, ...]
    bad_rows: BadRows
    knowledge: Knowledge = Knowledge()
    watch: Watch | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = worker.opened(self.place)
        for batch in batches:
            yield from match_record_batch(
                loaded, batch, self.event_form, self.fields, self.bad_rows, knowledge=self.knowledge, watch=self.watch
            )


def match(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionSet | str | os.PathLike[str],
    *,
    json: str | None = None,
    variant: str | None = None,
    cloudevents: bool = False,
    include_event: bool = False,
    include_renamed: bool = False,
    include_constraints: bool = False,
    bad_rows: BadRows = "fail",
    version: int | None = None,
    choices: str | os.PathLike[str] | None = None,
    ship: bool | None = None,
    knowledge: Knowledge | None = None,
    verify_share: float = SHARE,
    verification: Verification | None = None,
) -> DataFrame:
    """The notifications of the events: event_id, subscription_id, owner, event_time, matched_at.

    ``subscriptions`` is a published set (or its folder), or a DataFrame with a row each. Events are typed columns
    unless ``json`` or ``variant`` names the column that holds them, or ``cloudevents`` says that rows are CloudEvents.
    ``include_event`` adds the row itself as a struct, ``include_constraints`` the subscription's delivery constraints
    as JSON, ``include_renamed`` the event as JSON with the subscriber's names where its ``semantic`` asks for that
    (``rename``). With ``bad_rows="keep"`` a row that is no event becomes a row of the result whose column ``rejected``
    tells why; else it ends the job. ``choices`` is for streams: the newest version is taken at each micro-batch, and
    recorded in that folder. ``ship`` sends the index along with the job, for executors that do not see the set's path;
    without it, only an index made from a DataFrame is sent, and only if executors run elsewhere. ``knowledge`` is what
    semantic subscriptions are understood by besides the lexicon; without it, pairs that were decided in this user's
    review list count, as in a service. ``verify_share`` of the time of matching compares answers with the plain
    evaluator, 0 for none; ``verification`` counts what came of it, for whoever wants to know after the job.
    """
    shaped, form = event_form(events, json=json, variant=variant, cloudevents=cloudevents)
    subscription_set, number = as_set(subscriptions, version)
    known = subscription_set.version(number) if number is not None else subscription_set.current()
    following = choices is not None
    if form.form == "columns" and not include_event and not following and not known.semantic:
        shaped = shaped.select(*needed(shaped, known))
    if knowledge is None:
        knowledge = Knowledge.read() if known.semantic or following else Knowledge()
    place = _place(events, subscription_set, known.number, choices, ship)
    schema = output_schema(
        shaped,
        include_event=include_event,
        include_constraints=include_constraints,
        include_renamed=include_renamed,
        expiry=following or known.expiring > 0,
        rejected=bad_rows == "keep",
    )
    shaped, form = travelling(shaped, form)
    watch = make_watch(verify_share, verification)
    matcher = Matcher(place, form, tuple(schema.names), bad_rows, knowledge, watch)
    return finished(shaped.mapInArrow(matcher.__call__, schema))


def finished(found: DataFrame) -> DataFrame:
    """The time of matching added, what has expired taken out, the columns in their order."""
    found = found.withColumn("matched_at", F.current_timestamp())
    if "expires_at" in found.columns:
        now = F.coalesce("event_time", "matched_at")
        found = found.where(F.col("expires_at").isNull() | (now < F.col("expires_at"))).drop("expires_at")
    others = [name for name in found.columns if name not in NOTIFICATION_FIELDS]
    return found.select(*NOTIFICATION_FIELDS, *others)


def notifications(found: DataFrame) -> DataFrame:
    """Of a result with ``bad_rows="keep"``, the notifications."""
    return found.where(F.col("rejected").isNull()).drop("rejected")


def rejections(found: DataFrame) -> DataFrame:
    """Of a result with ``bad_rows="keep"``, the rows that are no events: why, and the row as text."""
    bad = found.where(F.col("rejected").isNotNull())
    return bad.select("event_id", "rejected.reason", F.col("rejected.text").alias("row"), "matched_at")


# -- the plan


def event_form(
    events: DataFrame, *, json: str | None = None, variant: str | None = None, cloudevents: bool = False
) -> tuple[DataFrame, EventForm]:
    """The DataFrame in one of the forms that executors read, and which one it is."""
    if sum((json is not None, variant is not None, cloudevents)) > 1:
        raise PipelineError("give only one of json, variant and cloudevents: each says what the rows are")
    if json is not None:
        _need_column(events, json, StringType, "a string column with JSON")
        return events, EventForm("json", json)
    if variant is not None:
        _need_column(events, variant, VariantType, "a VARIANT column")
        return events.withColumn(variant, F.to_json(variant)), EventForm("json", variant)
    for name in ("id", "source", "type") if cloudevents else ("id",):
        if name not in events.columns:
            kind = "CloudEvents" if cloudevents else "events in typed columns"
            raise PipelineError(f"{kind} need a column {name!r}; there are: {', '.join(events.columns)}")
    if cloudevents:
        return _plain_columns(events), EventForm("cloudevents")
    return _plain_columns(events), EventForm("columns")


def travelling(events: DataFrame, form: EventForm) -> tuple[DataFrame, EventForm]:
    """``mapInArrow`` takes no column with a dot or a backtick in its name; such columns travel under numbers."""
    if not any("." in name or "`" in name for name in events.columns):
        return events, form
    numbered = events.toDF(*(f"_{number}" for number in range(len(events.columns))))
    return numbered, EventForm(form.form, form.column, tuple(events.columns))


def output_schema(
    events: DataFrame,
    *,
    include_event: bool,
    include_constraints: bool,
    expiry: bool,
    rejected: bool,
    include_renamed: bool = False,
) -> StructType:
    """What executors send back."""
    fields = [StructField(name, StringType()) for name in ("event_id", "subscription_id", "owner")]
    fields.append(StructField("event_time", TimestampType()))
    if expiry:
        fields.append(StructField("expires_at", TimestampType()))
    if include_constraints:
        fields.append(StructField("constraints", StringType()))
    if include_event:
        fields.append(StructField("event", events.schema))
    if include_renamed:
        fields.append(StructField("renamed", StringType()))
    if rejected:
        inner = StructType([StructField("reason", StringType()), StructField("text", StringType())])
        fields.append(StructField("rejected", inner))
    return StructType(fields)


def _need_column(events: DataFrame, name: str, kind: type, what: str) -> None:
    if name not in events.columns:
        raise PipelineError(f"there is no column {name!r}; the columns are {', '.join(events.columns)}")
    found = events.schema[name].dataType
    if not isinstance(found, kind):
        raise PipelineError(f"column {name!r} has the type {found.simpleString()}; {what} was expected")


def _plain_columns(events: DataFrame) -> DataFrame:
    """Decimals become the nearest float, as their literals in filters do; VARIANT, which Arrow lacks, its JSON text."""
    plain = []
    for field in events.schema:
        column = F.col(quoted(field.name))
        if isinstance(field.dataType, VariantType):
            column = F.to_json(column).alias(field.name)
        elif isinstance(field.dataType, DecimalType):
            column = column.cast("double").alias(field.name)
        plain.append(column)
    return events.select(*plain)


def needed(events: DataFrame, version: Version) -> list[Column]:
    """The columns that have to travel: the envelope, and what some filter names."""
    tops = {name.partition(".")[0] for name in version.names} | set(version.names) | {"id", "time"}
    return [F.col(quoted(name)) for name in events.columns if name in tops]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- where the set is


def as_set(subscriptions: object, version: int | None) -> tuple[SubscriptionSet, int | None]:
    """The set, and the version to use if it is settled; a DataFrame is published into a folder of this process."""
    if isinstance(subscriptions, SubscriptionSet):
        return subscriptions, version
    if isinstance(subscriptions, (str, os.PathLike)):
        return SubscriptionSet(subscriptions), version
    if not isinstance(subscriptions, DataFrame):
        kind = type(subscriptions).__name__
        raise PipelineError(
            f"subscriptions are a {kind}; match takes a SubscriptionSet, its folder or a DataFrame, "
            "and match_partitioned takes a PartitionedSet"
        )
    folder = tempfile.mkdtemp(prefix="recado-set-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = SubscriptionSet(folder)
    return made, made.publish(read_subscriptions(subscriptions)).number


def _place(
    events: DataFrame,
    subscription_set: SubscriptionSet,
    number: int,
    choices: str | os.PathLike[str] | None,
    ship: bool | None,
) -> worker.Place:
    if choices is not None:
        return worker.Place(str(subscription_set.folder), choices=str(Path(choices).absolute()))
    folder = subscription_set.path(number)
    if ship or (ship is None and folder.parent.name.startswith("recado-set-") and not _is_here(events)):
        return worker.Place(str(folder), files=_ship(events, folder))
    return worker.Place(str(folder))


def _is_here(events: DataFrame) -> bool:
    """Do executors run on this host, where they see its files?"""
    spark = events.sparkSession
    return not is_remote(spark) and (spark.sparkContext.master or "").startswith("local")


def _ship(events: DataFrame, folder: Path) -> tuple[str, str]:
    """Send the files of a version to every executor, once each; the names they have there."""
    spark = events.sparkSession
    unique = uuid.uuid4().hex[:12]
    names = (f"{unique}-{INDEX}", f"{unique}-{DETAILS}")
    links = tempfile.mkdtemp(prefix="recado-ship-")
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    for name, original in zip(names, (INDEX, DETAILS), strict=True):
        link = Path(links) / name
        shutil.copyfile(folder / original, link)  # Spark would take a symbolic link's target, and its name
        if is_remote(spark):
            spark.addArtifacts(str(link), file=True)
        else:
            spark.sparkContext.addFile(str(link))
    return names
