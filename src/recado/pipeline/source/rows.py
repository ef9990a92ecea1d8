"""From rows of a DataFrame to events.

Two layouts are understood. With a column ``event`` each row's event is that JSON text, flat or a CloudEvent; the log's
other columns may stand beside it, as they do when a log is copied, and must not contradict it. Without one, ``id`` and
the rest of the envelope are columns, and every other column is an attribute: structs become dotted names, arrays stay
arrays, nulls are absent. ``position`` and ``accepted_at`` are never taken: the log gives its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from recado.errors import EventError
from recado.model.codec import read_event, write_flat
from recado.model.event import ENVELOPE, Event
from recado.model.limits import LIMITS
from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import DAMAGE, LOG_COLUMNS

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
                yield _written(_from_whole(row) if whole else _from_columns(row))
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


def _written(event: Event) -> bytes:
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
