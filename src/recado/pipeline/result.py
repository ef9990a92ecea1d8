"""From a batch of events to the rows of the result, in executors: what matched, whose it is, what was no event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
import pyarrow as pa

from recado.pipeline.canary import Watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import INSTANT, Array, Form, Matched, match_rows, text_of_row
from recado.pipeline.meanings import add_meanings, renamed_texts
from recado.pipeline.sets import LoadedSet
from recado.semantics.knowledge import Knowledge

ROWS_OUT = 65_536
"""Notifications in one batch on their way back: an event may match a million subscriptions."""

BadRows = Literal["fail", "keep"]

_REJECTED = pa.struct([("reason", pa.string()), ("text", pa.string())])
_TYPES = {"event_time": INSTANT, "expires_at": INSTANT, "rejected": _REJECTED}


class EventForm(msgspec.Struct, frozen=True):
    """How the rows of a DataFrame are events. ``names``: the real names of columns that had to travel under others."""

    form: Form
    column: str = ""
    names: tuple[str, ...] = ()

    def named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns(list(self.names)) if self.names else batch


def match_record_batch(
    loaded: LoadedSet,
    batch: pa.RecordBatch,
    form: EventForm,
    fields: tuple[str, ...],
    bad_rows: BadRows,
    *,
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
    watch: Watch | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the result that come from one batch of events."""
    batch = form.named(batch)

    def match() -> Matched:
        return match_rows(loaded.index, batch, form.form, form.column)

    matched = match() if watch is None else watch.checked(loaded, batch, form.form, form.column, match)
    if (meanings := loaded.meanings(knowledge)) is not None:
        matched = add_meanings(meanings, batch, form.form, form.column, matched)
    if matched.rejected and bad_rows == "fail":
        row, reason = matched.rejected[0]
        place = f"event {matched.ids[row].as_py()!r}" if matched.ids[row].is_valid else f"row {row + 1} of a batch"
        raise PipelineError(f"{place}: {reason}")
    source = _Source(loaded, batch, matched, matched.pairs.events, form, knowledge)
    for start in range(0, len(matched.pairs), ROWS_OUT):
        part = _Part(source, slice(start, start + ROWS_OUT))
        yield pa.RecordBatch.from_arrays([part.column(name) for name in fields], names=list(fields))
    if matched.rejected:
        yield _rejected_batch(batch, matched, form, fields)


class _Source(msgspec.Struct, frozen=True):
    """What rows of the result are made from."""

    loaded: LoadedSet
    batch: pa.RecordBatch
    matched: Matched
    rows: Array
    """The row of the batch that each pair belongs to; made once, since there may be millions."""
    form: EventForm
    knowledge: Knowledge


class _Part:
    """Some of the pairs of a batch, about to become rows of the result."""

    def __init__(self, source: _Source, part: slice) -> None:
        self.source = source
        self.rows = pa.array(source.rows[part])
        self.slots = source.matched.pairs.slots[part]

    def column(self, name: str) -> pa.Array:
        loaded, batch, matched = self.source.loaded, self.source.batch, self.source.matched
        match name:
            case "event_id":
                return matched.ids.take(self.rows)
            case "subscription_id":
                return loaded.column("id").take(pa.array(self.slots))
            case "event_time":
                return matched.times.take(self.rows)
            case "event":
                columns = [column.take(self.rows) for column in batch.columns]
                return pa.StructArray.from_arrays(columns, names=batch.schema.names)
            case "renamed":
                return self._renamed()
            case "rejected":
                return pa.nulls(len(self.rows), _REJECTED)
            case _:
                return loaded.column(name).take(pa.array(self.slots))

    def _renamed(self) -> pa.Array:
        meanings = self.source.loaded.meanings(self.source.knowledge)
        if meanings is None or not meanings.renaming:
            return pa.nulls(len(self.rows), pa.string())
        form = self.source.form
        return renamed_texts(meanings, self.source.batch.take(self.rows), form.form, form.column, self.slots)


def _rejected_batch(
    batch: pa.RecordBatch, matched: Matched, form: EventForm, fields: tuple[str, ...]
) -> pa.RecordBatch:
    rows = [row for row, _ in matched.rejected]
    told = [
        {"reason": reason, "text": text_of_row(batch, row, form.form, form.column)} for row, reason in matched.rejected
    ]
    known = {"event_id": matched.ids.take(pa.array(rows)), "rejected": pa.array(told, _REJECTED)}
    types = _TYPES | {"event": pa.struct(batch.schema)}
    arrays = [known.get(name, pa.nulls(len(rows), types.get(name, pa.string()))) for name in fields]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))
