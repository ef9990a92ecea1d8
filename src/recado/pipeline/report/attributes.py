"""Which attributes filters ask for, how, and whether events have them.

Predicates are counted in executors, a batch at a time, so that only sums travel. Each predicate of each subscription
counts, its event type as a predicate on ``type``. An attribute that many filters name and few events carry is worth a
look: a misspelt name matches nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from recado.filters.evaluate import names_of, walk
from recado.model.filter import And, Between, Compare, Constant, Filter, In, Not, Or, Sql, Text
from recado.model.values import Value
from recado.pipeline.report.arrow import batch_of_rows
from recado.pipeline.report.digest import digest, written_filters
from recado.pipeline.report.happened import presence
from recado.pipeline.report.shape import read_filter

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
            for use in uses(read_filter(row["filter"])):
                counts[use] += row["subscriptions"]
        yield batch_of_rows(_USED_SCHEMA, [(*use, number) for use, number in counts.items()])


def uses(filter: Filter) -> Iterator[Use]:
    """That the filter names each of its attributes; then every predicate, and every value of an equality."""
    for name in names_of(filter):
        yield name, _NAMED, None
    for node in walk(filter):
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
