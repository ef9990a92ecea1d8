"""A partitioned set as a folder, complete and unchangeable.

    set/partition-00000/index.recado, details.arrow    one partition, as a version of a subscription set has them
    set/router.recado                                  the index that tells which partitions an event has to visit
    set/manifest.json                                  what there is, read first

On a disk the folder is written under another name and renamed when it is whole, so whoever finds it finds all of it.
At a URL executors write in Spark's own way alone, so the files of a partition are there in pieces, as rows of Parquet:

    set/parts/part-….parquet                           partition, file, start, bytes

and the set is there when its manifest is, which is written last. A changed set is a new folder.

Executors that do not see the folder are sent the files by Spark (``recado.pipeline.match.send_file``); of a URL every
executor fetches the pieces itself. All workers of a host map one copy of a partition, which is kept by its content.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recado import files
from recado.matching.index import Index
from recado.pipeline.errors import PipelineError
from recado.pipeline.locations import Digest, FileName, HadoopPath, Location, digest_of, keep, keep_copy, locate
from recado.pipeline.partitioned.plan import Router
from recado.pipeline.sets import DETAIL_SCHEMA, DETAILS, INDEX, LoadedSet, load_folder

MANIFEST = "manifest.json"
ROUTER = "router.recado"
PARTS = "parts"
FORMAT = 1

PIECES = pa.schema([("partition", pa.int32()), ("file", pa.string()), ("start", pa.int64()), ("bytes", pa.binary())])
PIECES_SCHEMA = "partition int, file string, start long, bytes binary"
PIECE_BYTES = 4 << 20
"""Files travel in pieces: a row of Spark's has to fit into memory many times over."""


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
    digest: Digest = ""
    """Of index and details: the name that copies of them have on other hosts."""
    file: FileName = ""
    """At a URL, the file below ``parts`` that has it in pieces."""


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
    router_digest: Digest = ""


class PartitionedSet:
    """A folder that ``build_partitions`` wrote, or a URL."""

    def __init__(self, folder: str | os.PathLike[str] | HadoopPath) -> None:
        self.folder = locate(folder)
        self.manifest = _read_manifest(self.folder / MANIFEST)

    @staticmethod
    def is_one(folder: str | os.PathLike[str] | HadoopPath) -> bool:
        """Does the folder hold a partitioned set?"""
        place = locate(folder)
        return (place / MANIFEST).is_file() and (place / ROUTER).is_file()

    @property
    def subscriptions(self) -> int:
        return self.manifest.subscriptions

    def path(self, part: Part) -> Path:
        """The folder of a partition on this host; of one at a URL, a copy, made unless there is one."""
        if isinstance(self.folder, Path):
            return partition_path(self.folder, part.number)
        pieces = self.folder / PARTS / part.file

        def fetch(draft: Path) -> None:
            with TemporaryDirectory(prefix="recado-pieces-") as scratch:
                pieces.fetch(Path(scratch) / part.file)
                join_pieces([Path(scratch) / part.file], part.number, draft)

        try:
            return keep(part.digest, fetch, INDEX, DETAILS)
        except OSError as error:
            raise PipelineError(f"{pieces} cannot be copied to this host: {error.strerror}") from None

    def load(self, partition: int) -> LoadedSet:
        """Map one partition."""
        return load_folder(self.path(next(part for part in self.manifest.parts if part.number == partition)))

    def digest(self, part: Part) -> str:
        """What tells the content of a partition from any other."""
        return part.digest or digest_of(*(self.path(part) / name for name in (INDEX, DETAILS)))

    def router_path(self) -> Path:
        """The file of the router on this host."""
        if isinstance(self.folder, Path):
            return self.folder / ROUTER
        return keep_copy(self.manifest.router_digest, {ROUTER: self.folder / ROUTER}) / ROUTER

    def load_router(self) -> Router:
        return load_router(self.router_path())


def partition_path(folder: Path, partition: int) -> Path:
    return folder / f"partition-{partition:05d}"


def load_router(path: Path) -> Router:
    """Map the router of a set."""
    return Router(Index.load(path))


def without_subscriptions(router: Router) -> LoadedSet:
    """The router as a set that matches nothing: it refuses the rows that the whole set would refuse."""
    return LoadedSet(router.index, DETAIL_SCHEMA.empty_table())


def _read_manifest(path: Location) -> Manifest:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError:
        raise PipelineError(f"{path.parent} is no partitioned set: it has no {path.name}") from None
    except msgspec.DecodeError as error:
        raise PipelineError(f"{path} is damaged: {error}") from None
    if manifest.format != FORMAT:
        raise PipelineError(f"{path} has format {manifest.format}; this program reads format {FORMAT}")
    return manifest


# --- Writing one ------------------------------------------------------------------------------------------------------


def refuse_existing(folder: Location) -> None:
    """A PipelineError if something is there."""
    if folder.exists():
        hint = "" if isinstance(folder, Path) else f" (if nobody is building it, one was cut off: remove {folder})"
        raise PipelineError(f"{folder} is there already; a partitioned set is built into a new folder{hint}")


def draft_beside(folder: Path) -> Path:
    """A new folder to be renamed to ``folder``."""
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
    try:
        files.write(draft / MANIFEST, _encode(manifest, draft / ROUTER))
        files.sync_folder(draft)
        draft.rename(folder)
        files.sync_folder(folder.parent)
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}") from None
    return PartitionedSet(folder)


def finish_at_url(folder: HadoopPath, router: Index, manifest: Manifest) -> PartitionedSet:
    """Add router and manifest to the pieces at a URL."""
    try:
        with TemporaryDirectory(prefix="recado-router-") as scratch:
            router.save(Path(scratch) / ROUTER)
            (folder / ROUTER).put(Path(scratch) / ROUTER)
            (folder / MANIFEST).write_bytes(_encode(manifest, Path(scratch) / ROUTER), new=True)
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}") from None
    return PartitionedSet(folder)


def _encode(manifest: Manifest, router: Path) -> bytes:
    whole = msgspec.structs.replace(manifest, router_digest=digest_of(router))
    return msgspec.json.format(msgspec.json.encode(whole))


# --- Files in pieces --------------------------------------------------------------------------------------------------


def pieces_of(folder: Path, partition: int) -> Iterator[pa.RecordBatch]:
    """The files of a partition as rows, a batch a piece."""
    for name in (INDEX, DETAILS):
        start = 0
        with (folder / name).open("rb") as file:
            while (piece := file.read(PIECE_BYTES)) or not start:
                yield pa.record_batch([[partition], [name], [start], [piece]], schema=PIECES)
                start += max(len(piece), 1)


def write_piece(folder: Path, file: str, start: int, piece: bytes) -> None:
    """Put a piece to its place in a file of the folder: one of the two that there are."""
    if file not in (INDEX, DETAILS) or start < 0:
        raise PipelineError(f"{file[:80]!r} is no file of a partition; the set is damaged")
    with (folder / file).open("r+b" if (folder / file).exists() else "wb") as out:
        out.seek(start)
        out.write(piece)


def join_pieces(parquet: Sequence[Path], partition: int, folder: Path) -> None:
    """The files of a partition from the rows that Spark wrote."""
    for row in _rows(parquet):
        if row["partition"] == partition and row["file"]:
            write_piece(folder, row["file"], row["start"], row["bytes"])


def _rows(parquet: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in parquet:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4, columns=PIECES.names):
                yield from batch.to_pylist()
