"""A subscription set as a folder of versions, each complete, unchangeable, and ready to be mapped by executors.

    set/000001/index.recado    the compiled index, a snapshot that every Python worker of a host maps
    set/000001/details.arrow   what a notification needs besides, one row a slot: id, owner, expires_at, constraints;
                               and the filter, which the index cannot give back: for semantic subscriptions, and to
                               compare its answers (``recado.pipeline.canary``) and to build it anew
    set/000001/about.json      how many subscriptions there are, when the version was published, and from what

A version appears by renaming a finished folder, so a reader sees all of it or nothing; the highest number is the
current one. At a URL (``recado.pipeline.locations``), where a rename may be a copy, a version is claimed by a file that
must not be there yet, and complete when ``about.json`` is there, which is written last. ``publish`` writes a whole set,
``change`` derives a version from the current one. Old versions stay until ``prune`` removes them: a stream that replays
a micro-batch needs the version it used before.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from recado import files
from recado.broker.constraints import read_constraints
from recado.errors import RecadoError
from recado.filters.cost import check_filter
from recado.filters.records import pack, read_subscription, unpack
from recado.kernels import prepare_and_tell
from recado.matching.index import Index
from recado.model.filter import FALSE, Filter
from recado.model.subscription import Subscription
from recado.model.values import format_time
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import Digest, HadoopPath, Location, digest_of, keep_copy, locate, remove_tree
from recado.pipeline.meanings import matcher_of, semantic_detail
from recado.pipeline.notebook import html_table
from recado.semantics.engine import Knowledge
from recado.semantics.matcher import SemanticMatcher

INDEX = "index.recado"
DETAILS = "details.arrow"
ABOUT = "about.json"
CLAIM = "claim"
"""At a URL, what says that somebody writes this version."""
SHOWN = 10
"""So many versions are shown in a notebook."""
PARTITIONED = "router.recado"
"""What the folder of a partitioned set has, which is another thing."""

DETAIL_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("owner", pa.string()),
        ("expires_at", pa.timestamp("us", "UTC")),
        ("constraints", pa.string()),
        ("semantic", pa.string()),
        ("filter", pa.dictionary(pa.int32(), pa.binary())),
    ]
)

Detail = tuple[str, str, datetime | None, str | None, str | None, bytes | None]


class Version(msgspec.Struct, frozen=True):
    """What is known of a version without opening its index."""

    number: int
    subscriptions: int
    expiring: int
    constrained: int
    published_at: datetime
    bytes: int
    names: tuple[str, ...]
    """Every name that some filter asks for: what an event has to bring along."""
    parent: int | None = None
    semantic: int = 0
    """How many subscriptions want their names understood; if any, every attribute of an event may count."""
    digest: Digest = ""
    """Of index and details: the name that copies of them have on other hosts."""


class LoadedSet:
    """A version in memory: the index, and the details of each slot."""

    def __init__(self, index: Index, details: pa.Table) -> None:
        self.index = index
        self.details = details.combine_chunks()
        self.is_new = False  # the index was built here
        self._ordinals: Any = None  # the slots as they were before that
        self._meanings: dict[Knowledge, SemanticMatcher | None] = {}

    def meanings(self, knowledge: Knowledge) -> SemanticMatcher | None:
        """The matcher of the semantic subscriptions, if there are any."""
        if knowledge not in self._meanings:
            self._meanings[knowledge] = matcher_of(self.details, knowledge)
        return self._meanings[knowledge]

    def filter(self, slot: int) -> Filter | None:
        """Of a subscription that is matched by content; None if it is not, or the set is older than this column."""
        packed = self.column("filter")[slot].as_py() if slot < len(self.details) else None
        return None if packed is None else unpack(packed)

    def build_anew(self) -> bool:
        """Replace the index by a new one of the same subscriptions, whose slots differ; False if it cannot be made."""
        rows = zip(*(self.column(name).to_pylist() for name in ("id", "semantic", "filter")), strict=True)
        held = [(slot, id, semantic, packed) for slot, (id, semantic, packed) in enumerate(rows) if id is not None]
        if any(packed is None and semantic is None for _, _, semantic, packed in held):
            return False
        index = Index()
        index.add_many(
            (Subscription(id, FALSE if packed is None else unpack(packed)) for _, id, _, packed in held), checked=True
        )
        before: list[int | None] = [None] * int(index.registry.slots_top)
        for slot, id, _, _ in held:
            before[index.registry.slot(id)] = slot
        self.details = self.details.take(pa.array(before, pa.int64())).combine_chunks()
        self._ordinals = np.array([-1 if slot is None else slot for slot in before], np.int32)
        self.index, self.is_new, self._meanings = index, True, {}
        return True

    def ordinals(self, slots: Any) -> Any:
        """The slots as the version on disk has them."""
        return slots if self._ordinals is None else self._ordinals[slots]

    def column(self, name: str) -> pa.Array:
        column = self.details.column(name)
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)


class SubscriptionSet:
    """The versions in one folder."""

    def __init__(self, folder: str | os.PathLike[str] | HadoopPath) -> None:
        self.folder = locate(folder)

    def __repr__(self) -> str:
        return f"SubscriptionSet({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        """The newest versions, for a notebook."""
        versions = self.versions()
        rows = [
            (one.number, one.subscriptions, one.constrained, one.semantic, one.bytes, format_time(one.published_at))
            for one in map(self.version, versions[: -SHOWN - 1 : -1])
        ]
        names = ("version", "subscriptions", "with constraints", "by meaning", "bytes", "published")
        older = len(versions) - len(rows)
        below = "nothing was published yet" if not rows else f"and {older:,} older ones" if older else ""
        return html_table(f"subscription set {self.folder}", names, rows, below)

    def publish(self, subscriptions: Iterable[Subscription]) -> Version:
        """Write a new version that holds exactly these subscriptions."""
        return self._write(*build(subscriptions), None)

    def change(self, add: Iterable[Subscription] = (), remove: Iterable[str] = ()) -> Version:
        """Write a new version: the current one without ``remove``, then with ``add``, replacing equal ids."""
        parent = self.current()
        loaded = self.load(parent.number)
        details: dict[str, Detail] = {}
        for id in remove:
            if not loaded.index.remove(id):
                raise PipelineError(f"version {parent.number} of {self.folder} has no subscription {id!r} to remove")
        for subscription in _noting(add, details):
            loaded.index.add(subscription)
        return self._write(loaded.index, _by_slot(loaded.index, details, loaded), parent.number)

    def versions(self) -> list[int]:
        """The numbers of all versions, ascending."""
        return [number for number in self._folders() if self._is_complete(number)]

    def _folders(self) -> list[int]:
        try:
            return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise PipelineError(f"{self.folder} cannot be read: {error.strerror}") from None

    def _is_complete(self, number: int) -> bool:
        return isinstance(self.folder, Path) or (self.path(number) / ABOUT).exists()

    def current(self) -> Version:
        """The newest version; a PipelineError if nothing was published yet."""
        newest = next((number for number in reversed(self._folders()) if self._is_complete(number)), None)
        if newest is None:
            partitioned = (self.folder / PARTITIONED).exists()
            what = "it is a partitioned set, for match_partitioned" if partitioned else "publish one first"
            raise PipelineError(f"{self.folder} holds no version of a subscription set; {what}")
        return self.version(newest)

    def version(self, number: int) -> Version:
        """What is known of one version."""
        try:
            return msgspec.json.decode((self.path(number) / ABOUT).read_bytes(), type=Version)
        except OSError:
            known = ", ".join(map(str, self.versions())) or "none"
            raise PipelineError(f"{self.folder} has no version {number}; there are: {known}") from None
        except msgspec.DecodeError as error:
            raise PipelineError(f"{self.path(number) / ABOUT} is damaged: {error}") from None

    def path(self, number: int) -> Location:
        return self.folder / f"{number:06d}"

    def local_path(self, number: int) -> Path:
        """The folder of a version on this host; of one at a URL, a copy, made unless there is one."""
        path = self.path(number)
        if isinstance(path, Path):
            return path
        digest = self.version(number).digest
        try:
            return keep_copy(digest, {INDEX: path / INDEX, DETAILS: path / DETAILS})
        except OSError as error:
            raise PipelineError(f"{path} cannot be copied to this host: {error.strerror}") from None

    def digest(self, number: int) -> str:
        """What tells this version's content from any other."""
        folder = self.local_path(number)
        return self.version(number).digest or digest_of(folder / INDEX, folder / DETAILS)

    def load(self, number: int) -> LoadedSet:
        return load_folder(self.local_path(number))

    def prune(self, keep: int = 2) -> list[int]:
        """Remove all but the newest ``keep`` versions; the numbers of those removed."""
        old = self.versions()[: -max(keep, 1)]
        for number in old:
            remove_tree(self.path(number))
        return old

    def _write(self, index: Index, details: pa.Table, parent: int | None) -> Version:
        number = (self._folders() or [0])[-1] + 1 if parent is None else parent + 1
        if isinstance(self.folder, HadoopPath):
            return self._write_to_url(self.folder / f"{number:06d}", index, details, number, parent)
        draft = self.folder / f".draft-{os.getpid()}-{number}"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir(parents=True)
            version = _write_version(draft, index, details, number, parent)
            files.write(draft / ABOUT, msgspec.json.encode(version))
            files.sync_folder(draft)
            draft.rename(self.folder / f"{number:06d}")
            files.sync_folder(self.folder)
        except FileExistsError:
            raise PipelineError(f"version {number} of {self.folder} was published meanwhile; try again") from None
        except OSError as error:
            if self.path(number).exists():  # a folder that is not empty cannot be renamed to
                raise PipelineError(f"version {number} of {self.folder} was published meanwhile; try again") from None
            raise PipelineError(f"{self.folder} cannot be written: {error.strerror}") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return version

    def _write_to_url(
        self, target: HadoopPath, index: Index, details: pa.Table, number: int, parent: int | None
    ) -> Version:
        try:
            target.mkdir()
            (target / CLAIM).write_bytes(b"", new=True)
            with TemporaryDirectory(prefix="recado-draft-") as draft:
                version = _write_version(Path(draft), index, details, number, parent)
                for name in (INDEX, DETAILS):
                    (target / name).put(Path(draft) / name)
            (target / ABOUT).write_bytes(msgspec.json.encode(version), new=True)
        except FileExistsError:
            raise PipelineError(
                f"version {number} of {self.folder} was published meanwhile, or is being; try again "
                f"(if nobody is publishing, one was cut off: remove {target})"
            ) from None
        except OSError as error:
            raise PipelineError(f"{self.folder} cannot be written: {error.strerror}") from None
        return version


