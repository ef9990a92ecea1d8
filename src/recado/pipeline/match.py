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
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from recado.matching.canary import SHARE
from recado.pipeline import worker
from recado.pipeline.canary import Verification, Watch, make_watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.locations import HadoopPath, Location, link, locate
from recado.pipeline.meanings import SENT, TABLES, pack_tables
from recado.pipeline.row_groups import ParquetFiles, Piece, read_pieces
from recado.pipeline.session import is_remote
from recado.pipeline.sets import DETAILS, INDEX, SubscriptionSet, read_subscriptions
from recado.pipeline.worker import RAW, ROW, BadRows, EventForm, match_record_batch
from recado.semantics.engine import Knowledge

NOTIFICATION_FIELDS = ("event_id", "subscription_id", "owner", "event_time", "matched_at")
Output = Literal["rows", "nested", "ordinals"]
_OF_A_MATCH = ("subscription_id", "owner", "expires_at", "constraints", "renamed")
"""Fields of the result that differ between the subscriptions that an event matches."""


class Matcher(msgspec.Struct, frozen=True):
    """What runs in executors. It holds no index, only the place of one."""

    place: worker.Place
    event_form: EventForm
    fields: tuple[str, ...]
    bad_rows: BadRows
    knowledge: Knowledge = Knowledge()
    watch: Watch | None = None
    nested: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = worker.opened(self.place)
        for batch in batches:
            yield from match_record_batch(
                loaded,
                batch,
                self.event_form,
                self.fields,
                self.bad_rows,
                knowledge=self.knowledge,
                watch=self.watch,
                nested=self.nested,
            )


class FileMatcher(msgspec.Struct, frozen=True):
    """The same, for events that a task reads itself: numbers of tasks in."""

    matcher: Matcher
    tasks: tuple[tuple[Piece, ...], ...]
    columns: tuple[str, ...]
    batch_rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.matcher(read_pieces(self.tasks[number], self.columns, self.batch_rows))


def match(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionSet | str | os.PathLike[str] | HadoopPath,
    *,
    json: str | None = None,
    variant: str | None = None,
    cloudevents: bool = False,
    include_event: bool = False,
    include_renamed: bool = False,
    include_constraints: bool = False,
    bad_rows: BadRows = "fail",
    version: int | None = None,
    choices: str | os.PathLike[str] | HadoopPath | None = None,
    ship: bool | None = None,
    knowledge: Knowledge | None = None,
    verify_share: float = SHARE,
    verification: Verification | None = None,
    output: Output = "rows",
    files: ParquetFiles | None = None,
) -> DataFrame:
    """The notifications of the events: event_id, subscription_id, owner, event_time, matched_at.

    ``subscriptions`` is a published set (or its folder), or a DataFrame with a row each. Events are typed columns
    unless ``json`` or ``variant`` names the column that holds them, or ``cloudevents`` says that rows are CloudEvents.
    ``include_event`` adds the row itself as a struct, ``include_constraints`` the subscription's delivery constraints
    as JSON, ``include_renamed`` the event as JSON with the subscriber's names where its ``semantic`` asks for that
    (``rename``). With ``bad_rows="keep"`` a row that is no event becomes a row of the result whose column ``rejected``
    tells why; else it ends the job. ``choices`` is for streams: the newest version is taken at each micro-batch, and
    recorded in that folder, by ``start_stream``. ``ship`` sends the index along with the job, for executors that do not
    see the set's path; unless it is given, that is done where executors run elsewhere. ``knowledge`` is what
    semantic subscriptions are understood by besides the lexicon; without it, pairs that were decided in this user's
    review list count, as in a service. ``verify_share`` of the time of matching compares answers with the plain
    evaluator, 0 for none; ``verification`` counts what came of it, for whoever wants to know after the job.

    ``output="nested"`` gives one row an event that matched: event_id, event_time, matched_at, and ``matches``, an array
    of structs with subscription_id and owner (and what else was asked for of each). ``"ordinals"`` gives an array of
    integers ``ordinals`` instead, which the table ``subscriptions`` names. An event that matches more than
    ``worker.ROWS_OUT`` subscriptions has several rows. Both are several times as fast to make and to write as rows;
    ``notifications`` explodes either.

    ``files`` is what ``find_files(events)`` gave: Python workers then read these Parquet files themselves, which is
    cheaper where many columns count. They must see them at the paths that the driver sees.
    """
    if output not in ("rows", "nested", "ordinals"):
        raise PipelineError(f"output is {output!r}; there are rows, nested and ordinals")
    subscription_set, number = as_set(subscriptions, version)
    known = subscription_set.version(number) if number is not None else subscription_set.current()
    following = choices is not None
    shaped, form = event_form(
        events,
        json=json,
        variant=variant,
        cloudevents=cloudevents,
        names=None if following or known.semantic else known.names,
        keep_all=include_event,
    )
    if knowledge is None:
        knowledge = Knowledge.read() if known.semantic or following else Knowledge()
    knowledge = send_tables(events.sparkSession, knowledge, ship)
    if choices is None:
        place = place_of(events.sparkSession, subscription_set, known.number, ship)
    else:
        place = worker.Place(str(subscription_set.folder), choices=str(locate(choices)))
    schema = output_schema(
        shaped,
        include_event=include_event,
        include_constraints=include_constraints,
        include_renamed=include_renamed,
        expiry=following or known.expiring > 0,
        rejected=bad_rows == "keep",
    )
    columns = shaped.columns
    shaped, form = travelling(shaped, form)
    watch = make_watch(verify_share, verification)
    sent, nested = nest_schema(schema, "nested" if output == "rows" else output)
    matcher = Matcher(place, form, tuple(sent.names), bad_rows, knowledge, watch, nested)
    if files is None:
        found = shaped.mapInArrow(matcher.__call__, sent)
    else:
        found = _task_numbers(events, columns, files).mapInArrow(
            FileMatcher(matcher, files.tasks, tuple(columns), _batch_rows(events.sparkSession)).__call__, sent
        )
    return finished(_explode(found).select(*schema.names) if output == "rows" else found, output)


