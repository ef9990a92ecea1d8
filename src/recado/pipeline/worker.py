"""What a Python worker of an executor holds: the subscription sets it has opened.

Spark keeps a worker process for many tasks, so a set that is opened into this module is opened once for a process, not
once for a task, and since the index is mapped, all processes of a host share its pages. A ``Place`` says where a set
is found and travels with the job instead of the set:

- ``folder`` alone: one version, at a path that executors see as well;
- ``files``: one version that was shipped with the job under these names. A worker keeps it by its content in a folder
  of its host (``recado.pipeline.locations``), where the workers of other executors find it;
- ``choices``: a set whose newest version is taken at each micro-batch of a stream. The driver chooses, records it in
  that folder under the number of the micro-batch, so that a replay takes the same version, and tells the tasks by a
  local property of their job.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import SparkFiles, TaskContext

from recado.pipeline.canary import Watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import (
    INSTANT,
    Array,
    Form,
    Matched,
    match_rows,
    text_of_row,
    variant_field,
    variant_texts,
)
from recado.pipeline.locations import Location, keep_copy, write_file
from recado.pipeline.meanings import add_meanings, renamed_texts
from recado.pipeline.sets import DETAILS, INDEX, LoadedSet, load_folder
from recado.semantics.engine import Knowledge

KEPT = 2
"""How many sets a worker keeps open: the one in use and the one before it."""
CHOSEN = "recado.place"
"""The local property that tells the tasks of a micro-batch where its version is."""


class Place(msgspec.Struct, frozen=True):
    """Where executors find a subscription set."""

    folder: str
    files: tuple[str, str] | None = None
    choices: str | None = None
    digest: str = ""
    """Of shipped files, their content."""


class Choice(msgspec.Struct, frozen=True):
    """Which version a micro-batch used."""

    batch: int
    version: int
    chosen_at: datetime


class Loads(msgspec.Struct):
    """How often this process opened a set, and how long that took."""

    count: int = 0
    seconds: float = 0.0


loads = Loads()
_open: OrderedDict[str, LoadedSet] = OrderedDict()


def opened(place: Place) -> LoadedSet:
    """The set at a place, opened if this process has not done so before."""
    if place.choices is not None:
        place = _choose(place)
    if place.files is not None:
        index, details = (Path(SparkFiles.get(name)) for name in place.files)
        return _cache(place.digest, lambda: keep_copy(place.digest, {INDEX: index, DETAILS: details}))
    return _cache(place.folder, lambda: Path(place.folder))


def _choose(place: Place) -> Place:
    """Where the version of the current micro-batch is, as ``stream.VersionChooser`` told."""
    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty(CHOSEN)
    if told is None:
        raise PipelineError(
            f"nobody chose a version of {place.folder} for this micro-batch: choices are for start_stream, which does"
        )
    return msgspec.json.decode(told, type=Place)


def record_choice(folder: Location, batch: int, version: int) -> Choice:
    """Record the version of a micro-batch, unless it has one; the one it has. For the driver alone."""
    known = read_choice(folder, batch)
    if known is None:
        known = Choice(batch, version, datetime.now(UTC))
        write_file(_record(folder, batch), msgspec.json.encode(known))
    return known


def read_choice(folder: Location, batch: int) -> Choice | None:
    """Which version a micro-batch used, if it used one."""
    try:
        return msgspec.json.decode(_record(folder, batch).read_bytes(), type=Choice)
    except FileNotFoundError:
        return None


def _record(folder: Location, batch: int) -> Location:
    return folder / f"{batch:09d}.json"


def _cache(key: str, find: Callable[[], Path]) -> LoadedSet:
    found = _open.get(key)
    if found is None:
        started = time.perf_counter()
        found = _open[key] = load_here(find)
        loads.count += 1
        loads.seconds += time.perf_counter() - started
        while len(_open) > KEPT:
            _open.popitem(last=False)
    _open.move_to_end(key)
    return found


def load_here(find: Callable[[], Path]) -> LoadedSet:
    """Map the folder that ``find`` gives; a PipelineError if this executor does not have it, or may not read it."""
    try:
        folder = find()
        if not (folder / INDEX).is_file():
            raise PipelineError(
                f"{folder} is not on this executor; use a path that all hosts mount, or ship the set with the job"
            )
        return load_folder(folder)
    except OSError as error:
        raise PipelineError(
            f"this executor cannot read {error.filename}: {error.strerror}; use a path that all hosts mount and "
            "that Spark's user may read, or ship the set with the job"
        ) from None


# --- From a batch of events to the rows of the result, in executors: what matched, whose it is, what was no event


ROWS_OUT = 65_536
"""Notifications in one batch on their way back: an event may match a million subscriptions."""

BadRows = Literal["fail", "keep"]

_REJECTED = pa.struct([("reason", pa.string()), ("text", pa.string())])
_TYPES = {"event_time": INSTANT, "expires_at": INSTANT, "rejected": _REJECTED, "ordinal": pa.int32()}


RAW, ROW = "_recado_raw", "_recado_row"
"""Columns that travel beside those of the user: a VARIANT whose text is not enough, and a whole row."""


class EventForm(msgspec.Struct, frozen=True):
    """How the rows of a DataFrame are events. ``names``: the real names of columns that had to travel under others.

    ``variants``: the columns that are VARIANT. Of the form *json* the column ``RAW`` is what its texts cannot tell.
    """

    form: Form
    column: str = ""
    names: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    def named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the names that the user gave, and with text for each VARIANT."""
        batch = batch.rename_columns(list(self.names)) if self.names else batch
        if RAW in batch.schema.names:
            texts = variant_texts(batch.column(RAW), batch.column(self.column), envelope=True)
            batch = batch.drop_columns([RAW]).set_column(batch.schema.names.index(self.column), self.column, texts)
        for name in self.variants:
            texts = variant_texts(batch.column(name), envelope=False)
            batch = batch.set_column(batch.schema.names.index(name), variant_field(name), texts)
        return batch


