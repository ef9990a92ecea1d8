"""From the log's batches to the columns a reader asked for.

The log's own columns (position, id, type, source, time, accepted_at, event) pass as they are. Any other column is the
attribute of that name, of one of five types or an array of them, and **a value that does not fit the type is null**:

- string, boolean and timestamp take values of that kind;
- double takes any number, rounded to the nearest double as Spark does; long takes the whole numbers of 64 bits, ``5.0``
  too, since Recado holds it equal to ``5``;
- a single-valued column is null where the event has an array; an array column takes a single value as an array of one.

Attributes are taken from the event's flat JSON. The log wrote that text, so it has dotted names, no nested objects,
and instants and odd floats as ``{"$time": …}`` and ``{"$number": …}``; it is not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from recado.model.times import parse_time
from recado.pipeline.errors import PipelineError

LOG_COLUMNS = StructType(
    [
        StructField("position", LongType()),
        StructField("id", StringType()),
        StructField("type", StringType()),
        StructField("source", StringType()),
        StructField("time", TimestampType()),
        StructField("accepted_at", TimestampType()),
        StructField("event", StringType()),
    ]
)
DAMAGE = StructField("damage", StringType())

_ALWAYS_THERE = ("position", "id", "accepted_at", "event")
_LONGS = range(-(2**63), 2**63)
_decode = msgspec.json.Decoder().decode


def default_schema(damage_rows: bool) -> StructType:
    """What a reader gets that names no columns; with ``damage=rows`` one column more."""
    return StructType([*LOG_COLUMNS.fields, DAMAGE]) if damage_rows else LOG_COLUMNS


class Columns:
    """The columns of one read, and how each is made."""

    def __init__(self, schema: StructType, damage_rows: bool) -> None:
        self._own = {field.name: field.dataType for field in default_schema(damage_rows)}
        for field in schema.fields:
            _check(field, self._own.get(field.name), damage_rows)
        self._names = schema.fieldNames()
        self.types = {field.name: field.dataType for field in schema.fields}
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._needs_events = any(name not in self._own for name in self._names)

    def is_attribute(self, name: str) -> bool:
        return name not in self._own

    def build(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The asked columns for the rows of a batch of the log."""
        events = [_decode(text) for text in batch.column("event").to_pylist()] if self._needs_events else []
        arrays = [self._array(name, batch, events) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def damaged(self, first: int, end: int, reason: str, rows: int = 8192) -> Iterator[pa.RecordBatch]:
        """A row for each position that could not be read: the position, the reason, and else nulls."""
        for start in range(first, end, rows):
            count = min(rows, end - start)
            own = {"position": pa.array(range(start, start + count), pa.int64()), "damage": pa.repeat(reason, count)}
            arrays = [
                own[field.name] if field.name in own and field.name in self._own else pa.nulls(count, field.type)
                for field in self._schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, batch: pa.RecordBatch, events: list[dict[str, Any]]) -> pa.Array:
        kind = self._schema.field(name).type
        if name == DAMAGE.name and name in self._own:
            return pa.nulls(batch.num_rows, kind)
        if name in self._own:
            column = batch.column(name)
            return column if column.type == kind else column.cast(kind)
        convert = converter(self.types[name])
        return pa.array([convert(event.get(name)) for event in events], kind)


def converter(kind: DataType) -> Callable[[Any], Any]:
    """From a member of the flat JSON to a value of the column's type, or None."""
    if not isinstance(kind, ArrayType):
        return _CONVERTERS[type(kind)]
    single = _CONVERTERS[type(kind.elementType)]

    def several(value: Any) -> list[Any] | None:
        if isinstance(value, list):
            return [single(element) for element in value]
        one = single(value)
        return None if one is None else [one]

    return several


def _string(value: Any) -> str | None:
    return value if type(value) is str else None


def _boolean(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _long(value: Any) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value in _LONGS else None


def _double(value: Any) -> float | None:
    if type(value) is dict and "$number" in value:
        return float(value["$number"])
    return float(value) if type(value) in (int, float) else None


def _timestamp(value: Any) -> datetime | None:
    return parse_time(value["$time"]) if type(value) is dict and "$time" in value else None


_CONVERTERS: dict[type[DataType], Callable[[Any], Any]] = {
    StringType: _string,
    LongType: _long,
    DoubleType: _double,
    BooleanType: _boolean,
    TimestampType: _timestamp,
}


def _check(field: StructField, own: DataType | None, damage_rows: bool) -> None:
    name, kind = field.name, field.dataType
    if own is not None and kind != own:
        raise PipelineError(f"column {name!r} of the log is a {own.simpleString()}, not a {kind.simpleString()}")
    element = kind.elementType if isinstance(kind, ArrayType) else kind
    if own is None and element not in [kind() for kind in _CONVERTERS]:  # a collated string is not among them
        raise PipelineError(
            f"column {name!r}: an attribute cannot be read as {kind.simpleString()}; use string, long, double, "
            "boolean, timestamp or an array of one of these (a nested member is the column `outer.inner`)"
        )
    if isinstance(kind, ArrayType) and not kind.containsNull:
        raise PipelineError(f"column {name!r}: an element of another kind is null, so the array must allow nulls")
    if not field.nullable and (name not in _ALWAYS_THERE or (damage_rows and name != "position")):
        raise PipelineError(f"column {name!r}: an event may lack it, so the column must allow nulls")