def matching(
    subscriptions: DataFrame | SubscriptionSet | str | os.PathLike[str] | HadoopPath, **options: Any
) -> Callable[[DataFrame], DataFrame]:
    """``match`` for ``events.transform(matching(subscriptions, json="value"))``; the options are those of ``match``."""
    return partial(match, subscriptions=subscriptions, **options)


def subscriptions(
    spark: SparkSession, subscription_set: SubscriptionSet | str | os.PathLike[str], version: int | None = None
) -> DataFrame:
    """ordinal, subscription_id and owner of a version (the newest, unless it is given): what ordinals stand for.

    The ordinals of another version are others.
    """
    known, number = as_set(subscription_set, version)
    details = known.load(known.current().number if number is None else number).details
    table = pa.table(
        {
            "ordinal": pa.array(range(len(details)), pa.int32()),
            "subscription_id": details.column("id"),
            "owner": details.column("owner"),
        }
    )
    return spark.createDataFrame(table.filter(pc.is_valid(table.column("subscription_id"))))


def nest_schema(schema: StructType, output: Output) -> tuple[StructType, tuple[str, ...]]:
    """What executors send, and the fields of each match if that is one row an event."""
    if output == "rows":
        return schema, ()
    of_a_match = [field for field in schema if field.name in _OF_A_MATCH]
    others = [field for field in schema if field.name not in _OF_A_MATCH]
    if output == "ordinals":
        names = [field.name for field in of_a_match]
        if "constraints" in names or "renamed" in names:
            raise PipelineError("ordinals have no room for constraints or renamed events; take rows or nested")
        of_a_match = [StructField("ordinal", IntegerType()), *(f for f in of_a_match if f.name == "expires_at")]
        if len(of_a_match) == 1:
            fields = [*others, StructField("ordinals", ArrayType(IntegerType()))]
            return StructType(fields), ("ordinal",)
    array = ArrayType(StructType(of_a_match))
    return StructType([*others, StructField("matches", array)]), tuple(field.name for field in of_a_match)


def _explode(found: DataFrame) -> DataFrame:
    """A row for each match, made by Spark of one for each event; what was rejected stays.

    That is cheaper than rows from Python: what they have of the event travels once.
    """
    return found.select(*(name for name in found.columns if name != "matches"), F.inline_outer("matches"))


