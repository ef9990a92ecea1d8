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
from recado.matching.encode import Columns, Field, fields_of, flat_list, is_list, is_text, normal, row_views
from recado.matching.index import Index
from recado.matching.json_texts import Texts, joined
from recado.matching.kernels.columns import REPEATS, UNCERTAIN, sort_by_event
from recado.matching.kernels.scan import NO_TIME
from recado.matching.scanner import Scanned
from recado.model.codec import read_event
from recado.model.event import Event, expansions, only_view
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value, microseconds

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
        decided = np.array(list(_decide(index, sorted(doubtful), view_of)), np.int32).reshape(-1, 2)
        rows, entries = np.concatenate((rows[sure], decided[:, 0])), np.concatenate((entries[sure], decided[:, 1]))
    return index.distinct(rows, entries, columns.size)


def _decide(
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


# --- Events as JSON texts in, pairs out ------------------------------------------------------------------------------
#
# Most texts become columns in machine code (``recado.matching.scanner``). The others, bad ones among them, are given
# to ``read``, which is to decode them by ``recado.model.codec.read_event`` and to tell whom it concerns if one is no
# event. So the result is always that of reading and matching each text by itself.


Read = Callable[[int], Event | None]
"""The event of the text with this number; None if it is none, or none that counts."""
FEW = 32
"""So many events are matched one by one; more of them are worth columns."""


class MatchedTexts:
    """Which texts matched which subscriptions, and what else is known of their events.

    ``scanned`` are the batches, each with the number of its first text, and ``read`` the events that were read.
    """

    def __init__(self) -> None:
        self.pairs = Pairs(np.zeros(1, np.int64), np.zeros(0, np.int32))
        self.scanned: list[tuple[int, Scanned]] = []
        self.read: list[tuple[int, Event]] = []

    def ids(self, default: Callable[[int], str] = str) -> list[str | None]:
        """By text: the id of its event, or ``default`` where it has none; None where the text is no event."""
        out: list[str | None] = [None] * (len(self.pairs.offsets) - 1)
        for first, scanned in self.scanned:
            starts, lengths = scanned.ids[: scanned.size].T
            base = int(starts.min(initial=len(scanned.data)))
            data = scanned.data[max(base, 0) : int((starts + lengths).max(initial=0))].tobytes()
            places = zip((starts - max(base, 0)).tolist(), lengths.tolist(), strict=True)
            for text, (start, length) in zip(scanned.owners.tolist(), places, strict=True):
                at = first + text
                out[at] = data[start : start + length].decode() if length else default(at)
        for at, event in self.read:
            out[at] = event.id
        return out

    def times(self) -> tuple[Array, Array]:
        """By text: microseconds since 1970, and whether its event has a time."""
        out: Array = np.full(len(self.pairs.offsets) - 1, NO_TIME, np.int64)
        for first, scanned in self.scanned:
            out[scanned.owners + first] = scanned.times[: scanned.size]
        for at, event in self.read:
            if event.time is not None:
                out[at] = microseconds(event.time)
        return out, out != NO_TIME


def match_texts(
    index: Index, texts: Texts, read: Read, *, limits: Limits = LIMITS, needs_id: bool = False
) -> MatchedTexts:
    """Match every text that is an event; with ``needs_id`` a text without an id is given to ``read``."""
    with index.lock:
        found, parts = MatchedTexts(), []
        first = 0
        while first < texts.size:
            scanned = index.scan(texts.part(first, first + CHUNK), limits, needs_id)
            parts.append(_match_scanned(index, scanned, first, read, found))
            first += scanned.seen
        if parts:
            found.pairs = joined_pairs(parts)
        return found


def match_json(index: Index, column: str, array: pa.Array) -> Pairs:
    """Match every row of an Arrow column of JSON texts; an EventError names the row that is no event.

    A null is an event without attributes. An event without an id is called after its row.
    """
    texts = array.to_pylist()

    def read(row: int) -> Event:
        text = texts[row]
        try:
            return Event(f"row-{row}") if text is None else read_event(text, default_id=f"row-{row}")
        except EventError as error:
            raise EventError(f"row {row} of column {column!r}: {error}") from None

    return match_texts(index, joined([b"" if text is None else to_bytes(text) for text in texts]), read).pairs


def to_bytes(text: str | bytes) -> bytes:
    """A text as the kernel takes it; nothing, which it leaves, if it has no UTF-8."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b""


def _match_scanned(index: Index, scanned: Scanned, first: int, read: Read, found: MatchedTexts) -> Pairs:
    found.scanned.append((first, scanned))
    left = [(at, event) for at in scanned.left.tolist() if (event := read(first + at)) is not None]
    found.read += [(first + at, event) for at, event in left]

    def view_of(row: int) -> Mapping[str, Value]:
        event = read(first + int(scanned.owners[row]))
        assert event is not None, "the kernel took a text for an event, and the reader does not"
        return only_view(event)  # texts with arrays are left

    rows, entries = decided_pairs(index, scanned, view_of)
    events = scanned.owners[rows]
    if left:
        also, of_these = _match_left(index, left)
        events, entries = np.concatenate((events, also)), np.concatenate((entries, of_these))
    return pairs_by_event(index, events, entries, scanned.seen)


def _match_left(index: Index, left: list[tuple[int, Event]]) -> tuple[Array, Array]:
    """Pairs (text, entry) of events that were read."""
    texts = np.array([at for at, _ in left], np.int32)
    if len(left) < FEW:
        found = [index.match_entries(event) for _, event in left]
        return np.repeat(texts, [len(entries) for entries in found]), np.concatenate(found)
    names = index.dictionary.names
    events, entries, _ = match_views(index, (list(expansions(event, names)) for _, event in left))
    return texts[events], entries