def _write_version(folder: Path, index: Index, details: pa.Table, number: int, parent: int | None) -> Version:
    """Index and details into an existing folder, and what is to be known of them."""
    size = write_folder(folder, index, details)
    return Version(
        number=number,
        subscriptions=len(index),
        expiring=len(details) - details["expires_at"].null_count,
        constrained=len(details) - details["constraints"].null_count,
        published_at=datetime.now(UTC),
        bytes=size,
        names=tuple(sorted(index.dictionary.names)),
        parent=parent,
        semantic=len(details) - details["semantic"].null_count,
        digest=digest_of(folder / INDEX, folder / DETAILS),
    )


def write_folder(folder: Path, index: Index, details: pa.Table) -> int:
    """Index and details into an existing folder; how many bytes they take."""
    index.save(folder / INDEX)
    with pa.OSFile(str(folder / DETAILS), "wb") as file, pa.ipc.new_file(file, DETAIL_SCHEMA) as writer:
        writer.write_table(details.combine_chunks())
    return sum((folder / name).stat().st_size for name in (INDEX, DETAILS))


def load_folder(folder: Path) -> LoadedSet:
    """Map what ``write_folder`` wrote."""
    prepare_and_tell()
    index = Index.load(folder / INDEX)
    try:
        details = pa.ipc.open_file(pa.memory_map(str(folder / DETAILS))).read_all()
        details.validate(full=True)  # Arrow itself takes offsets as they come, and reads where they lead
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise PipelineError(f"{folder / DETAILS} cannot be read: {error}") from None
    if len(details) < index.registry.slots_top:
        raise PipelineError(f"{folder / DETAILS} has {len(details):,} rows; its index has more subscriptions")
    for field in DETAIL_SCHEMA:  # a set that was written before there were all of them
        if field.name not in details.schema.names:
            details = details.append_column(field, pa.nulls(len(details), field.type))
    return LoadedSet(index, details.select(DETAIL_SCHEMA.names))