def _finish_arrays(found: DataFrame, output: Output) -> DataFrame:
    """With one row an event: what has expired taken out of the arrays, the columns in their order."""
    array = "matches" if "matches" in found.columns else "ordinals"
    element = found.schema[array].dataType.elementType  # type: ignore[attr-defined]  # it is an array
    if isinstance(element, StructType) and "expires_at" in element.names:
        now = F.coalesce("event_time", "matched_at")
        names = [name for name in element.names if name != "expires_at"]
        kept = F.filter(array, lambda one: one["expires_at"].isNull() | (now < one["expires_at"]))
        one_field = output == "ordinals"
        plain = F.transform(
            kept, lambda one: one["ordinal"] if one_field else F.struct(*(one[name].alias(name) for name in names))
        )
        array = output if one_field else array
        found = found.withColumn(array, plain)
        wanted = F.size(array) > 0
        found = found.where(wanted | F.col("rejected").isNotNull() if "rejected" in found.columns else wanted)
    first = ("event_id", "event_time", "matched_at", array)
    return found.select(*first, *(name for name in found.columns if name not in (*first, "matches")))


def finished(found: DataFrame, output: Output = "rows") -> DataFrame:
    """The time of matching added, what has expired taken out, the columns in their order."""
    found = found.withColumn("matched_at", F.current_timestamp())
    if output != "rows":
        return _finish_arrays(found, output)
    if "expires_at" in found.columns:
        now = F.coalesce("event_time", "matched_at")
        found = found.where(F.col("expires_at").isNull() | (now < F.col("expires_at"))).drop("expires_at")
    others = [name for name in found.columns if name not in NOTIFICATION_FIELDS]
    return found.select(*NOTIFICATION_FIELDS, *others)


def accepted(found: DataFrame) -> DataFrame:
    """A result without what was rejected, in the form that it has."""
    return found.where(F.col("rejected").isNull()).drop("rejected") if "rejected" in found.columns else found


def count_of(found: DataFrame) -> Column:
    """How many notifications a row of a result stands for."""
    array = next((name for name in ("matches", "ordinals") if name in found.columns), None)
    return F.lit(1) if array is None else F.coalesce(F.size(array), F.lit(0))


def notifications(found: DataFrame) -> DataFrame:
    """The notifications of a result, a row each: without what was rejected, arrays exploded."""
    found = accepted(found)
    if "ordinals" in found.columns:
        return found.withColumn("ordinal", F.explode("ordinals")).drop("ordinals")
    if "matches" not in found.columns:
        return found
    others = [name for name in found.columns if name != "matches"]
    flat = found.select(*others, F.inline("matches"))
    return flat.select(*NOTIFICATION_FIELDS, *(name for name in flat.columns if name not in NOTIFICATION_FIELDS))


def rejections(found: DataFrame) -> DataFrame:
    """Of a result with ``bad_rows="keep"``, the rows that are no events: why, and the row as text."""
    bad = found.where(F.col("rejected").isNotNull())
    return bad.select("event_id", "rejected.reason", F.col("rejected.text").alias("row"), "matched_at")


# -- the plan


def _task_numbers(events: DataFrame, columns: Collection[str], files: ParquetFiles) -> DataFrame:
    """A row and a task for each run of row groups."""
    if unknown := [name for name in columns if name not in files.columns]:
        raise PipelineError(
            f"files: find_files did not look at the column {unknown[0]!r}, which counts here; "
            "find_files(events) looks at all of them"
        )
    return events.sparkSession.range(0, len(files.tasks), 1, max(len(files.tasks), 1))


def _batch_rows(spark: SparkSession) -> int:
    given = int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)
    return given if given > 0 else 16_384


_LOST = r'"(NaN|-?Infinity|[+-]?\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d)'
"""In the text that Spark makes of a VARIANT, what may have been an instant or a float that JSON cannot spell."""
_TIMES = (TimestampType, TimestampNTZType, DateType, StringType, NullType, VariantType)
"""What the column ``time`` may be."""
_LOST_TYPES = r"FLOAT|DECIMAL\((19|[23]\d),0\)"
"""What its text does not tell: a float of 32 bits has fewer digits there than its value, and a decimal without a point
looks like an integer, of which there are none beyond 64 bits."""


