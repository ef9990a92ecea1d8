"""Record batches in, pairs out: the batch face of the index.

    pairs = match_batch(index, batch)
    pairs.events, pairs.slots, pairs.ids(index)

Columns are attributes; ``id``, ``type``, ``source`` and ``time`` are the envelope; struct columns become dotted names;
null is absent; list columns are arrays. With ``json_column`` each row of that column is one event as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.errors import EventError
from recado.filters.evaluate import evaluate
from recado.matching.arrow import Field, fields_of, flat_list, is_list, is_text, normal, row_views
from recado.matching.columns import REPEATS, UNCERTAIN, sort_by_event
from recado.matching.encode import Columns
from recado.matching.index import Index
from recado.matching.scanner import Scanned
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
        fields = fields_of(batch)
        if json_column is not None:
            from recado.matching.from_texts import match_json  # noqa: PLC0415  # it joins batches, so it comes after this module

            return match_json(index, json_column, _text_column(dict(fields), json_column))
        used = [(name, normal(name, array)) for name, array in fields if name in index.dictionary.names]
        parts = []
        for start in range(0, max(batch.num_rows, 1), CHUNK):
            size = min(CHUNK, batch.num_rows - start)
            chunk = [(name, array.slice(start, size)) for name, array in used]
            parts.append(_match_chunk(index, chunk, size, start))
        return joined_pairs(parts)


def match_events(index: Index, events: list[Event]) -> Pairs:
    """Match events that are not in Arrow form."""
    with index.lock:
        return _match_views(index, (list(expansions(event, index.dictionary.names)) for event in events))


def _text_column(columns: Mapping[str, pa.Array], name: str) -> pa.Array:
    if name not in columns or not is_text(columns[name].type):
        raise EventError(f"there is no column {name!r} of strings; the columns are {', '.join(columns)}")
    return columns[name]


def joined_pairs(parts: list[Pairs]) -> Pairs:
    """The pairs of batches that follow each other."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offsets) for part in parts)])
    return Pairs(np.cumsum(counts), np.concatenate([part.slots for part in parts]))


def _match_chunk(index: Index, fields: list[Field], size: int, first_row: int) -> Pairs:
    if any(is_list(array.type) for _, array in fields):
        return _match_views(index, row_views(fields, size, first_row))
    columns = index.encoder.from_arrow(fields, size)
    rows, entries = decided_pairs(index, columns, lambda row: _view_of_row(fields, row))
    return pairs_by_event(index, rows, entries, size)


def _view_of_row(fields: list[Field], row: int) -> dict[str, Value]:
    return next(row_views([(name, array.slice(row, 1)) for name, array in fields], 1, row))[0]


def _match_views(index: Index, views_of_events: Iterable[list[dict[str, Value]]]) -> Pairs:
    return pairs_by_event(index, *match_views(index, views_of_events))


def match_views(index: Index, views_of_events: Iterable[list[dict[str, Value]]]) -> tuple[Array, Array, int]:
    """The matching (event, entry) pairs of events, given by their views, and how many events there are."""
    views, owners = flat_list(views_of_events)
    rows, entries = decided_pairs(index, index.encoder.from_views(views), views.__getitem__)
    events = owners[rows]
    size = int(owners[-1]) + 1 if len(owners) else 0
    if len(views) > size:  # several views of one event may match
        events, entries = index.distinct(events, entries, size)
    return events, entries, size


def decided_pairs(
    index: Index, columns: Columns | Scanned, view_of: Callable[[int], Mapping[str, Value]]
) -> tuple[Array, Array]:
    """The matching (row, entry) pairs, each once, the uncertain ones decided."""
    rows, found = index.run_columns(columns)
    if len(found) == 0 or found.max() < REPEATS:
        return rows, found.astype(np.int32)
    entries = (found & 0xFFFFFFFF).astype(np.int32)
    sure = found < UNCERTAIN
    if not sure.all():
        doubtful = set(zip(rows[~sure].tolist(), entries[~sure].tolist(), strict=True))
        decided = np.array(list(_decided(index, sorted(doubtful), view_of)), np.int32).reshape(-1, 2)
        rows, entries = np.concatenate((rows[sure], decided[:, 0])), np.concatenate((entries[sure], decided[:, 1]))
    return index.distinct(rows, entries, columns.size)


def _decided(
    index: Index, doubtful: list[tuple[int, int]], view_of: Callable[[int], Mapping[str, Value]]
) -> Iterator[tuple[int, int]]:
    """Those of the pairs that the evaluator accepts; pairs of one row stand together."""
    for row, group in groupby(doubtful, key=itemgetter(0)):
        view = view_of(row)
        yield from (pair for pair in group if evaluate(index.opaque_filter(pair[1]), view))


def pairs_by_event(index: Index, events: Array, entries: Array, size: int) -> Pairs:
    """The subscriptions of pairs (event, entry)."""
    index.count(size, len(events))
    return Pairs(*sort_by_event(events, entries, index.registry.members, index.registry.blocks, size))
