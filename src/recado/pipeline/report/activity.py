"""What matching did: how many subscriptions an event reaches, and who gets most.

From notifications (``event_id``, ``subscription_id``, ``owner`` and so on, as ``match`` gives them) and events. All of
it is grouping, and Spark's own work. A notification may have come twice; a pair of event and subscription counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructType
from pyspark.sql.window import Window

from recado.errors import EventError
from recado.filters.evaluate import names_of, walk
from recado.filters.expression import read_back
from recado.model.codec import read_event
from recado.model.filter import And, Between, Compare, Constant, Filter, In, Not, Or, Sql, Text
from recado.model.values import Value
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import event_form, quoted
from recado.pipeline.report.digest import batch_of_rows, digest, written_filters

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
    return _rank(counted, limit)


def top_types(counted: DataFrame, limit: int = 20) -> DataFrame:
    """The event types that cause most notifications, from matches per event."""
    types = counted.groupBy(F.coalesce("type", F.lit(NO_TYPE)).alias("name"))
    return _rank(types.agg(F.sum("matches").alias("notifications")).where("notifications > 0"), limit)


def reached(pairs: DataFrame) -> DataFrame:
    """How many subscriptions got anything, and how many pairs there are; from pairs that are each there once."""
    return pairs.agg(F.countDistinct("subscription_id").alias("subscriptions"), F.count("*").alias("pairs"))


def _rank(counted: DataFrame, limit: int) -> DataFrame:
    whole = counted.agg(F.sum("notifications").alias("whole"))
    shared = counted.crossJoin(whole).withColumn("share", F.col("notifications") / F.col("whole")).drop("whole")
    return shared.orderBy(F.desc("notifications"), "name").limit(limit)


# --- Events as the report needs them: id and type, and which attributes they have ------------------------------------
#
# Events are typed columns (structs give dotted names, null is absent, an empty array too), or JSON text in the column
# that ``json`` names; a single string column ``value``, as ``spark.read.text`` gives it, is taken for JSON. Rows that
# are no events are counted and left out.


_PRESENT_SCHEMA = pa.schema([("attribute", pa.string()), ("present", pa.int64())])
_HEAD_SCHEMA = pa.schema([("id", pa.string()), ("type", pa.string()), ("reason", pa.string())])
_ALL = ""
"""No attribute has this name: under it the events themselves are counted."""


def heads(events: DataFrame, json: str | None = None) -> DataFrame:
    """id, type and reason: why the row is no event, else null."""
    shaped, column = _shape(events, json)
    if column is not None:
        text = quoted(column)
        return shaped.select(text).mapInArrow(_read_heads, "id string, type string, reason string")
    type = F.col("type").cast("string") if "type" in shaped.columns else F.lit(None).cast("string")
    known = F.when(type != "", type)
    reason = F.when(F.col("id").isNull(), F.lit("the event has no id: its column id is null"))
    return shaped.select(F.col("id").cast("string").alias("id"), known.alias("type"), reason.alias("reason"))


def presence(events: DataFrame, json: str | None = None) -> DataFrame:
    """attribute, present (in how many events) and share."""
    shaped, column = _shape(events, json)
    if column is None:
        counted = _count_columns(shaped)
    else:
        found = shaped.select(quoted(column)).mapInArrow(_read_names, "attribute string, present long")
        counted = found.groupBy("attribute").agg(F.sum("present").alias("present"))
    whole = counted.where(F.col("attribute") == _ALL).agg(F.max("present").alias("whole"))
    shared = counted.where((F.col("attribute") != _ALL) & (F.col("present") > 0)).crossJoin(whole)
    return shared.withColumn("share", F.col("present") / F.col("whole")).drop("whole")


def _shape(events: DataFrame, json: str | None) -> tuple[DataFrame, str | None]:
    """The events, and the column that holds them as JSON if one does."""
    if json is None and events.columns == ["value"]:
        json = "value"
    if json is not None and json in events.columns and events.schema[json].dataType.typeName() == "variant":
        shaped, form = event_form(events, variant=json)
    else:
        shaped, form = event_form(events, json=json)
    return shaped, form.column or None


def _count_columns(events: DataFrame) -> DataFrame:
    leaves = list(_leaves(events.schema, ()))
    if len({name for name, _ in leaves}) != len(leaves):
        raise PipelineError("two columns of the events have one name")
    sums = [F.count(column).alias(f"c{number}") for number, (_, column) in enumerate(leaves)]
    row = events.agg(F.count("*").alias("whole"), *sums).collect()[0]
    counts = [(name, row[f"c{number}"]) for number, (name, _) in enumerate(leaves)]
    return events.sparkSession.createDataFrame([(_ALL, row["whole"]), *counts], "attribute string, present long")


def _leaves(schema: StructType, above: tuple[str, ...]) -> Iterator[tuple[str, Column]]:
    """Each attribute with a column that is null where it is absent."""
    for field in schema:
        path = (*above, field.name)
        column = F.col(".".join(map(quoted, path)))
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, path)
        elif isinstance(field.dataType, ArrayType | MapType):
            yield ".".join(path), F.when(F.size(column) > 0, F.lit(1))
        elif isinstance(field.dataType, StringType) and path in {("type",), ("source",)}:
            yield ".".join(path), F.when(column != "", F.lit(1))
        else:
            yield ".".join(path), column


# -- in executors ------------------------------------------------------------------------------------------------------


def _read_heads(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_head(text) for text in batch.column(0).to_pylist()], _HEAD_SCHEMA)


def _head(text: str | None) -> dict[str, str | None]:
    try:
        event = read_event(text or "")
    except EventError as error:
        return {"reason": str(error)}
    return {"id": event.id, "type": event.type or None}


def _read_names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        counts = Counter(name for text in batch.column(0).to_pylist() for name in _names(text))
        yield batch_of_rows(_PRESENT_SCHEMA, counts.items())


def _names(text: str | None) -> list[str]:
    try:
        event = read_event(text or "")
    except EventError:
        return []
    return [_ALL, *(name for name, value in event.items() if value != ())]


# --- Which attributes filters ask for, how, and whether events have them ---------------------------------------------
#
# Predicates are counted in executors, a batch at a time, so that only sums travel. Each predicate of each subscription
# counts, its event type as a predicate on ``type``. An attribute that many filters name and few events carry is worth a
# look: a misspelt name matches nothing.


VALUES = 5
"""So many of an attribute's values are shown, the most wanted ones."""
VALUE_CHARS = 80