def event_form(
    events: DataFrame,
    *,
    json: str | None = None,
    variant: str | None = None,
    cloudevents: bool = False,
    names: Collection[str] | None = None,
    keep_all: bool = False,
) -> tuple[DataFrame, EventForm]:
    """The DataFrame in one of the forms that executors read, and which one it is.

    ``names`` are those that filters ask for, if that is known; other typed columns then stay behind, unless
    ``keep_all``.
    """
    _refuse_alike(events)
    if sum((json is not None, variant is not None, cloudevents)) > 1:
        raise PipelineError("give only one of json, variant and cloudevents: each says what the rows are")
    if json is not None:
        _need_column(events, json, StringType, "a string column with JSON")
        return events if keep_all else events.select(F.col(quoted(json))), EventForm("json", json)
    if variant is not None:
        _need_column(events, variant, VariantType, "a VARIANT column")
        alone = events if keep_all else events.select(F.col(quoted(variant)))
        return _with_text(alone, variant, variant), EventForm("json", variant)
    for name in ("id", "source", "type") if cloudevents else ("id",):
        if name not in events.columns:
            kind = "CloudEvents" if cloudevents else "events in typed columns"
            raise PipelineError(f"{kind} need a column {name!r}; there are: {', '.join(events.columns)}")
    if cloudevents:
        events = _cloudevent_columns(events)
        variants = tuple(field.name for field in events.schema if isinstance(field.dataType, VariantType))
        return _plain_columns(events, variants), EventForm("cloudevents", variants=variants)
    if "time" in events.columns and not isinstance(events.schema["time"].dataType, _TIMES):
        raise no_time(events.schema["time"].dataType.simpleString())
    wanted = events if names is None else events.select(*needed(events, names))
    shaped = _plain_columns(events if keep_all else wanted)
    if not any(_is_open(field.dataType) for field in wanted.schema):
        return shaped, EventForm("columns")
    for field in wanted.schema:
        _refuse_in_row(field.name, field.dataType, names)
    row = F.to_variant_object(F.struct(*(_as_double(field) for field in wanted.schema)))
    with_row = _plain_columns(events if keep_all else wanted, with_row=row)
    return _with_text(with_row, ROW, ROW), EventForm("json", ROW)


def no_time(kind: str) -> PipelineError:
    """What to raise for a column ``time`` of another type: a number may be of seconds, or of anything else."""
    return PipelineError(
        f"column 'time' has the type {kind}; the time of an event is a timestamp, or text as 2026-11-15T10:00:00Z: "
        "cast it, as with timestamp_seconds(time), or rename it"
    )


def _cloudevent_columns(events: DataFrame) -> DataFrame:
    """CloudEvents whose columns are what JSON has: dates are text, and what has a VARIANT inside is one."""
    columns = []
    for field in events.schema:
        column, kind = F.col(quoted(field.name)), field.dataType
        if isinstance(kind, DateType):
            column = column.cast(StringType())
        elif isinstance(kind, StructType | ArrayType | MapType) and _has(kind, VariantType, DateType, BinaryType):
            _refuse_in_row(field.name, kind, None)
            column = F.when(column.isNotNull(), F.to_variant_object(_as_double(field)))
        columns.append(column.alias(field.name))
    return events.select(*columns)


def _has(kind: DataType, *wanted: type[DataType]) -> bool:
    """Is one of these types the type, or inside of it?"""
    if isinstance(kind, StructType):
        return any(_has(field.dataType, *wanted) for field in kind)
    if isinstance(kind, ArrayType):
        return _has(kind.elementType, *wanted)
    return _has(kind.valueType, *wanted) if isinstance(kind, MapType) else isinstance(kind, wanted)


def _with_text(events: DataFrame, column: str, name: str) -> DataFrame:
    """A VARIANT column as JSON text, and beside it, where the text may lack something, as it is."""
    raw = F.col(quoted(column))
    text = F.to_json(raw)
    lossy = text.rlike(_LOST) | F.schema_of_variant(raw).rlike(_LOST_TYPES)
    return events.withColumn(RAW, F.when(lossy, raw)).withColumn(name, text)


def _as_double(field: StructField) -> Column:
    """A column of a row that travels as VARIANT, in whose text a float of 32 bits would be another number."""
    kind = _with_floats(field.dataType, FloatType, DecimalType)
    column = F.col(quoted(field.name))
    return column if kind == field.dataType else column.cast(_nullable(kind)).alias(field.name)


