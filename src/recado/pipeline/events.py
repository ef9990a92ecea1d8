"""Rows that are events, in any of the forms that a DataFrame may have them.

- *columns*: the row's columns are attributes; ``id``, ``type``, ``source`` and ``time`` are the envelope, structs give
  dotted names, arrays are arrays, null is absent. The fastest form: the rows never leave Arrow. Where a map or a
  VARIANT is among the columns, whose names differ from row to row, the row travels as one VARIANT instead.
- *json*: one string column holds the event as flat JSON or as a CloudEvent. A VARIANT becomes this form: as the text
  that Spark makes of it, or, where that would lose an instant or a float such as NaN, as one that is made here.
- *cloudevents*: the row's columns are the attributes of a CloudEvent, with ``data`` as JSON text, struct or VARIANT;
  other columns are extensions, and a column ``extensions`` may hold a map of them.

A row that is no event is not an error of the job: it is *rejected* with a reason, and the other rows are matched.
A column of a type that no attribute can have is an error of the job, since every row would fail alike.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import VariantVal

from recado.errors import EventError
from recado.matching.batch import Pairs, match_batch, match_events, match_texts, to_bytes
from recado.matching.encode import normal
from recado.matching.index import Index
from recado.matching.json_texts import joined
from recado.model.codec import parse_json, read_event
from recado.model.event import Event
from recado.model.flat import jsonable
from recado.model.values import format_time

Form = Literal["columns", "json", "cloudevents"]
Array = NDArray[Any]

INSTANT = pa.timestamp("us", "UTC")
LONGEST_KEPT = 1 << 20
"""A rejected row is kept with its text up to this many characters."""


class Matched(NamedTuple):
    """What came of a batch: pairs by row, the id and time of each row, and the rows that are no events."""

    pairs: Pairs
    ids: pa.Array
    times: pa.Array
    rejected: list[tuple[int, str]]


def match_rows(index: Index, batch: pa.RecordBatch, form: Form, column: str) -> Matched:
    """Match every row that is an event."""
    if form == "columns":
        return _match_columns(index, batch)
    if form == "json":
        return _match_json(index, batch.column(column).to_pylist(), column)
    read = row_reader(batch, form, column)
    return _match_read(index, batch.num_rows, read)


# -- columns


class _Found:
    """What the rows of a batch matched so far, and which of them are no events."""

    def __init__(self, index: Index, rows: int) -> None:
        self.index = index
        self.counts: Array = np.zeros(rows + 1, np.int64)
        self.slots: list[Array] = [np.zeros(0, np.int32)]
        self.rejected: list[tuple[int, str]] = []

    def match(self, batch: pa.RecordBatch, first: int) -> None:
        """Match rows in one go; if one of them is no event, in two halves, down to the row itself."""
        try:
            pairs = match_batch(self.index, batch)
        except EventError as error:
            match_batch(self.index, batch.slice(0, 0))  # refuses a type that no attribute can have: all rows fail alike
            if batch.num_rows == 1:
                self.rejected.append((first, str(error).replace("row 0: ", "")))
                return
            half = batch.num_rows // 2
            self.match(batch.slice(0, half), first)
            self.match(batch.slice(half), first + half)
            return
        self.counts[first + 1 : first + 1 + batch.num_rows] = np.diff(pairs.offsets)
        self.slots.append(pairs.slots)

    def reject(self, rows: Array, reason: str) -> None:
        """Reject rows that were matched, and forget what they matched."""
        of_pair = np.repeat(np.arange(len(self.counts) - 1), self.counts[1:])
        self.slots = [np.concatenate(self.slots)[~np.isin(of_pair, rows)]]
        self.counts[rows + 1] = 0
        known = {row for row, _ in self.rejected}
        self.rejected = sorted(self.rejected + [(int(row), reason) for row in rows if row not in known])

    def pairs(self) -> Pairs:
        return Pairs(np.cumsum(self.counts), np.concatenate(self.slots))


def with_text_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its ids as text, as they are read in JSON, whatever the type of the column is."""
    ids = batch.column("id")
    if pa.types.is_string(ids.type):
        return batch
    return batch.set_column(batch.schema.names.index("id"), "id", ids.cast(pa.string()))


