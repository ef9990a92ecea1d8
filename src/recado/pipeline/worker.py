"""What a Python worker of an executor holds: the subscription sets it has opened.

Spark keeps a worker process for many tasks, so a set that is opened into this module is opened once for a process, not
once for a task, and since the index is mapped, all processes of a host share its pages. A ``Place`` says where a set
is found and travels with the job instead of the set:

- ``folder`` alone: one version, at a path that executors see as well;
- ``files``: one version that was shipped with the job under these names;
- ``choices``: a set whose newest version is taken at each micro-batch of a stream. The choice is written there under
  the number of the micro-batch by whichever task comes first, so the other tasks, and a replay of the micro-batch
  after a restart, take the same version.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
from pyspark import SparkFiles, TaskContext

from recado import files
from recado.pipeline.canary import Watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import INSTANT, Array, Form, Matched, match_rows, text_of_row
from recado.pipeline.meanings import add_meanings, renamed_texts
from recado.pipeline.sets import DETAILS, INDEX, LoadedSet, SubscriptionSet, load_folder
from recado.semantics.engine import Knowledge

KEPT = 2
"""How many sets a worker keeps open: the one in use and the one before it."""
_BATCH = "streaming.sql.batchId"


class Place(msgspec.Struct, frozen=True):
    """Where executors find a subscription set."""

    folder: str
    files: tuple[str, str] | None = None
    choices: str | None = None


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
    if place.files is not None:
        return _cache("/".join(place.files), _ship_folder(place.files))
    if place.choices is None:
        return _cache(place.folder, Path(place.folder))
    chosen = SubscriptionSet(place.folder).path(chosen_version(place))
    return _cache(str(chosen), chosen)


def chosen_version(place: Place) -> int:
    """The version of the current micro-batch: the recorded one, or the newest, which is recorded."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty(_BATCH)
    current = SubscriptionSet(place.folder).current().number
    if batch is None or place.choices is None:
        return current
    return record_choice(Path(place.choices), int(batch), current).version


def record_choice(folder: Path, batch: int, version: int) -> Choice:
    """Record the version of a micro-batch, unless it has one; the one it has."""
    target = _record(folder, batch)
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{batch:09d}.{os.getpid()}"
        files.write(draft, msgspec.json.encode(Choice(batch, version, datetime.now(UTC))))
        with suppress(FileExistsError):
            os.link(draft, target)  # unlike a rename, this never replaces what another task wrote
        draft.unlink()
        files.sync_folder(folder)
    return msgspec.json.decode(target.read_bytes(), type=Choice)


def read_choice(folder: Path, batch: int) -> Choice | None:
    """Which version a micro-batch used, if it used one."""
    try:
        return msgspec.json.decode(_record(folder, batch).read_bytes(), type=Choice)
    except FileNotFoundError:
        return None


def _record(folder: Path, batch: int) -> Path:
    return folder / f"{batch:09d}.json"


def _ship_folder(files: tuple[str, str]) -> Path:
    """A folder that shows the shipped files under the names that a version has."""
    index, details = (Path(SparkFiles.get(name)) for name in files)
    folder = index.with_name(f"{index.name}.opened")
    folder.mkdir(exist_ok=True)
    for name, target in ((INDEX, index), (DETAILS, details)):
        if not (folder / name).exists():
            with suppress(FileExistsError):  # another worker of this executor was faster
                (folder / name).symlink_to(target)
    return folder


def _cache(key: str, folder: Path) -> LoadedSet:
    found = _open.get(key)
    if found is None:
        if not folder.is_dir():
            raise PipelineError(
                f"{folder} is not on this executor; use a path that all hosts mount, or ship the set with the job"
            )
        started = time.perf_counter()
        found = _open[key] = load_folder(folder)
        loads.count += 1
        loads.seconds += time.perf_counter() - started
        while len(_open) > KEPT:
            _open.popitem(last=False)
    _open.move_to_end(key)
    return found


# --- From a batch of events to the rows of the result, in executors: what matched, whose it is, what was no event


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
        yield _reject_batch(batch, matched, form, fields)


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
                return self._rename()
            case "rejected":
                return pa.nulls(len(self.rows), _REJECTED)
            case _:
                return loaded.column(name).take(pa.array(self.slots))

    def _rename(self) -> pa.Array:
        meanings = self.source.loaded.meanings(self.source.knowledge)
        if meanings is None or not meanings.renaming:
            return pa.nulls(len(self.rows), pa.string())
        form = self.source.form
        return renamed_texts(meanings, self.source.batch.take(self.rows), form.form, form.column, self.slots)


def _reject_batch(batch: pa.RecordBatch, matched: Matched, form: EventForm, fields: tuple[str, ...]) -> pa.RecordBatch:
    rows = [row for row, _ in matched.rejected]
    told = [
        {"reason": reason, "text": text_of_row(batch, row, form.form, form.column)} for row, reason in matched.rejected
    ]
    known = {"event_id": matched.ids.take(pa.array(rows)), "rejected": pa.array(told, _REJECTED)}
    types = _TYPES | {"event": pa.struct(batch.schema)}
    arrays = [known.get(name, pa.nulls(len(rows), types.get(name, pa.string()))) for name in fields]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))
