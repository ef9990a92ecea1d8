"""Arrow columns as attributes: which types there are, and one form for each.

Struct columns become dotted names and dictionaries of other things than text are unpacked; instants are brought to
microseconds (finer ones are cut off, those without a zone are taken as UTC); a ``time`` column may be text. A type that
no attribute can have is refused with the column's name, whichever way the batch is matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recado.errors import EventError
from recado.model.event import expand
from recado.model.limits import LIMITS
from recado.model.values import Value, microseconds

Field = tuple[str, pa.Array]

FIRST_INSTANT = microseconds(datetime(1, 1, 1, tzinfo=UTC))
LAST_INSTANT = microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))


def fields_of(batch: pa.RecordBatch) -> list[Field]:
    """The columns of a batch by dotted name; a name may occur once."""
    fields = list(_flat(zip(batch.schema.names, batch.columns, strict=True)))
    seen: set[str] = set()
    for name, _ in fields:
        if name in seen:
            raise EventError(f"column {name!r} is there twice")
        seen.add(name)
    return fields


def _flat(fields: Iterable[Field]) -> Iterator[Field]:
    for name, array in fields:
        if pa.types.is_struct(array.type):
            names = [f"{name}.{field.name}" for field in array.type]
            yield from _flat(zip(names, array.flatten(), strict=True))
        else:
            yield name, array


def normal(name: str, array: pa.Array) -> pa.Array:
    """The column in the form that both ways of matching read: text, bool, int, float, microseconds, or a list."""
    kind = array.type
    if pa.types.is_dictionary(kind) and (name == "time" or not is_text(kind.value_type)):
        return normal(name, array.dictionary_decode())
    if is_text(kind):
        array = array if pa.types.is_string(kind) else array.cast(pa.large_string())
        return _instants(name, _parsed(array)) if name == "time" else array
    if pa.types.is_timestamp(kind):
        return _instants(name, array)
    if is_list(kind):
        if name == "time" or is_list(kind.value_type):
            raise _refused(name, kind)
        inner = normal(name, pa.array([], kind.value_type)).type
        if pa.types.is_timestamp(inner):
            _instants(name, pc.list_flatten(array))
        return array if inner == kind.value_type else _cast(name, array, pa.list_(inner))
    if pa.types.is_dictionary(kind) or _is_plain(kind):
        return array
    raise _refused(name, kind)


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind))


def _refused(name: str, kind: pa.DataType) -> EventError:
    return EventError(
        f"column {name!r} has the type {kind}; use strings, numbers, booleans, timestamps or lists of these"
    )


def _parsed(array: pa.Array) -> pa.Array:
    try:
        return pc.cast(array, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid as error:
        reason = str(error)
    try:  # with nanoseconds, which are cut off later
        return pc.cast(array, pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        raise EventError(f"column 'time': {reason}; write times as 2026-11-15T10:00:00Z") from None


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _refused(name, array.type) from None


def _instants(name: str, array: pa.Array) -> pa.Array:
    """Microseconds in UTC, none outside the years 1 to 9999."""
    try:
        array = array.cast(pa.timestamp("us", "UTC"), safe=array.type.unit != "ns")
    except pa.ArrowInvalid:
        raise EventError(f"column {name!r}: a timestamp is outside the years 1 to 9999") from None
    extremes = pc.min_max(array.cast(pa.int64()))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is not None and (low < FIRST_INSTANT or high > LAST_INSTANT):
        raise EventError(f"column {name!r}: a timestamp is outside the years 1 to 9999")
    return array


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


# -- rows


def row_views(fields: list[Field], size: int, first_row: int) -> Iterator[list[dict[str, Value]]]:
    """The single-valued views of each row, as the evaluator sees them; ``first_row`` numbers rows in messages."""
    columns = [(name, array.to_pylist()) for name, array in fields]
    for row in range(size):
        items = [(name, _value(column[row])) for name, column in columns]
        present = [(name, value) for name, value in items if value is not None and not _is_empty(name, value)]
        _check_arrays(present, first_row + row)
        yield list(expand(present))


def _is_empty(name: str, value: Value | tuple[Value, ...]) -> bool:
    """An empty type or source is absent, as in an event."""
    return value == "" and name in ("type", "source")


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(element) for element in value if element is not None)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _check_arrays(items: list[tuple[str, Any]], row: int) -> None:
    arrays = [(name, value) for name, value in items if type(value) is tuple]
    for name, value in arrays:
        if len(value) > LIMITS.array_elements:
            raise EventError(
                f"row {row}: column {name!r} has {len(value):,} elements; the limit is {LIMITS.array_elements:,}"
            )
    combinations = prod(len(value) for _, value in arrays if value)
    if combinations > LIMITS.array_combinations:
        raise EventError(
            f"row {row}: the arrays have {combinations:,} combinations of elements; "
            f"the limit is {LIMITS.array_combinations:,}"
        )


def flat_list(parts: Iterable[list[dict[str, Value]]]) -> tuple[list[dict[str, Value]], np.ndarray[Any, Any]]:
    """Every view, and the number of the event that each belongs to."""
    groups = list(parts)
    owners = np.repeat(np.arange(len(groups), dtype=np.int32), [len(group) for group in groups])
    return list(chain.from_iterable(groups)), owners