def _is_open(kind: DataType) -> bool:
    """Has the type attributes whose names are not known before the rows are?"""
    if isinstance(kind, StructType):
        return any(_is_open(field.dataType) for field in kind)
    return _is_open(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, MapType | VariantType)


def _refuse_in_row(name: str, kind: DataType, names: Collection[str] | None) -> None:
    """Refuse what no attribute can be, as it is refused where columns travel one by one."""
    if isinstance(kind, StructType):
        for field in kind:
            _refuse_in_row(f"{name}.{field.name}", field.dataType, names)
    elif isinstance(kind, ArrayType):
        _refuse_in_row(name, kind.elementType, names)
    elif isinstance(kind, MapType) and not isinstance(kind.keyType, StringType):
        raise PipelineError(
            f"column {name!r} is a map with keys of the type {kind.keyType.simpleString()}; keys are parts of "
            "attribute names, so they must be strings"
        )
    elif isinstance(kind, DateType | BinaryType) and names is not None and name in names:
        raise PipelineError(
            f"column {name!r} has the type {kind.simpleString()}; use strings, numbers, booleans, timestamps or "
            "lists of these"
        )


def _refuse_alike(events: DataFrame) -> None:
    """Names that Spark does not tell apart; two columns of one name are never told apart."""
    sensitive = events.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    seen: dict[str, str] = {}
    for name in events.columns:
        key = name if sensitive else name.lower()
        if key in seen:
            hint = "" if name == seen[key] else ", or tell Spark to: spark.sql.caseSensitive=true"
            raise PipelineError(
                f"the columns {seen[key]!r} and {name!r} have names that Spark does not tell apart; rename one{hint}"
            )
        seen[key] = name


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
        own = [field for field in events.schema if field.name not in (RAW, ROW)]
        fields.append(StructField("event", StructType([_as_sent(field) for field in own])))
    if include_renamed:
        fields.append(StructField("renamed", StringType()))
    if rejected:
        inner = StructType([StructField("reason", StringType()), StructField("text", StringType())])
        fields.append(StructField("rejected", inner))
    return StructType(fields)


def _as_sent(field: StructField) -> StructField:
    """A column as it is in ``event``: a VARIANT is its text there."""
    return StructField(field.name, StringType()) if isinstance(field.dataType, VariantType) else field


def _need_column(events: DataFrame, name: str, kind: type, what: str) -> None:
    if name not in events.columns:
        raise PipelineError(f"there is no column {name!r}; the columns are {', '.join(events.columns)}")
    found = events.schema[name].dataType
    if not isinstance(found, kind):
        raise PipelineError(f"column {name!r} has the type {found.simpleString()}; {what} was expected")


def _plain_columns(events: DataFrame, as_is: Collection[str] = (), with_row: Column | None = None) -> DataFrame:
    """Decimals, also nested ones, become the nearest float, as their literals in filters do; VARIANT its JSON text."""
    plain = []
    for field in events.schema:
        column = F.col(quoted(field.name))
        floats = _with_floats(field.dataType)
        if isinstance(field.dataType, VariantType) and field.name not in as_is:
            column = F.to_json(column).alias(field.name)
        elif floats != field.dataType:
            column = column.cast(_nullable(floats)).alias(field.name)
        plain.append(column)
    return events.select(*plain) if with_row is None else events.select(*plain, with_row.alias(ROW))


def _with_floats(kind: DataType, *replaced: type[DataType]) -> DataType:
    """The type with doubles for decimals, or for other types than these."""
    match kind:
        case StructType():
            fields = [StructField(f.name, _with_floats(f.dataType, *replaced), f.nullable, f.metadata) for f in kind]
            return StructType(fields)
        case ArrayType():
            return ArrayType(_with_floats(kind.elementType, *replaced), kind.containsNull)
        case MapType():
            return MapType(kind.keyType, _with_floats(kind.valueType, *replaced), kind.valueContainsNull)
        case _:
            return DoubleType() if isinstance(kind, replaced or DecimalType) else kind


def _nullable(kind: DataType) -> DataType:
    """The type with nulls allowed inside: Spark casts no VARIANT, not even one beside a decimal, to what has none."""
    match kind:
        case StructType():
            return StructType([StructField(f.name, _nullable(f.dataType), True, f.metadata) for f in kind])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType), True)
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType), True)
        case _:
            return kind


