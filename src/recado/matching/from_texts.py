"""Events as JSON texts in, pairs out.

Most texts become columns in machine code (``recado.matching.scanner``). The others, bad ones among them, are given to
``read``, which is to decode them by ``recado.model.codec.read_event`` and to tell whom it concerns if one is no event.
So the result is always that of reading and matching each text by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.errors import EventError
from recado.matching.batch import CHUNK, Pairs, decided_pairs, joined_pairs, match_views, pairs_by_event
from recado.matching.index import Index
from recado.matching.json_texts import Texts, joined
from recado.matching.scan import NO_TIME
from recado.matching.scanner import Scanned
from recado.model.codec import read_event
from recado.model.event import Event, expansions, only_view
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value, microseconds

Array = NDArray[Any]
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
