"""The row of the log: its Arrow schema, its form in the tail, and the checksums that guard it.

A row keeps the envelope beside the whole event, so that readers can choose by it without parsing JSON. In the tail
a row is a tuple of integers and bytes with a 64-bit BLAKE2b checksum over its position and every field. In a segment
each group of rows has a digest over its values, whatever their encoding, so that a group can be trusted or not even if
the file around it is damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recado.errors import EventError, LimitError, RecadoError
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.flat import check_flat
from recado.model.limits import Limits
from recado.model.values import EPOCH, check_value, microseconds

INSTANT = pa.timestamp("us", tz="UTC")
LOG_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("id", pa.string()),
        ("type", pa.string()),
        ("source", pa.string()),
        ("time", INSTANT),
        ("accepted_at", INSTANT),
        ("event", pa.string()),
    ]
)

Entry = tuple[int | None, bytes, bytes, bytes, bytes]
"""What an event brings to its row: time, id, type, source, and the event itself in the flat JSON form."""

Row = tuple[int, int, int | None, bytes, bytes, bytes, bytes, bytes]
"""Position, accepted_at, the five of an Entry, and the checksum. Instants are microseconds since 1970 in UTC."""

FIELDS = 8

_FIXED = struct.Struct("<qq?qQQQQ")
_STATE = struct.Struct("<q")


def prepare(events: Sequence[Event], limits: Limits) -> list[Entry]:
    """Checked events in the form that is stored; an error names the event, and then none of them is stored."""
    entries: list[Entry] = []
    total = 0
    for number, event in enumerate(events):
        entry = _entry(event, number, limits)
        total += len(entry[4])
        if total > limits.batch_bytes:
            raise LimitError(
                f"event {number} ({event.id[:80]!r}) brings the append above {limits.batch_bytes:,} bytes; append fewer"
                " events at a time"
            )
        entries.append(entry)
    return entries


def _entry(event: Event, number: int, limits: Limits) -> Entry:
    try:
        check_flat(event, limits)
        if event.time is not None:
            check_value(event.time, "time", limits.string_chars)
        text = write_flat(event)
    except (RecadoError, TypeError, ValueError) as error:  # the latter for what looks like a value and is none
        raise EventError(f"event {number} of the append: {error}") from None
    if len(text) > limits.event_bytes:
        raise LimitError(
            f"event {number} ({event.id[:80]!r}) has {len(text):,} bytes; the limit is {limits.event_bytes:,}"
        )
    time = None if event.time is None else microseconds(event.time)
    return time, event.id.encode(), event.type.encode(), event.source.encode(), text


def stored(position: int, accepted_at: int, entry: Entry) -> Row:
    return (position, accepted_at, *entry, row_checksum(position, accepted_at, entry))


def row_checksum(position: int, accepted_at: int, entry: Entry) -> bytes:
    time, id, type, source, event = entry
    fixed = _FIXED.pack(position, accepted_at, time is None, time or 0, len(id), len(type), len(source), len(event))
    return blake2b(b"".join((fixed, id, type, source, event)), digest_size=8, person=b"recado row").digest()


def state_checksum(log: str, next_position: int) -> bytes:
    return blake2b(_STATE.pack(next_position) + log.encode(), digest_size=8, person=b"recado state").digest()


def is_intact(row: Any) -> bool:
    """Has the row the types of one, and its checksum? It comes from a file that may hold anything."""
    if len(row) != FIELDS:
        return False
    position, accepted_at, time, id, type_, source, event, checksum = row
    if type(position) is not int or type(accepted_at) is not int or not (time is None or type(time) is int):
        return False
    if not type(id) is type(type_) is type(source) is type(event) is bytes:
        return False
    return bool(row_checksum(position, accepted_at, (time, id, type_, source, event)) == checksum)


def to_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Intact rows as Arrow."""
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=LOG_SCHEMA)
    position, accepted_at, time, id, type_, source, event, _ = zip(*rows, strict=True)
    texts = [pa.array(column, pa.binary()).cast(pa.string()) for column in (id, type_, source, event)]
    instants = [pa.array(column, pa.int64()).cast(INSTANT) for column in (time, accepted_at)]
    return pa.record_batch([pa.array(position, pa.int64()), *texts[:3], *instants, texts[3]], schema=LOG_SCHEMA)


def content_digest(batch: pa.RecordBatch) -> str:
    """A digest of the values of the columns of LOG_SCHEMA, the same for every encoding of them."""
    digest = blake2b(digest_size=16, person=b"recado rows")
    for name in LOG_SCHEMA.names:
        column = batch.column(name)
        present = column.is_valid()
        digest.update(np.asarray(present).tobytes())
        if pa.types.is_string(column.type):
            column = column.fill_null("")
            digest.update(np.asarray(pc.binary_length(column)).tobytes())
            digest.update(_characters(column))
        else:
            digest.update(np.asarray(column.cast(pa.int64()).fill_null(0)).tobytes())
    return digest.hexdigest()


def _characters(column: pa.Array) -> bytes:
    """All strings of a column, one after the other."""
    _, offsets, data = column.buffers()
    if data is None:
        return b""
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return bytes(data[int(bounds[0]) : int(bounds[-1])])


def instant_of(count: int) -> datetime:
    """The instant that a row spells in microseconds."""
    return EPOCH + timedelta(microseconds=count)
