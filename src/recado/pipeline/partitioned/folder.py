"""A partitioned set as a folder, complete and unchangeable.

    set/partition-00000/index.recado, details.arrow    one partition, as a version of a subscription set has them
    set/router.recado                                  the index that tells which partitions an event has to visit
    set/manifest.json                                  what there is, read first

The folder is written under another name and renamed when it is whole, so whoever finds it finds all of it. A changed
set is a new folder.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from recado.matching.index import Index
from recado.pipeline.errors import PipelineError
from recado.pipeline.partitioned.router import Router
from recado.pipeline.sets import DETAIL_SCHEMA, LoadedSet, load_folder

MANIFEST = "manifest.json"
ROUTER = "router.recado"
FORMAT = 1


class BadRow(msgspec.Struct, frozen=True):
    """A row that is no subscription: its id, or the beginning of it, and why."""

    row: str
    reason: str


class Part(msgspec.Struct, frozen=True):
    """What is known of a partition without opening it; ``keys`` is how many entries it has in the router."""

    number: int
    subscriptions: int
    keys: int
    bytes: int


class Manifest(msgspec.Struct, frozen=True):
    """What is known of a partitioned set without opening it. Partitions that are empty have no folder."""

    subscriptions: int
    expiring: int
    constrained: int
    names: tuple[str, ...]
    partitions: int
    parts: tuple[Part, ...]
    rejected: int = 0
    bad_rows: tuple[BadRow, ...] = ()
    format: int = FORMAT
    built_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))


class PartitionedSet:
    """A folder that ``build_partitions`` wrote."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        self.manifest = _read_manifest(self.folder / MANIFEST)

    @staticmethod
    def is_one(folder: str | os.PathLike[str]) -> bool:
        """Does the folder hold a partitioned set?"""
        return (Path(folder) / MANIFEST).is_file()

    @property
    def subscriptions(self) -> int:
        return self.manifest.subscriptions

    def path(self, partition: int) -> Path:
        return partition_path(self.folder, partition)

    def load(self, partition: int) -> LoadedSet:
        """Map one partition."""
        return load_folder(self.path(partition))

    def load_router(self) -> Router:
        return load_router(self.folder)


def partition_path(folder: Path, partition: int) -> Path:
    return folder / f"partition-{partition:05d}"


def load_router(folder: Path) -> Router:
    """Map the router of a set."""
    return Router(Index.load(folder / ROUTER))


def without_subscriptions(router: Router) -> LoadedSet:
    """The router as a set that matches nothing: it refuses the rows that the whole set would refuse."""
    return LoadedSet(router.index, DETAIL_SCHEMA.empty_table())


def draft_beside(folder: Path) -> Path:
    """A new folder to be renamed to ``folder``, which must not be there yet."""
    if folder.exists():
        raise PipelineError(f"{folder} is there already; a partitioned set is built into a new folder")
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.draft")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}") from None
    return draft


def finish(draft: Path, folder: Path, router: Index, manifest: Manifest) -> PartitionedSet:
    """Add router and manifest to the partitions in a draft, and give it its name."""
    for left in draft.glob("partition-*.*"):  # by attempts of tasks that were ended
        shutil.rmtree(left, ignore_errors=True)
    router.save(draft / ROUTER)
    with (draft / MANIFEST).open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        file.flush()
        os.fsync(file.fileno())
    try:
        draft.rename(folder)
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}") from None
    return PartitionedSet(folder)


def _read_manifest(path: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError:
        raise PipelineError(f"{path.parent} is no partitioned set: it has no {path.name}") from None
    except msgspec.DecodeError as error:
        raise PipelineError(f"{path} is damaged: {error}") from None
    if manifest.format != FORMAT:
        raise PipelineError(f"{path} has format {manifest.format}; this program reads format {FORMAT}")
    return manifest