def match_record_batch(
    loaded: LoadedSet,
    batch: pa.RecordBatch,
    form: EventForm,
    fields: tuple[str, ...],
    bad_rows: BadRows,
    *,
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
    watch: Watch | None = None,
    nested: tuple[str, ...] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of the result that come from one batch of events: one a notification.

    With ``nested`` it is one an event that matched (several, if it matched more than ``ROWS_OUT``): its field
    ``matches`` is an array of structs with the fields ``nested``, or its field ``ordinals`` an array of slots.
    """
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
    source = _Source(loaded, batch, matched, form, knowledge)
    for start, stop in _pieces(matched.pairs.offsets, whole_events=bool(nested)):
        part = _Part(source, start, stop)
        columns = part.nest(fields, nested) if nested else part.columns(fields)
        yield pa.RecordBatch.from_arrays(columns, names=list(fields))
    if matched.rejected:
        yield _reject_batch(batch, matched, form, fields, nested)


def _pieces(offsets: Array, *, whole_events: bool) -> Iterator[tuple[int, int]]:
    """Ranges of pairs, of at most ``ROWS_OUT``; if it can be, each with all pairs of its events."""
    start, end = 0, int(offsets[-1])
    while start < end:
        stop = min(start + ROWS_OUT, end)
        if whole_events:
            border = int(offsets[np.searchsorted(offsets, stop, "right") - 1])
            stop = border if border > start else stop
        yield start, stop
        start = stop


class _Source(msgspec.Struct, frozen=True):
    """What rows of the result are made from."""

    loaded: LoadedSet
    batch: pa.RecordBatch
    matched: Matched
    form: EventForm
    knowledge: Knowledge


class _Part:
    """Some of the pairs of a batch, about to become rows of the result.

    ``events`` are the rows of the batch that they belong to, ``starts`` where the pairs of each begin, and ``rows`` the
    rows of the batch that rows of the result are made from: one a pair, or one an event.
    """

    def __init__(self, source: _Source, start: int, stop: int) -> None:
        self.source = source
        self.slots = source.matched.pairs.slots[start:stop]
        offsets = source.matched.pairs.offsets
        first = int(np.searchsorted(offsets, start, "right")) - 1
        last = int(np.searchsorted(offsets, stop, "left"))
        edges = np.clip(offsets[first : last + 1], start, stop) - start
        matching = np.flatnonzero(np.diff(edges))
        self.events = first + matching
        self.starts = np.append(edges[matching], stop - start)
        self.rows = pa.array(self.events)

    def columns(self, fields: tuple[str, ...]) -> list[pa.Array]:
        """The columns with one row a pair."""
        self.rows = self._pair_rows()
        return [self.column(name) for name in fields]

    def _pair_rows(self) -> pa.Array:
        return pa.array(np.repeat(self.events, np.diff(self.starts)))

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
                columns = [batch.column(name).take(self.rows) for name in _own_names(batch)]
                return pa.StructArray.from_arrays(columns, names=_own_names(batch))
            case "renamed":
                return self._rename()
            case "rejected":
                return pa.nulls(len(self.rows), _REJECTED)
            case "ordinal":
                return pa.array(loaded.ordinals(self.slots), pa.int32())
            case _:
                return loaded.column(name).take(pa.array(self.slots))

    def nest(self, fields: tuple[str, ...], nested: tuple[str, ...]) -> list[pa.Array]:
        """The columns with one row an event."""
        offsets = pa.array(self.starts, pa.int32())
        inner = [self.column(name) for name in nested]
        lists = {
            "matches": lambda: pa.StructArray.from_arrays(inner, names=list(nested)),
            "ordinals": lambda: inner[0],
        }
        return [
            pa.ListArray.from_arrays(offsets, lists[name]()) if name in lists else self.column(name) for name in fields
        ]

    def _rename(self) -> pa.Array:
        meanings = self.source.loaded.meanings(self.source.knowledge)
        if meanings is None or not meanings.renaming:
            return pa.nulls(len(self.slots), pa.string())
        form = self.source.form
        return renamed_texts(meanings, self.source.batch.take(self._pair_rows()), form.form, form.column, self.slots)


def _own_names(batch: pa.RecordBatch) -> list[str]:
    return [name for name in batch.schema.names if name != ROW]


def _reject_batch(
    batch: pa.RecordBatch, matched: Matched, form: EventForm, fields: tuple[str, ...], nested: tuple[str, ...]
) -> pa.RecordBatch:
    rows = [row for row, _ in matched.rejected]
    told = [
        {"reason": reason, "text": text_of_row(batch, row, form.form, form.column)} for row, reason in matched.rejected
    ]
    known = {"event_id": matched.ids.take(pa.array(rows)), "rejected": pa.array(told, _REJECTED)}
    own = _own_names(batch)
    inner = pa.struct([(name, _TYPES.get(name, pa.string())) for name in nested])
    lists = {"matches": pa.list_(inner), "ordinals": pa.list_(pa.int32())}
    types = _TYPES | lists | {"event": pa.struct([(name, batch.schema.field(name).type) for name in own])}
    arrays = [known.get(name, pa.nulls(len(rows), types.get(name, pa.string()))) for name in fields]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))
