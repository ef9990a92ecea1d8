"""Events as the report needs them: id and type, and which attributes they have.

Events are typed columns (structs give dotted names, null is absent, an empty array too), or JSON text in the column
that ``json`` names; a single string column ``value``, as ``spark.read.text`` gives it, is taken for JSON. Rows that are
no events are counted and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from recado.errors import EventError
from recado.model.codec import read_event
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import event_form, quoted
from recado.pipeline.report.arrow import batch_of_rows

_PRESENT_SCHEMA = pa.schema([("attribute", pa.string()), ("present", pa.int64())])
_HEAD_SCHEMA = pa.schema([("id", pa.string()), ("type", pa.string()), ("reason", pa.string())])
_ALL = ""
"""No attribute has this name: under it the events themselves are counted."""


def heads(events: DataFrame, json: str | None = None) -> DataFrame:
    """id, type and reason: why the row is no event, else null."""
    shaped, column = _shaped(events, json)
    if column is not None:
        text = quoted(column)
        return shaped.select(text).mapInArrow(_read_heads, "id string, type string, reason string")
    type = F.col("type").cast("string") if "type" in shaped.columns else F.lit(None).cast("string")
    known = F.when(type != "", type)
    reason = F.when(F.col("id").isNull(), F.lit("the event has no id: its column id is null"))
    return shaped.select(F.col("id").cast("string").alias("id"), known.alias("type"), reason.alias("reason"))


def presence(events: DataFrame, json: str | None = None) -> DataFrame:
    """attribute, present (in how many events) and share."""
    shaped, column = _shaped(events, json)
    if column is None:
        counted = _count_columns(shaped)
    else:
        found = shaped.select(quoted(column)).mapInArrow(_read_names, "attribute string, present long")
        counted = found.groupBy("attribute").agg(F.sum("present").alias("present"))
    whole = counted.where(F.col("attribute") == _ALL).agg(F.max("present").alias("whole"))
    shared = counted.where((F.col("attribute") != _ALL) & (F.col("present") > 0)).crossJoin(whole)
    return shared.withColumn("share", F.col("present") / F.col("whole")).drop("whole")


def _shaped(events: DataFrame, json: str | None) -> tuple[DataFrame, str | None]:
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