def _match_columns(index: Index, batch: pa.RecordBatch) -> Matched:
    batch = with_text_ids(batch)
    ids = batch.column("id")
    found = _Found(index, batch.num_rows)
    found.match(batch, 0)
    if ids.null_count:
        missing = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
        found.reject(missing, "the event has no id: its column id is null")
    times = _times(batch)
    if times.null_count and "time" in batch.schema.names:
        wrong = pc.and_(times.is_null(), batch.column("time").is_valid()).to_numpy(zero_copy_only=False)
        if wrong.any():
            found.reject(np.flatnonzero(wrong), "column 'time' is no timestamp; write times as 2026-11-15T10:00:00Z")
    return Matched(found.pairs(), ids, times, found.rejected)


def _times(batch: pa.RecordBatch) -> pa.Array:
    """The time of each row; null if it has none, or holds what is none."""
    if "time" not in batch.schema.names:
        return pa.nulls(batch.num_rows, INSTANT)
    column = batch.column("time")
    if pa.types.is_timestamp(column.type):
        return column.cast(INSTANT, safe=False)
    try:
        return pc.cast(column, INSTANT)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_time(column.slice(row, 1)) for row in range(batch.num_rows)])


def _time(cell: pa.Array) -> pa.Array:
    try:
        return normal("time", cell)
    except EventError:
        return pa.nulls(1, INSTANT)


# -- texts


def _match_json(index: Index, texts: list[str | None], column: str) -> Matched:
    """Through columns as far as the kernel reads texts; the others are read one by one."""
    rejected: list[tuple[int, str]] = []

    def read(row: int) -> Event | None:
        try:
            return _from_text(texts[row], column)
        except EventError as error:
            rejected.append((row, str(error)))
            return None

    given = joined([b"" if text is None else to_bytes(text) for text in texts])
    found = match_texts(index, given, read, needs_id=True)
    times, known = found.times()
    return Matched(found.pairs, pa.array(found.ids(), pa.string()), pa.array(times, INSTANT, mask=~known), rejected)


# -- rows that are read one by one


def row_reader(batch: pa.RecordBatch, form: Form, column: str) -> Callable[[int], Event]:
    """Reads the event of a row, in the forms that are read one by one."""
    if form == "json":
        texts = batch.column(column)
        return lambda row: _from_text(texts[row].as_py(), column)
    columns = [(field.name, batch.column(field.name), is_variant_text(field)) for field in batch.schema]

    def read(row: int) -> Event:
        cells = ((name, array[row].as_py(maps_as_pydicts="strict"), parsed) for name, array, parsed in columns)
        members = {name: parse_json(value.encode()) if parsed and value else value for name, value, parsed in cells}
        return _from_cloudevent_row(members, data_is_value=is_parsed("data"))

    def is_parsed(column: str) -> bool:
        return any(name == column and parsed for name, _, parsed in columns)

    return read


def _match_read(index: Index, size: int, read: Callable[[int], Event]) -> Matched:
    events: list[Event] = []
    good: list[int] = []
    rejected: list[tuple[int, str]] = []
    for row in range(size):
        try:
            events.append(read(row))
            good.append(row)
        except EventError as error:
            rejected.append((row, str(error)))
    pairs = match_events(index, events)
    counts = np.zeros(size + 1, np.int64)
    counts[np.array(good, np.int64) + 1] = np.diff(pairs.offsets)
    ids, times = _spread(((row, e.id, e.time) for row, e in zip(good, events, strict=True)), size)
    return Matched(Pairs(np.cumsum(counts), pairs.slots), ids, times, rejected)