def needed(events: DataFrame, names: Collection[str]) -> list[Column]:
    """The columns that have to travel: the envelope, and what some filter names."""
    return [F.col(quoted(name)) for name in needed_names(events, names)]


def needed_names(events: DataFrame, names: Collection[str]) -> list[str]:
    """The names of the same."""
    tops = {name.partition(".")[0] for name in names} | set(names) | {"id", "time"}
    return [name for name in events.columns if name in tops]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- where the set is


def as_set(subscriptions: object, version: int | None) -> tuple[SubscriptionSet, int | None]:
    """The set, and the version to use if it is settled; a DataFrame is published into a folder of this process."""
    if isinstance(subscriptions, SubscriptionSet):
        return subscriptions, version
    if isinstance(subscriptions, (str, os.PathLike, HadoopPath)):
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


def place_of(
    spark: SparkSession, subscription_set: SubscriptionSet, number: int, ship: bool | None = None
) -> worker.Place:
    """Where the executors of a session find a version; it is sent to them if they need that, or if ``ship`` says so."""
    folder = subscription_set.local_path(number)
    if ship is None:
        ship = not is_here(spark) and not (is_remote(spark) and folder.parent == subscription_set.folder)
    if not ship:
        return worker.Place(str(folder))
    digest = subscription_set.digest(number)
    return worker.Place(str(folder), files=_ship(spark, folder, digest), digest=digest)


def is_here(spark: SparkSession) -> bool:
    """Do executors run on this host, where they see its files?"""
    return not is_remote(spark) and (spark.sparkContext.master or "").startswith("local")


def check_written(spark: SparkSession, folder: Location, rows: int) -> None:
    """A PipelineError if a folder of this host lacks some of the rows that executors were to write there.

    Each writes to the disk that it has at that path; of what is on other hosts Spark's driver sees nothing, and says so
    to nobody.
    """
    if not isinstance(folder, Path) or is_here(spark) or is_remote(spark):
        return
    missing = rows - sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
    if missing > 0:
        raise PipelineError(
            f"{folder}: {missing:,} of {rows:,} rows are not there: executors wrote them to disks of other hosts; give "
            "a path that all hosts mount, or a URL"
        )


def send_tables(spark: SparkSession, knowledge: Knowledge, ship: bool | None = None) -> Knowledge:
    """The knowledge as executors find its tables: these are sent as a set is, and always if they are at a URL."""
    paths = [path for name in TABLES if (path := getattr(knowledge, name))]
    far = any(isinstance(locate(path), HadoopPath) for path in paths)
    if any(path.startswith(SENT) for path in paths):  # before
        return knowledge
    if not far and not (ship if ship is not None else not is_here(spark) and not is_remote(spark)):
        return knowledge
    scratch = Path(tempfile.mkdtemp(prefix="recado-tables-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    packed = pack_tables(knowledge, scratch)
    if packed is None:
        return knowledge
    send_file(spark, packed[0], packed[0].name)
    return packed[1]


_sent: set[tuple[int, str]] = set()
"""What this process has sent, by session and name: Spark keeps what was sent as long as the session lasts."""


def _ship(spark: SparkSession, folder: Path, digest: str) -> tuple[str, str]:
    """Send the files of a version to every executor, once each; the names they have there."""
    return send_file(spark, folder / INDEX, f"{digest}-{INDEX}"), send_file(
        spark, folder / DETAILS, f"{digest}-{DETAILS}"
    )


def send_file(spark: SparkSession, file: Path | HadoopPath, name: str) -> str:
    """Let executors have a file under a name that tells its content; one at a URL keeps its own. Returns the name."""
    key = id(spark if is_remote(spark) else spark.sparkContext), name
    if key in _sent:
        return name
    if isinstance(file, HadoopPath):
        spark.sparkContext.addFile(str(file))
    else:
        links = Path(tempfile.mkdtemp(prefix="recado-ship-"))
        atexit.register(shutil.rmtree, links, ignore_errors=True)
        link(file, links / name)  # Spark would take a symbolic link's target, and its name
        if is_remote(spark):
            spark.addArtifacts(str(links / name), file=True)
        else:
            spark.sparkContext.addFile(str(links / name))
    _sent.add(key)
    return name