def build(subscriptions: Iterable[Subscription], checked: bool = False) -> tuple[Index, pa.Table]:
    """Index and details of some subscriptions."""
    prepare_and_tell()
    index = Index()
    details: dict[str, Detail] = {}
    index.add_many(_noting(subscriptions, details), checked=checked)
    return index, _by_slot(index, details, None)


def _noting(subscriptions: Iterable[Subscription], details: dict[str, Detail]) -> Iterator[Subscription]:
    """The subscriptions as the index has them, their details noted on the way."""
    for subscription in subscriptions:
        if subscription.id in details:
            raise PipelineError(f"a subscription's id must be there once; {subscription.id!r} is there more than once")
        details[subscription.id] = detail_of(subscription)
        if subscription.semantic is not None:
            check_filter(subscription.whole_filter())
        yield subscription if subscription.semantic is None else Subscription(subscription.id, FALSE)


def detail_of(subscription: Subscription) -> Detail:
    """What a notification needs of a subscription besides its filter; constraints are checked here."""
    constraints = None
    if subscription.constraints:
        try:
            read_constraints(subscription.constraints)
        except RecadoError as error:
            raise PipelineError(f"subscription {subscription.id!r}: {error}") from None
        constraints = msgspec.json.encode(subscription.constraints).decode()
    semantic = semantic_detail(subscription)
    packed = pack(subscription.whole_filter()) if semantic is None else None
    return subscription.id, subscription.owner, subscription.expires_at, constraints, semantic, packed