Use = tuple[str, str, str | None]
"""An attribute, an operator, and the value it is compared with if that is an equality."""

_USED = "attribute string, operator string, value string, subscriptions long"
_USED_SCHEMA = pa.schema(
    [("attribute", pa.string()), ("operator", pa.string()), ("value", pa.string()), ("subscriptions", pa.int64())]
)
_NAMED = ""
"""The operator under which it is counted that a subscription names an attribute at all."""


def hot_attributes(subscriptions: DataFrame, events: DataFrame | None = None, json: str | None = None) -> DataFrame:
    """One row an attribute that some filter names, the most used first.

    ``subscriptions`` that name it; ``predicates`` on it; ``operators``, a map to how many predicates use them;
    ``distinct_values`` it is compared with for equality, and in ``values`` the most wanted ones with their numbers;
    with events, how many of them have it (``present``) and their share.
    """
    return hot_attributes_of(written_filters(digest(subscriptions)), events, json)


def hot_attributes_of(filters: DataFrame, events: DataFrame | None = None, json: str | None = None) -> DataFrame:
    """The same from filters as they are written: filter, subscriptions."""
    used = filters.mapInArrow(_count_uses, _USED)
    summed = used.groupBy("attribute", "operator", "value").agg(F.sum("subscriptions").alias("subscriptions"))
    table = _by_attribute(summed)
    if events is not None:
        table = table.join(presence(events, json), "attribute", "left").na.fill(0, ["present", "share"])
    return table.orderBy(F.desc("subscriptions"), "attribute")


def _by_attribute(summed: DataFrame) -> DataFrame:
    """One row an attribute, from sums by attribute, operator and value; operators are the rows without a value."""
    is_value = F.col("value").isNotNull()
    is_operator = F.col("value").isNull() & (F.col("operator") != _NAMED)
    order = Window.partitionBy("attribute", is_value).orderBy(F.desc("subscriptions"), "value")
    ranked = summed.withColumn("rank", F.row_number().over(order))
    wanted = F.when(is_value & (F.col("rank") <= VALUES), F.struct("rank", "value", "subscriptions"))
    operators = F.sort_array(F.collect_list(F.when(is_operator, F.struct("operator", "subscriptions"))))
    return ranked.groupBy("attribute").agg(
        F.max(F.when(F.col("operator") == _NAMED, F.col("subscriptions"))).alias("subscriptions"),
        F.sum(F.when(is_operator, F.col("subscriptions"))).alias("predicates"),
        F.map_from_entries(operators).alias("operators"),
        F.count("value").alias("distinct_values"),
        F.transform(F.sort_array(F.collect_list(wanted)), lambda one: one.dropFields("rank")).alias("values"),
    )


# -- in executors ------------------------------------------------------------------------------------------------------


def _count_uses(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        counts: Counter[Use] = Counter()
        for row in batch.to_pylist():
            for use in uses(read_back(row["filter"])):
                counts[use] += row["subscriptions"]
        yield batch_of_rows(_USED_SCHEMA, [(*use, number) for use, number in counts.items()])


def uses(condition: Filter) -> Iterator[Use]:
    """That the filter names each of its attributes; then every predicate, and every value of an equality."""
    for name in names_of(condition):
        yield name, _NAMED, None
    for node in walk(condition):
        if isinstance(node, (And, Or, Not, Constant)):
            continue
        operator = operator_of(node)
        for name in names_of(node):
            yield name, operator, None
        for name, value in _equalities(node):
            yield name, "==", shown(value)


def operator_of(predicate: Filter) -> str:
    """The word by which a predicate is known."""
    match predicate:
        case Compare(_, op, _):
            return op
        case Text(_, op, _, _):
            return {"prefix": "startswith", "suffix": "endswith"}.get(op, op)
        case Sql():
            return "cesql"
    return type(predicate).__name__.lower()


def _equalities(predicate: Filter) -> Iterable[tuple[str, Value]]:
    match predicate:
        case Compare(name, "==", value):
            return [(name, value)]
        case In(name, values):
            return [(name, value) for value in dict.fromkeys(values)]
        case Between(name, low, high) if low == high:
            return [(name, low)]
    return []


def shown(value: Value) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"
