"""Record batches in, pairs out: the batch face of the index.

    pairs = match_batch(index, batch)
    pairs.events, pairs.slots, pairs.ids(index)

Columns are attributes; ``id``, ``type``, ``source`` and ``time`` are the envelope; struct columns become dotted names;
null is absent; list columns are arrays. With ``json_column`` each row of that column is one event as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.errors import EventError
from recado.filters.evaluate import evaluate
from recado.matching.columns import REPEATS, UNCERTAIN, sort_by_event
from recado.matching.encode import Columns, flatten, is_text, parse_times
from recado.matching.index import Index
from recado.model.codec import read_event
from recado.model.event import Event, expansions
from recado.model.values import Value

Array = NDArray[Any]
CHUNK = 8192
"""How many events the kernel takes at once: few enough for their columns to stay in the cache."""


class Pairs:
    """Which events matched which subscriptions, by event: those of event i are ``slots[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, offsets: Array, slots: Array) -> None:
        self.offsets = offsets
        self.slots = slots

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def events(self) -> Array:
        """The row of the batch that each pair belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def ids(self, index: Index) -> pa.Array:
        """The subscription id of each pair, as an Arrow array of strings."""
        return index.registry.id_array(self.slots)


def match_batch(index: Index, batch: pa.RecordBatch, json_column: str | None = None) -> Pairs:
    """Match every row of a batch."""
    with index.lock:
        parts = [_match_chunk(index, chunk, json_column) for chunk in _chunks(batch)]
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offsets) for part in parts)])
        return Pairs(np.cumsum(counts), np.concatenate([np.zeros(0, np.int32), *(part.slots for part in parts)]))


def match_events(index: Index, events: list[Event]) -> Pairs:
    """Match events that are not in Arrow form."""
    with index.lock:
        views, owners = _views(index, events)
        return _match_views(index, views, owners, len(events))


def _chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, max(batch.num_rows, 1), CHUNK):
        yield batch.slice(start, CHUNK)


def _match_chunk(index: Index, batch: pa.RecordBatch, json_column: str | None) -> Pairs:
    if json_column is not None:
        views, owners = _views(index, list(_read_json(batch, json_column)))
        return _match_views(index, views, owners, batch.num_rows)
    fields = list(flatten(zip(batch.schema.names, batch.columns, strict=True)))
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        raise EventError(f"column {next(n for n in names if names.count(n) > 1)!r} is there twice")
    fields = [(name, array) for name, array in fields if name in index.dictionary.names]
    if any(_is_list(array.type) for _, array in fields):
        views, owners = _views(index, [_event_of(row) for row in _rows(fields, batch.num_rows)])
        return _match_views(index, views, owners, batch.num_rows)
    columns = index.encoder.from_arrow(fields, batch.num_rows)
    events, entries = _run(index, columns, lambda row: _event_view(fields, row))
    return _pairs(index, events, entries, batch.num_rows)


def _match_views(index: Index, views: list[dict[str, Value]], owners: Array, size: int) -> Pairs:
    rows, entries = _run(index, index.encoder.from_views(views), views.__getitem__)
    events = owners[rows].astype(np.int32)
    if len(views) > size:  # several views of one event may match
        events, entries = _distinct(events, entries)
    return _pairs(index, events, entries, size)


def _run(index: Index, columns: Columns, view_of: Any) -> tuple[Array, Array]:
    """The matching (row, entry) pairs, each once, the uncertain ones decided."""
    rows, found = index.run_columns(columns)
    flags = found & (REPEATS | UNCERTAIN)
    if not flags.any():
        return rows, found.astype(np.int32)
    entries = (found & 0xFFFFFFFF).astype(np.int32)
    sure = found < UNCERTAIN
    doubtful = sorted(set(zip(rows[~sure].tolist(), entries[~sure].tolist(), strict=True)))
    views: dict[int, Mapping[str, Value]] = {}
    decided = []
    for row, entry in doubtful:
        if row not in views:
            views = {row: view_of(row)}
        if evaluate(index.opaque_filter(entry), views[row]):
            decided.append((row, entry))
    more = np.array(decided, np.int32).reshape(-1, 2)
    once = sure & (found & REPEATS == 0)
    often = sure & ~once
    repeated = _distinct(np.concatenate((rows[often], more[:, 0])), np.concatenate((entries[often], more[:, 1])))
    return np.concatenate((rows[once], repeated[0])), np.concatenate((entries[once], repeated[1]))


def _distinct(events: Array, entries: Array) -> tuple[Array, Array]:
    keys = np.unique(events.astype(np.int64) << 32 | entries.astype(np.int64))
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def _pairs(index: Index, events: Array, entries: Array, size: int) -> Pairs:
    index.count(size, len(events))
    return Pairs(*sort_by_event(events, entries, index.registry.members, index.registry.blocks, size))


# -- rows as events


def _views(index: Index, events: list[Event]) -> tuple[list[dict[str, Value]], Array]:
    """Every single-valued view of the events, and which event each belongs to."""
    views: list[dict[str, Value]] = []
    owners: list[int] = []
    for number, event in enumerate(events):
        for view in expansions(event, index.dictionary.names):
            views.append(view)
            owners.append(number)
    return views, np.array(owners, np.int32)


def _read_json(batch: pa.RecordBatch, column: str) -> Iterator[Event]:
    if column not in batch.schema.names or not is_text(batch.schema.field(column).type):
        raise EventError(f"there is no column {column!r} of strings; the columns are {', '.join(batch.schema.names)}")
    for row, text in enumerate(batch.column(column).to_pylist()):
        try:
            yield Event(f"row-{row}") if text is None else read_event(text, default_id=f"row-{row}")
        except EventError as error:
            raise EventError(f"row {row} of column {column!r}: {error}") from None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _rows(fields: list[tuple[str, pa.Array]], size: int) -> Iterator[dict[str, Any]]:
    prepared = [(name, parse_times(a) if name == "time" and is_text(a.type) else a) for name, a in fields]
    values = [(name, array.to_pylist()) for name, array in prepared]
    for row in range(size):
        yield {name: column[row] for name, column in values}


def _event_of(row: Mapping[str, Any]) -> Event:
    attributes = {}
    envelope: dict[str, Any] = {"id": "row"}
    for name, value in row.items():
        if isinstance(value, list):
            value = tuple(_value(element) for element in value if element is not None)
        elif value is not None:
            value = _value(value)
        if name in ("id", "type", "source", "time"):
            if value is not None:
                envelope[name] = value
        elif value is not None:
            attributes[name] = value
    return Event(attributes=attributes, **envelope)


def _event_view(fields: list[tuple[str, pa.Array]], row: int) -> dict[str, Value]:
    """One row as the evaluator sees it."""
    values = next(_rows([(name, array.slice(row, 1)) for name, array in fields], 1))
    return next(expansions(_event_of(values)))


def _value(value: Any) -> Value:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value  # type: ignore[no-any-return]
