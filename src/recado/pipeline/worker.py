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
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from pyspark import SparkFiles, TaskContext

from recado.pipeline.errors import PipelineError
from recado.pipeline.sets import DETAILS, INDEX, LoadedSet, SubscriptionSet, load_folder

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
        return _cached("/".join(place.files), _shipped_folder(place.files))
    if place.choices is None:
        return _cached(place.folder, Path(place.folder))
    chosen = SubscriptionSet(place.folder).path(chosen_version(place))
    return _cached(str(chosen), chosen)


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
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(Choice(batch, version, datetime.now(UTC))))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, target)  # unlike a rename, this never replaces what another task wrote
        draft.unlink()
    return msgspec.json.decode(target.read_bytes(), type=Choice)


def read_choice(folder: Path, batch: int) -> Choice | None:
    """Which version a micro-batch used, if it used one."""
    try:
        return msgspec.json.decode(_record(folder, batch).read_bytes(), type=Choice)
    except FileNotFoundError:
        return None


def _record(folder: Path, batch: int) -> Path:
    return folder / f"{batch:09d}.json"


def _shipped_folder(files: tuple[str, str]) -> Path:
    """A folder that shows the shipped files under the names that a version has."""
    index, details = (Path(SparkFiles.get(name)) for name in files)
    folder = index.with_name(f"{index.name}.opened")
    folder.mkdir(exist_ok=True)
    for name, target in ((INDEX, index), (DETAILS, details)):
        if not (folder / name).exists():
            with suppress(FileExistsError):  # another worker of this executor was faster
                (folder / name).symlink_to(target)
    return folder


def _cached(key: str, folder: Path) -> LoadedSet:
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
