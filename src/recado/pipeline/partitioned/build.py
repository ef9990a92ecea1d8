"""The Spark job that writes a partitioned set.

The driver sees a sample of the subscriptions, from which it makes the plan, and in the end what each partition tells
the router. Executors send every row to its partition and build the index there.

Subscriptions have no order in a DataFrame, so of two with one id neither is the newer: that is an error. Rows that are
no subscriptions end the job, or are left out and reported (``bad_rows="skip"``).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from recado import files
from recado.errors import RecadoError
from recado.filters import expression
from recado.matching.index import Index
from recado.model.subscription import Subscription
from recado.pipeline import sets
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.partitioned.plan import HEAVY, Key, Plan, Router, accesses, make_plan, make_router, tell
from recado.pipeline.sets import DETAIL_SCHEMA, LoadedSet, check_columns, load_folder, read_batch

# --- A partitioned set as a folder, complete and unchangeable --------------------------------------------------------
#
#     set/partition-00000/index.recado, details.arrow    one partition, as a version of a subscription set has them
#     set/router.recado                                  the index that tells which partitions an event has to visit
#     set/manifest.json                                  what there is, read first
#
# The folder is written under another name and renamed when it is whole, so whoever finds it finds all of it. A changed
# set is a new folder.


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
    try:
        files.write(draft / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        files.sync_folder(draft)
        draft.rename(folder)
        files.sync_folder(folder.parent)
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


# --- The Spark job that writes a partitioned set ---------------------------------------------------------------------

SAMPLE = 20_000
"""Subscriptions that the plan is made from: enough for a hundred partitions to come out within some percent."""
ROUTER_KEYS = 65_536
"""Entries of the router, over all partitions."""
SHOWN = 100
"""Bad rows that are kept in the manifest."""

PARTITION, REASON = "partition", "reason"


class Built(msgspec.Struct):
    """What an executor reports of one partition; of the rows that have none, only how many and why."""

    partition: int
    subscriptions: int = 0
    expiring: int = 0
    constrained: int = 0
    bytes: int = 0
    told: list[str] = []
    names: list[str] = []
    bad_rows: list[BadRow] = []


def build_partitions(
    subscriptions: DataFrame,
    folder: str | os.PathLike[str],
    *,
    partitions: int | None = None,
    max_subscriptions: int | None = None,
    bad_rows: Literal["fail", "skip"] = "fail",
    router_keys: int = ROUTER_KEYS,
) -> PartitionedSet:
    """Write the subscriptions of a DataFrame as a partitioned set into a new folder that all executors see.

    Either ``partitions`` says how many there are, or ``max_subscriptions`` about how many each may hold. The rows are
    those that ``match`` takes; ``router_keys`` bounds the router, which every worker holds.
    """
    check_columns(subscriptions.columns)
    target = Path(folder).absolute()
    with user_errors():
        _refuse_repeated(subscriptions)
        total = subscriptions.count()
        count = _partition_count(total, partitions, max_subscriptions)
        plan = make_plan(list(_sample(subscriptions, total)), count)
        draft = draft_beside(target)
        try:
            reports = _run(subscriptions, plan, draft, max(router_keys // count, 1))
            return _finish(reports, draft, target, count, bad_rows)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _partition_count(total: int, partitions: int | None, max_subscriptions: int | None) -> int:
    if (partitions is None) is (max_subscriptions is None):
        raise PipelineError("give either partitions, their number, or max_subscriptions, how many each may hold")
    if partitions is None:
        assert max_subscriptions is not None
        _need_positive("max_subscriptions", max_subscriptions)
        return max(ceil((1 + HEAVY) * total / max_subscriptions), 1)
    _need_positive("partitions", partitions)
    return partitions


def _need_positive(name: str, value: int) -> None:
    if value < 1:
        raise PipelineError(f"{name} is {value}; it must be at least 1")


def _refuse_repeated(subscriptions: DataFrame) -> None:
    id = F.get_json_object("value", "$.id") if subscriptions.columns == ["value"] else F.col("id").cast("string")
    ids = subscriptions.select(id.alias("id")).where("id IS NOT NULL")
    rows = ids.groupBy("id").count().where("count > 1").orderBy("id").limit(5).collect()
    if rows:
        shown = ", ".join(f"{row[0]!r} ({row[1]} times)" for row in rows)
        raise PipelineError(f"a subscription's id must be there once; more than once are: {shown}")


def _sample(subscriptions: DataFrame, total: int) -> Iterator[list[tuple[Key, ...]]]:
    """What the filters of about ``SAMPLE`` subscriptions offer; rows that are none are met again later."""
    some = subscriptions if total <= SAMPLE else subscriptions.sample(fraction=SAMPLE / total, seed=1)
    for batch in some.toArrow().to_batches():
        for found in read_batch(batch):
            if isinstance(found, Subscription):
                yield accesses(found)


def _run(subscriptions: DataFrame, plan: Plan, draft: Path, most_keys: int) -> list[Built]:
    fields = [*subscriptions.schema.fields, StructField(PARTITION, IntegerType()), StructField(REASON, StringType())]
    placed = subscriptions.mapInArrow(Placer(plan).__call__, StructType(fields))
    builder = Builder(plan, str(draft), most_keys)
    spread = placed.repartitionById(plan.partitions + 1, PARTITION)
    rows = spread.mapInArrow(builder.__call__, "built binary").collect()
    return [msgspec.msgpack.decode(row[0], type=Built) for row in rows]


def _finish(
    reports: list[Built], draft: Path, target: Path, count: int, bad_rows: Literal["fail", "skip"]
) -> PartitionedSet:
    bad = next((report for report in reports if report.partition == count), Built(count))
    if bad.bad_rows and bad_rows == "fail":
        first = bad.bad_rows[0]
        more = f" (and {bad.subscriptions - 1:,} more rows)" if bad.subscriptions > 1 else ""
        raise PipelineError(f"subscriptions, row {first.row!r}: {first.reason}{more}")
    good = sorted((report for report in reports if report.partition < count), key=lambda report: report.partition)
    names = sorted({name for report in good for name in report.names})
    manifest = Manifest(
        subscriptions=sum(report.subscriptions for report in good),
        expiring=sum(report.expiring for report in good),
        constrained=sum(report.constrained for report in good),
        names=tuple(names),
        partitions=count,
        parts=tuple(Part(r.partition, r.subscriptions, len(r.told), r.bytes) for r in good),
        rejected=bad.subscriptions,
        bad_rows=tuple(bad.bad_rows),
    )
    told = {report.partition: map(expression.parse, report.told) for report in good}
    router = make_router(told, names)
    return finish(draft, target, router, manifest)


# -- in executors ------------------------------------------------------------------------------------------------------


class Placer(msgspec.Struct, frozen=True):
    """Rows in, each with its partition out; those that are no subscriptions go behind the last one, with a reason."""

    plan: Plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [self._place(found) for found in read_batch(batch)]
            yield batch.append_column(PARTITION, pa.array([row[0] for row in rows], pa.int32())).append_column(
                REASON, pa.array([row[1] for row in rows], pa.string())
            )

    def _place(self, found: Subscription | RecadoError) -> tuple[int, str | None]:
        if isinstance(found, RecadoError):
            return self.plan.partitions, str(found)
        try:
            sets.detail_of(found)  # refuses bad constraints
            if found.semantic is not None:
                raise PipelineError(
                    "a semantic subscription may match any event, so it has no partition; put the semantic ones into a "
                    "file of their own, match that without partitions, and take both results"
                )
        except RecadoError as error:
            return self.plan.partitions, str(error)
        offered = accesses(found)
        return self.plan.partition(found.id, self.plan.choose(offered), offered), None


class Builder(msgspec.Struct, frozen=True):
    """Placed rows in, finished partitions in a folder; a report of each out."""

    plan: Plan
    draft: str
    most_keys: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        for batch in batches:
            for partition in batch.column(PARTITION).unique().to_pylist():
                received[partition].append(batch.filter(pc.equal(batch.column(PARTITION), partition)))
        for partition in list(received):
            rows = received.pop(partition)
            report = _bad(partition, rows) if partition == self.plan.partitions else self._build(partition, rows)
            yield pa.RecordBatch.from_arrays([pa.array([msgspec.msgpack.encode(report)], pa.binary())], names=["built"])

    def _build(self, partition: int, rows: list[pa.RecordBatch]) -> Built:
        keys: set[Key] = set()
        index, details = sets.build(self._noting(rows, keys), checked=True)
        if len(index) != sum(batch.num_rows for batch in rows):
            raise PipelineError(f"partition {partition}: two subscriptions have the same id")
        return Built(
            partition=partition,
            subscriptions=len(index),
            expiring=len(details) - details["expires_at"].null_count,
            constrained=len(details) - details["constraints"].null_count,
            bytes=_write(partition_path(Path(self.draft), partition), index, details),
            told=[expression.format_expression(filter) for filter in tell(keys, self.most_keys)],
            names=sorted(index.dictionary.names),
        )

    def _noting(self, rows: list[pa.RecordBatch], keys: set[Key]) -> Iterator[Subscription]:
        """The subscriptions, and on the way the keys that they are found by."""
        for batch in rows:
            for found in read_batch(batch.drop_columns([PARTITION, REASON])):
                assert isinstance(found, Subscription)  # others were sorted out when they were placed
                keys.update(self.plan.choose(accesses(found)))
                yield found


def _bad(partition: int, rows: list[pa.RecordBatch]) -> Built:
    shown: list[BadRow] = []
    for batch in rows:
        names = batch.column("id" if "id" in batch.schema.names else "value").to_pylist()
        shown += map(BadRow, map(_shorten, names), batch.column(REASON).to_pylist())
    return Built(partition, subscriptions=len(shown), bad_rows=sorted(shown, key=lambda bad: bad.row)[:SHOWN])


def _shorten(name: object) -> str:
    text = str(name)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _write(place: Path, index: Index, details: pa.Table) -> int:
    """A finished folder under its name; another attempt of the same task may have been there before."""
    draft = place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}")
    draft.mkdir()
    size = sets.write_folder(draft, index, details)
    try:
        draft.rename(place)
    except OSError:  # the same content is there already
        shutil.rmtree(draft, ignore_errors=True)
    return size