def _spread(known: Iterable[tuple[int, str, datetime | None]], size: int) -> tuple[pa.Array, pa.Array]:
    ids: list[str | None] = [None] * size
    times: list[datetime | None] = [None] * size
    for row, id, time in known:
        ids[row], times[row] = id, time
    return pa.array(ids, pa.string()), pa.array(times, INSTANT)


def _from_text(text: str | None, column: str) -> Event:
    if text is None:
        raise EventError(f"the column {column!r} is null; one event as JSON was expected")
    return read_event(text)


def _from_cloudevent_row(row: Mapping[str, Any], *, data_is_value: bool = False) -> Event:
    """The CloudEvent that a row describes; what is null is left out. ``data_is_value``: it is not JSON to be read."""
    members: dict[str, Any] = {"specversion": "1.0"}
    for name, value in row.items():
        if name == "extensions":
            members.update(value or {})
        elif value is not None and name != "data":
            value = _with_zone(value)
            members[name] = format_time(value) if isinstance(value, datetime) and name == "time" else value
    data = _with_zone(row.get("data"))
    if data is not None:
        members["data"] = data if data_is_value else _data(data, members.get("datacontenttype"))
    return read_event(members)


def _with_zone(value: Any) -> Any:
    """A value in which timestamps without a zone are taken as UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    if isinstance(value, dict):
        return {name: _with_zone(inner) for name, inner in value.items()}
    return [_with_zone(inner) for inner in value] if isinstance(value, list) else value


def _data(data: Any, content_type: str | None) -> Any:
    if not isinstance(data, str) or (content_type is not None and "json" not in content_type):
        return data
    try:
        return parse_json(data.encode())
    except EventError as error:
        raise EventError(f"$.data: {error}; the column data holds JSON unless datacontenttype says otherwise") from None


# -- VARIANT

_VARIANT_TEXT = {b"recado": b"variant"}


def is_variant_text(field: pa.Field) -> bool:
    """Does the column hold JSON that ``variant_texts`` made?"""
    return bool(field.metadata and field.metadata.get(b"recado") == b"variant")


def variant_field(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=_VARIANT_TEXT)


def variant_texts(variants: pa.Array, otherwise: pa.Array | None = None, *, envelope: bool) -> pa.Array:
    """VARIANTs, as they come through Arrow, as JSON in which instants and odd floats are what they are.

    A row that has none is taken from ``otherwise``. ``envelope`` is as for ``json_of``.
    """
    if otherwise is not None and variants.null_count == len(variants):
        return otherwise
    texts = [None] * len(variants) if otherwise is None else otherwise.to_pylist()
    for row, raw in enumerate(variants.to_pylist()):
        if raw is not None:
            texts[row] = json_of(VariantVal(raw["value"], raw["metadata"]).toPython(), envelope=envelope)
    return pa.array(texts, pa.string())


def json_of(value: Any, *, envelope: bool = True) -> str:
    """A value that Spark gave as JSON in which instants and odd floats are what they are.

    ``envelope``: it is a whole event, whose own ``time`` is plain text.
    """
    plain = _jsonable(value)
    if envelope and isinstance(value, dict) and isinstance(value.get("time"), datetime):
        plain["time"] = plain["time"]["$time"]
    return msgspec.json.encode(plain).decode()


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _jsonable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_jsonable(inner) for inner in value]
    if isinstance(value, Decimal):  # Spark has no larger integers than those of 64 bits
        whole = value == value.to_integral_value() and value.as_tuple().exponent == 0
        return int(value) if whole and -(2**63) <= value < 2**64 else float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return value if value is None else jsonable(_with_zone(value))


# -- rejected rows


def text_of_row(batch: pa.RecordBatch, row: int, form: Form, column: str) -> str:
    """A rejected row as text, so that it can be repaired and sent again."""
    if form == "json":
        text = batch.column(column)[row].as_py() or ""
    else:
        members = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
        kept = {name: value for name, value in members.items() if value is not None}
        text = msgspec.json.encode(kept, enc_hook=str).decode()
    return text if len(text) <= LONGEST_KEPT else text[:LONGEST_KEPT]
