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
    FloatType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from recado.errors import EventError
from recado.model.codec import read_event, write_flat
from recado.model.event import ENVELOPE, Event
from recado.model.limits import LIMITS
from recado.model.values import parse_time
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


# --- From rows of a DataFrame to events ------------------------------------------------------------------------------
#
# Two layouts are understood. With a column ``event`` each row's event is that JSON text, flat or a CloudEvent; the
# log's other columns may stand beside it, as they do when a log is copied, and must not contradict it. Without one,
# ``id`` and the rest of the envelope are columns, and every other column is an attribute: structs become dotted names,
# arrays stay arrays, nulls are absent. ``position`` and ``accepted_at`` are never taken: the log gives its own.


_LOG_OWN = {*LOG_COLUMNS.fieldNames(), DAMAGE.name}
_NOT_TAKEN = ("position", "accepted_at")
_TYPES = (BooleanType, DoubleType, FloatType, IntegralType, StringType, TimestampType)


def check_written(schema: StructType) -> None:
    """Refuse columns that no event can hold, before a row is written."""
    names = schema.fieldNames()
    if "event" in names:
        others = [name for name in names if name not in _LOG_OWN]
        if others:
            raise PipelineError(
                f"column {others[0]!r} stands beside 'event', which is the whole event already; drop one of the two"
            )
        if schema["event"].dataType != StringType():
            raise PipelineError("column 'event' must be a string: the event's JSON")
        return
    if "id" not in names:
        raise PipelineError("an event needs an id: give a column 'id', or a column 'event' with its JSON")
    for field in schema.fields:
        if field.name not in _NOT_TAKEN:
            _check_type(field.name, field.dataType)


def events_of(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """The event of every row as flat JSON; an EventError counts the rows of the partition from 1."""
    number = 0
    for batch in batches:
        whole = "event" in batch.schema.names
        kept = [name for name in batch.schema.names if name not in (*_NOT_TAKEN, DAMAGE.name) or not whole]
        for row in batch.select(kept).to_pylist():
            number += 1
            try:
                yield _write(_from_whole(row) if whole else _from_columns(row))
            except EventError as error:
                raise EventError(f"row {number} of a partition, id {row.get('id')!r}: {error}") from None


def _from_whole(row: dict[str, Any]) -> Event:
    text = row.pop("event")
    if text is None:
        raise EventError("the column 'event' is null; leave such rows out")
    event = read_event(text)
    for name in ENVELOPE:
        said = row.get(name)
        if said is not None and said != getattr(event, name):
            raise EventError(f"column {name!r} says {said!r} and the event {getattr(event, name)!r}; drop the column")
    return event


def _from_columns(row: dict[str, Any]) -> Event:
    return read_event({name: value for name, value in row.items() if name not in _NOT_TAKEN})


def _write(event: Event) -> bytes:
    text = write_flat(event)
    if len(text) > LIMITS.event_bytes:
        raise EventError(f"the event has {len(text):,} bytes; the limit is {LIMITS.event_bytes:,}")
    return text


def _check_type(name: str, kind: DataType) -> None:
    if isinstance(kind, ArrayType):
        _check_type(name, kind.elementType)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            _check_type(f"{name}.{field.name}", field.dataType)
    elif not isinstance(kind, _TYPES):
        raise PipelineError(
            f"column {name!r}: an event cannot hold {kind.simpleString()}; cast it to string, long, double, boolean or "
            "timestamp, or to an array or a struct of these"
        )