def _by_slot(index: Index, details: dict[str, Detail], before: LoadedSet | None) -> pa.Table:
    """One row for each slot: what is new, else what it was before; slots that nobody has are null."""
    slots = int(index.registry.slots_top)
    rows: list[Detail | None] = [None] * slots
    if before is not None:
        columns = [before.column(name).to_pylist() for name in DETAIL_SCHEMA.names]
        for row in zip(*columns, strict=True):
            if row[0] is not None and row[0] in index:
                rows[index.registry.slot(row[0])] = row
        del columns
    for id, detail in details.items():
        rows[index.registry.slot(id)] = detail
    columns = [[None if row is None else row[i] for row in rows] for i in range(len(DETAIL_SCHEMA))]
    return pa.table([pa.array(c, t) for c, t in zip(columns, DETAIL_SCHEMA.types, strict=True)], DETAIL_SCHEMA)


# --- Subscriptions out of DataFrames: one row each, the columns named as the members of a subscription record --------
#
# ``id`` is required; ``filter``, ``syntax``, ``type``, ``owner``, ``expires_at`` are text (``expires_at`` may be a
# timestamp); ``filters``, ``constraints`` and ``semantic`` may be JSON text, or nested columns of the same shape. A
# single string column named ``value`` is taken as lines of NDJSON, as ``spark.read.text`` gives them.


NESTED = ("filters", "constraints", "semantic")
MEMBERS = ("id", "filter", "syntax", "type", "owner", "expires_at", *NESTED)


def check_columns(names: list[str]) -> None:
    """Refuse a DataFrame that cannot hold subscriptions."""
    if names == ["value"]:
        return
    if "id" not in names:
        raise PipelineError(f"subscriptions need a column 'id'; there are: {', '.join(names)}")
    unknown = [name for name in names if name not in MEMBERS]
    if unknown:
        raise PipelineError(f"subscriptions have no column {unknown[0]!r}; there may be: {', '.join(MEMBERS)}")


def read_subscriptions(subscriptions: DataFrame, strict: bool = True) -> Iterator[Subscription]:
    """The subscriptions of a DataFrame, on the driver; a PipelineError names a wrong row, or it is left out."""
    check_columns(subscriptions.columns)
    with user_errors():
        table = subscriptions.toArrow()
    first = 0
    for batch in table.to_batches():
        for row, found in enumerate(read_batch(batch), first + 1):
            if not isinstance(found, RecadoError):
                yield found
            elif strict:
                raise PipelineError(f"subscriptions, row {row}: {found}")
        first += batch.num_rows


def read_batch(batch: pa.RecordBatch) -> Iterator[Subscription | RecadoError]:
    """Each row as a subscription, or as the error that says why it is none."""
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        try:
            yield read_subscription(_line(row))
        except RecadoError as error:
            yield error


def read_parquet(file: Path) -> Iterator[Subscription | RecadoError]:
    """The same of a file of Parquet on this host."""
    try:
        with pq.ParquetFile(file) as opened:
            check_columns(opened.schema_arrow.names)
            for batch in opened.iter_batches():
                yield from read_batch(batch)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{file} cannot be read: {error}") from None


def _line(row: Mapping[str, Any]) -> bytes | str:
    if list(row) == ["value"]:
        return row["value"] or ""
    members: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        if name in NESTED:
            members[name] = msgspec.Raw(value.encode()) if isinstance(value, str) else _plain(value)
        else:
            members[name] = format_time(value) if isinstance(value, datetime) else value
    return msgspec.json.encode(members)


def _plain(value: Any) -> Any:
    """Nested values without the members that are null, which a struct column cannot leave out."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
